"""Functions are traced and compiled once per batch shape, not once per text length."""

from __future__ import annotations

import functools
from typing import Any

import keras
import pytest

from bert_keras import BertEncoder, Predictor, SequenceClassifier, Tokenizer
from bert_keras.data import dataset
from bert_keras.data.examples import Texts
from bert_keras.data.text_classification import text_examples
from bert_keras.layers import TransformerBlock
from tests.contracts import TINY

if keras.backend.backend() == "torch":
    pytest.skip("this backend traces nothing", allow_module_level=True)

CONFIG = TINY.replace(max_positions=64)
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))])
TEXTS = [" ".join(["w1"] * length) for length in range(1, 61)]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, ...]]:
    """Return the input shapes that the first block is traced with."""
    found: list[tuple[int | None, ...]] = []
    call = TransformerBlock.call

    @functools.wraps(call)
    def heard(self, x, *arguments, **options):
        if self.name == "block_0":
            found.append(tuple(x.shape))
        return call(self, x, *arguments, **options)

    monkeypatch.setattr(TransformerBlock, "call", heard)
    return found


def _classifier() -> SequenceClassifier:
    keras.utils.set_random_seed(1)
    return SequenceClassifier(BertEncoder(CONFIG), 2, labels=["a", "b"])


def test_training(traces: list[tuple[int | None, ...]]) -> None:
    task = _classifier()
    given = Texts(TEXTS, targets=["a", "b"] * (len(TEXTS) // 2))
    options: dict[str, Any] = {"batch_size": 4, "multiple_of": 16, "max_length": 64, "seed": 3}
    examples = text_examples(TOKENIZER, given, labels=["a", "b"], **options)
    shapes = {
        examples.batch(epoch, position)[0]["token_ids"].shape
        for epoch in range(3)
        for position in range(examples.num_batches(epoch))
    }
    assert len(shapes) <= 4 < len(TEXTS)
    task.compile(keras.optimizers.SGD(0.1), **task.loss_and_metrics())
    traces.clear()
    task.fit(dataset(examples), epochs=3, verbose=0)
    # One more trace where Keras builds metrics and the optimizer before the first step.
    assert 1 <= len(traces) <= len(shapes) + 1


def test_answers(traces: list[tuple[int | None, ...]]) -> None:
    predictor = Predictor(_classifier(), TOKENIZER)
    traces.clear()
    for text in TEXTS:
        predictor([text])
    # JAX has four lengths above each power of two. TensorFlow leaves the length open.
    assert 1 <= len(traces) <= 16
