"""SavedModels of TensorFlow Hub: variables are read, and the program is never run."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertConfig,
    BertEncoder,
    MaskedLM,
    QuestionAnswerer,
    SequenceClassifier,
    Tokenizer,
    features,
    load_checkpoint,
    presets,
    save_checkpoint,
)
from bert_keras.checkpoints import google_tf1
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import TINY

_TANH = TINY.replace(activation="gelu_tanh")
_ALBERT = _TANH.replace(
    family="albert", num_unique_layers=1, embedding_size=4, dropout=0.0, attention_dropout=0.0
)
_CASES = {
    "bert": lambda: BertEncoder(_TANH),
    "bert, no pooler": lambda: BertEncoder(_TANH.replace(pooler=False)),
    "bert, mlm": lambda: MaskedLM(BertEncoder(_TANH)),
    "electra": lambda: BertEncoder(_TANH.replace(family="electra", embedding_size=4)),
    "albert": lambda: BertEncoder(_ALBERT),
    "albert, mlm": lambda: MaskedLM(BertEncoder(_ALBERT)),
}
_OLD_NAMES = {
    "word_embeddings": "bert_model/word_embeddings",
    "type_embeddings/embeddings": "bert_model/embedding_postprocessor/type_embeddings",
    "position_embedding/embeddings": "bert_model/embedding_postprocessor/position_embeddings",
    "embeddings/layer_norm": "bert_model/embedding_postprocessor/layer_norm",
    "transformer/layer_": "bert_model/encoder/layer_",
    "self_attention/attention_output": "self_attention_output",
    "pooler_transform": "bert_model/pooler_transform",
}


@pytest.fixture(scope="session", autouse=True)
def tensorflow() -> Any:
    """Return TensorFlow, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow")


def garden(model: Any) -> dict[str, np.ndarray]:
    """Return the weights with the names and shapes that the Model Garden uses."""
    w = contracts.weights(model)
    config = getattr(model, "encoder", model).config
    found = {
        "word_embeddings/embeddings": w["embeddings/token/embeddings"],
        "position_embedding/embeddings": w["embeddings/position/embeddings"],
        "type_embeddings/embeddings": w["embeddings/segment/embeddings"],
    }
    layers = {"embeddings/layer_norm": "embeddings/layer_norm"}
    layers |= {"embeddings/projection": "embedding_projection", "pooler/dense": "pooler_transform"}
    head = "bert/cls/predictions/transform"
    layers |= {"mlm/dense": f"{head}/dense", "mlm/layer_norm": f"{head}/LayerNorm"}
    for i in range(config.unique_layers):
        block = "transformer" if config.unique_layers == 1 else f"transformer/layer_{i}"
        layers[f"block_{i}/attention_layer_norm"] = f"{block}/self_attention_layer_norm"
        layers[f"block_{i}/feedforward/intermediate"] = f"{block}/intermediate"
        layers[f"block_{i}/feedforward/output"] = f"{block}/output"
        layers[f"block_{i}/feedforward_layer_norm"] = f"{block}/output_layer_norm"
        heads, size = config.num_heads, config.head_size
        for name in ("query", "key", "value"):
            ours, theirs = f"block_{i}/attention/{name}", f"{block}/self_attention/{name}"
            found[f"{theirs}/kernel"] = w[f"{ours}/kernel"].reshape(-1, heads, size)
            found[f"{theirs}/bias"] = w[f"{ours}/bias"].reshape(heads, size)
        ours, theirs = f"block_{i}/attention/output", f"{block}/self_attention/attention_output"
        found[f"{theirs}/kernel"] = w[f"{ours}/kernel"].reshape(heads, size, -1)
        found[f"{theirs}/bias"] = w[f"{ours}/bias"]
    for ours, theirs in layers.items():
        kinds = ("gamma", "beta") if "norm" in ours else ("kernel", "bias")
        if f"{ours}/{kinds[0]}" in w:
            found |= {f"{theirs}/{kind}": w[f"{ours}/{kind}"] for kind in kinds}
    if "mlm/bias" in w:
        found["bert/cls/predictions/output_bias/bias"] = w["mlm/bias"]
    assert len(found) == len(w)
    return found


