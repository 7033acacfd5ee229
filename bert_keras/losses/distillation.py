"""Losses that teach an encoder the scores of a cross-encoder."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras import features
from bert_keras.losses.vector_loss import (
    VectorLoss,
    check_similarity,
    similarities,
)


@keras.saving.register_keras_serializable(package="bert_keras")
class MarginMSELoss(VectorLoss):
    """Squared error of margins to those of a teacher (Hofstätter et al., 2021).

    A margin is the similarity of a text to its own answer, less that to another text.

    Args:
        similarity: measure between two vectors, a name of `features.SIMILARITIES`.
        name: name of the loss.
    """

    least_texts = 3
    most_texts = None
    targets = features.TEACHER_SCORES

    def __init__(self, similarity: str = "dot", *, name: str = "margin_mse_loss"):
        super().__init__(name, similarity=check_similarity(similarity))
        self.similarity = similarity

    def call(self, y_true, y_pred):
        """Return the losses [batch].

        Args:
            y_true: scores of the teacher for the text and each further one, [batch, texts - 1].
            y_pred: vectors [batch, texts, size].
        """
        scores = similarities(y_pred[:, :1], y_pred[:, 1:], self.similarity)
        teacher = ops.cast(y_true, scores.dtype)
        margins, own = (values[:, :1] - values[:, 1:] for values in (scores, teacher))
        return ops.mean(ops.square(margins - own), axis=-1)


@keras.saving.register_keras_serializable(package="bert_keras")
class KLDivergenceLoss(VectorLoss):
    """Divergence of the softmax over an example's texts from that of a teacher, in nats.

    Args:
        temperature: number that the scores are divided by before the softmax. The loss is
            multiplied by its square (Hinton et al., 2015).
        similarity: measure between two vectors, a name of `features.SIMILARITIES`.
        name: name of the loss.
    """

    least_texts = 3
    most_texts = None
    targets = features.TEACHER_SCORES

    def __init__(
        self,
        temperature: float = 1.0,
        *,
        similarity: str = "dot",
        name: str = "kl_divergence_loss",
    ):
        if not temperature > 0:
            raise ValueError(f"`temperature` must be above 0. Received: temperature={temperature}")
        super().__init__(name, temperature=temperature, similarity=check_similarity(similarity))
        self.temperature, self.similarity = temperature, similarity

    def call(self, y_true, y_pred):
        """Return the losses [batch].

        Args:
            y_true: scores of the teacher for the text and each further one, [batch, texts - 1].
            y_pred: vectors [batch, texts, size].
        """
        scores = similarities(y_pred[:, :1], y_pred[:, 1:], self.similarity)
        student = ops.log_softmax(scores / self.temperature, axis=-1)
        teacher = ops.log_softmax(ops.cast(y_true, scores.dtype) / self.temperature, axis=-1)
        divergence = ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)
        return self.temperature**2 * divergence
