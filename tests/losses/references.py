"""Losses of sentence vectors beside those of sentence-transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import losses

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
util = pytest.importorskip("sentence_transformers.util")

BATCH, SIZE = 7, 12


def vectors(texts: int, seed: int = 0, size: int = SIZE) -> np.ndarray:
    """Return vectors [BATCH, texts, size] of different lengths."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((BATCH, 1, size))
    return (shared + 1.5 * rng.standard_normal((BATCH, texts, size))).astype(np.float32)


def reference(loss: Any, y_true: np.ndarray, x: np.ndarray) -> float:
    """Return the loss of sentence-transformers for vectors [batch, texts, size]."""
    columns = [torch.tensor(x[:, text]) for text in range(x.shape[1])]
    return float(loss.compute_loss_from_embeddings(columns, torch.tensor(y_true)))


class Model:
    """The parts of a model of sentence-transformers that its losses read."""

    def get_embedding_dimension(self) -> int:
        return SIZE


def guided(**options: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return a reference of GISTEmbed, whose guide gives the vectors of the targets."""

    def compute(y_true: np.ndarray, x: np.ndarray) -> float:
        loss: Any = object.__new__(theirs.GISTEmbedLoss)
        torch.nn.Module.__init__(loss)
        own = [torch.tensor(x[:, text]) for text in range(x.shape[1])]
        guides = [torch.tensor(y_true[:, text]) for text in range(x.shape[1])]
        queue = [own, guides]
        module = inspect.getmodule(theirs.GISTEmbedLoss)
        original = module.embed_columns  # type: ignore[union-attr]
        module.embed_columns = lambda *_: queue.pop(0)  # type: ignore[union-attr]
        loss.model = loss.guide = None
        loss.must_retokenize, loss.gather_across_devices = False, False
        loss.cross_entropy_loss = torch.nn.CrossEntropyLoss()
        loss.similarity_fct = torch.nn.CosineSimilarity(dim=-1)
        values = {
            "temperature": 0.01,
            "margin_strategy": "absolute",
            "margin": 0.0,
            "contrast_anchors": True,
            "contrast_positives": True,
            **options,
        }
        for name, value in values.items():
            setattr(loss, name, value)
        try:
            return float(loss([{}] * x.shape[1], None))
        finally:
            module.embed_columns = original  # type: ignore[union-attr]

    return compute


def like(loss: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return a reference that calls a loss of sentence-transformers."""
    return lambda y_true, x: reference(loss, y_true, x)


def ranking(**options: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    return like(theirs.MultipleNegativesRankingLoss(None, **options))


SYMMETRIC: dict[str, Any] = {
    "directions": ("query_to_doc", "doc_to_query"),
    "partition_mode": "per_direction",
}
COSINE = theirs.BatchHardTripletLossDistanceFunction.cosine_distance
EUCLIDEAN = theirs.BatchHardTripletLossDistanceFunction.euclidean_distance
TRIPLET = theirs.TripletDistanceMetric
SCORES = np.array([0.1, 0.9, 0.5, 0.5, 1.0, 0.0, 0.3], np.float32)
CLASSES = np.array([0, 1, 0, 2, 1, 0, 1])
NONE = np.zeros(BATCH, np.float32)
TEACHER = np.random.default_rng(5).standard_normal((BATCH, 3)).astype(np.float32)
GUIDE = vectors(3, seed=9, size=5)


def matryoshka(inner: Any, y_true: np.ndarray, x: np.ndarray) -> float:
    """Return the sum of a loss over vectors cut to 4, 8 and 12 dimensions."""
    total = 0.0
    for dim, weight in ((4, 0.5), (8, 1.0), (12, 2.0)):
        cut = torch.nn.functional.normalize(torch.tensor(x[..., :dim]), dim=-1).numpy()
        total += weight * reference(inner, y_true, cut)
    return total


# Name -> our loss, number of texts, targets, the reference.
CASES: dict[str, tuple[losses.VectorLoss, int, np.ndarray, Callable[..., float]]] = {
    "in batch": (losses.InBatchLoss(), 2, NONE, ranking()),
    "negatives": (losses.InBatchLoss(7.0), 4, NONE, ranking(scale=7.0)),
    "symmetric": (losses.InBatchLoss(symmetric=True), 3, NONE, ranking(**SYMMETRIC)),
    "dot": (
        losses.InBatchLoss(1.0, similarity="dot"),
        3,
        NONE,
        ranking(scale=1.0, similarity_fct=util.dot_score),
    ),
    "euclidean in batch": (
        losses.InBatchLoss(1.0, similarity="euclidean"),
        3,
        NONE,
        ranking(scale=1.0, similarity_fct=util.euclidean_sim),
    ),
    "guided": (losses.GuidedInBatchLoss(), 2, GUIDE[:, :2], guided()),
    "guided, margin": (
        losses.GuidedInBatchLoss(20.0, margin=0.2, relative=True, compare=()),
        3,
        GUIDE,
        guided(
            temperature=0.05,
            margin=0.2,
            margin_strategy="relative",
            contrast_anchors=False,
            contrast_positives=False,
        ),
    ),
    "cosent": (losses.CosentLoss(), 2, SCORES, like(theirs.CoSENTLoss(None))),
    "contrastive": (
        losses.ContrastiveLoss(0.7),
        2,
        (SCORES > 0.4).astype(np.float32),
        like(theirs.ContrastiveLoss(None, margin=0.7)),
    ),
    "triplet": (
        losses.TripletLoss(0.3),
        3,
        NONE,
        like(theirs.TripletLoss(None, TRIPLET.COSINE, 0.3)),
    ),
    "euclidean triplet": (
        losses.TripletLoss(5, similarity="euclidean"),
        3,
        NONE,
        like(theirs.TripletLoss(None)),
    ),
    "hard": (
        losses.BatchTripletLoss(0.3),
        1,
        CLASSES,
        like(theirs.BatchHardTripletLoss(None, COSINE, 0.3)),
    ),
    "hard, euclidean": (
        losses.BatchTripletLoss(5.0, similarity="euclidean"),
        1,
        CLASSES,
        like(theirs.BatchHardTripletLoss(None)),
    ),
    "hard, one class": (
        losses.BatchTripletLoss(5.0, similarity="euclidean"),
        1,
        CLASSES * 0,
        like(theirs.BatchHardTripletLoss(None)),
    ),
    "soft": (
        losses.BatchTripletLoss(mining="soft"),
        1,
        CLASSES,
        like(theirs.BatchHardSoftMarginTripletLoss(None, COSINE)),
    ),
    "semi-hard": (
        losses.BatchTripletLoss(5.0, mining="semi_hard", similarity="euclidean"),
        1,
        CLASSES,
        like(theirs.BatchSemiHardTripletLoss(None, EUCLIDEAN, 5.0)),
    ),
    "semi-hard, small margin": (
        losses.BatchTripletLoss(0.2, mining="semi_hard"),
        1,
        CLASSES,
        like(theirs.BatchSemiHardTripletLoss(None, COSINE, 0.2)),
    ),
    "margins": (losses.MarginMSELoss(), 4, TEACHER, like(theirs.MarginMSELoss(None))),
    "divergence": (
        losses.KLDivergenceLoss(2.0),
        4,
        TEACHER,
        like(theirs.DistillKLDivLoss(None, temperature=2.0)),
    ),
    "matryoshka": (
        losses.MatryoshkaLoss(losses.InBatchLoss(), [12, 4, 8], weights=[2.0, 0.5, 1.0]),
        3,
        NONE,
        lambda y_true, x: matryoshka(theirs.MultipleNegativesRankingLoss(None), y_true, x),
    ),
    "matryoshka of scores": (
        losses.MatryoshkaLoss(losses.CosentLoss(), [12, 4, 8], weights=[2.0, 0.5, 1.0]),
        2,
        SCORES,
        lambda y_true, x: matryoshka(theirs.CoSENTLoss(None), y_true, x),
    ),
}


def of_module(module: Any) -> list[str]:
    """Return the names of the cases whose loss is defined in a module."""
    return [name for name, (loss, *_) in CASES.items() if type(loss).__module__ == module.__name__]


def value(loss: Any, *arguments: Any) -> float:
    """Return the loss of targets, vectors and perhaps weights."""
    return float(ops.convert_to_numpy(loss(*arguments)))


def check(name: str) -> None:
    """Check the numbers, the config and the weights of a case."""
    loss, texts, y_true, compute = CASES[name]
    x = vectors(texts)
    assert value(loss, y_true, x) == pytest.approx(compute(y_true, x), rel=1e-6, abs=1e-6)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert again.get_config() == loss.get_config()
    assert value(again, y_true, x) == value(loss, y_true, x)
    assert loss.least_texts <= texts <= (loss.most_texts or texts)
    # Examples of weight 0 have no loss. In-batch losses keep their texts as wrong answers.
    weights = np.array([1, 1, 1, 1, 1, 0, 0], np.float32)
    found = value(loss, y_true, x, weights)
    inner = getattr(loss, "loss", loss)
    if isinstance(inner, losses.InBatchLoss | losses.GuidedInBatchLoss):
        assert found != value(loss, y_true, x)
    else:
        assert found == pytest.approx(value(loss, y_true[:5], x[:5]), rel=1e-6)