def _program(tf: Any, config: BertConfig, v: dict[str, Any], marker: Path) -> Any:
    """Return the Model Garden's BERT as a function of these variables.

    When it runs it also creates the file `marker`, which must never happen.
    """

    def norm(x: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        gamma, beta = v[f"{name}/gamma"], v[f"{name}/beta"]
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)

    def dense(x: Any, name: str, equation: str = "btd,de->bte") -> Any:
        return tf.einsum(equation, x, v[f"{name}/kernel"]) + v[f"{name}/bias"]

    def call(ids: Any, mask: Any, types: Any) -> dict[str, Any]:
        x = tf.gather(v["word_embeddings/embeddings"], ids)
        x += v["position_embedding/embeddings"][: tf.shape(ids)[1]]
        x = norm(x + tf.gather(v["type_embeddings/embeddings"], types), "embeddings/layer_norm")
        if "embedding_projection/kernel" in v:
            x = dense(x, "embedding_projection")
        bias = (1.0 - tf.cast(mask, tf.float32))[:, None, None] * -1e9
        for i in range(config.num_layers):
            block = "transformer" if config.unique_layers == 1 else f"transformer/layer_{i}"
            attention = f"{block}/self_attention"
            q, k, values = (
                dense(x, f"{attention}/{name}", "btd,dnh->btnh")
                for name in ("query", "key", "value")
            )
            scores = tf.einsum("btnh,bsnh->bnts", q, k) / config.head_size**0.5 + bias
            y = tf.einsum("bnts,bsnh->btnh", tf.nn.softmax(scores), values)
            y = dense(y, f"{attention}/attention_output", "btnh,nhd->btd")
            x = norm(x + y, f"{block}/self_attention_layer_norm")
            y = tf.nn.gelu(dense(x, f"{block}/intermediate"), approximate=True)
            x = norm(x + dense(y, f"{block}/output"), f"{block}/output_layer_norm")
        outputs = {"sequence_output": x}
        if "pooler_transform/kernel" in v:
            outputs["pooled_output"] = tf.tanh(dense(x[:, 0], "pooler_transform", "bd,de->be"))
        if (head := "bert/cls/predictions") + "/output_bias/bias" in v:
            y = tf.nn.gelu(dense(x, f"{head}/transform/dense"), approximate=True)
            y = norm(y, f"{head}/transform/LayerNorm")
            y = tf.einsum("btd,vd->btv", y, v["word_embeddings/embeddings"])
            outputs["mlm"] = y + v[f"{head}/output_bias/bias"]
        with tf.control_dependencies([tf.io.write_file(str(marker), "was run")]):
            return {name: tf.identity(value) for name, value in outputs.items()}

    return tf.function(
        call, input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3, autograph=False
    )


def _export(
    tf: Any, folder: Path, variables: dict[str, np.ndarray], config: BertConfig = _TANH
) -> None:
    """Write a SavedModel with these variables, an optimizer, a step and a do_lower_case flag."""
    module = tf.Module()
    made = {name: tf.Variable(values, name=name) for name, values in variables.items()}
    module.all_variables = list(made.values())
    module.do_lower_case = tf.Variable(True, trainable=False)
    module.step = tf.Variable(7, dtype=tf.int64)
    module.optimizer = tf.Module()
    first = module.all_variables[0]
    module.optimizer.slots = [tf.Variable(tf.zeros_like(first), name=f"{first.name[:-2]}/m")]
    (folder.parent / "vocab").mkdir(exist_ok=True)
    vocabulary = folder.parent / "vocab" / "vocab.txt"
    words = [f"w{n}" for n in range(45)]
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    module.vocab_file = tf.saved_model.Asset(str(vocabulary))
    signatures = None
    if "word_embeddings/embeddings" in made:
        call = _program(tf, config, made, folder.parent / "marker")
        module.__call__ = signatures = call
    tf.saved_model.save(module, str(folder), signatures=signatures)


