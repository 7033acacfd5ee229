"""Supervised examples as plain Python values, and the names of their labels.

Every class checks on creation that its columns fit together. Columns may be lists, NumPy arrays, or
columns of pandas, pyarrow and `datasets`. They become lists or tuples of plain Python values, so
that a caller's later change of an array does not change them. `places` names the file and line of
every row ("file:line") for messages; it is empty for data that comes from no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

from bert_keras.data.columns import (
    is_all_str,
    labels_of,
    texts_of,
    values_of,
    words_of_rows,
)
from bert_keras.errors import DataError

OUTSIDE = "O"  # the tag of a word that is in no entity


@dataclass(frozen=True)
class Texts:
    """Texts, or pairs of texts, to label, score or compare.

    Attributes:
        texts: one text per row.
        pairs: the second text of every row, or None.
        targets: a label (str, or int for the number of a class), a number (float) or several
            labels (a tuple of them) per row, or None for rows to predict.
        places: "file:line" of every row, or ().
    """

    texts: Sequence[str]
    pairs: Sequence[str] | None = None
    targets: Sequence[str] | Sequence[float] | Sequence[tuple[str | int, ...]] | None = None
    places: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.targets, str):
            raise DataError(
                "targets must be a list with one target for each row, not one str. "
                f"Received: {self.targets!r}"
            )
        _set(
            self,
            texts=_texts("texts", self.texts, self.places),
            pairs=None if self.pairs is None else _texts("pairs", self.pairs, self.places),
            targets=_targets("targets", self.targets, self.places),
        )
        _require_equal(texts=self.texts, pairs=self.pairs, targets=self.targets, places=self.places)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class TaggedWords:
    """Sentences as words, each with a tag.

    Attributes:
        words: the words of every sentence; no sentence and no word is empty.
        tags: the name of the tag of every word, in BIO (B-X, I-X, O) where a reader of this
            package made them, or None for sentences to predict.
        places: "file:line" where every sentence begins, or (). Its words are on the lines that
            follow, one on each, unless there are `texts`.
        texts: the texts that the words are from, if `tag_words` split them; else ().
    """

    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]] | None = None
    places: Sequence[str] = ()
    texts: Sequence[str] = ()

    def __post_init__(self) -> None:
        _set(
            self,
            words=_rows("words", self.words, self.places),
            tags=None if self.tags is None else _tag_rows(self.tags, self.places),
        )
        _require_equal(words=self.words, tags=self.tags, places=self.places)
        _require_equal(words=self.words, texts=self.texts or None)
        for i, words in enumerate(self.words):
            place = _place(self.places, i)
            if not words or not all(words):
                raise DataError(
                    f"{place}a sentence or a word is empty. Received: {words!r}. Remove it."
                )
            if self.tags is not None:
                if not all(self.tags[i]):
                    raise DataError(
                        f"{place}a tag is empty. Received: {list(self.tags[i])!r}. "
                        'Use "O" for a word outside every span.'
                    )
                if len(self.tags[i]) != len(words):
                    raise DataError(
                        f"{place}every word needs one tag. Received: {len(words)} words and "
                        f"{len(self.tags[i])} tags; the first words are {list(words[:5])!r}."
                    )

    def __len__(self) -> int:
        return len(self.words)

    def place(self, sentence: int, word: int) -> str:
        """Return the name of a word for messages, by its sentence and its place in it."""
        if not self.places:
            return f"sentence {sentence}, word {word}"
        file, _, line = self.places[sentence].rpartition(":")
        if self.texts or not line.isdecimal():  # all words have one place
            return f"{self.places[sentence]}, word {self.words[sentence][word]!r}"
        return f"{file}:{int(line) + word}"


@dataclass(frozen=True)
class Answer:
    """An answer as a piece of the context.

    Attributes:
        text: the answer as it stands in the context.
        start: index of its first character (code point) in the context, from 0.
    """

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question on a context.

    Attributes:
        id: name of the question, under which predictions are stored.
        question: text of the question.
        context: the text that has the answer.
        answers: the accepted answers; () if there is none or it is not known.
        is_impossible: whether the context does not answer the question (SQuAD 2.0).
        place: file, article and paragraph of the question, or "".
        lost: accepted answers that are not in the context. A model cannot learn them, but the
            official metrics compare with them too.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    place: str = ""
    lost: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The texts of all accepted answers, as metrics take them."""
        return (*(answer.text for answer in self.answers), *self.lost)

    def __post_init__(self) -> None:
        place = f"{self.place}: " if self.place else ""
        if self.is_impossible and (self.answers or self.lost):
            raise DataError(
                f"{place}question {self.id!r} is marked as impossible, but has answers. Received: "
                f"{self.answers!r}. Remove the answers, or pass is_impossible=False."
            )
        for answer in self.answers:
            start, end = max(0, answer.start), max(0, answer.start + len(answer.text))
            text_there = self.context[start:end]
            if not answer.text or answer.start < 0 or text_there != answer.text:
                raise DataError(
                    f"{place}question {self.id!r}: the answer {answer.text!r} is not at character "
                    f"{answer.start} of the context. Received: {text_there!r} at this place. "
                    "Correct `start`, which counts characters from 0."
                )


