"""From labelled texts and words to what tasks train on. Questions: question_targets.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bert_keras.data.columns import texts_of
from bert_keras.data.examples import TaggedWords, Texts
from bert_keras.data.faults import Faults
from bert_keras.data.labels import class_numbers, labels_of_rows, names_of, place_of
from bert_keras.data.rows import Rows, encode
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.windows import word_windows
from bert_keras.errors import DataError
from bert_keras.features import LABEL, TAGS
from bert_keras.tokenizers import Tokenizer

_WINDOW_OF_TAGS = 4  # batches; how tags stand differs by a sentence's length
_MOST_CLASSES = 2**31  # as int32 has them
PROBLEMS = {
    "single_label": (
        "one label, a name or a whole number; to predict numbers, use "
        'problem="regression" (in recipes task=text_regression)'
    ),
    "multi_label": "labels, or one",
    "regression": "a number",
}


def text_examples(
    tokenizer: Tokenizer,
    examples: Texts,
    *,
    labels: Sequence[str] | None = None,
    problem: str = "single_label",
    class_weights: Mapping[str, float] | None = None,
    max_length: int = 128,
    **options: Any,
) -> SupervisedExamples:
    """For a `SequenceClassifier`: {"label": int [B], or float32 [B, classes]}.

    Args:
        tokenizer: the model's.
        examples: texts or pairs with targets.
        labels: the names of the classes in the model's order; None for numbers. Targets that are
            whole numbers are read as `targets_of` says.
        problem: "single_label", "multi_label" or "regression".
        class_weights: what an example of a class counts, by its name; 1 for the others. Of a single
            label only.
        max_length: tokens of a row at most; the longer text is cut.
        options: those of `SupervisedExamples`.

    Raises:
        DataError: an unknown label, or no targets; names the row.
        ValueError: an unknown problem, or weights of classes that there are not.
    """
    targets = targets_of(examples, labels, problem)
    weights = weights_of(targets, labels, class_weights, problem)
    rows = encode(tokenizer, examples.texts, examples.pairs, max_length=max_length)
    options = {"max_length": max_length, **options}
    return SupervisedExamples(rows, {LABEL: targets}, weights=weights, **options)


def weights_of(
    targets: np.ndarray,
    labels: Sequence[str] | None,
    class_weights: Mapping[str, float] | None,
    problem: str,
) -> dict[str, np.ndarray] | None:
    """Return the weight of every example by its class; None where all weigh alike.

    Raises:
        ValueError: weights of classes that there are not.
    """
    if not class_weights:
        return None
    names = [] if labels is None else names_of(labels)
    if problem != "single_label" or not names or class_weights.keys() - set(names):
        raise ValueError(
            "class_weights are for the labels of a single-label problem. Received: "
            f"class_weights={dict(class_weights)}, labels={labels}, problem={problem!r}"
        )
    by_class = np.array([class_weights.get(name, 1.0) for name in names], np.float32)
    return {LABEL: by_class[targets]}


def targets_of(examples: Texts, labels: Sequence[str] | None, problem: str) -> np.ndarray:
    """Return the targets as numbers: int32 [rows], or float32 [rows, classes].

    A whole number as a label is the index of a class, from 0. Where all `labels` are whole numbers
    themselves ("1" to "5"), it is the class of that name.

    Args:
        examples: texts with targets.
        labels: the names of the classes in the model's order; None for a regression, or where all
            targets are indices of classes.
        problem: "single_label", "multi_label" or "regression".

    Raises:
        DataError: an unknown label, a target of another kind, or no targets; names the row.
        ValueError: an unknown problem.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(PROBLEMS)}. Received: {problem!r}")
    if examples.targets is None or not len(examples):
        raise DataError("The examples have no labels to train on or to compare with.")
    faults = Faults()
    for index, target in enumerate(examples.targets):
        if not _fits(target, problem):
            faults.add(
                DataError(
                    f"{place_of(examples.places, index)}: a target of the problem {problem!r} is "
                    f"{PROBLEMS[problem]}. Received: {target!r}"
                )
            )
    faults.check()
    if problem == "regression":
        return np.array(examples.targets, np.float32)[:, None]
    rows = labels_of_rows(examples)
    are_numbers = any(isinstance(label, int) for row in rows for label in row)
    if labels is not None:
        names = names_of(labels)
        numbers = class_numbers(names) if are_numbers else {n: i for i, n in enumerate(names)}
        known = f"The labels are {', '.join(names)}."
        if are_numbers:
            known += f" Whole numbers from {min(numbers)} to {max(numbers)} mean them."
    elif problem == "single_label" and are_numbers:
        numbers = {label: label for (label,) in rows if 0 <= label < _MOST_CLASSES}
        known = "Without labels= they are the indices of classes, from 0."
    else:
        raise DataError("The labels have no numbers yet: pass labels=label_names(examples).")
    for index, row in enumerate(rows):
        if unknown := [label for label in row if label not in numbers]:
            place = place_of(examples.places, index)
            faults.add(DataError(f"{place}: unknown label {unknown[0]!r}. {known}"))
    faults.check()
    if problem == "single_label":
        return np.array([numbers[label] for (label,) in rows], np.int32)
    found = np.zeros((len(examples), len(numbers)), np.float32)
    for index, row in enumerate(rows):
        found[index, [numbers[label] for label in row]] = 1.0
    return found