def saved(tf: Any, folder: Path, case: str = "bert") -> Any:
    """Write a SavedModel as Google does. Return the model that has the same weights."""
    model = contracts.as_trained(_CASES[case]())
    config = getattr(model, "encoder", model).config
    _export(tf, folder, garden(model), config)
    # Google published no ALBERT of this size, so that the config must tell the layers.
    if config.family == "albert":
        save_checkpoint(model, folder.parent / "tf1", format="google_tf1")
        shutil.copy(folder.parent / "tf1" / "albert_config.json", folder)
    return model


@pytest.mark.parametrize("case", _CASES)
def test_same_weights_and_outputs(case: str, tensorflow: Any, tmp_path: Path) -> None:
    model = saved(tensorflow, tmp_path / "hub", case)
    opened = load_checkpoint(tmp_path / "hub", trust=True)
    assert not (tmp_path / "marker").exists()
    assert type(opened) is type(model)
    assert opened.get_config() == model.get_config()
    contracts.assert_same_weights(opened, model)
    x = contracts.inputs_of(model)
    found = contracts.numpy(opened(x))
    program = tensorflow.saved_model.load(str(tmp_path / "hub"))
    ids = [x[name] for name in (features.TOKEN_IDS, features.PADDING_MASK, features.SEGMENT_IDS)]
    theirs = {name: values.numpy() for name, values in program(*ids).items()}
    assert (tmp_path / "marker").read_text() == "was run"
    if isinstance(model, MaskedLM):
        positions = x[features.MASK_POSITIONS][..., None]
        expected = {"mlm": np.take_along_axis(theirs["mlm"], positions, axis=1)}
    else:
        expected = theirs
    contracts.assert_close(found, expected, 1e-5)


def test_nothing_of_the_program_is_opened(
    tensorflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tensorflow, tmp_path / "hub")
    (tmp_path / "hub" / "saved_model.pb").write_bytes(b"not even a message")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the program was loaded")

    monkeypatch.setattr(tensorflow.saved_model, "load", refuse)
    contracts.assert_same_weights(BertEncoder.from_preset(tmp_path / "hub", trust=True), model)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("load", [load_checkpoint, BertEncoder.from_preset, MaskedLM.from_preset])
def test_only_with_trust(load: Callable[..., Any], tensorflow: Any, tmp_path: Path) -> None:
    saved(tensorflow, tmp_path / "hub", "bert, mlm")
    with pytest.raises(
        ArtifactError, match=r"hub: a SavedModel, which is a program\. .*trust=True"
    ) as error:
        load(tmp_path / "hub")
    for word in ("activation", "epsilon", "dropout", "1e-12", "0.1"):
        assert word in str(error.value)
    load(tmp_path / "hub", trust=True)


def test_other_savedmodels_are_named(tensorflow: Any, tmp_path: Path) -> None:
    """A preprocessor has no variables; an export of a task by this package has no config."""
    module = tensorflow.Module()
    module.call = tensorflow.function(
        lambda x: x, input_signature=[tensorflow.TensorSpec([], tensorflow.float32)]
    )
    tensorflow.saved_model.save(module, str(tmp_path / "hub"))
    with pytest.raises(ArtifactError, match="has no variables, as the preprocessor of a pair"):
        BertEncoder.from_preset(tmp_path / "hub", trust=True)
    (tmp_path / "hub" / "assets.extra").mkdir()
    (tmp_path / "hub" / "assets.extra" / "export.json").touch()
    for trust in (False, True):
        with pytest.raises(
            ArtifactError, match=r"exported for its answers\. .* `bert-keras serve`"
        ):
            load_checkpoint(tmp_path / "hub", trust=trust)


