"""Google's TensorFlow 1 checkpoints: variable names, outputs, and exact weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertConfig,
    BertEncoder,
    ElectraPretrainer,
    MaskedLM,
    Pretrainer,
    QuestionAnswerer,
    ReplacedTokenDetector,
    SequenceClassifier,
    TokenClassifier,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints import google_tf1, tf_checkpoint
from bert_keras.checkpoints.google_tf1 import CONFIGS, FAMILIES, LEAVES
from bert_keras.checkpoints.name_mapping import NameMap
from bert_keras.errors import ArtifactError, NumericError, UsageError
from tests import contracts, reference
from tests.contracts import TINY

_TANH = TINY.replace(activation="gelu_tanh")
_ALBERT = _TANH.replace(family="albert", num_unique_layers=1, embedding_size=4)
_ELECTRA = _TANH.replace(family="electra", embedding_size=4, pooler=False)
_CASES = {
    "bert": lambda: BertEncoder(_TANH),
    "bert, MaskedLM": lambda: MaskedLM(BertEncoder(_TANH.replace(pooler=False))),
    "bert, Pretrainer": lambda: Pretrainer(BertEncoder(_TANH)),
    "bert, SequenceClassifier": lambda: SequenceClassifier(BertEncoder(_TANH), 3),
    "bert, QuestionAnswerer": lambda: QuestionAnswerer(BertEncoder(_TANH.replace(pooler=False))),
    "albert": lambda: BertEncoder(_ALBERT),
    "albert, Pretrainer": lambda: Pretrainer(BertEncoder(_ALBERT), loss="sop"),
    "electra": lambda: BertEncoder(_ELECTRA),
    "electra, ReplacedTokenDetector": lambda: ReplacedTokenDetector(BertEncoder(_ELECTRA)),
    "electra, MaskedLM": lambda: MaskedLM(BertEncoder(_ELECTRA)),
    "electra, ElectraPretrainer": lambda: ElectraPretrainer(
        BertEncoder(_ELECTRA), generator_size=0.5
    ),
}
# Names in the published code: google-research/bert (modeling.py, run_pretraining.py),
# google-research/albert and google-research/electra. The list has the first block alone, and
# leaves out a bias if its kernel is in the list.
_NAMES = {
    "bert, Pretrainer": """
        bert/embeddings/word_embeddings bert/embeddings/token_type_embeddings
        bert/embeddings/position_embeddings bert/embeddings/LayerNorm/gamma
        bert/encoder/layer_0/attention/self/query/kernel
        bert/encoder/layer_0/attention/self/key/kernel
        bert/encoder/layer_0/attention/self/value/kernel
        bert/encoder/layer_0/attention/output/dense/kernel
        bert/encoder/layer_0/attention/output/LayerNorm/beta
        bert/encoder/layer_0/intermediate/dense/kernel bert/encoder/layer_0/output/dense/kernel
        bert/encoder/layer_0/output/LayerNorm/gamma bert/pooler/dense/kernel
        cls/predictions/transform/dense/kernel cls/predictions/transform/LayerNorm/gamma
        cls/predictions/output_bias cls/seq_relationship/output_weights
        cls/seq_relationship/output_bias""",
    "albert, Pretrainer": """
        bert/embeddings/word_embeddings bert/encoder/embedding_hidden_mapping_in/kernel
        bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/kernel
        bert/encoder/transformer/group_0/inner_group_0/attention_1/output/dense/kernel
        bert/encoder/transformer/group_0/inner_group_0/LayerNorm/gamma
        bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel
        bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/output/dense/kernel
        bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/beta
        cls/predictions/transform/dense/kernel cls/seq_relationship/output_weights""",
    "electra, ReplacedTokenDetector": """
        electra/embeddings/word_embeddings electra/embeddings_project/kernel
        electra/encoder/layer_1/attention/self/query/kernel
        discriminator_predictions/dense/kernel discriminator_predictions/dense_1/kernel""",
    "electra, ElectraPretrainer": """
        electra/embeddings/word_embeddings electra/embeddings_project/kernel
        electra/encoder/layer_1/attention/self/query/kernel
        generator/encoder/layer_1/attention/self/query/kernel
        generator_predictions/dense/kernel generator_predictions/LayerNorm/gamma
        generator_predictions/output_bias
        discriminator_predictions/dense/kernel discriminator_predictions/dense_1/kernel
    """,
    "electra, MaskedLM": """
        electra/embeddings/word_embeddings generator/embeddings_project/kernel
        generator/encoder/layer_1/attention/self/query/kernel
        generator_predictions/dense/kernel generator_predictions/LayerNorm/gamma
        generator_predictions/output_bias""",
    "bert, SequenceClassifier": "output_weights output_bias",
    "bert, QuestionAnswerer": "cls/squad/output_weights cls/squad/output_bias",
}


@pytest.fixture(scope="session", autouse=True)
def tensorflow() -> Any:
    """Return TensorFlow, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow")


