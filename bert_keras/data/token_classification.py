"""Token classification: reading and writing CoNLL files, and encoding tagged words."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from bert_keras import file_io
from bert_keras.data.columns import texts_of
from bert_keras.data.documents import Source, strict_lines
from bert_keras.data.examples import TaggedWords
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.sliding_windows import word_windows
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.tag_schemes import SCHEMES, detect_scheme, from_bio, to_bio
from bert_keras.errors import DataError
from bert_keras.features import TAGS
from bert_keras.file_io import new_file
from bert_keras.tokenizers import Tokenizer

DOCUMENT_START = "-DOCSTART-"
MOST_WORDS = 1_000  # of a sentence without a warning; CoNLL-2003 has 124 at most

_SPACE = re.compile("[ \t]+")
# A character (several code points, if the corpus cut it apart) and its number in the word.
_NUMBERED = re.compile(r"(.\D*)\d+", re.DOTALL)
# Characters that reading takes as the end of a line, refuses, or drops at the start of a file.
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
    """Read sentences of tagged words, and convert the tags from the file's scheme to BIO.

    A line has a word and its tag in columns, and a blank line ends a sentence. Lines that begin
    with "-DOCSTART-" are skipped. If a line has a tab, only tabs separate its columns, and a word
    may have spaces; otherwise spaces do. All lines have as many columns as the first. A warning
    names a sentence of more than `MOST_WORDS` words, because blank lines may be missing.

    Args:
        path: the file, gzipped or not.
        word_column: number of the column of the words, from 0; a negative one counts from the end.
        tag_column: number of the column of the tags; None reads words only.
        scheme: "iob1", "bio", "bioes", "bilou", "bmes", or "auto", which detects the scheme from
            the letters of all tags in the file. See `tag_schemes`.
        repair: False makes a broken span an error; True reads it as conlleval does. Only schemes
            that mark the end of a span have broken ones. In "iob1" and "bio", an I without a span
            of its type before it begins a span.
        numbered_characters: whether every word is a character and its number in the word ("科0"),
            as in Weibo NER. The number is removed.
        encoding: encoding of the file.

    Returns:
        The sentences in the order of the file; `places` has "file:line" of their first words.

    Raises:
        ValueError: an unknown scheme or encoding.
        DataError: lines with another number of columns, without a word or a tag, with an unknown
            tag or a broken span, each named by file and line; or a file without sentences.
    """
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(f"scheme must be 'auto' or one of {SCHEMES}. Received: {scheme!r}")
    words: list[tuple[str, ...]] = []
    tags: list[list[str]] = []
    starts: list[int] = []  # the lines of a sentence follow one another
    errors = ErrorCollector()
    with errors.whole():
        for start, rows in _sentences(path, encoding, word_column, tag_column, errors):
            sentence_words = [fields[word_column] for fields in rows]
            with errors.row():
                if numbered_characters:
                    places = (_place(path, start, i) for i in range(len(sentence_words)))
                    sentence_words = list(map(_character, sentence_words, places))
            words.append(tuple(sentence_words))
            starts.append(start)
            if tag_column is not None:
                tags.append([fields[tag_column] for fields in rows])
    if not words:
        raise DataError(f"{path}: no sentences. Pass a file with a word and its tag in each line.")
    _warn_of_a_long_sentence(path, words, starts)
    places = tuple(_place(path, start) for start in starts)
    if tag_column is None:
        return TaggedWords(tuple(words), None, places)
    if scheme == "auto":
        scheme = detect_scheme({tag for sentence in tags for tag in sentence})
    bio: list[tuple[str, ...]] = []
    with errors.whole():
        for start, sentence in zip(starts, tags, strict=True):
            at = partial(_place, path, start)
            bio.append(tuple(to_bio(sentence, scheme, repair=repair, place=at, faults=errors)))
    return TaggedWords(tuple(words), tuple(bio), places)


def _warn_of_a_long_sentence(
    path: Source, words: Sequence[Sequence[str]], starts: Sequence[int]
) -> None:
    """Warn of a sentence with so many words that blank lines seem to be missing."""
    longest = max(range(len(words)), key=lambda number: len(words[number]))
    if (count := len(words[longest])) > MOST_WORDS:
        warnings.warn(
            f"{_place(path, starts[longest])}: a sentence of {count:,} words. A blank line ends a "
            "sentence. Add blank lines between the sentences, if they are missing.",
            stacklevel=3,
        )


def write_conll(
    path: Source,
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    *,
    scheme: str = "bio",
    separator: str = "\t",
) -> None:
    """Write tagged words as a CoNLL file that `read_conll` reads back: a word and tag per line.

    Args:
        path: the file. It is replaced as a whole, after the last line is written.
        words: words of every sentence.
        tags: BIO tags of every sentence, one for each word.
        scheme: scheme of the tags in the file, one of `tag_schemes.SCHEMES`.
        separator: a tab, or a space if no word has one.

    Raises:
        ValueError: another separator or scheme.
        DataError: a word that would be read as something else, or unequal numbers of words and
            tags.
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
    path: Source, encoding: str, word_column: int, tag_column: int | None, errors: ErrorCollector
) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield the first line number of each sentence, and the columns of each of its lines.

    A line with an error is left out, and its error is added to `errors`.

    Raises:
        DataError: the first line does not have the columns.
    """
    sentence: list[list[str]] = []
    start, width, first = 0, 0, 0
    for number, line in strict_lines(file_io.expanded(path), encoding):
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
        reason = ""
        if len(fields) != width:
            reason = (
                f"{len(fields)} columns, where line {first} has {width}: a word without a tag, or "
                "a tag without a word?"
            )
        elif not fields[word_column]:
            reason = "a tag without a word."
        elif tag_column is not None and not fields[tag_column]:
            reason = "a word without a tag."
        if reason:
            errors.add(DataError(f"{place}: {reason} Received: {line.rstrip()!r:.200}"))
            continue
        start = start if sentence else number
        sentence.append(fields)
    if sentence:
        yield start, sentence


def _place(path: Source, start: int, index: int = 0) -> str:
    """Return "file:line" of a word, from the first line of its sentence and its index in it."""
    return f"{path}:{start + index}"


def _fields(line: str) -> list[str]:
    """Return the columns of a line, or an empty list for a blank line."""
    line = line.removesuffix("\n")
    if not line.strip(" \t"):
        return []
    if "\t" not in line:
        return _SPACE.split(line.strip(" "))
    # A field of nothing but spaces is a word of spaces.
    return [field.strip(" ") or field for field in line.split("\t")]


def _require_columns(
    place: str, fields: list[str], word_column: int, tag_column: int | None
) -> None:
    """Raise a `DataError` if a line has no such columns, or both are the same column."""
    width = len(fields)
    for name, column in (("word", word_column), ("tag", tag_column)):
        if column is not None and not -width <= column < width:
            raise DataError(
                f"{place}: no column {column} for the {name}. Received: {width} columns: {fields}. "
                f"Pass another {name}_column."
            )
    if tag_column is not None and tag_column % width == word_column % width:
        raise DataError(
            f"{place}: words and tags must be in two columns, with a tab or spaces between them. "
            f"Received: {fields}, with both in column {tag_column}. Pass another tag_column, or a "
            "file of another format: CSV is not read; JSON of texts with entities is "
            "(docs/data_files.md)."
        )


def _character(word: str, place: str) -> str:
    """Return the character of a word such as "科0", without its number."""
    if match := _NUMBERED.fullmatch(word):
        return match[1]
    raise DataError(
        f"{place}: numbered_characters needs a character and its number, such as 'a0'. "
        f"Received: {word!r}. For whole words pass numbered_characters=false."
    )


def _require_writable(text: str, separator: str, place: str) -> None:
    """Raise a `DataError` if `read_conll` would not read a word or tag back as it is."""
    inner = text if separator == " " else text.strip(" ") or text
    bad = _UNWRITABLE.search(text) or "\t" in text or inner != text
    if not text or bad or text == DOCUMENT_START or (separator == " " and " " in text):
        raise DataError(
            f"{place}: {text!r} cannot be written as a word or tag in columns. Leave out line "
            f"ends, tabs, byte order marks and spaces around it, and {DOCUMENT_START}."
        )


# === Examples for training ===


# Batches. Long sentences have other tags than short ones. A small window of lengths keeps the
# tags of the batches more alike.
_WINDOW_OF_TAGS = 4


def tag_examples(
    tokenizer: Tokenizer,
    examples: TaggedWords,
    *,
    labels: Sequence[str],
    all_pieces: bool = False,
    max_length: int = 128,
    window: int = _WINDOW_OF_TAGS,
    **options: Any,
) -> SupervisedExamples:
    """Encode tagged words as batches for a `TokenClassifier`.

    The targets of a batch are {"tags": int32 [B, T]}, and the weights float32 [B, T]. Tokens that
    do not count (special tokens, later pieces of a word, padding) have a weight of 0. The others
    have the same weight, such that the weights of a row sum to 1 on average: the loss of a row is
    then about as large as that of a token. A sentence too long for a row becomes several rows.

    Args:
        tokenizer: the tokenizer of the model.
        examples: words with tags.
        labels: the names of the tags in the model's order.
        all_pieces: True gives every piece of a word its tag (I-X for the later ones of B-X); False
            only the first one (Devlin et al., 2019, §5.3).
        max_length: maximum number of tokens in a row.
        window: number of batches that are sorted by length together, as in `SupervisedExamples`.
        options: options of `SupervisedExamples`.

    Raises:
        DataError: unknown tags, or examples without tags. The message names the words.
    """
    if examples.tags is None or not len(examples):
        raise DataError(
            f"The sentences have no tags to train on. Received: {len(examples)} sentences without "
            "tags. Pass `tags`, one for each word."
        )
    names = texts_of("labels", labels)
    numbers = {name: number for number, name in enumerate(names)}
    later = np.array([numbers.get(_continued(name), numbers[name]) for name in names])
    ids: list[list[int]] = []
    targets: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    errors = ErrorCollector()
    for index, (words, tags) in enumerate(zip(examples.words, examples.tags, strict=True)):
        if unknown := [number for number, tag in enumerate(tags) if tag not in numbers]:
            for number in unknown:
                errors.add(
                    DataError(
                        f"{examples.place(index, number)}: unknown tag {tags[number]!r}. The tags "
                        f"are {', '.join(numbers)}."
                    )
                )
            continue
        known = np.array([numbers[tag] for tag in tags])
        for row in word_windows(tokenizer, index, words, max_length=max_length):
            is_word = row.words >= 0
            of_piece = np.where(is_word, known[row.words], 0)
            ids.append(row.ids)
            targets.append(np.where(row.is_first, of_piece, later[of_piece]))
            weights.append(is_word if all_pieces else row.is_first)
    errors.check()
    rows = EncodedTexts.of(ids, [np.zeros(len(row), np.int32) for row in ids], tokenizer.pad_id)
    counted = np.concatenate(weights)
    weight = len(ids) / max(1, counted.sum())
    return SupervisedExamples(
        rows,
        {},
        token_labels={TAGS: np.concatenate(targets).astype(np.int32)},
        token_weights={TAGS: (counted * weight).astype(np.float32)},
        max_length=max_length,
        window=window,
        **options,
    )


def _continued(tag: str) -> str:
    """Return the tag of the later pieces of a word: I-X for B-X, otherwise the same tag."""
    return f"I-{tag[2:]}" if tag.startswith("B-") else tag