def test_what_a_repository_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `trust` only the index is requested, to recognise a SavedModel."""
    asked: list[set[str]] = []

    def resolve(handle: Any, files: Any) -> Path:
        asked.append(set(files))
        return tmp_path

    monkeypatch.setattr(presets, "resolve_handle", resolve)
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "variables.index").touch()
    for trust in (False, True):
        with pytest.raises(ArtifactError):
            load_checkpoint("hf://someone/bert", trust=trust)
    data = "variables/variables.data-*"
    assert [data in files for files in asked] == [False, True]
    assert all("variables/variables.index" in files for files in asked)
    assert not any("saved_model.pb" in files for files in asked)


def test_a_model_without_its_config_is_as_published(tensorflow: Any, tmp_path: Path) -> None:
    config = _ALBERT.replace(hidden_size=768, num_layers=12, num_heads=12)
    model = contracts.as_trained(BertEncoder(config))
    _export(tensorflow, tmp_path / "hub", garden(model), model.config)
    opened = BertEncoder.from_preset(tmp_path / "hub", trust=True)
    assert opened.config == model.config
    contracts.assert_same_weights(opened, model)


def test_an_encoder_and_a_classifier_of_a_masked_lm(tensorflow: Any, tmp_path: Path) -> None:
    task = saved(tensorflow, tmp_path / "hub", "bert, mlm")
    encoder = BertEncoder.from_preset(tmp_path / "hub", trust=True, name="encoder")
    contracts.assert_same_weights(encoder, task.encoder)
    options: dict[str, Any] = {"allow_missing": ("span",), "trust": True}
    with pytest.raises(ArtifactError, match="Not used by the model:\n  cls/predictions"):
        QuestionAnswerer.from_preset(tmp_path / "hub", **options)
    QuestionAnswerer.from_preset(tmp_path / "hub", allow_unused=("mlm",), **options)
    SequenceClassifier.from_preset(tmp_path / "hub", num_classes=2, trust=True)


def test_names_of_the_first_models(tensorflow: Any, tmp_path: Path) -> None:
    model = contracts.as_trained(_CASES["bert"]())
    variables = garden(model)
    for current, old in _OLD_NAMES.items():
        variables = {name.replace(current, old): values for name, values in variables.items()}
    _export(tensorflow, tmp_path / "hub", variables)
    contracts.assert_same_weights(load_checkpoint(tmp_path / "hub", trust=True), model)


def _tf1_module(tf: Any, model: Any, folder: Path, start: str = "module/") -> None:
    """Write a TF1 Hub module: graph variables with the names of Google's first releases."""
    save_checkpoint(model, folder.parent / "tf1", format="google_tf1")
    reader = tf.train.load_checkpoint(str(folder.parent / "tf1" / google_tf1.PREFIX))
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name in reader.get_variable_to_shape_map():
            v1.get_variable(start + name, initializer=reader.get_tensor(name), use_resource=True)
        v1.get_variable("global_step", initializer=np.int64(3), use_resource=True)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, [])
        builder.save()


@pytest.mark.parametrize("family", ["bert", "albert", "electra"])
def test_modules_of_tensorflow_1(family: str, tensorflow: Any, tmp_path: Path) -> None:
    """TF1 modules open with the right number of attention heads.

    Google's TF1 kernels have two axes, so that the number of heads follows from the known sizes.
    """
    config = {
        "bert": _TANH.replace(hidden_size=128),
        "albert": _ALBERT.replace(hidden_size=768, num_layers=12, num_heads=12),
        "electra": _TANH.replace(family="electra", hidden_size=128, embedding_size=4, pooler=False),
    }[family]
    start = "" if family == "bert" else "module/"
    model = contracts.as_trained(MaskedLM(BertEncoder(config)))
    _tf1_module(tensorflow, model, tmp_path / "hub", start)
    opened = load_checkpoint(tmp_path / "hub", trust=True)
    assert opened.get_config() == model.get_config()
    contracts.assert_same_weights(opened, model)
    x = contracts.inputs_of(model)
    contracts.assert_close(contracts.numpy(opened(x)), contracts.numpy(model(x)), 1e-5)