@dataclass(frozen=True)
class Choices:
    """Prompts with several options each, of which one is right.

    Attributes:
        prompts: one per row; "" for options without a prompt.
        options: the options of every row, at least two. Their number may differ between rows.
        answers: the index of the right option of every row, from 0, or None.
        places: "file:line" of every row, or ().
    """

    prompts: Sequence[str]
    options: Sequence[Sequence[str]]
    answers: Sequence[int] | None = None
    places: Sequence[str] = ()

    def __post_init__(self) -> None:
        _set(
            self,
            prompts=_texts("prompts", self.prompts, self.places),
            options=_rows("options", self.options, self.places),
            answers=_targets("answers", self.answers, self.places),
        )
        _require_equal(
            prompts=self.prompts, options=self.options, answers=self.answers, places=self.places
        )
        for i, options in enumerate(self.options):
            place = _place(self.places, i)
            if len(options) < 2:
                raise DataError(
                    f"{place}a row needs at least two options. Received: {options!r}. "
                    "Add options, or remove the row."
                )
            if self.answers is not None and not _is_index(self.answers[i], len(options)):
                raise DataError(
                    f"{place}the answer must be the index of an option, 0 to {len(options) - 1}. "
                    f"Received: {self.answers[i]!r}"
                )

    def __len__(self) -> int:
        return len(self.prompts)


def _is_index(value: Any, size: int) -> bool:
    """Return whether a value is a whole number from 0 to size - 1."""
    is_whole = not isinstance(value, bool) and isinstance(value, Integral)
    return is_whole and 0 <= int(value) < size


def _place(places: Sequence[str], row: int) -> str:
    """Return the beginning of a message about a row: "file:line: " or "row 3: "."""
    return f"{places[row]}: " if places else f"row {row}: "


def _set(examples: Any, **columns: Any) -> None:
    """Replace columns of a frozen dataclass, whose attributes cannot be assigned."""
    for name, column in columns.items():
        object.__setattr__(examples, name, column)


def _texts(name: str, column: Any, places: Sequence[str]) -> Sequence[str]:
    """Return a column as plain str: `texts_of`, but a tuple of these stays as it is, too."""
    return column if is_all_str(column) else texts_of(name, column, places)


def _rows(name: str, column: Any, places: Sequence[str]) -> Any:
    """Return a column of lists of str as plain str, without a copy if it is such already."""
    if isinstance(column, list | tuple):
        rows = cast("Sequence[Any]", column)
        if all(map(is_all_str, rows)):
            return rows
    return words_of_rows(name, column, places)


def _targets(name: str, column: Any, places: Sequence[str]) -> Any:
    """Return a column of targets as plain Python values; tuples stay tuples, None stays None."""
    if column is None or is_all_str(column):
        return column
    labels = labels_of(name, column, places)
    return tuple(labels) if isinstance(column, tuple) else labels


def _require_equal(**columns: Sequence[Any] | None) -> None:
    """Raise a `DataError` if columns differ in length. None and empty `places` do not count."""
    lengths = {
        name: len(column)
        for name, column in columns.items()
        if column is not None and not (name == "places" and not column)
    }
    if len(set(lengths.values())) > 1:
        received = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise DataError(f"All columns must have the same length. Received: {received}.")


def _tag_rows(tags: Any, places: Sequence[str]) -> Any:
    """Return the tags of every row as plain str. Refuse the indices that `datasets` has instead."""
    rows = values_of("tags", tags)
    for number, row in enumerate(rows):
        is_row = hasattr(row, "__iter__") and not isinstance(row, str)
        first = next(iter(row), None) if is_row else None
        if isinstance(first, Integral):
            raise DataError(
                f"{_place(places, number)}tags must be names. Received: the number {first} as the "
                "first tag. Pass tags=[[names[tag] for tag in row] for row in tags]; a "
                "`datasets.Dataset` has the names in features[column].feature.names."
            )
    return _rows("tags", tags if isinstance(tags, list | tuple) else rows, places)


def place_of(places: Sequence[str], index: int) -> str:
    """Return the name of an example for messages: "file:line", or "example 3" without places."""
    return places[index] if places else f"example {index}"
