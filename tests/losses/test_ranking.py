"""Losses of rankings have the numbers of sentence-transformers, and metrics those of `metrics`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import losses
from bert_keras.losses import ranking
from bert_keras.metrics import text_ranking

COUNTS = np.array([5, 1, 3, 6, 2])
BATCH, WIDTH = len(COUNTS), int(COUNTS.max()) + 1  # one place is padding in every query
_RNG = np.random.default_rng(0)
SCORES = (3 * _RNG.standard_normal((BATCH, WIDTH))).astype(np.float32)
GRADES = _RNG.integers(0, 4, (BATCH, WIDTH)).astype(np.float32)
BINARY = (GRADES > 1).astype(np.float32)
TEACHER = _RNG.standard_normal((BATCH, WIDTH)).astype(np.float32)
WEIGHTS = (np.arange(WIDTH) < COUNTS[:, None]).astype(np.float32)

# Name -> our loss, targets, name of theirs, and their options.
CASES: dict[str, tuple[losses.RankingLoss, np.ndarray, str, dict[str, Any]]] = {
    "binary": (losses.BinaryRankingLoss(), BINARY, "BinaryCrossEntropyLoss", {}),
    "weighted": (losses.BinaryRankingLoss(3.0), BINARY, "BinaryCrossEntropyLoss", {"weight": 3.0}),
    "list_net": (losses.ListNetLoss(), GRADES, "ListNetLoss", {}),
    "lambda": (losses.LambdaLoss(), GRADES, "LambdaLoss", {}),
    "lambda, options": (
        losses.LambdaLoss(mu=2.0, sigma=0.5, k=2),
        GRADES,
        "LambdaLoss",
        {"scheme": ("NDCGLoss2PPScheme", {"mu": 2.0}), "sigma": 0.5, "k": 2},
    ),
    **{
        name: (losses.LambdaLoss(name), GRADES, "LambdaLoss", {"scheme": (scheme, {})})
        for name, scheme in (
            ("none", "NoWeightingScheme"),
            ("ndcg_loss1", "NDCGLoss1Scheme"),
            ("ndcg_loss2", "NDCGLoss2Scheme"),
            ("lambda_rank", "LambdaRankScheme"),
        )
    },
    "margin_mse": (losses.RankingMarginMSELoss(), TEACHER, "MarginMSELoss", {}),
}


def _theirs(
    name: str, options: dict[str, Any], targets: np.ndarray, counts: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the loss of sentence-transformers for `SCORES`, and its gradient."""
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("sentence_transformers.cross_encoder")
    module = package.losses
    logits = torch.tensor(SCORES, requires_grad=True)
    has_columns = name == "MarginMSELoss"  # a column for each document
    rows = (
        [(number, place) for place in range(int(counts[0])) for number in range(BATCH)]
        if has_columns
        else [(n, place) for n, count in enumerate(counts) for place in range(count)]
    )

    class Scores(package.CrossEncoder):
        """A model whose scores of the pairs are those of `SCORES`, in the order of the calls."""

        num_labels, device = 1, torch.device("cpu")

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.left = list(rows)

        def preprocess(self, pairs: Any, **_: Any) -> Any:
            taken, self.left = self.left[: len(pairs)], self.left[len(pairs) :]
            return {"rows": taken}

        def forward(self, inputs: Any, **_: Any) -> Any:
            return {"scores": torch.stack([logits[row] for row in inputs["rows"]])}

    options = dict(options)
    if "weight" in options:
        options["pos_weight"] = torch.tensor(options.pop("weight"))
    if "scheme" in options:
        scheme, values = options.pop("scheme")
        scheme = getattr(package.losses.lambda_loss, scheme)
        options["weighting_scheme"] = scheme(**values)
    loss = getattr(module, name)(Scores(), **options)
    labels = [torch.tensor(row[:count]) for row, count in zip(targets, counts, strict=True)]
    documents: Any = [["d"] * count for count in counts]
    inputs: Any = [["q"] * BATCH, documents]
    if name == "BinaryCrossEntropyLoss":
        inputs, labels = [["q"] * len(rows), ["d"] * len(rows)], torch.cat(labels)
    if has_columns:
        inputs = [["q"] * BATCH, *(["d"] * BATCH for _ in range(counts[0]))]
    value = loss(inputs, labels)
    value.backward()
    return float(value.detach()), logits.grad.numpy()


