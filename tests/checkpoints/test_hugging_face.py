"""Models have the same outputs here and in transformers, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import PRESETS, BertEncoder, Pretrainer
from bert_keras.checkpoints import hugging_face, hugging_face_config, hugging_face_names
from bert_keras.checkpoints.manifest import WEIGHTS
from bert_keras.config_checks import ACTIVATIONS
from bert_keras.errors import ArtifactError
from tests import contracts, families, reference
from tests.contracts import FAMILIES, TINY


def _x(ours: Any) -> dict[str, np.ndarray]:
    return contracts.batch(TINY, predictions=0 if isinstance(ours, BertEncoder) else 2)


def _edit_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("changes", [{"hidden_act": "gelu_pytorch_tanh"}, {"layer_norm_eps": 1e-5}])
def test_the_comparison_sees_the_smallest_mistake(changes: dict[str, Any], transformers, tmp_path):
    """A wrong kind of GELU or a wrong epsilon exceeds the tolerance of the comparison."""
    model = reference.hugging_face_model(transformers, "ForPreTraining")
    model.save_pretrained(tmp_path)
    _edit_config(tmp_path, **changes)
    wrong = Pretrainer.from_preset(tmp_path)
    x = _x(wrong)
    found, expected = contracts.numpy(wrong(x)), reference.hugging_face_outputs(model, x)
    for output, values in found.items():
        alone = reference.difference({output: values}, {output: expected[output]})
        assert alone > 3 * reference.TOLERANCE, output
    with pytest.raises(AssertionError):
        reference.same_as_hugging_face(wrong, model, x)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"hidden_act": "gelu_new"}, {"activation": "gelu_tanh"}),
        ({"hidden_act": "gelu_pytorch_tanh"}, {"activation": "gelu_tanh"}),
        ({"hidden_act": "relu"}, {"activation": "relu"}),
        ({"hidden_act": "silu"}, {"activation": "silu"}),
        ({"hidden_act": "tanh"}, {"activation": "tanh"}),
        ({"layer_norm_eps": 1e-3}, {"layer_norm_epsilon": 1e-3}),
        ({"type_vocab_size": 3}, {"num_segments": 3}),
    ],
)
def test_values_are_translated(theirs, ours, transformers, tmp_path):
    model = reference.hugging_face_model(transformers, "Model", **theirs)
    model.save_pretrained(tmp_path)
    opened = BertEncoder.from_preset(tmp_path)
    assert opened.config == TINY.replace(**ours)
    reference.same_as_hugging_face(opened, model, _x(opened))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_files_of_half_precision_open(dtype: str, transformers, tmp_path):
    import torch

    model = reference.hugging_face_model(transformers, "Model").to(getattr(torch, dtype))
    model.save_pretrained(tmp_path)
    opened = BertEncoder.from_preset(tmp_path)
    assert {weight.dtype for weight in opened.weights} == {"float32"}
    reference.same_as_hugging_face(opened, model.float(), _x(opened))


def test_names_of_the_first_port_open(saved, tmp_path):
    """The first PyTorch port of BERT named a norm's scale and shift gamma and beta."""
    old_names = {}
    for name, values in load_file(saved / WEIGHTS).items():
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old_names[old.replace("LayerNorm.bias", "LayerNorm.beta")] = values
    assert sum("gamma" in name for name in old_names) == 6
    save_file(old_names, tmp_path / WEIGHTS)
    (tmp_path / "config.json").write_bytes((saved / "config.json").read_bytes())
    contracts.assert_same_weights(Pretrainer.from_preset(tmp_path), Pretrainer.from_preset(saved))


def test_second_names_of_tied_tensors_are_let_pass(saved, tmp_path):
    tensors = load_file(saved / WEIGHTS)
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    tensors["bert.embeddings.position_ids"] = np.arange(12)[None]
    save_file(tensors, tmp_path / WEIGHTS)
    (tmp_path / "config.json").write_bytes((saved / "config.json").read_bytes())
    contracts.assert_same_weights(Pretrainer.from_preset(tmp_path), Pretrainer.from_preset(saved))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_config_round_trip(activation: str):
    config = TINY.replace(activation=activation, num_segments=1, dropout=0.2, pooler=False)
    values = hugging_face.write_config(config, "BertEncoder", {})
    assert values["model_type"] == "bert"
    assert values["architectures"] == ["BertModel"]
    assert hugging_face_config.read_config(values, Path("config.json"), pooler=False) == config


