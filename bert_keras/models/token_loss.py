"""Cross-entropy and accuracy of many classes, with no vector of as many zeros for each label."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_keras.layers import kernels


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenLoss(keras.losses.Loss):
    """Mean negative log-likelihood, in nats, of labels that are whole numbers, from logits.

    As `keras.losses.SparseCategoricalCrossentropy`, but that the mean is over the weights, so that
    what has weight 0 does not count, and in fewer passes over the logits.
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "token_loss"):
        # Whatever Keras's `floatx`: it casts labels too, and half precision has few whole numbers.
        super().__init__(name=name, reduction=reduction, dtype="float32")

    def label_classes(self, shape: tuple[int | None, ...]) -> int | None:
        """Return the number of classes of the labels, from the shape of the output."""
        return shape[-1]

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Labels [...] and logits [..., classes] -> losses [...]."""
        return kernels.token_losses(ops.cast(y_true, "int32"), y_pred)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"reduction": self.reduction, "name": self.name}


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of labels, whole numbers, whose logit is the highest."""

    def __init__(self, name: str = "accuracy", dtype: Any = None):
        super().__init__(_matches, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}


def _matches(labels: Any, logits: Any) -> Any:
    return kernels.is_highest(ops.cast(labels, "int32"), ops.convert_to_tensor(logits))
