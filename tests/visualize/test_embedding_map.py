"""The map of texts: coordinates, few texts, errors, and its page in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import Predictor, SentenceEncoder
from bert_keras.errors import NumericError
from bert_keras.models import BertEncoder
from bert_keras.visualize import embeddings
from tests.contracts import as_trained
from tests.visualize.pictures import CONFIG, TOKENIZER, classifier, one_backend

pytest.importorskip("sklearn")
TEXTS = ["a b", "a c", "b c", "d e f", "d g", "e g h"]
VECTORS = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
NAMES = [f"text {n}" for n in range(12)]


def test_principal_components() -> None:
    found = embeddings(VECTORS, NAMES)
    centred = VECTORS - VECTORS.mean(axis=0)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ directions[:2].T
    np.testing.assert_allclose(np.abs(found.coordinates), np.abs(expected), atol=1e-5)
    shares = values[:2] ** 2 / (values**2).sum()
    assert found.summary == (
        f"12 texts; PCA; the axes explain {shares[0]:.0%} and {shares[1]:.0%} of the variance"
    )
    np.testing.assert_array_equal(found.vectors, VECTORS)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_same_map_again(method: Any) -> None:
    first, again = (embeddings(VECTORS, NAMES, method=method) for _ in range(2))
    np.testing.assert_array_equal(first.coordinates, again.coordinates)
    assert (first.coordinates.dtype, first.coordinates.shape) == (np.float32, (12, 2))
    assert np.isfinite(first.coordinates).all()
    assert first.html == again.html


@one_backend
def test_every_kind_of_model() -> None:
    encoder = as_trained(BertEncoder(CONFIG))
    sentences = SentenceEncoder(encoder, tokenizer=TOKENIZER)
    expected = sentences.encode(TEXTS)
    models: dict[Any, Any] = {sentences: None, Predictor(sentences): None, encoder: TOKENIZER}
    for model, tokenizer in models.items():
        found = embeddings(model, TEXTS, tokenizer=tokenizer)
        # A SentenceEncoder scales its vectors to length 1.
        directions = found.vectors / np.linalg.norm(found.vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(directions, expected, atol=1e-5)
    assert embeddings(classifier(), TEXTS).vectors.shape == (6, CONFIG.hidden_size)
    with pytest.raises(ValueError, match="has no tokenizer"):
        embeddings(encoder, TEXTS)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_texts(count: int, tmp_path: Path) -> None:
    found = embeddings(VECTORS[:count], NAMES[:count], NAMES[:count])
    assert found.coordinates.shape == (count, 2)
    assert found.save(tmp_path / "a.png").stat().st_size > 1_000
    with pytest.raises(ValueError, match=f"needs 5 texts or more. Received: {count}.*method='pca'"):
        embeddings(VECTORS[:count], NAMES[:count], method="tsne")


@pytest.mark.parametrize("method", ["pca", "tsne"])
@pytest.mark.parametrize("vectors", [np.ones((5, 3)), np.arange(5.0)[:, None]])
def test_vectors_without_a_plane(method: Any, vectors: np.ndarray, tmp_path: Path) -> None:
    """Equal vectors, and vectors of one number."""
    found = embeddings(vectors, NAMES[:5], method=method)
    assert np.isfinite(found.coordinates).all()
    assert found.save(tmp_path / "a.png").stat().st_size > 1_000


def test_perplexity() -> None:
    assert "perplexity 3.67" in embeddings(VECTORS, NAMES, method="tsne").summary
    assert "perplexity 2 " in embeddings(VECTORS, NAMES, method="tsne", perplexity=2).summary
    for value in (0.5, 12):
        with pytest.raises(ValueError, match="from 1 to less than 12"):
            embeddings(VECTORS, NAMES, method="tsne", perplexity=value)


def test_what_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: Any
    for wrong, error, message in (
        ((VECTORS, "a"), TypeError, "`texts` must be a list"),
        ((VECTORS, []), ValueError, "a text or more"),
        ((VECTORS, [1] * 12), TypeError, "`texts` must be strings. Received: 1"),
        ((VECTORS, NAMES, "a"), TypeError, "`labels` must be a list"),
        ((VECTORS, NAMES, ["a"]), ValueError, "12 texts and 1 labels"),
        ((VECTORS[:3], NAMES), ValueError, r"12 texts and an array \[3, 5\]"),
        ((VECTORS[:, :0], NAMES), ValueError, r"an array \[12, 0\]"),
        (("a", NAMES), TypeError, "must make vectors"),
        ((VECTORS * np.nan, NAMES), NumericError, "vector of text 0 is not finite"),
    ):
        with pytest.raises(error, match=message):
            embeddings(*wrong)
    with pytest.raises(ValueError, match="`method` must be"):
        embeddings(VECTORS, NAMES, method="umap")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="at most 5,000 texts"):
        embeddings(np.ones((5001, 2)), ["a"] * 5001)
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    monkeypatch.setattr("sklearn.decomposition", None, raising=False)
    monkeypatch.delattr("sklearn.decomposition")
    with pytest.raises(ImportError, match=r"bert-keras\[finetune\]"):
        embeddings(VECTORS, NAMES)


def test_the_projector_gets_the_vectors(tmp_path: Path) -> None:
    folder = embeddings(VECTORS, NAMES, NAMES).save_projector(tmp_path / "p")
    np.testing.assert_allclose(
        np.loadtxt(folder / "tensors.tsv", delimiter="\t"), VECTORS, rtol=1e-5
    )
    assert (folder / "metadata.tsv").read_text(encoding="utf-8").count("\n") == 13
