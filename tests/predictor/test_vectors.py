"""Vectors are those of the model, and cosines those of the vectors."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.predictor import Predictor
from bert_keras.predictor.vectors import cosines

TEXTS = ["hello world", "the wanted mask", "un", "", "a b c d e f g h"]


def test_cosines() -> None:
    one = np.array([[3, 4], [1, 0], [0, 0], [2, 0]], np.float32)
    other = np.array([[6, 8], [0, 5], [1, 1], [-1, 0]], np.float32)
    found = cosines(one, other)
    assert found.dtype == np.float32
    assert found.tolist() == [1, 0, 0, -1]


def test_own_vectors(task, tokenizer) -> None:
    found = Predictor(task("vectors"), tokenizer, batch_size=2)(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = task("vectors").predict_on_batch(tokenizer([text]))["sentence_vector"][0]
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_means_of_other_models(task, tokenizer) -> None:
    model = task("labels")
    found = Predictor(model, tokenizer, batch_size=2).encode(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        tokens = model.encoder.predict_on_batch(tokenizer([text]))["sequence_output"][0]
        np.testing.assert_allclose(vector, tokens.mean(axis=0), atol=1e-5)


def test_vectors_of_what_pairs_train(task, tokenizer) -> None:
    model = task("pairs")
    found = Predictor(model, tokenizer, batch_size=2).encode(TEXTS)
    expected = Predictor(model.sentence_encoder, tokenizer)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["vectors", "labels", "pairs"])
def test_similarity(task, tokenizer, kind: str) -> None:
    predictor = Predictor(task(kind), tokenizer)
    found = predictor.similarity(TEXTS, TEXTS[::-1])
    np.testing.assert_allclose(found, found[::-1], atol=1e-5)
    assert found[2] == pytest.approx(1, abs=1e-5)  # "un" with itself
    assert np.abs(found).max() < 1 + 1e-5
    one, other = predictor.encode(TEXTS[:1]), predictor.encode(TEXTS[-1:])
    expected = (one @ other.T).item() / np.linalg.norm(one) / np.linalg.norm(other)
    assert found[0] == pytest.approx(expected, abs=1e-5)
    assert predictor.similarity([], []).shape == (0,)
    assert predictor.encode([]).shape == (0, 8)
    with pytest.raises(ValueError, match="Every first text needs one second"):
        predictor.similarity(TEXTS, [])
    with pytest.raises(TypeError, match="`firsts` must be a list of strings"):
        predictor.similarity("a", ["b"])