@pytest.mark.parametrize("name", PRESETS)
def test_the_published_sizes_are_models_of_theirs(name: str):
    config = PRESETS[name]
    values = hugging_face.write_config(config, "BertEncoder", {})
    assert values["model_type"] == hugging_face_names.FAMILIES[config.family].model_types[0]
    assert hugging_face_config.read_config(values, Path(), pooler=config.pooler) == config


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("family", hugging_face_names.FAMILIES)
def test_only_what_theirs_can_be_is_called_so(name: str, family: str):
    """A model that transformers would compute differently gets the model type `bert_keras`."""
    config = FAMILIES[name].replace(family=family)
    values = hugging_face.write_config(config, "BertEncoder", {})
    if values["model_type"] == "bert_keras":
        assert values["architectures"] == [None]
        assert name not in ("bert", "gelu_tanh") or family != "bert"
    else:
        assert hugging_face_config.read_config(values, Path(), pooler=config.pooler) == config


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("SequenceClassifier", {"hidden_activation": "tanh"}),
        ("MultipleChoice", {"hidden_activation": "relu"}),
        ("MaskedLM", {"activation": "relu"}),
        ("ReplacedTokenDetector", {}),
    ],
)
def test_heads_that_theirs_have_not(task: str, options: dict[str, str]):
    """A head that transformers lacks gets the model type `bert_keras`."""
    values = hugging_face.write_config(TINY, task, options)
    assert values["model_type"] == "bert_keras"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "only these can be opened: bert, .* Received: model_type='gpt2'"),
        ({"model_type": None}, "Received: model_type=None"),
        ({"hidden_act": "mish"}, "hidden_act: not supported: 'mish'"),
        (
            {"position_embedding_type": "rotary"},
            "not supported: position_embedding_type='rotary'.*Use ",
        ),
        ({"is_decoder": True}, "not supported: is_decoder=True"),
        ({"add_cross_attention": True}, "not supported: add_cross_attention=True"),
        ({"tie_word_embeddings": False}, "not supported: tie_word_embeddings=False"),
        ({"pruned_heads": {"0": [1]}}, "not supported: pruned_heads="),
        ({"hidden_size": "8"}, "`hidden_size` must be an integer.* Received: hidden_size='8'"),
        ({"num_attention_heads": 3}, "must divide `hidden_size`"),
        ({"hidden_act": ["gelu"]}, "hidden_act: not supported"),
    ],
)
def test_config_is_refused(changes: dict[str, Any], message: str):
    values = hugging_face.write_config(TINY, "BertEncoder", {}) | changes
    with pytest.raises(ArtifactError, match=f"^here/config.json: .*{message}|^here/.*{message}"):
        hugging_face_config.read_config(values, Path("here/config.json"), pooler=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inner_group_num": 2}, "not supported: inner_group_num=2"),
        ({"embedding_size": 8}, "not supported: embedding_size=hidden_size=8"),
    ],
)
def test_alberts_that_are_refused(changes: dict[str, Any], message: str):
    config = TINY.replace(family="albert", embedding_size=4, num_unique_layers=1)
    values = hugging_face.write_config(config, "BertEncoder", {}) | changes
    with pytest.raises(ArtifactError, match=message):
        hugging_face_config.read_config(values, Path("config.json"), pooler=True)


def test_code_of_its_own_is_not_run_and_said_so():
    """Code that a config names in `auto_map` is not run, and a warning says so."""
    values = hugging_face.write_config(TINY, "BertEncoder", {}) | {"auto_map": {"AutoModel": "x.X"}}
    with pytest.warns(UserWarning, match=r"config.json: auto_map names code .* never run"):
        hugging_face_names.warn_of_hugging_face(values, Path("config.json"))
    assert hugging_face_config.read_config(values, Path("config.json"), pooler=True) == TINY


def test_sizes_must_be_said_and_constants_may():
    """Sizes must be in config.json. Other settings have the defaults of transformers."""
    values = hugging_face.write_config(TINY, "BertEncoder", {})
    for key in ("layer_norm_eps", "hidden_act", "type_vocab_size"):
        del values[key]
    assert hugging_face_config.read_config(values, Path(), pooler=True) == TINY
    del values["vocab_size"]
    with pytest.raises(ArtifactError, match=r"config.json: missing: vocab_size"):
        hugging_face_config.read_config(values, Path("config.json"), pooler=True)


