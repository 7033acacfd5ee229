"""Runtime folders give the outputs of `predict` in a process with this runtime alone."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.errors import NumericError, UsageError
from bert_keras.export import clients, runtime_model
from bert_keras.export.runtimes.formats import FORMATS, flat, input_axes, output_axes
from bert_keras.export.runtimes.formats import LENGTH as LENGTH_AXIS
from bert_keras.models import BertEncoder, ElectraPretrainer, SequenceClassifier, TokenClassifier
from bert_keras.tokenizers import Tokenizer
from tests.answering import LENGTH, PAIRS, VOCABULARY, columns_of, new_tasks, texts_with
from tests.contracts import TINY, as_trained, numpy
from tests.export.runtimes.conftest import batch_of
from tests.export.runtimes.runners import RUNNERS
from tests.processes import run_client

BACKEND = keras.backend.backend()
# OWN: the formats that this backend writes itself, tested for every task. OTHERS: a format that a
# second process writes with another backend.
OWN = {"tensorflow": ("onnx", "openvino", "litert"), "torch": ("onnx", "torch"), "jax": ()}[BACKEND]
OTHERS = {"tensorflow": "torch", "torch": "litert", "jax": "onnx"}[BACKEND]
TASKS = ("labels", "pairs", "entities", "questions", "choices", "vectors", "fills", "crf")
TASKS += ("numbers", "several", "cosines", "encoder")
EXPORTS = [(name, task) for name in OWN for task in TASKS] + [(OTHERS, "labels")]
# These run every time: the tasks whose inputs differ most. PyTorch needs seconds to trace a model.
# `.ci/full` tests all tasks.
FEW = {("onnx", "labels"), ("torch", "fills")}
if BACKEND != "torch":
    FEW |= {("onnx", "choices"), (OTHERS, "labels")}
READERS = {
    "onnx": "onnxruntime",
    "openvino": "openvino",
    "litert": "ai_edge_litert",
    "torch": "torch",
}
ROWS, ALONE = 50, 32  # rows of a batch, and rows that are also run alone
TEXTS = 500

# The client of "labels" also opens the tokenizer with the tokenizers library. The inputs of other
# tasks are given. Nothing of Keras or of this package is imported.
CLIENT = """
import sys
for name in ("bert_keras", "keras", "tensorflow"):
    sys.modules[name] = None
import json, numpy, tokenizers
folder, exports = sys.argv[1], [each.split("/") for each in sys.argv[2:]]
texts = json.load(open(folder + "/texts.json"))
ready = numpy.load(folder + "/inputs.npz")

def opened(name, path):
    if name == "onnx":
        import onnxruntime
        session = onnxruntime.InferenceSession(f"{path}/model.onnx")
        names = [output.name for output in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, inputs)))
    if name == "openvino":
        import openvino
        options = {"INFERENCE_PRECISION_HINT": "f32"}
        model = openvino.Core().compile_model(f"{path}/model.xml", "CPU", options)
        return lambda inputs: {key.get_any_name(): value for key, value in model(inputs).items()}
    if name == "litert":
        from ai_edge_litert.interpreter import Interpreter
        return lambda inputs, run=Interpreter(f"{path}/model.tflite"): (
            run.get_signature_runner()(**inputs)
        )
    import torch
    module = torch.export.load(f"{path}/model.pt2").module()
    def run(inputs):
        with torch.no_grad():
            return module({key: torch.from_numpy(value) for key, value in inputs.items()})
    return run

def tokenized(path, told, texts):
    tokenizer = tokenizers.Tokenizer.from_file(f"{path}/tokenizer.json")
    tokenizer.enable_truncation(told["max_length"])
    tokenizer.enable_padding(pad_id=told["pad_id"])
    encoded = tokenizer.encode_batch(texts)
    ours = {"token_ids": "ids", "segment_ids": "type_ids", "padding_mask": "attention_mask"}
    return {
        key: numpy.array([getattr(each, ours[key]) for each in encoded], "int32")
        for key in told["inputs"]
    }

results = {}
for name, task in exports:
    path = f"{folder}/{name}/{task}"
    told = json.load(open(f"{path}/export.json"))
    run = opened(name, path)
    def keep(kind, inputs):
        for key, value in run(inputs).items():
            results[f"{name}/{task}/{kind}/{key}"] = numpy.asarray(value)
    for start in range(0, len(texts), 50):
        inputs = {key: ready[f"{task}/{start}/{key}"] for key in told["inputs"]}
        keep(start, inputs)
        if task == "labels":
            keep(f"text{start}", tokenized(path, told, texts[start : start + 50]))
    for row in range(32):
        keep(f"alone{row}", {key: values[row : row + 1] for key, values in inputs.items()})
