"""Losses of pairs and triplets of texts, and of texts with a class."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras import features
from bert_keras.losses.vector_loss import (
    VectorLoss,
    WholeBatchLoss,
    all_similarities,
    check_similarity,
    similarities,
)

_NONE = -1e30  # exponent of a comparison that does not count


def _check_margin(margin: float) -> float:
    """Return a margin. Raise `ValueError` if it is not above 0."""
    if not margin > 0:
        raise ValueError(f"`margin` must be above 0. Received: margin={margin}")
    return margin


@keras.saving.register_keras_serializable(package="bert_keras")
class CosentLoss(WholeBatchLoss):
    """Loss of the order of scored pairs (CoSENT; Huang et al., 2024).

    It is log(1 + the sum of exp(scale * (cosine of a pair - cosine of a higher pair))) over all two
    pairs of the batch with different scores. It learns the order of the scores, not their values.

    A comparison weighs as much as the product of the sample weights of its pairs.

    Args:
        scale: factor of the cosines.
        similarity: measure between two vectors, a name of `features.SIMILARITIES`.
        name: name of the loss.
    """

    targets = features.SCORES

    def __init__(
        self,
        scale: float = 20.0,
        *,
        similarity: str = features.COSINE,
        name: str = "cosent_loss",
    ):
        if not scale > 0:
            raise ValueError(f"`scale` must be above 0. Received: scale={scale}")
        super().__init__(name, scale=scale, similarity=check_similarity(similarity))
        self.scale, self.similarity = scale, similarity

    def of_batch(self, y_true, y_pred, weights):
        """Return the loss of scored pairs, a scalar.

        Args:
            y_true: scores [batch].
            y_pred: vectors [batch, 2, size].
            weights: weight of each pair, [batch].
        """
        scores = ops.reshape(ops.cast(y_true, y_pred.dtype), (-1,))
        found = self.scale * similarities(y_pred[:, 0], y_pred[:, 1], self.similarity)
        product = weights[:, None] * weights[None]
        # Row i has the comparisons of pair i with the pairs of higher scores.
        counts = ops.logical_and(scores[:, None] < scores[None], product > 0)
        weight = ops.log(ops.where(counts, product, 1.0))
        exponents = ops.where(counts, found[:, None] - found[None] + weight, _NONE)
        return ops.logaddexp(ops.logsumexp(ops.reshape(exponents, (-1,))), 0.0)


@keras.saving.register_keras_serializable(package="bert_keras")
class ContrastiveLoss(VectorLoss):
    """Loss of pairs that belong together, 1, or do not, 0 (Hadsell et al., 2006).

    It is half the squared distance of the first kind, and half the squared rest of the margin of
    the second. The distance is 1 - cosine.

    Args:
        margin: distance from which pairs that do not belong together have no loss.
        name: name of the loss.
    """

    targets = features.SCORES

    def __init__(self, margin: float = 0.5, *, name: str = "contrastive_loss"):
        super().__init__(name, margin=_check_margin(margin))
        self.margin = margin

    def call(self, y_true, y_pred):
        """Return the losses [batch], for labels [batch] and vectors [batch, 2, size]."""
        labels = ops.reshape(ops.cast(y_true, y_pred.dtype), (-1,))
        distance = 1.0 - similarities(y_pred[:, 0], y_pred[:, 1], features.COSINE)
        rest = ops.maximum(self.margin - distance, 0.0)
        return (labels * ops.square(distance) + (1.0 - labels) * ops.square(rest)) / 2


@keras.saving.register_keras_serializable(package="bert_keras")
class TripletLoss(VectorLoss):
    """Loss of triplets: a text, one that belongs to it, and one that does not (SBERT, §3).

    It is the margin less how much the text is more similar to the second than to the third, and
    at least 0.

    Args:
        margin: difference of the similarities from which a triplet has no loss.
        similarity: measure between two vectors, a name of `features.SIMILARITIES`.
        name: name of the loss.
    """

    least_texts = 3
    most_texts = 3

    def __init__(
        self,
        margin: float = 0.5,
        *,
        similarity: str = features.COSINE,
        name: str = "triplet_loss",
    ):
        super().__init__(
            name, margin=_check_margin(margin), similarity=check_similarity(similarity)
        )
        self.margin, self.similarity = margin, similarity

    def call(self, y_true, y_pred):
        """Return the losses [batch] of vectors [batch, 3, size]."""
        del y_true
        right, wrong = (
            similarities(y_pred[:, 0], y_pred[:, text], self.similarity) for text in (1, 2)
        )
        return ops.maximum(wrong - right + self.margin, 0.0)


# === Texts with a class ===

HARD, SEMI_HARD, SOFT = "hard", "semi_hard", "soft"
MINING = (HARD, SEMI_HARD, SOFT)


@keras.saving.register_keras_serializable(package="bert_keras")
class BatchTripletLoss(WholeBatchLoss):
    """Triplet loss of texts with classes, whose triplets are found in the batch.

    A triplet is a text, one of its class and one of another class. Distances are negative
    similarities, or 1 - cosine.

    Args:
        margin: difference of the distances from which a triplet has no loss.
        mining: triplets of each text. "hard": the farthest text of the class and the nearest of
            another (Hermans et al., 2017). "soft": the same without a margin, by log(1 + exp(x)).
            "semi_hard": for each text of the class, the nearest of another class that is farther
            away, else the farthest one (Schroff et al., 2015).
        similarity: measure between two vectors: "cosine", or the distances "euclidean" and
            "manhattan".
        name: name of the loss.
    """

    least_texts = 1
    most_texts = 1
    targets = features.CLASSES

    def __init__(
        self,
        margin: float = 0.5,
        *,
        mining: str = HARD,
        similarity: str = features.COSINE,
        name: str = "batch_triplet_loss",
    ):
        if mining not in MINING:
            raise ValueError(
                f"`mining` must be one of {', '.join(MINING)}. Received: mining={mining!r}"
            )
        if check_similarity(similarity) == "dot":
            raise ValueError("A triplet of a batch needs a distance. Received: similarity='dot'")
        super().__init__(name, margin=_check_margin(margin), mining=mining, similarity=similarity)
        self.margin, self.mining, self.similarity = margin, mining, similarity

    def of_batch(self, y_true, y_pred, weights):
        """Return the loss of texts with classes, a scalar.

        Args:
            y_true: class numbers [batch].
            y_pred: vectors [batch, 1, size].
            weights: weight of each text, [batch]; a text of weight 0 is in no triplet.
        """
        classes = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        vectors = y_pred[:, 0]
        distance = -all_similarities(vectors, vectors, self.similarity)
        if self.similarity == features.COSINE:
            distance = 1.0 + distance
        used = weights > 0
        both = ops.logical_and(used[:, None], used[None])
        same_class = classes[:, None] == classes[None]
        itself = ops.eye(ops.shape(vectors)[0], dtype="bool")
        distance = ops.where(itself, 0.0, distance)  # without rounding
        positive = ops.logical_and(ops.logical_and(same_class, ops.logical_not(itself)), both)
        negative = ops.logical_and(ops.logical_not(same_class), both)
        if self.mining == SEMI_HARD:
            losses, triplet_weights = self._semi_hard(distance, positive, negative, weights)
        else:
            farthest = ops.max(ops.where(positive, distance, 0.0), axis=1)
            # Without a text of another class, the nearest one is as far as all together.
            most = ops.max(ops.where(both, distance, 0.0), axis=1, keepdims=True)
            nearest = ops.min(ops.where(negative, distance, distance + most), axis=1)
            excess = farthest - nearest
            is_soft = self.mining == SOFT
            losses = ops.softplus(excess) if is_soft else ops.relu(excess + self.margin)
            triplet_weights = weights
        return ops.divide_no_nan(ops.sum(losses * triplet_weights), ops.sum(triplet_weights))

    def _semi_hard(self, distance, positive, negative, weights):
        """Return the losses of all texts and texts of their class, and their weights [n, n]."""
        # farther[i, j, k]: k is of another class than i, and farther from i than j is.
        farther = ops.logical_and(negative[:, None], distance[:, None] > distance[:, :, None])
        nearest = ops.min(ops.where(farther, distance[:, None], -_NONE), axis=2)
        farthest = ops.max(ops.where(negative, distance, _NONE), axis=1, keepdims=True)
        has_farther = ops.any(farther, axis=2)
        # Where all texts have one class, the other distance is the least.
        least = ops.min(distance, axis=1, keepdims=True)
        farthest = ops.where(ops.any(negative, axis=1, keepdims=True), farthest, least)
        chosen = ops.where(has_farther, nearest, farthest)
        losses = ops.relu(distance - chosen + self.margin)
        return losses, ops.cast(positive, distance.dtype) * weights[:, None]
