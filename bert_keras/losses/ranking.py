"""Losses and metrics of the scores of a query's documents, for `TextRanker`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

_LOW = -1e16  # score of padding, which is behind all documents

RELEVANCE = "relevance"  # a number for each document, higher for a better one
TEACHER = "teacher"  # the score of a teacher for each document


class RankingLoss(keras.losses.Loss):
    """A loss of the scores of documents, float [batch, documents]. Abstract.

    Lists of different lengths are padded. Padding has the sample weight 0. The weight of a query is
    the largest one of its documents.

    Attributes:
        targets: kind of targets: "relevance" or "teacher".
        least_documents: smallest number of documents of a query.
        highest: highest target, where the lowest is 0; None for any numbers.
    """

    targets: ClassVar[str] = RELEVANCE
    least_documents: ClassVar[int] = 1
    highest: ClassVar[float | None] = None

    def __init__(self, name: str, **options: Any):
        super().__init__(name=name, reduction="mean_with_sample_weight", dtype="float32")
        self._options = options

    @staticmethod
    def of(loss: Any) -> RankingLoss:
        """Return a loss by its name, by its config, or as it is.

        Args:
            loss: "binary", "list_net", "lambda" or "margin_mse"; a config; or a loss.

        Raises:
            ValueError: an unknown name, or a loss that is not of rankings.
        """
        if isinstance(loss, Mapping):
            loss = keras.saving.deserialize_keras_object({**loss})
        if isinstance(loss, str) and loss in NAMED:
            return NAMED[loss]()
        if not isinstance(loss, RankingLoss):
            raise ValueError(
                f"`loss` must be one of {', '.join(NAMED)}, or a ranking loss of "
                f"`bert_keras.losses`. Received: loss={loss!r}"
            )
        return loss

    def call(self, y_true, y_pred):
        """Return the loss of a batch without padding, a scalar."""
        y_pred = ops.convert_to_tensor(y_pred)
        return self.of_batch(ops.cast(y_true, y_pred.dtype), y_pred, ops.ones_like(y_pred))

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Return the loss of a batch, a scalar.

        Args:
            y_true: targets [batch, documents].
            y_pred: scores [batch, documents].
            sample_weight: float [batch, documents], 0 for padding; float [batch] for weights of
                queries; None for 1 each.
        """
        y_pred = ops.cast(ops.convert_to_tensor(y_pred), self.dtype)
        y_true = ops.cast(ops.convert_to_tensor(y_true), self.dtype)
        return self.of_batch(y_true, y_pred, document_weights(y_pred, sample_weight))

    def of_batch(self, y_true, y_pred, weights):
        """Return the loss of a batch, a scalar, for weights [batch, documents]."""
        raise NotImplementedError(f"{type(self).__name__} must define `of_batch`.")

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the loss from."""
        return {**self._options, "name": self.name}


def document_weights(scores, sample_weight=None):
    """Return the weight of each document, [batch, documents], in the dtype of the scores.

    Args:
        scores: float [batch, documents].
        sample_weight: weights of documents, [batch, documents], or of queries, [batch]; None for 1.
    """
    if sample_weight is None:
        return ops.ones_like(scores)
    weights = ops.cast(ops.convert_to_tensor(sample_weight), scores.dtype)
    if len(weights.shape) == 1:
        weights = weights[:, None]
    return weights * ops.ones_like(scores)


def _mean(values, weights):
    """Return the weighted mean of all values, a scalar; 0 if no weight is above 0."""
    return ops.divide_no_nan(ops.sum(values * weights), ops.sum(weights))


@keras.saving.register_keras_serializable(package="bert_keras")
class BinaryRankingLoss(RankingLoss):
    """Binary cross-entropy of the sigmoid of each score (Nogueira & Cho, 2019, §3.2).

    The relevance of a document is a number from 0 to 1. The loss is the mean over the documents.

    Args:
        positive_weight: factor of the loss of relevant documents, where irrelevant ones are many.
        name: name of the loss.
    """

    highest = 1.0

    def __init__(self, positive_weight: float = 1.0, *, name: str = "binary_ranking_loss"):
        if not positive_weight > 0:
            raise ValueError(
                f"`positive_weight` must be above 0. Received: positive_weight={positive_weight}"
            )
        super().__init__(name, positive_weight=positive_weight)
        self.positive_weight = positive_weight

    def of_batch(self, y_true, y_pred, weights):
        """Return the mean loss of all documents; see `RankingLoss`."""
        relevant, irrelevant = ops.softplus(-y_pred), ops.softplus(y_pred)
        losses = self.positive_weight * y_true * relevant + (1.0 - y_true) * irrelevant
        return _mean(losses, weights)


@keras.saving.register_keras_serializable(package="bert_keras")
class ListNetLoss(RankingLoss):
    """Cross-entropy of the softmax over a query's documents (ListNet; Cao et al., 2007, §5).

    The targets are the softmax of the relevances. The loss is the mean over the queries.

    Args:
        name: name of the loss.
    """

    def __init__(self, *, name: str = "list_net_loss"):
        super().__init__(name)

    def of_batch(self, y_true, y_pred, weights):
        """Return the mean loss of the queries; see `RankingLoss`."""
        counts = weights > 0
        wanted = ops.softmax(ops.where(counts, y_true, _LOW), axis=-1)
        logs = ops.log_softmax(ops.where(counts, y_pred, _LOW), axis=-1)
        losses = -ops.sum(ops.where(counts, wanted * logs, 0.0), axis=-1)
        return _mean(losses, ops.max(weights, axis=-1))


NO_WEIGHTING, NDCG1, NDCG2, NDCG2_PLUS, LAMBDA_RANK = (
    *("none", "ndcg_loss1", "ndcg_loss2", "ndcg_loss2++"),
    "lambda_rank",
)
WEIGHTINGS = (NO_WEIGHTING, NDCG1, NDCG2, NDCG2_PLUS, LAMBDA_RANK)
_LEAST_GAIN = 1e-10  # best gain of a query without relevant documents
_MOST = 1e8  # largest difference of two scores


@keras.saving.register_keras_serializable(package="bert_keras")
class LambdaLoss(RankingLoss):
    """Loss of pairs of documents, weighted by what their order changes (LambdaLoss).

    For each two documents of a query of which the first is more relevant, the loss is -log2 of the
    sigmoid of the difference of their scores (Wang et al., 2018, §4). Weights come from the gains
    2^relevance - 1 and from the ranks by the current scores. The loss is the mean over the pairs.

    Args:
        weighting: weight of a pair. "ndcg_loss1", "ndcg_loss2" and "ndcg_loss2++" bound nDCG (§5),
            "lambda_rank" is the change of nDCG if the two change places (Burges et al., 2006), and
            "none" is 1.
        k: number of first ranks. A pair counts if one of its documents is among them. None: all.
        sigma: factor of the differences.
        mu: weight of "ndcg_loss2" within "ndcg_loss2++".
        name: name of the loss.
    """

    least_documents = 2

    def __init__(
        self,
        weighting: str = NDCG2_PLUS,
        *,
        k: int | None = None,
        sigma: float = 1.0,
        mu: float = 10.0,
        name: str = "lambda_loss",
    ):
        if weighting not in WEIGHTINGS:
            raise ValueError(
                f"`weighting` must be one of {', '.join(WEIGHTINGS)}. "
                f"Received: weighting={weighting!r}"
            )
        if k is not None and k < 1:
            raise ValueError(f"`k` must be at least 1, or None for all ranks. Received: k={k}")
        if not sigma > 0 or not mu > 0:
            raise ValueError(f"`sigma` and `mu` must be above 0. Received: {sigma=}, {mu=}")
        super().__init__(name, weighting=weighting, k=k, sigma=sigma, mu=mu)
        self.weighting, self.k, self.sigma, self.mu = weighting, k, sigma, mu

    def of_batch(self, y_true, y_pred, weights):
        """Return the mean loss of the pairs; see `RankingLoss`."""
        scores, labels, counts = by_score(y_true, y_pred, weights)
        positions = ops.arange(1, ops.shape(scores)[1] + 1)
        discounts = ops.log2(1.0 + ops.cast(positions, scores.dtype))[None]
        k = self.k or ops.shape(scores)[1]
        is_first = positions <= k
        # === Pairs of documents [batch, documents, documents], by their ranks ===
        pairs = ops.logical_and(counts[:, :, None], counts[:, None])
        pairs = ops.logical_and(pairs, ops.logical_or(is_first[:, None], is_first[None])[None])
        if self.weighting != NDCG1:
            pairs = ops.logical_and(pairs, labels[:, :, None] > labels[:, None])
        gains = ops.where(counts, 2.0 ** ops.maximum(labels, 0.0) - 1.0, 0.0)
        best = ops.flip(ops.sort(gains, axis=-1), axis=-1) / discounts
        best = ops.sum(ops.where(is_first[None], best, 0.0), axis=-1, keepdims=True)
        gains = gains / ops.maximum(best, _LEAST_GAIN)
        differences = ops.clip(scores[:, :, None] - scores[:, None], -_MOST, _MOST)
        losses = -ops.log_sigmoid(self.sigma * differences) / math.log(2)
        losses = losses * self._weights(gains, discounts, positions)
        # Places of padding have no finite weights to multiply by 0.
        losses = ops.where(pairs, losses, 0.0)
        query_weights = ops.max(weights, axis=-1)[:, None, None]
        return _mean(losses, ops.cast(pairs, losses.dtype) * query_weights)

    def _weights(self, gains, discounts, positions):
        """Return the weight of each pair, broadcast to [batch, documents, documents]."""
        if self.weighting == NO_WEIGHTING:
            return ops.ones_like(gains)[:, :, None]
        if self.weighting == NDCG1:
            return (gains / discounts)[:, :, None]
        changes = ops.absolute(gains[:, :, None] - gains[:, None])
        inverse = 1.0 / discounts
        swapped = ops.absolute(inverse[:, :, None] - inverse[:, None])
        if self.weighting == LAMBDA_RANK:
            return swapped * changes
        apart = ops.cast(ops.absolute(positions[:, None] - positions[None]), gains.dtype)
        near, far = (ops.log2(ops.maximum(apart, 1.0) + more) for more in (1.0, 2.0))
        deltas = ops.where(apart > 0, ops.absolute(1.0 / near - 1.0 / far), 0.0)[None]
        if self.weighting == NDCG2:
            return deltas * changes
        return (self.mu * deltas + swapped) * changes


@keras.saving.register_keras_serializable(package="bert_keras")
class RankingMarginMSELoss(RankingLoss):
    """Squared error of margins to those of a teacher (Hofstätter et al., 2020, §3.2).

    A margin is the score of the first document, which is relevant, less that of another one. The
    targets are scores of the teacher. The loss is the mean over the margins.

    Args:
        name: name of the loss.
    """

    targets = TEACHER
    least_documents = 2

    def __init__(self, *, name: str = "ranking_margin_mse_loss"):
        super().__init__(name)

    def of_batch(self, y_true, y_pred, weights):
        """Return the mean loss of all margins; see `RankingLoss`."""
        own, teacher = (values[:, :1] - values[:, 1:] for values in (y_pred, y_true))
        counts = ops.where(weights[:, :1] > 0, weights[:, 1:], 0.0)
        return _mean(ops.square(own - teacher), counts)


# Name of a loss -> its class, whose arguments have defaults.
NAMED: dict[str, Callable[[], RankingLoss]] = {
    "binary": BinaryRankingLoss,
    "list_net": ListNetLoss,
    "lambda": LambdaLoss,
    "margin_mse": RankingMarginMSELoss,
}


# === Metrics ===


def by_score(y_true, y_pred, weights):
    """Return scores, targets and whether a place counts, the highest score first: [batch, n] each.

    Places of weight 0 are behind all others.
    """
    counts = weights > 0
    scores = ops.where(counts, y_pred, _LOW)
    order = ops.argsort(-ops.stop_gradient(scores), axis=-1)
    sorted_counts = ops.take_along_axis(ops.cast(counts, "int32"), order, axis=-1) > 0
    scores, labels = (ops.take_along_axis(values, order, axis=-1) for values in (scores, y_true))
    return scores, labels, sorted_counts


MEASURES = ("ndcg", "mrr")


@keras.saving.register_keras_serializable(package="bert_keras")
class RankingMetric(keras.metrics.Mean):
    """Mean over the queries of a measure of their rankings, as `metrics.text_ranking` defines it.

    Args:
        measure: "ndcg", or "mrr" for the reciprocal rank of the first relevant document. Documents
            with a relevance above 0 are relevant.
        k: number of first documents that count.
        name: name of the metric; None for one such as "ndcg_at_10".
        dtype: dtype of the mean.
    """

    def __init__(
        self, measure: str = "ndcg", k: int = 10, *, name: str | None = None, dtype: Any = None
    ):
        if measure not in MEASURES or k < 1:
            raise ValueError(
                f"`measure` must be one of {', '.join(MEASURES)}, and `k` at least 1. "
                f"Received: measure={measure!r}, k={k}"
            )
        super().__init__(name=name or f"{measure}_at_{k}", dtype=dtype)
        self.measure, self.k = measure, k

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Add a batch of queries.

        Args:
            y_true: relevance of the documents, [batch, documents].
            y_pred: scores [batch, documents].
            sample_weight: as for `RankingLoss`.
        """
        y_pred = ops.cast(ops.convert_to_tensor(y_pred), "float32")
        weights = document_weights(y_pred, sample_weight)
        y_true = ops.cast(ops.convert_to_tensor(y_true), y_pred.dtype)
        _, gains, counts = by_score(y_true, y_pred, weights)
        gains = ops.where(counts, ops.maximum(gains, 0.0), 0.0)
        ranks = ops.cast(ops.arange(1, ops.shape(gains)[1] + 1), gains.dtype)[None]
        is_first = ranks <= self.k
        if self.measure == "mrr":
            hits = ops.logical_and(gains > 0, is_first)
            values = ops.max(ops.where(hits, 1.0 / ranks, 0.0), axis=-1)
        else:
            discounts = ops.where(is_first, 1.0 / ops.log2(1.0 + ranks), 0.0)
            best = ops.sum(ops.flip(ops.sort(gains, axis=-1), axis=-1) * discounts, axis=-1)
            values = ops.divide_no_nan(ops.sum(gains * discounts, axis=-1), best)
        return super().update_state(values, ops.max(weights, axis=-1))

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the metric from."""
        return {"measure": self.measure, "k": self.k, "name": self.name, "dtype": self.dtype}