numpy.savez(f"{folder}/results.npz", **results)
"""


def lacking(name: str) -> str:
    """Return the reason why a format cannot be written or read here, else an empty string."""
    if importlib.util.find_spec(READERS[name]) is None:
        return f"could not import {READERS[name]!r}"
    try:
        FORMATS[name].backend(BACKEND, None)
    except ImportError as error:
        return str(error)
    return ""


LACKING = {name: lacking(name) for name, _ in EXPORTS}
CASES = [
    pytest.param(
        *pair,
        id="/".join(pair),
        marks=[
            pytest.mark.skipif(bool(LACKING[pair[0]]), reason=LACKING[pair[0]] or "nothing"),
            *([] if pair in FEW else [pytest.mark.slow]),
        ],
    )
    for pair in EXPORTS
]


@pytest.fixture(scope="module")
def tasks() -> dict[str, Any]:
    return new_tasks()


@pytest.fixture(scope="module")
def exports(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Return the formats and tasks of the selected tests."""
    selected = {
        (item.callspec.params["name"], item.callspec.params["task"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        if item.path == request.path
        if "task" in item.fixturenames
    }
    return [pair for pair in EXPORTS if pair in selected and not LACKING[pair[0]]]


@pytest.fixture(scope="module")
def inputs(exports, tasks, naughty: list[str]) -> dict[str, np.ndarray]:
    """Return the inputs of each exported task for 500 texts, by task, row and name."""
    found, texts = {}, texts_with(naughty, TEXTS)
    for name in {task for _, task in exports}:
        columns, axes = columns_of(name, texts), input_axes(tasks[name])
        for start in range(0, TEXTS, ROWS):
            part = clients.part_of_columns(columns, start, start + ROWS)
            ids = clients.as_ids(part, Tokenizer(VOCABULARY), axes, max_length=LENGTH)
            found |= {f"{name}/{start}/{key}": values for key, values in ids.items()}
    return found


@pytest.fixture(scope="module")
def results(exports, tasks, inputs, naughty: list[str], tmp_path_factory) -> dict[str, np.ndarray]:
    """Return the outputs of a new process, from folders that were moved after the export."""
    written, folder = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("moved")
    for name, task in exports:
        made = written / name / task
        runtime_model(tasks[task], Tokenizer(VOCABULARY), made, name, pairs=task in PAIRS)
        (folder / name).mkdir(exist_ok=True)
        made.rename(folder / name / task)
    (folder / "texts.json").write_text(json.dumps(texts_with(naughty, TEXTS)), encoding="utf-8")
    np.savez(folder / "inputs.npz", **inputs)
    run_client(CLIENT, str(folder), *map("/".join, exports), folder=folder)
    return dict(np.load(folder / "results.npz"))


@pytest.mark.parametrize(("name", "task"), CASES)
def test_it_answers_as_predict_does(name: str, task: str, results, tasks, inputs) -> None:
    model = tasks[task]
    axes = output_axes(model)
    for start in range(0, TEXTS, ROWS):
        batch = {key: inputs[f"{task}/{start}/{key}"] for key in input_axes(model)}
        expected = flat(model.predict_on_batch(batch))
        is_token = batch["padding_mask"].astype(bool)
        for key, values in expected.items():
            kept = is_token if LENGTH_AXIS in axes[key] else ...
            found = results[f"{name}/{task}/{start}/{key}"]
            np.testing.assert_allclose(found[kept], values[kept], atol=1e-5, rtol=0)
            if task == "labels":  # the exported tokenizer.json gives the same ids
                alike = results[f"{name}/{task}/text{start}/{key}"]
                np.testing.assert_allclose(alike, values, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_rows_do_not_disturb_each_other(name: str, task: str, results, tasks) -> None:
    """A row of a batch has the outputs of the row alone."""
    for key in output_axes(tasks[task]):
        together = results[f"{name}/{task}/{TEXTS - ROWS}/{key}"]
        for row in range(ALONE):
            alone = results[f"{name}/{task}/alone{row}/{key}"][0]
            np.testing.assert_allclose(together[row], alone, atol=1e-5, rtol=0)


def test_what_cannot_be(tasks, tmp_path: Path) -> None:
    """Existing folders, unknown formats and unsuitable options are refused."""
    task = tasks["labels"]
    tokenizer = Tokenizer(VOCABULARY)
    with pytest.raises(UsageError, match="exists already"):
        runtime_model(task, tokenizer, tmp_path)
    with pytest.raises(ValueError, match=r"format must be one of onnx, .*'onyx'"):
        runtime_model(task, tokenizer, tmp_path / "1", "onyx")
    with pytest.raises(ValueError, match="The quantization of onnx is none, or one of float16"):
        runtime_model(task, tokenizer, tmp_path / "1", quantization="int4")
    with pytest.raises(ValueError, match="Received: a BertEncoder"):
        runtime_model(task.encoder, tokenizer, tmp_path / "1", pairs=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["bert_keras.export.runtime_model"], "_MOST", 1000)
        with pytest.raises(ValueError, match="does not fit the format onnx"):
            runtime_model(task, tokenizer, tmp_path / "1")
    broken = SequenceClassifier(BertEncoder(task.encoder.config), 2)
    broken.weights[0].assign(np.full(broken.weights[0].shape, np.nan))
    with pytest.raises(NumericError):
        runtime_model(broken, tokenizer, tmp_path / "1")
    assert not list(tmp_path.iterdir())


# === Keras's method `export`: a file gives the model's outputs, or nothing is written ===


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
# Format -> the packages that write and run it.
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
        found = RUNNERS[kind](path)(inputs)
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
