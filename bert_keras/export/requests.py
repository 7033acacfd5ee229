"""Requests to a model: texts by the name of their input, made up, and as the model's ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data import Choices
from bert_keras.data import rows as data
from bert_keras.data.question_targets import choice_rows
from bert_keras.tokenizers import Tokenizer

# Inputs of a model, of one example each: texts, but lists of them for "options".
Columns = Mapping[str, Sequence[Any]]

_NAMES = {
    "QuestionAnswerer": ("question", "context"),
    "MultipleChoice": ("prompt", "options"),
    "SentencePairs": ("text", "pair"),
}
_MASKED = ("MaskedLM", "Pretrainer")
_WORDS = (1, 60)  # pieces of a text that is made up
_ODD = (
    *("", " \t\n", "é ß ½ ﬁ İ", "中文分词", "😀 \u200d \ue000", "x" * 150, "[SEP] [CLS]"),
    *("a\u0301\u0327", "שלום नमस्ते ไทย", "don't, e.g. $1,000.00!", "\x00\x7f\ufffd"),
)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of columns as `Predictor` takes them; a SavedModel tells them in any order."""
    known = dict.fromkeys(name for each in (("text", "pair"), *_NAMES.values()) for name in each)
    order = {name: place for place, name in enumerate(known)}
    return tuple(sorted(names, key=lambda name: order.get(name, len(order))))


def names_of(task: str, pairs: bool = False) -> tuple[str, ...]:
    """The names of what a model is asked with, by its class."""
    return _NAMES.get(task, ("text", "pair") if pairs else ("text",))


def made_up(names: Sequence[str], tokenizer: Tokenizer, count: int, mask: str = "") -> Columns:
    """Texts of pieces of the vocabulary, of many lengths, and some odd ones; the same every time.

    Args:
        names: of `names_of`.
        tokenizer: whose vocabulary.
        count: how many.
        mask: what each begins with, of models that fill masks.
    """
    draw = np.random.default_rng(0)
    ordinary = np.setdiff1d(np.arange(tokenizer.vocab_size), list(tokenizer.special_ids))
    found: dict[str, list[Any]] = {}
    for name in names:
        sizes = draw.integers(*_WORDS, count)
        texts = [tokenizer.decode(draw.choice(ordinary, size)) for size in sizes]
        texts[: len(_ODD)] = _ODD[:count]
        draw.shuffle(texts)
        found[name] = [f"{mask} {text}" for text in texts] if mask else texts
    if "options" in found:
        options = found["options"]
        found["options"] = [list(pair) for pair in zip(options, options[::-1], strict=True)]
    return found


def mask_of(task: str, tokenizer: Tokenizer) -> str:
    """The token that a model of that class is to fill; "" where it fills none."""
    return tokenizer.id_to_token(tokenizer.mask_id) if task in _MASKED else ""


def part(columns: Columns, start: int, stop: int) -> Columns:
    """Some of the examples."""
    return {name: values[start:stop] for name, values in columns.items()}


def as_ids(
    columns: Columns,
    tokenizer: Tokenizer,
    inputs: Mapping[str, Sequence[Any]],
    *,
    max_length: int,
    prompt: str = "",
    prompt_length: int = 0,
) -> dict[str, np.ndarray]:
    """A batch of the model's own inputs, padded to its longest text.

    Args:
        columns: the texts.
        tokenizer: the model's.
        inputs: of the model, with their axes.
        max_length: where texts are cut.
        prompt: before each first text.
        prompt_length: its tokens, with [CLS].

    Returns:
        int32 [batch, length], or [batch, texts, length] of what is read apart.
    """
    first, *second = columns.values()
    first = [prompt + text for text in first] if prompt else first
    group, is_grouped = 2, len(inputs[features.TOKEN_IDS]) == 3
    if "options" in columns and len(first):
        choices = Choices(first, second[0])
        rows, group = choice_rows(tokenizer, choices, max_length=max_length)
    elif is_grouped:
        rows = data.encode_apart(tokenizer, first, second[0], max_length=max_length)
    else:
        rows = data.encode(tokenizer, first, *second, max_length=max_length)
    numbers = np.arange(len(rows))
    if is_grouped:
        numbers = numbers.reshape(-1, group)
    found = rows.inputs(numbers, int(rows.lengths.max(initial=1)))
    if features.PROMPT_LENGTH in inputs:
        found[features.PROMPT_LENGTH] = np.full((len(numbers), 1), prompt_length, np.int32)
    if features.MASK_POSITIONS in inputs:
        found[features.MASK_POSITIONS] = _masks(found[features.TOKEN_IDS], tokenizer.mask_id)
    return {name: found[name] for name in inputs}


def _masks(token_ids: np.ndarray, mask_id: int) -> np.ndarray:
    """The columns of the masks, filled up with 0: int32 [batch, predictions]."""
    is_mask = token_ids == mask_id
    found = np.zeros((len(token_ids), int(is_mask.sum(axis=1).max(initial=1))), np.int32)
    for row, marks in zip(found, is_mask, strict=True):
        places = np.flatnonzero(marks)
        row[: len(places)] = places
    return found
