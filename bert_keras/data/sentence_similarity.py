"""Sentence similarity: encoding pairs, each text in a row of its own, for `SentencePairs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.examples import Texts, place_of
from bert_keras.data.long_texts import warn
from bert_keras.data.model_inputs import encode_apart
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.text_classification import targets_of, weights_of
from bert_keras.earlier_names import renamed
from bert_keras.errors import DataError
from bert_keras.features import LABEL, MATCH, SENTENCE_PAIR_LOSSES, SIMILARITY
from bert_keras.tokenizers import Tokenizer

_LOW = 0.25  # share of `max_score`: if no score is higher, the scale probably ends lower
_ENOUGH = 20  # scores, to tell what the highest score of the scale is


@renamed("pair_examples", objective="loss", highest="max_score")
def pair_examples(
    tokenizer: Tokenizer,
    examples: Texts,
    loss: str,
    *,
    labels: Sequence[str] | None = None,
    class_weights: Mapping[str, float] | None = None,
    max_score: float = 1.0,
    max_length: int = 128,
    **options: Any,
) -> SupervisedExamples:
    """Encode pairs of texts as batches for a `SentencePairs`, with two rows for each pair.

    The inputs of a batch are int32 [B, 2, T]. The targets are, by loss:
        "similarity": {"similarity": float32 [B]}, the score of each pair divided by `max_score`.
        "classification": {"label": int32 [B]}, the class of each pair.
        "in_batch": {"match": float32 [B]} of zeros, because the right second text for each first
            text is the one of its own pair.

    Args:
        tokenizer: the tokenizer of the model.
        examples: pairs, with scores for "similarity" and labels for "classification".
        loss: the `loss` of the model.
        labels: the names of the classes in the model's order.
        class_weights: weight of the pairs of a class, by its name; 1 for the others.
        max_score: the score of two texts with the same meaning, such as 5 on a scale from 0 to 5.
            The model learns cosines, which are 1 for these.
        max_length: maximum number of tokens in a row; longer texts are cut.
        options: options of `SupervisedExamples`.

    Raises:
        DataError: texts without a second one, an unknown label, a score above `max_score`, or no
            targets. The message names the row.
        ValueError: an unknown loss, or labels or weights for another loss or unknown classes.
    """
    if loss not in SENTENCE_PAIR_LOSSES:
        raise ValueError(
            f"loss must be one of {', '.join(SENTENCE_PAIR_LOSSES)}. Received: loss={loss!r}"
        )
    if examples.pairs is None:
        raise DataError(
            f"Every text needs a second text to compare with. Received: {len(examples)} texts "
            "without pairs. Pass `pairs`, or name the column of the second text."
        )
    if loss != "classification" and (class_weights or (labels is not None and len(labels))):
        raise ValueError(
            "labels and class_weights are for loss='classification'. "
            f"Received: loss={loss!r}. Leave them out, or pass that loss."
        )
    weights = None
    if loss == SIMILARITY:
        targets = {SIMILARITY: _cosines(examples, max_score)}
    elif loss == "classification":
        targets = {LABEL: targets_of(examples, labels, "single_label")}
        weights = weights_of(targets[LABEL], labels, class_weights, "single_label")
    else:
        targets = {MATCH: np.zeros(len(examples), np.float32)}
    rows = encode_apart(tokenizer, examples.texts, examples.pairs, max_length=max_length)
    options |= {"weights": weights, "max_length": max_length}
    return SupervisedExamples(rows, targets, group=2, **options)


def _cosines(examples: Texts, max_score: float) -> np.ndarray:
    """Return the scores as cosines, divided by `max_score`: float32 [pairs], from -1 to 1."""
    cosines = targets_of(examples, None, "regression")[:, 0] / max_score
    errors = ErrorCollector()
    for index in np.flatnonzero(np.abs(cosines) > 1.0).tolist():
        score = float(cosines[index]) * max_score
        errors.add(
            DataError(
                f"{place_of(examples.places, index)}: a score must be from {-max_score:g} to "
                f"max_score={max_score:g}. Received: {score:g}. Pass the highest score of the "
                "scale as max_score."
            )
        )
    errors.check()
    highest = float(np.abs(cosines).max(initial=0.0))
    if len(cosines) >= _ENOUGH and highest <= _LOW:
        warn(
            f"The highest of {len(cosines):,} scores is {highest * max_score:g}, far below "
            f"max_score={max_score:g}. Scores are learned as shares of max_score: pass the end of "
            "their scale, such as max_score=1."
        )
    return cosines
