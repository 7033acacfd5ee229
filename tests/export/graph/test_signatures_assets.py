"""Additional files in the folder of a SavedModel."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from bert_keras import export
from bert_keras.export import export_folder
from bert_keras.export.graph import signatures
from bert_keras.models import BertEncoder, MultipleChoice, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "text"]


def exported(task, folder: Path, **options) -> Path:
    path = folder / "mine" / "3"
    return export.saved_model(task, Tokenizer(VOCABULARY), path, portable=True, **options)


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return BertEncoder(TINY.replace(vocab_size=len(VOCABULARY), max_positions=64))


@pytest.mark.slow
def test_labels_and_card(encoder: BertEncoder, tmp_path: Path) -> None:
    task = SequenceClassifier(encoder, 2, labels=["gut", "schlecht"])
    extra = exported(task, tmp_path, max_length=16) / signatures.EXTRA
    assert (extra / export_folder.LABELS).read_text(encoding="utf-8").split() == ["gut", "schlecht"]
    page = (extra / export_folder.CARD).read_text(encoding="utf-8")
    assert page.startswith("# mine\n\nA SequenceClassifier with ")
    assert "It reads at most 16 tokens at once." in page
    for row in ("| `serving_default` | `text` |", "| `pairs` | ", "| `ids` | ", "| `training` | "):
        assert row in page


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda e: SequenceClassifier(e, 2), MultipleChoice])
def test_warm_up_requests_are_answered(make, encoder: BertEncoder, tmp_path: Path) -> None:
    """The model answers the warm-up requests, which TensorFlow Serving's own classes can read."""
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    folder = exported(make(encoder), tmp_path)
    run = tf.saved_model.load(str(folder)).signatures["serving_default"]
    records = tf.data.TFRecordDataset(str(folder / signatures.EXTRA / signatures.REQUESTS))
    sizes = []
    for record in records:
        log = apis.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        assert request.model_spec.name == "mine"
        assert request.model_spec.signature_name == "serving_default"
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        found = run(**{key: tf.constant(value, tf.string) for key, value in inputs.items()})
        sizes.append(len(found["score"]))
    assert sorted(set(sizes)) == [1, 8, 32]
