"""Base of the losses of sentence vectors, their sum over several lengths, and similarities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from bert_keras import features

_TINY = 1e-12  # a vector that is shorter is divided by this length
_LEAST_SQUARE = 1e-16  # squared distance below which the gradient of a distance is 0


class VectorLoss(keras.losses.Loss):
    """A loss of sentence vectors, float [batch, texts, size]. Abstract.

    Attributes:
        least_texts: smallest number of texts of an example.
        most_texts: largest number; None for no limit.
        targets: kind of targets, such as `features.SCORES`.
    """

    least_texts: ClassVar[int] = 2
    most_texts: ClassVar[int | None] = 2
    targets: ClassVar[str] = features.NO_TARGETS

    def __init__(self, name: str, **options: Any):
        super().__init__(name=name, reduction="mean_with_sample_weight", dtype="float32")
        self._options = options

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the loss from."""
        return {**self._options, "name": self.name}


class WholeBatchLoss(VectorLoss):
    """A loss of a whole batch, which is not the mean of the losses of its examples. Abstract."""

    def call(self, y_true, y_pred):
        """Return the loss of a batch of examples of weight 1, a scalar."""
        return self.of_batch(y_true, y_pred, ops.ones(ops.shape(y_pred)[0]))

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Return the loss of a batch, a scalar.

        Args:
            y_true: targets of the examples.
            y_pred: vectors [batch, texts, size].
            sample_weight: float [batch]; None for 1 each.
        """
        y_pred = ops.cast(ops.convert_to_tensor(y_pred), self.dtype)
        weights = ops.ones(ops.shape(y_pred)[0]) if sample_weight is None else sample_weight
        weights = ops.cast(ops.convert_to_tensor(weights), self.dtype)
        return self.of_batch(ops.convert_to_tensor(y_true), y_pred, ops.reshape(weights, (-1,)))

    def of_batch(self, y_true, y_pred, weights):
        """Return the loss of a batch, a scalar, for weights [batch]."""
        raise NotImplementedError(f"{type(self).__name__} must define `of_batch`.")


# === Several lengths ===


@keras.saving.register_keras_serializable(package="bert_keras")
class MatryoshkaLoss(VectorLoss):
    """Sum of another loss over several lengths of the vectors (Kusupati et al., 2022).

    The vectors are cut to their first dimensions and scaled to the length 1. A model that was
    trained so can be used with `truncate_dim`.

    Args:
        loss: the loss of vectors of each length.
        dims: numbers of first dimensions, the full size included.
        weights: weight of each number; None for 1 each.
        name: name of the loss.
    """

    def __init__(
        self,
        loss: VectorLoss,
        dims: Sequence[int],
        *,
        weights: Sequence[float] | None = None,
        name: str = "matryoshka_loss",
    ):
        if not dims or any(dim < 1 for dim in dims) or len(set(dims)) < len(dims):
            raise ValueError(
                f"`dims` must be different numbers of at least 1. Received: dims={[*dims]}"
            )
        weights = [1.0] * len(dims) if weights is None else weights
        if len(weights) != len(dims):
            raise ValueError(
                "`weights` needs one number for each of `dims`. "
                f"Received: {len(weights)} weights, {len(dims)} dims"
            )
        super().__init__(name, dims=[*dims], weights=[*weights])
        self.loss, self.dims, self.weights = loss, tuple(dims), tuple(weights)
        self.least_texts, self.most_texts = loss.least_texts, loss.most_texts  # pyright: ignore
        self.targets = loss.targets  # pyright: ignore

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Return the loss of a batch, a scalar; see the loss of each length.

        Raises:
            ValueError: the vectors are shorter than one of `dims`.
        """
        if max(self.dims) > y_pred.shape[-1]:
            raise ValueError(
                f"The vectors have {y_pred.shape[-1]} dimensions. Pass no more as `dims`. "
                f"Received: dims={[*self.dims]}"
            )
        total = 0.0
        for dim, weight in zip(self.dims, self.weights, strict=True):
            cut = unit_length(y_pred[..., :dim])
            total = total + weight * self.loss(y_true, cut, sample_weight)
        return total

    def call(self, y_true, y_pred):
        """Return the loss of a batch; see `__call__`."""
        return self(y_true, y_pred)

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the loss from."""
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MatryoshkaLoss:
        """Rebuild the loss and the one of each length."""
        loss: Any = keras.saving.deserialize_keras_object(config["loss"])
        return cls(**{**config, "loss": loss})


# === Similarities ===


def unit_length(vectors):
    """Return vectors [..., size] with the length 1; a vector of zeros stays."""
    return ops.normalize(vectors, axis=-1, epsilon=_TINY)


def check_similarity(name: str) -> str:
    """Return the name of a similarity.

    Raises:
        ValueError: it is not one of `features.SIMILARITIES`.
    """
    if name not in features.SIMILARITIES:
        raise ValueError(
            f"`similarity` must be one of {', '.join(features.SIMILARITIES)}. "
            f"Received: similarity={name!r}"
        )
    return name


def similarities(firsts, seconds, name: str):
    """Return the similarity of vectors, [..., size] each and broadcast: [...].

    Distances are negative. The gradient of a distance of 0 is 0.
    """
    if name == "manhattan":
        return -ops.sum(ops.absolute(firsts - seconds), axis=-1)
    if name == "euclidean":
        return -distances(ops.sum(ops.square(firsts - seconds), axis=-1))
    if name == features.COSINE:
        firsts, seconds = unit_length(firsts), unit_length(seconds)
    return ops.sum(firsts * seconds, axis=-1)


def all_similarities(firsts, seconds, name: str = features.COSINE):
    """Return the similarity of each vector of one batch to each of another.

    Args:
        firsts: vectors [n, size].
        seconds: vectors [m, size].
        name: name of the similarity.

    Returns:
        float [n, m].
    """
    if name == "manhattan":
        return similarities(firsts[:, None], seconds[None], name)
    if name == features.COSINE:
        firsts, seconds = unit_length(firsts), unit_length(seconds)
    products = ops.matmul(firsts, ops.transpose(seconds))
    if name != "euclidean":
        return products
    first, second = (ops.sum(ops.square(x), axis=-1) for x in (firsts, seconds))
    return -distances(first[:, None] - 2.0 * products + second[None])


def distances(squares):
    """Return square roots of squared distances, with the gradient 0 where the distance is 0."""
    is_positive = squares > _LEAST_SQUARE
    return ops.where(is_positive, ops.sqrt(ops.where(is_positive, squares, 1.0)), 0.0)
