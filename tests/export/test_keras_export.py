"""`export`, Keras's own method: its files answer as the model, or nothing is written."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.export.runtimes.axes import flat
from bert_keras.models import BertEncoder, ElectraPretrainer, SequenceClassifier, TokenClassifier
from tests.contracts import TINY, as_trained, numpy
from tests.export.runtimes.conftest import batch_of

HERE = keras.backend.backend()
MODELS = {
    "encoder": lambda: BertEncoder(TINY),
    "classifier": lambda: SequenceClassifier(BertEncoder(TINY), 3),
    "tagger": lambda: TokenClassifier(BertEncoder(TINY), 3),
}
FILES = {"onnx": "m.onnx", "openvino": "m.xml", "litert": "m.tflite", "torch": "m.pt2"}
FORMATS_HERE = {
    "tensorflow": ("onnx", "openvino", "litert"),
    "torch": ("onnx", "openvino", "torch"),
    "jax": (),
}[HERE]
# What writes and runs each format.
LIBRARIES = {
    "onnx": ("onnxruntime", "tf2onnx" if HERE == "tensorflow" else "onnxscript"),
    "openvino": ("openvino", "tf2onnx" if HERE == "tensorflow" else "onnxscript"),
    "litert": ("ai_edge_litert.interpreter",),
    "torch": ("torch",),
}
on_tensorflow = pytest.mark.skipif(HERE != "tensorflow", reason="another backend writes it")


def _cases() -> list[Any]:
    """Return every model and format, marked for this backend."""
    found = []
    for kind in FILES:
        for name in MODELS:
            marks: list[Any] = []
            if kind not in FORMATS_HERE:
                marks.append(pytest.mark.skip(reason="another backend writes it"))
            elif HERE == "torch" and (name, kind) != ("classifier", "onnx"):
                marks.append(pytest.mark.slow)  # PyTorch needs seconds to trace a model
            found.append(pytest.param(name, kind, marks=marks, id=f"{name}-{kind}"))
    return found


def _run(path: Path, kind: str, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the outputs of a file in its runtime."""
    if kind == "onnx":
        session: Any = pytest.importorskip("onnxruntime").InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))
    if kind == "openvino":
        openvino = pytest.importorskip("openvino")
        compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return {key.get_any_name(): value for key, value in compiled(inputs).items()}
    if kind == "torch":
        torch = pytest.importorskip("torch")
        program = torch.export.load(path).module()
        outputs = program({name: torch.from_numpy(each) for name, each in inputs.items()})
        return {name: value.detach().numpy() for name, value in outputs.items()}
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    return litert.Interpreter(str(path)).get_signature_runner()(**inputs)


@pytest.mark.parametrize(("name", "kind"), _cases())
def test_a_file_answers_as_the_model_in_any_size(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in LIBRARIES[kind]:
        pytest.importorskip(library)
    model: Any = as_trained(MODELS[name]())
    path = tmp_path / FILES[kind]
    model.export(path, format=kind)
    assert f"Saved artifact at '{path}'." in capsys.readouterr().out
    for rows, length in ((3, 7), (1, 5)):
        inputs = batch_of(model, rows, length)
        found = _run(path, kind, inputs)
        for key, values in flat(numpy(model(inputs, training=False))).items():
            np.testing.assert_allclose(found[key], values, atol=1e-4, rtol=0, err_msg=key)
    beside = ["m.bin"] if kind == "openvino" else []
    assert sorted(each.name for each in tmp_path.iterdir()) == [*beside, path.name]


@on_tensorflow
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_answers_as_the_model(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    model: Any = as_trained(MODELS[name]())
    model.export(str(tmp_path / "1"), verbose=False)
    inputs = batch_of(model, 3, 7)
    loaded: Any = tf.saved_model.load(str(tmp_path / "1"))
    found = loaded.serve(inputs)
    for key, values in numpy(model(inputs, training=False)).items():
        np.testing.assert_allclose(found[key], values, atol=1e-4, rtol=0, err_msg=key)


def _refused(model: Any, path: Path, message: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        model.export(path, **options)
    assert not path.exists()
    assert not path.parent.exists() or list(path.parent.iterdir()) == []


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in FORMATS_HERE])
def test_another_backend_names_what_writes_the_file(kind: str, tmp_path: Path) -> None:
    message = f"does not work on the {HERE} backend. `bert_keras.export.runtime_model(model, token"
    for make in MODELS.values():
        _refused(make(), tmp_path / FILES[kind], message, format=kind)


@pytest.mark.skipif(HERE == "tensorflow", reason="on this backend Keras writes it")
def test_a_saved_model_is_refused_on_other_backends(tmp_path: Path) -> None:
    for options in ({}, {"format": "tf_saved_model"}):
        message = f"{HERE} backend. `bert_keras.export.saved_model(model, tokenizer, path)`"
        _refused(MODELS["classifier"](), tmp_path / "1", message, **options)


def test_a_format_that_keras_does_not_know_is_keras_error(tmp_path: Path) -> None:
    _refused(MODELS["encoder"](), tmp_path / "m", "Unrecognized format=tar", format="tar")


@pytest.mark.skipif(HERE == "jax", reason="this backend writes none of these files")
def test_what_has_no_file_is_refused_before_it_is_written(tmp_path: Path) -> None:
    classifier, path = MODELS["classifier"](), tmp_path / "m.onnx"
    _refused(classifier.packed(), path, "A PackedTask is a view for training", format="onnx")
    electra = ElectraPretrainer(BertEncoder(TINY), generator_size=0.5)
    _refused(electra, path, "`model.to_discriminator().export(path", format="onnx")
    half = SequenceClassifier(BertEncoder(TINY, dtype="mixed_bfloat16"), 3)
    _refused(half, path, "Received: a model that computes in bfloat16", format="onnx")
    _refused(
        classifier, path, "takes no opset_version: the file takes", format="onnx", opset_version=18
    )
    _refused(classifier, tmp_path / "m", "must end in .onnx. Received: ", format="onnx")
    _refused(classifier, tmp_path / "a" / "m.onnx", "there is no folder", format="onnx")


@pytest.mark.skipif(HERE == "jax", reason="this backend writes none of these files")
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = {"torch": "onnxscript", "tensorflow": "tf2onnx"}.get(HERE, "")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == library else find(name)
    )
    with pytest.raises(ImportError, match=rf"needs .*{library}.*Install with: pip install"):
        MODELS["classifier"]().export(tmp_path / "m.onnx", format="onnx")
    assert list(tmp_path.iterdir()) == []
