"""Tagged words in columns, a word per line: the form of the CoNLL shared tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from bert_keras import atomic
from bert_keras.atomic import new_file
from bert_keras.data.examples import TaggedWords
from bert_keras.data.faults import Faults
from bert_keras.data.tag_schemes import SCHEMES, detect_scheme, from_bio, to_bio
from bert_keras.data.text_files import Source, strict_lines
from bert_keras.errors import DataError

DOCUMENT_START = "-DOCSTART-"

_SPACE = re.compile("[ \t]+")
# A character (or what is left of one that was cut into several) and its number in its word.
_NUMBERED = re.compile(r"(.\D*)\d+", re.DOTALL)
# What reading takes as the end of a line, refuses, or drops at the start of a file.
_UNWRITABLE = re.compile("[\n\r\0\ufeff\ud800-\udfff]")


def read_conll(
    path: Source,
    *,
    word_column: int = 0,
    tag_column: int | None = -1,
    scheme: str = "auto",
    repair: bool = False,
    numbered_characters: bool = False,
    encoding: str = "utf-8",
) -> TaggedWords:
    """Reads sentences of words with tags, which become BIO whatever the file has.

    A line holds a word and its tag in columns, a blank line ends a sentence, and lines that begin
    with "-DOCSTART-" are passed over. Where a line has a tab, tabs alone part its columns (a word
    may then hold, or be, a space); else spaces do. All lines have as many columns as the first.

    Args:
        path: the file, gzipped or not.
        word_column: number of the column of the words, from 0; a negative one counts from the end.
        tag_column: that of the tags; None reads words only.
        scheme: "iob1", "bio", "bioes", "bilou", "bmes", or "auto", which goes by the letters of
            all tags in the file. See `tag_schemes`.
        repair: what becomes of a broken span in the schemes that mark ends: an error, or, if True,
            what conlleval reads. "iob1" and "bio" have no broken spans: an I that no span of its
            type comes before begins one.
        numbered_characters: whether every word is a character and its number in its word ("科0"),
            as in Weibo NER; the number is left out.
        encoding: of the file.

    Raises:
        ValueError: no such scheme or encoding.
        DataError: names file and line of each fault: another number of columns, a word without a
            tag or a tag without a word, an unknown tag, a broken span; or no sentence at all.
    """
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(f"scheme must be 'auto' or one of {SCHEMES}. Received: {scheme!r}")
    words: list[tuple[str, ...]] = []
    tags: list[list[str]] = []
    starts: list[int] = []  # the lines of a sentence follow one another
    faults = Faults()
    with faults.whole():
        for start, rows in _sentences(path, encoding, word_column, tag_column, faults):
            found = [fields[word_column] for fields in rows]
            with faults.row():
                if numbered_characters:
                    places = (_place(path, start, i) for i in range(len(found)))
                    found = list(map(_character, found, places))
            words.append(tuple(found))
            starts.append(start)
            if tag_column is not None:
                tags.append([fields[tag_column] for fields in rows])
    if not words:
        raise DataError(f"{path}: no sentences.")
    places = tuple(_place(path, start) for start in starts)
    if tag_column is None:
        return TaggedWords(tuple(words), None, places)
    if scheme == "auto":
        scheme = detect_scheme({tag for sentence in tags for tag in sentence})
    bio = []
    with faults.whole():
        for start, sentence in zip(starts, tags, strict=True):
            at = partial(_place, path, start)
            bio.append(tuple(to_bio(sentence, scheme, repair=repair, place=at, faults=faults)))
    return TaggedWords(tuple(words), tuple(bio), places)


def write_conll(
    path: Source,
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    *,
    scheme: str = "bio",
    separator: str = "\t",
) -> None:
    """Writes sentences so that `read_conll` gives them back: a word and its tag per line.

    Args:
        path: the file, replaced as a whole when all is written.
        words: of every sentence.
        tags: BIO tags, one per word.
        scheme: what the tags are written in, one of `tag_schemes.SCHEMES`.
        separator: a tab, or a space, which no word may then hold.

    Raises:
        ValueError: another separator or scheme.
        DataError: a sentence or word that would be read as something else; words and tags differ
            in number.
    """
    if separator not in ("\t", " "):
        raise ValueError(f"separator must be a tab or a space. Received: {separator!r}")
    sentences = TaggedWords(words, tags)  # checks that they fit
    with new_file(path) as file:
        rows = zip(sentences.words, sentences.tags or (), strict=True)
        for i, (sentence, its_tags) in enumerate(rows):
            for word, tag in zip(sentence, from_bio(its_tags, scheme), strict=True):
                for text in (word, tag):
                    _require_writable(text, separator, f"sentence {i}")
                file.write(f"{word}{separator}{tag}\n".encode())
            file.write(b"\n")


def _sentences(
    path: Source, encoding: str, word_column: int, tag_column: int | None, faults: Faults
) -> Iterator[tuple[int, list[list[str]]]]:
    """The number of the first line, and the columns of every line, of each sentence."""
    sentence: list[list[str]] = []
    start, width, first = 0, 0, 0
    for number, line in strict_lines(atomic.expanded(path), encoding):
        fields = _fields(line)
        if not fields or fields[0] == DOCUMENT_START:
            if sentence:
                yield start, sentence
            sentence = []
            continue
        place = _place(path, number)
        if not width:
            width, first = len(fields), number
            _require_columns(place, fields, word_column, tag_column)
        wrong = ""
        if len(fields) != width:
            wrong = (
                f"{len(fields)} columns, where line {first} has {width}: a word without a tag, or "
                "a tag without a word?"
            )
        elif not fields[word_column]:
            wrong = "a tag without a word."
        elif tag_column is not None and not fields[tag_column]:
            wrong = "a word without a tag."
        if wrong:
            faults.add(DataError(f"{place}: {wrong} Received: {line.rstrip()!r:.200}"))
            continue
        start = start if sentence else number
        sentence.append(fields)
    if sentence:
        yield start, sentence


def _place(path: Source, start: int, index: int = 0) -> str:
    return f"{path}:{start + index}"


def _fields(line: str) -> list[str]:
    """The columns; none in a blank line."""
    line = line.removesuffix("\n")
    if not line.strip(" \t"):
        return []
    if "\t" not in line:
        return _SPACE.split(line.strip(" "))
    # Of a field that is nothing but spaces these are the word.
    return [field.strip(" ") or field for field in line.split("\t")]


def _require_columns(
    place: str, fields: list[str], word_column: int, tag_column: int | None
) -> None:
    width = len(fields)
    for what, column in (("word", word_column), ("tag", tag_column)):
        if column is not None and not -width <= column < width:
            raise DataError(
                f"{place}: no column {column} for the {what}. Received: {width} columns: {fields}"
            )
    if tag_column is not None and tag_column % width == word_column % width:
        raise DataError(
            f"{place}: a word without a tag: column {tag_column} is that of the words too. "
            f"Received: {fields}. Name another column for the tags."
        )


def _character(word: str, place: str) -> str:
    if match := _NUMBERED.fullmatch(word):
        return match[1]
    raise DataError(f"{place}: a character and its number are needed. Received: {word!r}")


def _require_writable(text: str, separator: str, place: str) -> None:
    inner = text if separator == " " else text.strip(" ") or text
    bad = _UNWRITABLE.search(text) or "\t" in text or inner != text
    if not text or bad or text == DOCUMENT_START or (separator == " " and " " in text):
        raise DataError(
            f"{place}: {text!r} cannot be written as a word or tag in columns. Leave out line "
            f"ends, tabs, byte order marks and spaces around it, and {DOCUMENT_START}."
        )
