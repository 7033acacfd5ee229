"""Multiple choice: reading prompts with options, such as SWAG's, and encoding them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data.documents import Source, text_value
from bert_keras.data.examples import Choices, place_of
from bert_keras.data.model_inputs import EncodedTexts, encode
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.table_columns import Column
from bert_keras.data.table_files import read_rows
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
    """Read prompts with options, and the answers, from a table.

    Args:
        path: the file, see `table_files.read_rows`.
        prompt: column or key of the prompt, which may be empty; None for options without prompts.
        options: key of a list of at least two texts (JSON lines, Parquet), or the columns with one
            option each.
        answer: column of the right option: its index from 0, or its letter ("A" or "a" is the
            first). None for rows to predict.
        lead: column of a text that is put before every option of the row, such as the beginning
            of the sentence; None for no such text.
        format: format of the file, as in `read_table`.
        header: whether a first row names the columns, as in `read_table`.
        quoting: whether quotes hold fields together, as in `read_table`.
        separator: text between fields, as in `read_table`.
        encoding: encoding of text files.

    Returns:
        The rows in the order of the file, with "file:line" of each as `places`.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: rows that cannot be used. The message has file, line and value of each.
        ImportError: Parquet without pyarrow.
    """
    is_list = isinstance(options, str | int)
    option_columns: list[Column] = [options] if isinstance(options, str | int) else list(options)
    other_columns = [column for column in (prompt, lead, answer) if column is not None]
    errors = ErrorCollector()
    rows = read_rows(
        path,
        [*other_columns, *option_columns],
        errors,
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

    def add_row(place: str, others: dict[Column, Any], in_columns: list[Any]) -> None:
        """Add the values of one row to `prompts`, `choices`, `answers` and `places`.

        Args:
            place: "file:line" of the row.
            others: prompt, lead and answer, by column.
            in_columns: the options, or one list of them.
        """
        named = list(zip(option_columns, in_columns, strict=True))
        if is_list:
            in_list = _list(in_columns[0], place)
            named = [(f"{options}[{i}]", text) for i, text in enumerate(in_list)]
        texts = [_option(text, f"{place}: {name!r}") for name, text in named]
        if len(texts) < 2:
            raise DataError(
                f"{place}: a row needs at least two options. Received: {texts!r:.200}. "
                "Add options, or remove the row."
            )
        if lead is not None and (words := text_value(others[lead], f"{place}: {lead!r}").strip()):
            texts = [f"{words} {text}" for text in texts]
        prompts.append("" if prompt is None else text_value(others[prompt], f"{place}: {prompt!r}"))
        choices.append(tuple(texts))
        places.append(place)
        if answer is not None:
            answers.append(_index(others[answer], len(texts), f"{place}: {answer!r}"))

    with errors.whole():
        for number, values in rows:
            with errors.row():
                others = dict(zip(other_columns, values, strict=False))
                add_row(f"{path}:{number}", others, values[len(other_columns) :])
    return Choices(
        tuple(prompts), tuple(choices), None if answer is None else tuple(answers), tuple(places)
    )


def read_swag(path: Source, *, has_answers: bool = True) -> Choices:
    """Read a CSV file of SWAG (Zellers et al. 2018, arXiv:1808.05326).

    The prompt is `sent1`. An option is `sent2`, the beginning of the next sentence, followed by
    one of `ending0` to `ending3`. The answer is `label`.

    Args:
        path: the file.
        has_answers: False for the test file, which has no labels.

    Raises:
        DataError: rows that cannot be used, as in `read_choices`.
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
    """Return the value of a key `options`, which must be a list."""
    if not is_array(value):
        raise DataError(
            f"{place}: a list of options is needed. Received: {value!r:.200}. If every option has "
            "a column of its own, pass the names of all these columns as options."
        )
    return value


def _option(value: Any, name: str) -> str:
    """Return an option, which must be text and not empty. `name` is its place and column."""
    text = text_value(value, name)
    if not text.strip():
        raise DataError(f"{name} is empty. Received: {value!r}. Remove the option or the row.")
    return text


def _index(value: Any, count: int, name: str) -> int:
    """Return the index of the right one of `count` options, from an index or a letter."""
    index = -1
    if isinstance(value, int) and not isinstance(value, bool):
        index = value
    elif isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        index = int(value)
    elif isinstance(value, str) and len(value.strip()) == 1:
        index = _LETTERS.find(value.strip().upper())
    if not 0 <= index < count:
        last = _LETTERS[count - 1] if count <= len(_LETTERS) else "Z"
        raise DataError(
            f"{name} must be the index of an option, 0 to {count - 1}, or a letter, A to {last}. "
            f"Received: {value!r:.100}"
        )
    return index


# === Examples for training ===


def choice_examples(
    tokenizer: Tokenizer, examples: Choices, *, max_length: int = 128, **options: Any
) -> SupervisedExamples:
    """Encode prompts and options as batches for a `MultipleChoice`.

    The inputs of a batch are int32 [B, choices, T], the targets {"choice": int32 [B]}.

    Args:
        tokenizer: the tokenizer of the model.
        examples: prompts and options with answers; all rows have the same number of options.
        max_length: maximum number of tokens in a row of prompt and option.
        options: options of `SupervisedExamples`.

    Raises:
        DataError: no answers, or rows with different numbers of options.
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
    """Encode each prompt with each of its options: "[CLS] prompt [SEP] option [SEP]".

    With an empty prompt the option is the only text: "[CLS] option [SEP]".

    Returns:
        The encoded rows, with the options of a prompt one after another, and the number of options
        of each prompt.

    Raises:
        DataError: rows with different numbers of options.
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
