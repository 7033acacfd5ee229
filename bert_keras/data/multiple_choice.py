"""A prompt and several options: reading files such as SWAG's, and encoding choices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data.columns import ErrorCollector
from bert_keras.data.documents import Source, text_value
from bert_keras.data.examples import Choices, place_of
from bert_keras.data.model_inputs import EncodedTexts, encode
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.table_files import Column, read_rows
from bert_keras.errors import DataError
from bert_keras.features import CHOICE
from bert_keras.file_io import is_array
from bert_keras.tokenizers import Tokenizer

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBER = re.compile("[0-9]+")


def read_choices(
    path: Source,
    *,
    prompt: Column | None = "prompt",
    options: Column | Sequence[Column] = "options",
    answer: Column | None = "answer",
    lead: Column | None = None,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    quoting: bool | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Choices:
    """Reads prompts with options.

    Args:
        path: the file, see `table_rows.read_rows`.
        prompt: the column or key of the prompt, which may be empty; None: there is none.
        options: the key of a list of texts, two or more (JSON lines, Parquet), or the columns that
            hold one option each.
        answer: the column of the right option: its index from 0, or its letter ("A" or "a" is the
            first). None for rows to predict.
        lead: the column of the words with which every option begins, or None.
        format: see `read_table`, as are the arguments below.
        header: see there.
        quoting: see there.
        separator: see there.
        encoding: see there.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: rows that cannot be used: names file, line and what was found, of each.
        ImportError: Parquet without pyarrow.
    """
    is_list = isinstance(options, str | int)
    many: list[Column] = [options] if isinstance(options, str | int) else list(options)
    front = [column for column in (prompt, lead, answer) if column is not None]
    faults = ErrorCollector()
    rows = read_rows(
        path,
        [*front, *many],
        faults,
        format=format,
        header=header,
        quoting=quoting,
        separator=separator,
        encoding=encoding,
    )
    prompts: list[str] = []
    choices: list[tuple[str, ...]] = []
    answers: list[int] = []
    places: list[str] = []

    def take(place: str, found: dict[Column, Any], rest: list[Any]) -> None:
        named = list(zip(many, rest, strict=True))
        if is_list:
            named = [(f"{options}[{i}]", text) for i, text in enumerate(_list(rest[0], place))]
        texts = [_option(text, f"{place}: {name!r}") for name, text in named]
        if len(texts) < 2:
            raise DataError(
                f"{place}: a row needs at least two options. Received: {texts!r:.200}. "
                "Add options, or remove the row."
            )
        if lead is not None and (words := text_value(found[lead], f"{place}: {lead!r}").strip()):
            texts = [f"{words} {text}" for text in texts]
        prompts.append("" if prompt is None else text_value(found[prompt], f"{place}: {prompt!r}"))
        choices.append(tuple(texts))
        places.append(place)
        if answer is not None:
            answers.append(_index(found[answer], len(texts), f"{place}: {answer!r}"))

    with faults.whole():
        for number, values in rows:
            with faults.row():
                found = dict(zip(front, values, strict=False))
                take(f"{path}:{number}", found, values[len(front) :])
    return Choices(
        tuple(prompts), tuple(choices), None if answer is None else tuple(answers), tuple(places)
    )


def read_swag(path: Source, *, has_answers: bool = True) -> Choices:
    """Reads a CSV file of SWAG (Zellers et al. 2018, arXiv:1808.05326).

    The prompt is `sent1`; an option is `sent2`, the beginning of the next sentence, and one of
    `ending0` to `ending3`; the answer is `label`.

    Args:
        path: the file.
        has_answers: False for the test file, which has no labels.

    Raises:
        DataError: see `read_choices`.
    """
    return read_choices(
        path,
        prompt="sent1",
        lead="sent2",
        options=[f"ending{i}" for i in range(4)],
        answer="label" if has_answers else None,
        format="csv",
    )


def _list(value: Any, place: str) -> list[Any]:
    if not is_array(value):
        raise DataError(
            f"{place}: a list of options is needed. Received: {value!r:.200}. If every option has "
            "a column of its own, pass the names of all these columns as options."
        )
    return value


def _option(value: Any, what: str) -> str:
    text = text_value(value, what)
    if not text.strip():
        raise DataError(f"{what} is empty. Received: {value!r}. Remove the option or the row.")
    return text


def _index(value: Any, count: int, what: str) -> int:
    found = -1
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        found = int(value)
    elif isinstance(value, str) and len(value.strip()) == 1:
        found = _LETTERS.find(value.strip().upper())
    if not 0 <= found < count:
        last = _LETTERS[count - 1] if count <= len(_LETTERS) else "Z"
        raise DataError(
            f"{what} must be the index of an option, 0 to {count - 1}, or a letter, A to {last}. "
            f"Received: {value!r:.100}"
        )
    return found


# === Examples for training ===


def choice_examples(
    tokenizer: Tokenizer, examples: Choices, *, max_length: int = 128, **options: Any
) -> SupervisedExamples:
    """For a `MultipleChoice`: {"choice": int [B]}; inputs [B, choices, T].

    Raises:
        DataError: no answers, or questions of unequally many choices.
    """
    if examples.answers is None or not len(examples):
        raise DataError(
            f"The choices have no answers to train on. Received: {len(examples)} rows without "
            "answers. Pass `answers`, the index of the right option for each row."
        )
    rows, size = choice_rows(tokenizer, examples, max_length=max_length)
    labels = {CHOICE: np.array(examples.answers, np.int32)}
    return SupervisedExamples(rows, labels, group=size, max_length=max_length, **options)


def choice_rows(
    tokenizer: Tokenizer, examples: Choices, *, max_length: int
) -> tuple[EncodedTexts, int]:
    """A row for every choice, and how many there are for each question, of which there is one.

    Without a prompt ("") the choice stands alone, not behind an empty text.

    Raises:
        DataError: questions of unequally many choices.
    """
    size = len(examples.options[0])
    for index, options in enumerate(examples.options):
        if len(options) != size:
            raise DataError(
                f"{place_of(examples.places, index)}: all rows need the same number of options. "
                f"Received: {len(options)} options, and {size} in the first row. Add or remove "
                "options."
            )
    choices = [option for options in examples.options for option in options]
    prompts = [prompt for prompt in examples.prompts for _ in range(size)]
    alone = [number for number, prompt in enumerate(prompts) if not prompt]
    paired = [number for number, prompt in enumerate(prompts) if prompt]
    firsts, seconds = [prompts[n] for n in paired], [choices[n] for n in paired]
    rows = encode(tokenizer, firsts, seconds, max_length=max_length)
    if alone:
        single = encode(tokenizer, [choices[n] for n in alone], max_length=max_length)
        rows = rows.merged(single, np.argsort([*paired, *alone]))
    return rows, size