def _fits(target: Any, problem: str) -> bool:
    if problem == "regression":
        return isinstance(target, Real) and math.isfinite(target)
    if isinstance(target, tuple):
        return problem == "multi_label" and all(_fits(label, "single_label") for label in target)
    return isinstance(target, str | int) or (isinstance(target, float) and target.is_integer())


def tag_examples(
    tokenizer: Tokenizer,
    examples: TaggedWords,
    *,
    labels: Sequence[str],
    all_pieces: bool = False,
    max_length: int = 128,
    **options: Any,
) -> SupervisedExamples:
    """For a `TokenClassifier`: {"tags": int [B, T]}, with a weight where a token counts.

    The weight is one for all: on average those of a row sum to 1, so that a text's loss is about
    as large as a token's. A sentence of more pieces than a row holds becomes several rows.

    Args:
        tokenizer: the model's.
        examples: words with tags.
        labels: the names of the tags in the model's order.
        all_pieces: every piece of a word has its tag (the later ones of B-X have I-X), not only
            the first (Devlin et al., 2019, §5.3).
        max_length: tokens of a row at most.
        options: those of `SupervisedExamples`.

    Raises:
        DataError: unknown tags, or none at all; names the words.
    """
    if examples.tags is None or not len(examples):
        raise DataError("The sentences have no tags to train on.")
    names = texts_of("labels", labels)
    numbers = {name: number for number, name in enumerate(names)}
    later = np.array([numbers.get(_continued(name), numbers[name]) for name in names])
    ids, targets, weights = [], [], []
    faults = Faults()
    for index, (words, tags) in enumerate(zip(examples.words, examples.tags, strict=True)):
        if unknown := [number for number, tag in enumerate(tags) if tag not in numbers]:
            for number in unknown:
                faults.add(
                    DataError(
                        f"{examples.place(index, number)}: unknown tag {tags[number]!r}. The tags "
                        f"are {', '.join(numbers)}."
                    )
                )
            continue
        known = np.array([numbers[tag] for tag in tags])
        for window in word_windows(tokenizer, index, words, max_length=max_length):
            is_word = window.words >= 0
            of_piece = np.where(is_word, known[window.words], 0)
            ids.append(window.ids)
            targets.append(np.where(window.is_first, of_piece, later[of_piece]))
            weights.append(is_word if all_pieces else window.is_first)
    faults.check()
    rows = Rows.of(ids, [np.zeros(len(row), np.int32) for row in ids], tokenizer.pad_id)
    counted = np.concatenate(weights)
    weight = len(ids) / max(1, counted.sum())
    return SupervisedExamples(
        rows,
        {},
        token_labels={TAGS: np.concatenate(targets).astype(np.int32)},
        token_weights={TAGS: (counted * weight).astype(np.float32)},
        **{"max_length": max_length, "window": _WINDOW_OF_TAGS, **options},
    )


def _continued(tag: str) -> str:
    return f"I-{tag[2:]}" if tag.startswith("B-") else tag
