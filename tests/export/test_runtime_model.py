"""Each runtime's folder answers as `predict` does, in a process with that runtime alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras.errors import NumericError, UsageError
from bert_keras.export import runtime_model
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained
from tests.processes import run_client

BACKEND = keras.backend.backend()
# On TensorFlow all formats, one of them by a second process; on the others what goes that way.
FORMATS = {
    "tensorflow": ("onnx", "openvino", "litert", "torch"),
    "torch": ("litert",),
    "jax": ("onnx",),
}[BACKEND]
CHARACTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'()-_", "中", "文", "é"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS]
VOCABULARY += [f"##{character}" for character in CHARACTERS]
LENGTH = 24

# The tokenizer by the library tokenizers, from the folder; nothing of Keras, nothing of ours.
CLIENT = """
import sys
for name in ("bert_keras", "keras", "tensorflow"):
    sys.modules[name] = None
import json, numpy, tokenizers
folder = sys.argv[1]
texts = json.load(open(folder + "/texts.json"))

def opened(name):
    if name == "onnx":
        import onnxruntime
        session = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx")
        names = [output.name for output in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, inputs)))
    if name == "openvino":
        import openvino
        options = {"INFERENCE_PRECISION_HINT": "f32"}
        model = openvino.Core().compile_model(f"{folder}/openvino/model.xml", "CPU", options)
        return lambda inputs: {key.get_any_name(): value for key, value in model(inputs).items()}
    if name == "litert":
        from ai_edge_litert.interpreter import Interpreter
        return lambda inputs, run=Interpreter(f"{folder}/litert/model.tflite"): (
            run.get_signature_runner()(**inputs)
        )
    import torch
    module = torch.export.load(f"{folder}/torch/model.pt2").module()
    def run(inputs):
        with torch.no_grad():
            return module({key: torch.from_numpy(value) for key, value in inputs.items()})
    return run

results = {}
for name in sys.argv[2:]:
    told = json.load(open(f"{folder}/{name}/export.json"))
    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/{name}/tokenizer.json")
    tokenizer.enable_truncation(told["max_length"])
    tokenizer.enable_padding(pad_id=told["pad_id"])
    run, found = opened(name), []
    for start in range(0, len(texts), 50):
        encoded = tokenizer.encode_batch(texts[start : start + 50])
        ours = {"token_ids": "ids", "segment_ids": "type_ids", "padding_mask": "attention_mask"}
        inputs = {
            key: numpy.array([getattr(each, ours[key]) for each in encoded], "int32")
            for key in told["inputs"]
        }
        found.append(numpy.asarray(run(inputs)["label"]))
    results[name] = numpy.concatenate(found)
    alone = {key: values[:1] for key, values in inputs.items()}
    results[f"{name}/alone"] = numpy.asarray(run(alone)["label"])
    results[f"{name}/among"] = numpy.asarray(run(inputs)["label"])
numpy.savez(f"{folder}/results.npz", **results)
"""


@pytest.fixture(scope="module")
def task() -> SequenceClassifier:
    config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=LENGTH)
    return as_trained(SequenceClassifier(BertEncoder(config), 3, labels=["a", "b", "c"]))


@pytest.fixture(scope="module")
def texts(naughty: list[str]) -> list[str]:
    """500: the naughty strings where they are at hand, and made-up ones."""
    draw = np.random.default_rng(0)
    pool = [*CHARACTERS, " ", " ", "É", "e\u0301", "\u200d", "😀", "ａ", "½", "\t"]
    made = ["".join(draw.choice(pool, draw.integers(0, 60))) for _ in range(500)]
    return [*naughty, *made][:500]


@pytest.fixture(scope="module")
def results(task, texts, tmp_path_factory) -> dict[str, np.ndarray]:
    written, folder = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("moved")
    for name in FORMATS:
        path = runtime_model(task, Tokenizer(VOCABULARY), written / name, name)
        path.rename(folder / name)
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    run_client(CLIENT, str(folder), *FORMATS, folder=folder)
    return dict(np.load(folder / "results.npz"))


@pytest.mark.parametrize("name", FORMATS)
def test_it_answers_as_predict_does(name: str, results, task, texts) -> None:
    expected = task.predict(Tokenizer(VOCABULARY)(texts, max_length=LENGTH), verbose=0)["label"]
    np.testing.assert_allclose(results[name], expected, atol=1e-5)
    np.testing.assert_allclose(results[f"{name}/alone"], results[f"{name}/among"][:1], atol=1e-5)


def test_what_cannot_be(task, tmp_path: Path) -> None:
    tokenizer = Tokenizer(VOCABULARY)
    with pytest.raises(UsageError, match="exists already"):
        runtime_model(task, tokenizer, tmp_path)
    with pytest.raises(ValueError, match=r"`format` must be one of onnx, .*Received: 'onyx'"):
        runtime_model(task, tokenizer, tmp_path / "1", "onyx")
    with pytest.raises(ValueError, match="`quantization` must be None, float16 or int8"):
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
