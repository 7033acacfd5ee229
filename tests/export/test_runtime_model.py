"""Each runtime's folder answers as `predict` does, in a process with that runtime alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.errors import NumericError, UsageError
from bert_keras.export import requests, runtime_model
from bert_keras.export.runtimes.axes import LENGTH as LENGTH_AXIS
from bert_keras.export.runtimes.axes import flat, input_axes, output_axes
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.answering import LENGTH, PAIRS, VOCABULARY, columns_of, new_tasks, texts_with
from tests.processes import run_client

BACKEND = keras.backend.backend()
# The formats that a backend writes itself, of every task; by a second process of one, on
# TensorFlow what it cannot write, on the others what shows that way.
OWN = {"tensorflow": ("onnx", "openvino", "litert"), "torch": ("onnx", "torch"), "jax": ()}[BACKEND]
OTHERS = {"tensorflow": "torch", "torch": "litert", "jax": "onnx"}[BACKEND]
TASKS = ("labels", "pairs", "entities", "questions", "choices", "vectors", "fills", "crf")
TASKS += ("numbers", "several", "cosines", "encoder")
EXPORTS = [(name, task) for name in OWN for task in TASKS] + [(OTHERS, "labels")]
# Tested in every run, because their inputs differ most. `.ci/full` tests all tasks.
FEW = ("labels", "choices", "fills")
READERS = {
    "onnx": "onnxruntime",
    "openvino": "openvino",
    "litert": "ai_edge_litert",
    "torch": "torch",
}
ROWS, ALONE = 50, 32  # of a batch, and asked one by one
TEXTS = 500

# Of the labels the tokenizer is opened too, by the library tokenizers; nothing of Keras, nothing
# of ours. The inputs of the others come ready.
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
        if task == "text_classification":
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
            *([] if pair[1] in FEW else [pytest.mark.slow]),
        ],
    )
    for pair in EXPORTS
]


@pytest.fixture(scope="module")
def tasks() -> dict[str, Any]:
    return new_tasks()


@pytest.fixture(scope="module")
def inputs(tasks, naughty: list[str]) -> dict[str, np.ndarray]:
    """Return the inputs of each task for 500 texts, by task, row and name."""
    found, texts = {}, texts_with(naughty, TEXTS)
    for name, task in tasks.items():
        columns, axes = columns_of(name, texts), input_axes(task)
        for start in range(0, TEXTS, ROWS):
            part = requests.part(columns, start, start + ROWS)
            ids = requests.as_ids(part, Tokenizer(VOCABULARY), axes, max_length=LENGTH)
            found |= {f"{name}/{start}/{key}": values for key, values in ids.items()}
    return found


@pytest.fixture(scope="module")
def results(request, tasks, inputs, naughty: list[str], tmp_path_factory) -> dict[str, np.ndarray]:
    """Return the outputs in a new process, from folders that were moved after writing."""
    written, folder = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("moved")
    selected = {
        (item.callspec.params["name"], item.callspec.params["task"])
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    }
    exports = [pair for pair in EXPORTS if pair in selected and not LACKING[pair[0]]]
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
            if task == "text_classification":  # its tokenizer.json gives the same ids
                alike = results[f"{name}/{task}/text{start}/{key}"]
                np.testing.assert_allclose(alike, values, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_rows_do_not_disturb_each_other(name: str, task: str, results, tasks) -> None:
    """A batch and its rows one by one."""
    for key in output_axes(tasks[task]):
        together = results[f"{name}/{task}/{TEXTS - ROWS}/{key}"]
        for row in range(ALONE):
            alone = results[f"{name}/{task}/alone{row}/{key}"][0]
            np.testing.assert_allclose(together[row], alone, atol=1e-5, rtol=0)


def test_what_cannot_be(tasks, tmp_path: Path) -> None:
    task = tasks["labels"]
    tokenizer = Tokenizer(VOCABULARY)
    with pytest.raises(UsageError, match="exists already"):
        runtime_model(task, tokenizer, tmp_path)
    with pytest.raises(ValueError, match=r"A format is one of onnx, .*Received: 'onyx'"):
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
