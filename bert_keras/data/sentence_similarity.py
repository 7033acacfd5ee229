"""From pairs of texts, each read for itself, to what `SentencePairs` trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.columns import ErrorCollector
from bert_keras.data.examples import Texts, place_of
from bert_keras.data.model_inputs import encode_apart
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.text_classification import targets_of, weights_of
from bert_keras.earlier_names import renamed
from bert_keras.errors import DataError
from bert_keras.features import LABEL, MATCH, SENTENCE_PAIR_LOSSES, SIMILARITY
from bert_keras.tokenizers import Tokenizer


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
    """For a `SentencePairs`: two rows for each pair.

    Args:
        tokenizer: the model's.
        examples: pairs; with scores for "similarity", with labels for "classification".
        loss: the model's `loss`: {"similarity": float32 [B]}, {"label": int32 [B]}
            for "classification", {"match": zeros [B]} for "in_batch", whose second texts belong to
            their first ones.
        labels: the names of the classes in the model's order.
        class_weights: what a pair of a class counts, by its name; 1 for the others.
        max_score: the score of texts that are as like as can be; the cosine's is 1.
        max_length: tokens of a row at most; longer texts are cut.
        options: those of `SupervisedExamples`.

    Raises:
        DataError: texts without a second one, an unknown label, a score above `max_score`, or no
            targets; names the row.
        ValueError: an unknown loss, or labels or weights of classes that there are not.
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
    """The scores as cosines: float32 [pairs]."""
    cosines = targets_of(examples, None, "regression")[:, 0] / max_score
    faults = ErrorCollector()
    for index in np.flatnonzero(np.abs(cosines) > 1.0).tolist():
        score = float(cosines[index]) * max_score
        faults.add(
            DataError(
                f"{place_of(examples.places, index)}: a score must be from {-max_score:g} to "
                f"max_score={max_score:g}. Received: {score:g}. Pass the highest score of the "
                "scale as max_score."
            )
        )
    faults.check()
    return cosines