# === Options of heads in config.json. Labels are tested in test_new_heads.py. ===


PATH = Path("config.json")


def test_there_and_back():
    options = {
        "num_classes": 2,
        "labels": ["a", "b"],
        "problem": "multi_label",
        "hidden_activation": None,
        "dropout": 0.3,
    }
    values = hugging_face.write_config(TINY, "SequenceClassifier", options)
    assert values["label2id"] == {"a": 0, "b": 1}
    assert hugging_face.read_head_options("SequenceClassifier", values, TINY, PATH) == options


def test_distilbert_drops_nothing_before_its_layer():
    """The hidden layer of a DistilBERT head has ReLU and no dropout before it."""
    for name in ("SequenceClassifier", "MultipleChoice"):
        options = hugging_face.read_head_options(name, {}, TINY.replace(family="distilbert"), PATH)
        assert (options["hidden_activation"], options["hidden_dropout"]) == ("relu", 0.0)


def test_labels_of_another_class_are_the_callers_to_give():
    """Labels in the config of another class are not used."""
    values = hugging_face.write_config(TINY, "TokenClassifier", {"labels": ["a", "b"]})
    assert "labels" not in hugging_face.read_head_options("SequenceClassifier", values, TINY, PATH)


@pytest.mark.parametrize(
    "told", [{"1": "a", "2": "b"}, {"0": 1}, ["a", "b"], {}, {"0": "a", "1": None}]
)
def test_labels_that_are_none(told: Any):
    values = hugging_face.write_config(TINY, "TokenClassifier", {"labels": ["a", "b"]})
    values["id2label"] = told
    with pytest.raises(ArtifactError, match="id2label must give a name"):
        hugging_face.read_head_options("TokenClassifier", values, TINY, PATH)


@pytest.mark.parametrize("told", [0, -1, 10**9, "3", 2.0])
def test_a_number_of_labels_that_is_none(told: Any):
    values = hugging_face.write_config(TINY, "TokenClassifier", {"labels": ["a", "b"]})
    values |= {"id2label": None, "num_labels": told}
    with pytest.raises(ArtifactError, match=r"num_labels must be an integer from 1 to 100000"):
        hugging_face.read_head_options("TokenClassifier", values, TINY, PATH)
    values["num_labels"] = 3
    assert hugging_face.read_head_options("TokenClassifier", values, TINY, PATH)["num_classes"] == 3


def test_classes_of_a_family_under_another_name():
    config = families.config_of("gte")
    values = hugging_face.write_config(config, "TokenClassifier", {"labels": ["a", "b"]})
    values |= {"model_type": "new", "architectures": ["NewForTokenClassification"]}
    assert hugging_face_config.read_config(values, PATH, pooler=config.pooler) == config
    assert hugging_face.read_head_options("TokenClassifier", values, config, PATH)["labels"] == [
        "a",
        "b",
    ]
    for told in (None, 3, [{}], ["RobertaForMaskedLM"]):
        values["architectures"] = told
        assert "labels" not in hugging_face.read_head_options(
            "TokenClassifier", values, config, PATH
        )


def test_a_problem_that_is_none():
    """An unknown `problem_type` is refused."""
    values = hugging_face.write_config(TINY, "SequenceClassifier", {"labels": ["a", "b"]})
    values["problem_type"] = "guessing"
    with pytest.raises(ArtifactError, match="not supported: problem_type='guessing'"):
        hugging_face.read_head_options("SequenceClassifier", values, TINY, PATH)


def test_what_only_ours_can_be():
    """A head with options that transformers lacks gets the model type `bert_keras`."""
    assert hugging_face.has_hugging_face_head(
        {"num_classes": 2, "crf": False, "representation": "last"}
    )
    for options in ({"crf": True}, {"representation": "mix"}):
        assert not hugging_face.has_hugging_face_head(options)
        told = {"num_classes": 2, "labels": ["a", "b"], "dropout": None, **options}
        values = hugging_face.write_config(TINY, "TokenClassifier", told)
        # The model type makes transformers refuse the folder. Otherwise it would ignore a part.
        assert (values["model_type"], values["architectures"]) == ("bert_keras", [None])
        assert values["id2label"] == {"0": "a", "1": "b"}
