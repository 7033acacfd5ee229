"""Sentence similarity: encoding texts of an example in rows of their own, for `SentencePairs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.columns import labels_of
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.examples import Texts, place_of
from bert_keras.data.long_texts import warn
from bert_keras.data.model_inputs import encode_apart
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.text_classification import targets_of, weights_of
from bert_keras.earlier_names import renamed
from bert_keras.errors import DataError
from bert_keras.features import (
    CLASSES,
    LABEL,
    MATCH,
    NO_TARGETS,
    SCORES,
    SENTENCE_PAIR_LOSSES,
    SIMILARITY,
    TEACHER_SCORES,
)
from bert_keras.tokenizers import Tokenizer

_PAIR_LOSSES = (*SENTENCE_PAIR_LOSSES, "in_batch")

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
        "in_batch": {"match": int32 [B, 2]}, numbers of the texts; see `group_examples`.

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
    if loss not in _PAIR_LOSSES:
        raise ValueError(f"loss must be one of {', '.join(_PAIR_LOSSES)}. Received: loss={loss!r}")
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
    if loss == "in_batch":
        columns = (examples.texts, examples.pairs)
        return group_examples(tokenizer, columns, max_length=max_length, **options)
    if loss == SIMILARITY:
        targets = {SIMILARITY: _cosines(examples, max_score)}
    else:
        targets = {LABEL: targets_of(examples, labels, "single_label")}
        weights = weights_of(targets[LABEL], labels, class_weights, "single_label")
    rows = encode_apart(tokenizer, examples.texts, examples.pairs, max_length=max_length)
    options |= {"weights": weights, "max_length": max_length}
    return SupervisedExamples(rows, targets, group=2, **options)


def group_examples(
    tokenizer: Tokenizer,
    columns: Sequence[Sequence[str]],
    y: Any = None,
    targets: str = NO_TARGETS,
    *,
    max_length: int = 128,
    **options: Any,
) -> SupervisedExamples:
    """Encode examples of several texts as batches for a `SentencePairs` with a loss of vectors.

    The inputs of a batch are int32 [B, texts, T]. Where texts differ much in length, as questions
    and paragraphs, they are tuples of int32 [B, 1, T], one for each text, with lengths of their
    own. The targets are {"match": array}, by kind:
        "none": int32 [B, texts], a number for each text, the same for equal texts.
        "scores": float32 [B].
        "classes": int32 [B], numbers of the classes in the order of their names.
        "teacher_scores": float32 [B, texts - 1].
        "teacher_vectors": float32 [B, texts, size].

    Args:
        tokenizer: the tokenizer of the model.
        columns: texts of the examples, one column for each text.
        y: targets, one for each example; None for the kind "none".
        targets: kind of targets, `targets` of the loss.
        max_length: maximum number of tokens in a row; longer texts are cut.
        options: options of `SupervisedExamples`.

    Raises:
        DataError: columns of different lengths, or targets that are missing, not finite or of
            another shape than the loss reads.
        ValueError: targets for a loss that reads none.
    """
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise DataError(
            "All columns of texts must have the same length. "
            f"Received: {', '.join(str(len(column)) for column in columns)}"
        )
    (count,) = lengths
    if targets == NO_TARGETS:
        if y is not None:
            raise ValueError(
                "This loss learns from texts that belong together, and reads no targets. Make the "
                "task with loss='similarity' or 'cosent' for scores, or with "
                "loss='classification' and `labels`, or leave the targets out. Received: y of "
                f"{type(y).__name__}"
            )
        numbers: dict[str, int] = {}
        values = np.array(
            [[numbers.setdefault(text, len(numbers)) for text in column] for column in columns],
            np.int32,
        ).T
    else:
        values = _group_targets(y, targets, count, len(columns))
    rows = encode_apart(tokenizer, *columns, max_length=max_length)
    options |= {"group": len(columns), "max_length": max_length, "apart": True}
    return SupervisedExamples(rows, {MATCH: values}, **options)


def _group_targets(y: Any, targets: str, count: int, texts: int) -> np.ndarray:
    """Return the targets of examples of several texts; see `group_examples`."""
    if y is None:
        raise DataError(
            f"This loss reads targets of the kind {targets!r}. Pass them as `y`, one for each "
            "example."
        )
    if targets == CLASSES:
        _, numbers = np.unique(np.array([str(label) for label in labels_of("y", y)]), False, True)
        values, shape = numbers.astype(np.int32), (count,)
    else:
        try:
            values = np.asarray(y, np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"`y` must be numbers, of the kind {targets!r}. {error}") from None
        shape = {SCORES: (count,), TEACHER_SCORES: (count, texts - 1)}.get(targets, (count, texts))
    axes = len(shape) + (targets not in _FLAT)
    if values.shape[: len(shape)] != shape or values.ndim != axes:
        raise DataError(
            f"`y` needs the shape {_shape_words(targets, shape)} for {count} examples of {texts} "
            f"texts. Received: shape {values.shape}"
        )
    if (unfit := np.flatnonzero(~np.isfinite(values.reshape(count, -1)).all(axis=1))).size:
        raise DataError(
            f"`y`: row {unfit[0]} has a number that is missing or infinite. Correct it, or drop "
            "the row."
        )
    return values


_FLAT = (SCORES, CLASSES, TEACHER_SCORES)  # kinds of targets without a vector of free size


def _shape_words(targets: str, shape: tuple[int, ...]) -> str:
    """Return a shape for a message, with the free size of vectors."""
    return f"({', '.join(map(str, shape))}{'' if targets in _FLAT else ', size'})"


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


# === Pairs of labelled texts ===


_MOST_PAIRS = 1_000_000  # of few-shot training; more would take days
_PER_TEXT = 20  # of each kind, with which the authors of SetFit trained


def few_shot_examples(
    tokenizer: Tokenizer,
    examples: Texts,
    labels: Sequence[str],
    problem: str = "single_label",
    *,
    num_iterations: int | None = None,
    seed: int | None = 0,
    **options: Any,
) -> SupervisedExamples:
    """Encode pairs of labelled texts, to learn their similarity (SetFit; Tunstall et al., 2022).

    The score of a pair is 1 for texts with a common label, and 0 for others; see
    `contrastive_pairs`. The batches are those of `pair_examples` for loss="similarity".

    Args:
        tokenizer: the tokenizer of the model.
        examples: texts with labels.
        labels: the names of the classes.
        problem: "single_label", or "multi_label" for texts with several labels.
        num_iterations: see `contrastive_pairs`.
        seed: seed of the pairs and of their order; None keeps an order.
        options: options of `pair_examples`.

    Raises:
        DataError: texts of pairs, an unknown label, or no two texts with different labels.
        ValueError: another problem, or more pairs than can be trained on.
    """
    if examples.pairs is not None:
        raise DataError(
            "Few-shot training compares texts with each other, and so needs single texts. Received:"
            " pairs of texts. Leave the second texts out, or train without few shots."
        )
    members = memberships(examples, labels, problem)
    numbers, scores = contrastive_pairs(members, num_iterations=num_iterations, seed=seed or 0)
    sides: list[list[int]] = numbers.T.tolist()
    firsts, seconds = ([examples.texts[number] for number in side] for side in sides)
    pairs = Texts(firsts, seconds, scores.tolist())
    return pair_examples(tokenizer, pairs, SIMILARITY, seed=seed, **options)


def memberships(examples: Texts, labels: Sequence[str], problem: str) -> np.ndarray:
    """Return which labels each text has: bool [texts, classes].

    Raises:
        DataError: an unknown label.
        ValueError: a problem without classes.
    """
    if problem not in ("single_label", "multi_label"):
        raise ValueError(
            "Few-shot training is for problems with labels, 'single_label' or 'multi_label'. "
            f"Received: problem={problem!r}"
        )
    targets = targets_of(examples, labels, problem)
    return targets > 0 if problem == "multi_label" else targets[:, None] == np.arange(len(labels))


def contrastive_pairs(
    members: np.ndarray, *, num_iterations: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of texts, half of them with a common label (SetFit; Tunstall et al., 2022, §3).

    All combinations of two texts are drawn in random order, also of a text with itself, which
    dropout makes two different vectors. The kind of which there are fewer begins again at its end
    (the sampling strategy "oversampling" of the library `setfit`).

    Args:
        members: which labels each text has, bool [texts, classes].
        num_iterations: number of pairs of each kind for each text (R in the paper, §3.1); None for
            every combination of the larger kind.
        seed: seed of the draw.

    Returns:
        int64 [pairs, 2], numbers of texts; and float32 [pairs], 1 for a common label, else 0.

    Raises:
        DataError: all texts have a common label.
        ValueError: `num_iterations` is below 1, or there are more pairs than can be trained on.
    """
    if num_iterations is not None and num_iterations < 1:
        raise ValueError(f"num_iterations must be at least 1. Received: {num_iterations}")
    count = len(members)
    wanted = num_iterations * count if num_iterations else 0
    if max(count * (count + 1) // 2, 2 * wanted) > _MOST_PAIRS:
        raise ValueError(
            f"Few-shot training is for few texts: at most {_MOST_PAIRS:,} pairs can be made. "
            f"Received: {count:,} texts, num_iterations={num_iterations}. Pass fewer texts, such "
            f"as 8 of each label, num_iterations={_PER_TEXT} or less, or train with `fit`."
        )
    combinations = np.stack(np.triu_indices(count), axis=1)
    numbers = members.astype(np.int32)
    first, second = combinations.T
    is_together = (numbers @ numbers.T)[first, second] > 0
    is_together |= first == second
    if is_together.all():
        raise DataError(
            "Few-shot training needs texts with different labels. Received: "
            f"{count} texts, of which each two have a common label"
        )
    order = np.argsort(Draws(seed, epoch=2).keys(Stream.PLAN, len(combinations)), kind="stable")
    together, apart = (order[is_together[order] == kind] for kind in (True, False))
    wanted = wanted or max(len(together), len(apart))
    chosen = np.stack([np.resize(together, wanted), np.resize(apart, wanted)], axis=1).ravel()
    return combinations[chosen], is_together[chosen].astype(np.float32)