def test_heads_that_are_not_told(tensorflow: Any, tmp_path: Path) -> None:
    """If the number of attention heads is unknown, the error asks for bert_config.json."""
    model = contracts.as_trained(BertEncoder(_TANH))
    _tf1_module(tensorflow, model, tmp_path / "hub")
    with pytest.raises(ArtifactError, match=r"how many heads .* Put the bert_config\.json"):
        load_checkpoint(tmp_path / "hub", trust=True)
    shutil.copy(tmp_path / "tf1" / "bert_config.json", tmp_path / "hub")
    contracts.assert_same_weights(load_checkpoint(tmp_path / "hub", trust=True), model)


def test_the_vocabulary_is_beside(tensorflow: Any, tmp_path: Path) -> None:
    """A tokenizer opens from the folder `assets` of a SavedModel."""
    saved(tensorflow, tmp_path / "hub")
    assert Tokenizer.from_preset(tmp_path / "hub" / "assets", lowercase=False).vocab_size == 50


def _changed(change: Callable[[dict[str, np.ndarray]], Any]) -> dict[str, np.ndarray]:
    """Return the Model Garden's variables of a model after a change."""
    variables = garden(contracts.as_trained(_CASES["bert"]()))
    change(variables)
    return variables


_QUERY, _BIAS = "transformer/layer_0/self_attention/query/kernel", "pooler_transform/bias"
_WRONG: dict[str, tuple[Callable[[dict[str, np.ndarray]], Any], str]] = {
    "missing": (
        lambda v: v.pop(_BIAS),
        rf"Missing in the file:\n  {_BIAS} .closest in the file: .*",
    ),
    "missing sizes": (lambda v: v.pop(_QUERY), rf"variables: {_QUERY} is missing"),
    "missing block": (
        lambda v: [v.pop(name) for name in [*v] if "/layer_0/" in name],
        rf"variables: {_QUERY} is missing",
    ),
    "another shape": (
        lambda v: v.update({_BIAS: np.zeros(9, "float32")}),
        rf"Of another shape:\n  {_BIAS}: expected \[8\], found \[9\]$",
    ),
    "another rank": (
        lambda v: v.update({_QUERY: v[_QUERY].reshape(8, 8)}),
        rf"{_QUERY} is of shape \[8, 8\], where .* has 3 axes",
    ),
    "heads that do not fit": (
        lambda v: v.update({_QUERY: np.zeros((8, 3, 4), "float32")}),
        r"variables: `num_heads` must divide",
    ),
    "strange": (
        lambda v: v.update({"strange/kernel": np.zeros((2, 2), "float32")}),
        r"Not used by the model:\n  strange/kernel$",
    ),
    "twice": (
        lambda v: v.update({f"other/{_BIAS}": np.zeros(8, "float32")}),
        rf"Missing in the file:\n  {_BIAS} .*\nNot used by the model:\n  all_variables/\d+/",
    ),
    "another model": (
        lambda v: [v.pop(name) for name in [*v] if "embeddings" in name],
        r"word_embeddings/embeddings is missing .*, where an encoder of Google's",
    ),
}


@pytest.mark.parametrize("case", _WRONG)
def test_other_variables(
    case: str, tensorflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, message = _WRONG[case]
    # The program could not be traced with these changed variables.
    monkeypatch.setattr(f"{__name__}._program", lambda tf, *_: tf.function(lambda: tf.zeros(1), ()))
    _export(tensorflow, tmp_path / "hub", _changed(change))
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(tmp_path / "hub", trust=True)


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


_INDEX, _DATA = "variables/variables.index", "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (_DATA, lambda b: b[:-1000], r"variables/variables: .* cannot be read \(Read less bytes"),
        (_DATA, lambda b: b[:99], r"variables/variables: the index states \d+ bytes"),
        (_DATA, _flipped, r"variables/variables: .* cannot be read"),
        (_INDEX, lambda b: b[:-9], r"variables/variables: not a whole TensorFlow checkpoint"),
        (_INDEX, lambda b: b[:0], r"variables/variables: not a whole TensorFlow checkpoint"),
    ],
)
def test_damaged(name: str, damage: Any, message: str, tensorflow: Any, tmp_path: Path) -> None:
    saved(tensorflow, tmp_path / "hub")
    path = tmp_path / "hub" / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(tmp_path / "hub", trust=True)