def _value_and_gradient(
    loss: Any, targets: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return our loss, compiled, and its gradient."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        @tf.function(jit_compile=True)
        def compute(scores: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(scores)
                value = loss(targets, scores, weights)
            return value, tape.gradient(value, scores)

        value, gradient = compute(tf.constant(SCORES))
    elif backend == "jax":
        import jax

        compute = jax.jit(jax.value_and_grad(lambda scores: loss(targets, scores, weights)))
        value, gradient = compute(SCORES)
    else:
        import torch

        scores = torch.tensor(SCORES, requires_grad=True)
        value = loss(targets, scores, weights)
        value.backward()
        value, gradient = value.detach(), scores.grad
    return float(ops.convert_to_numpy(value)), np.asarray(ops.convert_to_numpy(gradient))


def _eager(loss: Any, targets: np.ndarray, weights: np.ndarray | None) -> float:
    return float(ops.convert_to_numpy(loss(targets, SCORES, weights)))


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    loss, targets, theirs, options = CASES[name]
    counts, weights = COUNTS, WEIGHTS
    if theirs == "MarginMSELoss":  # theirs has no lists of different lengths
        counts = np.full(BATCH, WIDTH - 1)
        weights = np.ones_like(WEIGHTS)
        weights[:, -1] = 0
    wanted, wanted_gradient = _theirs(theirs, options, targets, counts)
    assert _eager(loss, targets, weights) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    value, gradient = _value_and_gradient(loss, targets, weights)
    assert value == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-4, atol=1e-6)
    again: Any = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert again.get_config() == loss.get_config()
    assert _eager(again, targets, weights) == _eager(loss, targets, weights)


@pytest.mark.parametrize("name", CASES)
def test_padding_and_queries_of_weight_0_change_nothing(name: str) -> None:
    loss, targets, *_ = CASES[name]
    weights = WEIGHTS.copy()
    weights[-2:] = 0
    rest = (targets[:-2], SCORES[:-2], WEIGHTS[:-2])
    wanted = float(ops.convert_to_numpy(loss(*rest)))
    changed = np.where(weights > 0, targets, 7.0).astype(np.float32)
    assert _eager(loss, changed, weights) == pytest.approx(wanted, rel=1e-6)
    assert _eager(loss, targets, 0 * weights) == 0
    assert _eager(loss, targets, None) == pytest.approx(
        float(ops.convert_to_numpy(loss.call(targets, SCORES))), rel=1e-6
    )


@pytest.mark.parametrize("name", [name for name in CASES if name != "margin_mse"])
def test_the_weight_of_a_query_is_that_of_as_many_queries(name: str) -> None:
    loss, targets, *_ = CASES[name]
    twice = [0, 0, 1, 2, 3, 4]
    wanted = float(ops.convert_to_numpy(loss(targets[twice], SCORES[twice], WEIGHTS[twice])))
    factors = np.array([2, 1, 1, 1, 1], np.float32)[:, None]
    assert _eager(loss, targets, factors * WEIGHTS) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("measure", ranking.MEASURES)
def test_metrics(measure: str, k: int) -> None:
    metric = losses.RankingMetric(measure, k)
    reference = {"ndcg": text_ranking.ndcg, "mrr": text_ranking.mean_reciprocal_rank}[measure]
    for rows in (slice(0, 3), slice(3, BATCH)):
        metric.update_state(GRADES[rows], SCORES[rows], WEIGHTS[rows])
    orders = [np.argsort(-SCORES[n, :count]).tolist() for n, count in enumerate(COUNTS)]
    gains = [dict(enumerate(GRADES[n, :count].tolist())) for n, count in enumerate(COUNTS)]
    wanted = reference(orders, gains, k)
    assert float(metric.result()) == pytest.approx(wanted, rel=1e-6)
    assert metric.name == f"{measure}_at_{k}"
    again: Any = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    again.update_state(GRADES, SCORES, WEIGHTS)
    assert float(again.result()) == pytest.approx(wanted, rel=1e-6)


BAD: dict[str, Callable[[], Any]] = {
    "`positive_weight`": lambda: losses.BinaryRankingLoss(0.0),
    "`weighting`": lambda: losses.LambdaLoss("ndcg"),
    "`k`": lambda: losses.LambdaLoss(k=0),
    "`sigma`": lambda: losses.LambdaLoss(sigma=0.0),
    "`measure`": lambda: losses.RankingMetric("map"),
}


@pytest.mark.parametrize("message", BAD)
def test_messages(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BAD[message]()