@pytest.mark.parametrize("case", _CASES)
def test_there_and_back(case: str, tmp_path: Path) -> None:
    model = contracts.as_trained(_CASES[case]())
    save_checkpoint(model, tmp_path, format="google_tf1")
    opened = load_checkpoint(tmp_path)
    assert type(opened) is type(model)
    contracts.assert_same_weights(opened, model)
    x = contracts.inputs_of(model)
    contracts.assert_close(contracts.numpy(opened(x)), contracts.numpy(model(x)))


@pytest.mark.parametrize("case", _NAMES)
def test_names_are_googles(case: str, tensorflow: Any, tmp_path: Path) -> None:
    model = _CASES[case]()
    save_checkpoint(model, tmp_path, format="google_tf1")
    reader = tensorflow.train.load_checkpoint(str(tmp_path / google_tf1.PREFIX))
    found = reader.get_variable_to_shape_map()
    assert set(_NAMES[case].split()) <= set(found)
    assert len(found) == len(model.weights)


def test_in_several_files(tensorflow: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A large checkpoint is written in several files, so that memory never holds all of it."""
    model = contracts.as_trained(_CASES["bert, Pretrainer"]())
    save_checkpoint(model, tmp_path, format="google_tf1")
    names = {path.name for path in tmp_path.iterdir()}
    monkeypatch.setattr(tf_checkpoint, "_SHARD", 2_000)
    save_checkpoint(model, tmp_path, format="google_tf1")
    data = sorted(path.name for path in tmp_path.glob("*.data-*"))
    assert len(data) > 2
    assert data[0].endswith(f"data-00000-of-{len(data):05}")
    assert {path.name for path in tmp_path.iterdir()} - {*data} == names - {
        f"{google_tf1.PREFIX}.data-00000-of-00001"
    }
    contracts.assert_same_weights(load_checkpoint(tmp_path), model)
    reader = tensorflow.train.load_checkpoint(str(tmp_path / google_tf1.PREFIX))
    assert len(reader.get_variable_to_shape_map()) == len(model.weights)


def test_matrices_of_scores_have_a_row_per_class(tensorflow: Any, tmp_path: Path) -> None:
    """The kernel of a classification head is transposed, and other kernels are not."""
    task = contracts.as_trained(_CASES["bert, Pretrainer"]())
    save_checkpoint(task, tmp_path, format="google_tf1")
    reader = tensorflow.train.load_checkpoint(str(tmp_path / google_tf1.PREFIX))
    weights = reader.get_tensor("cls/seq_relationship/output_weights")
    np.testing.assert_array_equal(weights.T, contracts.weights(task)["nsp/dense/kernel"])
    query = reader.get_tensor("bert/encoder/layer_0/attention/self/query/kernel")
    np.testing.assert_array_equal(query, contracts.weights(task)["block_0/attention/query/kernel"])


def test_the_numbers_are_those_of_hugging_face(transformers: Any, tmp_path: Path) -> None:
    """A Hugging Face model keeps its outputs and weights through a TF1 checkpoint.

    Its activation is `gelu_new`, the tanh approximation that Google's TF1 code uses.
    """
    model = reference.hugging_face_model(transformers, "ForPreTraining", hidden_act="gelu_new")
    model.save_pretrained(tmp_path / "theirs")
    save_checkpoint(load_checkpoint(tmp_path / "theirs"), tmp_path / "tf1", format="google_tf1")
    opened = load_checkpoint(tmp_path / "tf1")
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
    save_checkpoint(opened, tmp_path / "back")
    again = transformers.BertForPreTraining.from_pretrained(tmp_path / "back").state_dict()
    for name, values in model.state_dict().items():
        assert again[name].equal(values), name


def _saved(tensorflow: Any, folder: Path, **more: np.ndarray) -> BertEncoder:
    """Write an encoder and the variables in `more` to one checkpoint. Return the encoder."""
    model = contracts.as_trained(BertEncoder(_TANH))
    save_checkpoint(model, folder, format="google_tf1")
    prefix = str(folder / google_tf1.PREFIX)
    reader = tensorflow.train.load_checkpoint(prefix)
    variables = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    variables |= more
    tensorflow.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=list(variables.values()),
    )
    return model


def test_slots_of_an_optimizer_are_passed_over(tensorflow: Any, tmp_path: Path) -> None:
    table = np.zeros((50, 8), "float32")
    more = {
        "bert/embeddings/word_embeddings/adam_m": table,
        "bert/embeddings/word_embeddings/adam_v": table,
        "global_step": np.int64(7),
    }
    expected = _saved(tensorflow, tmp_path, **more)
    contracts.assert_same_weights(load_checkpoint(tmp_path), expected)


def test_a_head_beside_an_encoder(tensorflow: Any, tmp_path: Path) -> None:
    task = contracts.as_trained(_CASES["bert, Pretrainer"]())
    save_checkpoint(task, tmp_path, format="google_tf1")
    contracts.assert_same_weights(BertEncoder.from_preset(tmp_path), task.encoder)
    with pytest.raises(ArtifactError, match="Not used by the model:\n  cls/predictions"):
        QuestionAnswerer.from_preset(tmp_path, allow_missing=("span",))
    QuestionAnswerer.from_preset(tmp_path, allow_missing=("span",), allow_unused=("mlm", "nsp"))
    SequenceClassifier.from_preset(tmp_path, num_classes=2)


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "bert_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


_INDEX, _DATA = f"{google_tf1.PREFIX}.index", f"{google_tf1.PREFIX}.data-00000-of-00001"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / _INDEX).unlink(), r"expected one checkpoint, .* Received: none"),
        (lambda f: (f / "other.index").touch(), r"Received: bert_model.ckpt, other"),
        (lambda f: (f / _INDEX).write_bytes(b"no index"), r"not a whole TensorFlow checkpoint"),
        (lambda f: (f / _DATA).unlink(), r"bert_model.ckpt: "),
        (lambda f: (f / _DATA).write_bytes((f / _DATA).read_bytes()[:-99]), r"bert_model.ckpt: "),
        (lambda f: (f / "bert_config.json").unlink(), r"without a config\. Put one of bert_config"),
        (lambda f: (f / "bert_config.json").write_text("[]"), r"expected a JSON object"),
        (lambda f: _edit(f, hidden_act="linear"), r"not supported: hidden_act='linear'"),
        (
            lambda f: _edit(f, vocab_size=51),
            r"expected \[51, 8\], found \[50, 8\]",
        ),
        (lambda f: _edit(f, vocab_size=10**15), "`vocab_size` must be .* at most 16,777,216"),
        (lambda f: _edit(f, vocab_size=10**7), r"word_embeddings: expected \[10{7}, 8\]"),
        (
            lambda f: _edit(f, num_hidden_layers=1),
            r"Not used by the model:\n  bert/enc",
        ),
        (lambda f: _edit(f, num_attention_heads=3), r"`num_heads` must divide"),
        (lambda f: _edit(f, net_structure_type=1), r"not supported: net_structure_type=1"),
    ],
)
def test_refused(damage: Any, message: str, tensorflow: Any, tmp_path: Path) -> None:
    _saved(tensorflow, tmp_path)
    damage(tmp_path)
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(tmp_path)


def _flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("name", [_INDEX, _DATA])
def test_flipped_bits(name: str, tensorflow: Any, tmp_path: Path) -> None:
    _saved(tensorflow, tmp_path)
    _flip(tmp_path / name)
    with pytest.raises(ArtifactError, match=r"bert_model\.ckpt: "):
        load_checkpoint(tmp_path)


def test_an_index_that_states_more_than_there_is(tensorflow: Any, tmp_path: Path) -> None:
    """An index that claims more bytes than the data file holds is refused.

    Here the index lists one slice of a huge table, and the config has the same huge size.
    """
    rows = 10**12
    tensorflow.raw_ops.SaveV2(
        prefix=str(tmp_path / google_tf1.PREFIX),
        tensor_names=["bert/embeddings/word_embeddings"],
        shape_and_slices=[f"{rows} 8 0,50:0,8"],
        tensors=[np.zeros((50, 8), "float32")],
    )
    values = google_tf1._write_config(_TANH, "BertEncoder") | {"vocab_size": rows}
    (tmp_path / "bert_config.json").write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=r"states 32000000000000 bytes, .* have 1600"):
        load_checkpoint(tmp_path)


def test_a_config_lacks_a_size(tensorflow: Any, tmp_path: Path) -> None:
    _saved(tensorflow, tmp_path)
    (tmp_path / "bert_config.json").write_text("{}")
    with pytest.raises(ArtifactError, match="missing: attention_probs_dropout_prob, hidden_act"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BertEncoder(TINY), "its gelu is the tanh approximation"),
        (lambda: BertEncoder(_TANH.replace(layer_norm_epsilon=1e-5)), "layer_norm_epsilon 1e-12"),
        (lambda: BertEncoder(_TANH.replace(position_embedding="relative_key")), "learned from 0"),
        (lambda: BertEncoder(TINY.replace(family="roberta")), "There was no roberta in TF1"),
        (lambda: MaskedLM(BertEncoder(_TANH), activation="relu"), "has the encoder's activation"),
        (lambda: MaskedLM(BertEncoder(_TANH), layer_norm_epsilon=1e-5), "layer_norm_epsilon=1e-05"),
        (lambda: TokenClassifier(BertEncoder(_TANH), 3), "has no place for tags/output/kernel"),
    ],
)
def test_what_google_had_not(make: Any, message: str, tmp_path: Path) -> None:
    """A model that Google's format cannot hold is refused before anything is written."""
    with pytest.raises(UsageError, match=message):
        save_checkpoint(make(), tmp_path / "folder", format="google_tf1")
    assert not (tmp_path / "folder").exists()


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    encoder = BertEncoder(_TANH)
    encoder.weights[0].assign(encoder.weights[0] * np.nan)
    with pytest.raises(NumericError, match="that are not finite"):
        save_checkpoint(encoder, tmp_path / "folder", format="google_tf1")
    assert not (tmp_path / "folder").exists()


# === Each variable of each family has exactly one name in a TF1 checkpoint. ===


_CONFIGS = {
    "bert": TINY,
    "albert": TINY.replace(family="albert", num_unique_layers=1, embedding_size=4),
    "electra": TINY.replace(family="electra", embedding_size=4, pooler=False),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_one_name_for_each(family: str) -> None:
    """Each variable has one name, and no two variables share it."""
    config: BertConfig = _CONFIGS[family]
    rows = FAMILIES[family]
    names = NameMap(rows.modules, LEAVES, "/", rows.whole, {"": rows.prefix})
    specs = names.tensor_specs(BertEncoder(config).weights)
    assert len({spec.tensor for spec in specs}) == len(specs)
    for spec in specs:
        assert spec.path.rpartition("/")[0] in names.owners(spec.tensor)


def test_a_config_file_for_each() -> None:
    """Each family has the name of its config file."""
    assert len(CONFIGS) == len(FAMILIES)
