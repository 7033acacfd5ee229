"""Losses that compare each text with all texts of the batch."""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import ops

from bert_keras import features
from bert_keras.losses.vector_loss import (
    VectorLoss,
    all_similarities,
    check_similarity,
    similarities,
)

_NONE = -1e30  # logit of a text that is no candidate

# Further comparisons of a `GuidedInBatchLoss`.
FIRST_TO_FIRST = "first_to_first"
SECOND_TO_SECOND = "second_to_second"
COMPARISONS = (FIRST_TO_FIRST, SECOND_TO_SECOND)
_RIGHT, _ITSELF, _WRONG = "right", "itself", "wrong"  # what the diagonal of a comparison has


@keras.saving.register_keras_serializable(package="bert_keras")
class InBatchLoss(VectorLoss):
    """Cross-entropy, in nats, of finding a text's own answer in the batch (Henderson et al., 2017).

    It is also called multiple negatives ranking loss, or InfoNCE. The first text of an example
    looks for the second among the second texts and all further texts of the batch. Further texts
    are negatives that were given with the example ("hard negatives").

    The targets are a number for each text, [batch, texts], the same for equal texts. With them a
    copy of the right answer is no wrong answer, nor is another answer to the same first text. With
    targets of another shape, whose values are not read, all other texts are wrong answers.

    A row of sample weight 0 has no loss, but its texts are wrong answers for other rows.

    Args:
        scale: factor of the similarities before the softmax over them, the inverse of a
            temperature.
        symmetric: whether each second text also looks for its first text among all first texts.
            The loss is the mean of both.
        similarity: measure between two vectors, a name of `features.SIMILARITIES`.
        name: name of the loss.
    """

    most_texts = None

    def __init__(
        self,
        scale: float = 20.0,
        *,
        symmetric: bool = False,
        similarity: str = features.COSINE,
        name: str = "in_batch_loss",
    ):
        if not scale > 0:
            raise ValueError(f"`scale` must be above 0. Received: scale={scale}")
        super().__init__(
            name, scale=scale, symmetric=symmetric, similarity=check_similarity(similarity)
        )
        self.scale, self.symmetric, self.similarity = scale, symmetric, similarity

    def call(self, y_true, y_pred):
        """Return the losses, [batch], for text numbers and vectors [batch, texts, size]."""
        right = self.scale * similarities(y_pred[:, 0], y_pred[:, 1], self.similarity)
        left_out = right_elsewhere(y_true)
        total = _log_sum(self.logits(y_pred), left_out)
        if self.symmetric:
            back = self.scale * all_similarities(y_pred[:, 1], y_pred[:, 0], self.similarity)
            if left_out is not None:  # of pairs of rows, the relation has no direction
                left_out = left_out[:, : ops.shape(y_pred)[0]]
            total = (total + _log_sum(back, left_out)) / 2
        return total - right

    def logits(self, y_pred):
        """Return the scaled similarities of first texts to all others, [batch, batch * others].

        The second texts come first, in the order of the examples; then the third texts, and so on.
        """
        return self.scale * all_similarities(y_pred[:, 0], other_texts(y_pred), self.similarity)


@keras.saving.register_keras_serializable(package="bert_keras")
class GuidedInBatchLoss(VectorLoss):
    """In-batch loss without likely right answers, which a guide finds (GISTEmbed; Solatorio, 2024).

    The targets are the vectors of a guide, which is another sentence encoder. A wrong answer that
    the guide finds more similar to a text than its own answer is left out.

    Args:
        scale: factor of the cosines before the softmax over them.
        margin: a wrong answer is left out if the guide's cosine is above that of the right answer
            less this margin.
        relative: whether the margin is a share of the guide's cosine of the right answer.
        compare: further texts that a wrong answer may be: "first_to_first" for the other first
            texts, and "second_to_second" for the second texts that are compared with the second.
        name: name of the loss.
    """

    most_texts = None
    targets = features.TEACHER_VECTORS

    def __init__(
        self,
        scale: float = 100.0,
        *,
        margin: float = 0.0,
        relative: bool = False,
        compare: Sequence[str] = (FIRST_TO_FIRST, SECOND_TO_SECOND),
        name: str = "guided_in_batch_loss",
    ):
        if not scale > 0:
            raise ValueError(f"`scale` must be above 0. Received: scale={scale}")
        if unknown := [each for each in compare if each not in COMPARISONS]:
            raise ValueError(
                f"`compare` takes {' and '.join(COMPARISONS)}. Received: {unknown[0]!r}"
            )
        options = {"margin": margin, "relative": relative, "compare": [*compare]}
        super().__init__(name, scale=scale, **options)
        self.scale, self.margin, self.relative, self.compare = scale, margin, relative, compare

    def call(self, y_true, y_pred):
        """Return the losses [batch].

        Args:
            y_true: vectors of the guide, [batch, texts, size of the guide].
            y_pred: vectors [batch, texts, size].
        """
        own = ops.cast(y_true, y_pred.dtype)
        limit = similarities(own[:, 0], own[:, 1], features.COSINE)[:, None]
        limit = limit - (ops.absolute(limit) if self.relative else 1.0) * self.margin
        same = ops.eye(ops.shape(y_pred)[0], dtype="bool")
        logits = []
        for first, second, diagonal in self._comparisons(y_pred, own):
            (vectors, guides), (others, other_guides) = first, second
            left_out = all_similarities(guides, other_guides) > limit
            if diagonal == _RIGHT:  # the diagonal has the right answers
                left_out = ops.logical_and(left_out, ops.logical_not(same))
            elif diagonal == _ITSELF:
                left_out = ops.logical_or(left_out, same)
            cosines = self.scale * all_similarities(vectors, others)
            logits.append(ops.where(left_out, _NONE, cosines))
        right = self.scale * similarities(y_pred[:, 0], y_pred[:, 1], features.COSINE)
        return ops.logsumexp(ops.concatenate(logits, axis=1), axis=-1) - right

    def _comparisons(self, vectors, guides):
        """Return the texts to compare, as (vectors, vectors of the guide), and their diagonal.

        The diagonal of a comparison has the right answers, the similarity of a text to itself, or
        other wrong answers.
        """
        first, second = ((vectors[:, text], guides[:, text]) for text in (0, 1))
        negatives = other_texts(vectors[:, 1:]), other_texts(guides[:, 1:])
        compared = [(first, second, _RIGHT), (first, negatives, _WRONG)]
        compared += [(first, first, _ITSELF)] if FIRST_TO_FIRST in self.compare else []
        compared += [(second, second, _ITSELF)] if SECOND_TO_SECOND in self.compare else []
        return compared


def _log_sum(logits, left_out):
    """Return the logarithm of the sum of exponentials of each row, [batch].

    Args:
        logits: [batch, n].
        left_out: bool [batch, n], True for logits that do not count; None where all count.
    """
    if left_out is not None:
        logits = ops.where(left_out, _NONE, logits)
    return ops.logsumexp(logits, axis=-1)


def right_elsewhere(numbers):
    """Return which texts are right answers in other places: bool [batch, batch * others].

    Such a text is a copy of the right answer, or the right answer of a copy of the first text.

    Args:
        numbers: number of each text, [batch, texts], the same for equal texts. None is returned for
            another rank.
    """
    if len(numbers.shape) != 2 or numbers.shape[1] == 1:
        return None
    first, right = numbers[:, 0], numbers[:, 1]
    is_copy = right[:, None] == ops.reshape(ops.transpose(numbers[:, 1:]), (1, -1))
    same_first = first[:, None] == first[None]
    itself = ops.eye(ops.shape(first)[0], dtype="bool")
    further = ops.zeros_like(is_copy[:, ops.shape(first)[0] :])
    same_first = ops.concatenate([same_first, further], axis=1)
    itself = ops.concatenate([itself, further], axis=1)
    return ops.logical_and(ops.logical_or(is_copy, same_first), ops.logical_not(itself))


@keras.saving.register_keras_serializable(package="bert_keras")
def in_batch_accuracy(y_true, y_pred):
    """Return 1 for each first text that is nearest to its own second text: float32 [batch].

    Args:
        y_true: numbers of the texts, as for `InBatchLoss`.
        y_pred: vectors [batch, texts, size], compared by their cosine.
    """
    cosines = all_similarities(y_pred[:, 0], other_texts(y_pred))
    if (left_out := right_elsewhere(ops.convert_to_tensor(y_true))) is not None:
        cosines = ops.where(left_out, _NONE, cosines)
    rows = ops.arange(ops.shape(cosines)[0], dtype="int32")
    return ops.cast(ops.cast(ops.argmax(cosines, axis=-1), "int32") == rows, "float32")


def other_texts(vectors):
    """Return the vectors of all texts but the first of each example, [batch * others, size].

    All second texts come first, then all third texts, and so on.
    """
    size = ops.shape(vectors)[-1]
    return ops.reshape(ops.transpose(vectors[:, 1:], (1, 0, 2)), (-1, size))
