"""Entities as character spans: splitting of texts into words, and tags for the words of a span."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple, cast

from bert_keras.data.columns import texts_of, values_of
from bert_keras.data.examples import OUTSIDE, TaggedWords
from bert_keras.data.long_texts import warn
from bert_keras.data.source_files import ErrorCollector
from bert_keras.errors import DataError

# === Words ===


# Marks that always split a word: brackets, and Chinese and Japanese punctuation.
PARTING = re.compile(r"[()\[\]{}\u3001-\u3003\u3008-\u3011\u3014-\u301f！（）？［］｛｝｟-､]")
# WIDE marks split a word except between digits. INNER marks split it next to a letter. PARTED
# matches all marks that split a word.
WIDE, INNER, QUOTES = "，：；", ",;\u2013\u2014", "'\u2019"
PARTED = re.compile(
    rf"{PARTING.pattern}|(?<!\d)[{WIDE}]|[{WIDE}](?!\d)"
    rf"|(?<=[^\W\d])[{INNER}](?=\w)|(?<=\w)[{INNER}](?=[^\W\d])"
)
_POSSESSIVE = re.compile(rf"(?<=\w)[{QUOTES}][sS]\Z")
# Chinese characters, as BERT's tokenizer splits them (google-research/bert, tokenization.py).
CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def words_of(text: str) -> list[tuple[int, int]]:
    """Split a text into words, as corpora of tagged words do.

    - White space separates words.
    - Each punctuation mark or symbol before or after a word is a word, and so is every Chinese
      character.
    - Marks within a word ("U.S.-based", "don't", "1,000") stay in it. Exceptions are a possessive
      's and marks that split words ("Rome,Paris"), which are words of their own.
    - Accents, joiners and variation selectors belong to the character before them.

    Returns:
        (start, end) of each word in characters: text[start:end].
    """
    words: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    for start, end in _characters(text):
        if text[start].isspace() or is_chinese(text[start]):
            words += _words(text, run)
            run = []
            words += [] if text[start].isspace() else [(start, end)]
        else:
            run.append((start, end))
    return words + list(_words(text, run))


def _characters(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each character together with the accents and joiners after it."""
    start = 0
    while start < len(text):
        end = start + 1
        if not text[start].isspace():
            while end < len(text) and is_attached(text[end]):
                end += 1
        yield start, end
        start = end


def _words(text: str, run: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the words in a run of characters without spaces and Chinese."""
    letters = "".join(text[start] for start, _ in run)
    bounds = {at for part in PARTED.finditer(letters) for at in part.span()}
    for first, last in pairwise(sorted({0, *bounds, len(letters)})):
        begin, stop = first, last
        while begin < stop and is_mark(letters[begin]):
            begin += 1
        while stop > begin and is_mark(letters[stop - 1]):
            stop -= 1
        yield from run[first:begin]
        owner = _POSSESSIVE.search(letters[begin:stop])
        inner = begin + owner.start() if owner else stop
        for a, b in ((begin, inner), (inner, stop)):
            if a < b:
                yield run[a][0], run[b - 1][1]
        yield from run[stop:last]


def is_chinese(character: str) -> bool:
    """Return whether a character is Chinese, which makes it a word of its own."""
    return any(first <= ord(character) <= last for first, last in CHINESE)


def is_attached(character: str) -> bool:
    """Return whether a character belongs to the one before it, such as a combining accent."""
    return not character.isascii() and unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")


def is_mark(character: str) -> bool:
    """Return whether a character at the edge of a word is not part of it: punctuation, symbols."""
    return unicodedata.category(character)[0] in "PS" or is_attached(character)


# === Entities as spans of characters ===


MISALIGNED = ("refuse", "widen")

# Keys of the start and of the end of an entity: ours and Label Studio's, and doccano's.
_START, _END = ("start", "start_offset"), ("end", "end_offset")
_SHOWN = 60  # characters of a text in a message
# Thai, Lao, Tibetan, Burmese, Khmer, and Japanese kana: scripts without spaces between words.
_SPACELESS = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\uff66-\uff9f]")
_MOST_WIDE = 20  # characters that a span may gain beside twice its own
# A label such as "B-PER" is that of a tag. "E-mail" may be a label.
_OF_TAGS = re.compile(r"O|[BI]-.+")


class TextSpan(NamedTuple):
    """An entity in a text: its first character from 0, the character after its last, its label."""

    start: int
    end: int
    label: str


def tag_words(
    texts: Sequence[str],
    entities: Sequence[Sequence[Any]] | None,
    *,
    misaligned: str = "refuse",
    places: Sequence[str] = (),
) -> TaggedWords:
    """Split texts into words, and tag each word by the entities of its text.

    Texts are split as `Predictor.predict_entities` splits them, so that a model that learns the
    tags answers with the same spans. White space at the ends of a span does not count.

    Args:
        texts: one text per row.
        entities: the entities of each text, in any order: (start, end, label), dictionaries with
            these keys (or `start_offset`, `end_offset`, and `labels` with one label), or the
            `Entity` objects of a prediction. Positions count characters (code points) from 0. If
            an entity has its own `text` and the positions count UTF-16 units instead, as those of
            Label Studio do, they are converted. None for texts to predict.
        misaligned: what is done with a span that begins or ends within a word: "refuse", or
            "widen" it to the whole words. Words that are much longer than the span, as in scripts
            without spaces, are refused.
        places: "file:line" of every text, for messages.

    Returns:
        Words and BIO tags, with the texts as `texts`.

    Warns:
        UserWarning: labels that are tags, such as "B-PER", whose tags become "B-B-PER".

    Raises:
        ValueError: an unknown value of `misaligned`.
        DataError: texts without words; spans that are misaligned, overlap, are empty or outside
            the text, or do not have their `text`. The message has place and text of each.
    """
    if misaligned not in MISALIGNED:
        raise ValueError(f"misaligned must be one of {MISALIGNED}. Received: {misaligned!r}")
    texts = texts_of("texts", texts, places)
    columns = None if entities is None else values_of("entities", entities)
    if columns is not None and len(columns) != len(texts):
        raise DataError(
            "Every text needs a list of entities, which may be empty. "
            f"Received: {len(texts)} texts and {len(columns)} lists."
        )
    words: list[tuple[str, ...]] = []
    tags: list[tuple[str, ...]] = []
    labels: dict[str, str] = {}  # place of the first entity of each label
    errors = ErrorCollector()
    for row, text in enumerate(texts):
        place = places[row] if places else f"row {row}"
        bounds = words_of(text)
        if not bounds:
            errors.add(DataError(f"{place}: no text. Received: {text!r:.100}. Remove the row."))
        words.append(tuple(text[start:end] for start, end in bounds))
        if columns is not None:
            spans: list[TextSpan] = []
            with errors.row():
                for entity in _entities_of(columns[row], place):
                    with errors.row():
                        spans.append(span_of(entity, text, place))
            tags.append(_tags(text, bounds, spans, misaligned, place, errors))
            labels |= {span.label: place for span in reversed(spans)} | labels
    errors.check()
    if of_tags := sorted(filter(_OF_TAGS.fullmatch, labels)):
        warn(
            f"{labels[of_tags[0]]}: the label of an entity is the tag {of_tags[0]!r}, and the tag "
            f"of its first word becomes 'B-{of_tags[0]}'. Write the type alone, such as 'PER'."
        )
    return TaggedWords(tuple(words), None if columns is None else tuple(tags), places, tuple(texts))


def _entities_of(entities: Any, place: str) -> list[Any]:
    """Return the entities of a text as a list; refuse a dictionary with a message of its own."""
    if isinstance(entities, Mapping):
        keys = [*cast("Mapping[Any, Any]", entities)]
        is_one = any(key in keys for key in _START)
        advice = "the entity in a list: [entity]" if is_one else "the list under 'entities'"
        raise DataError(
            f"{place}: the entities of a text must be a list, not a dictionary. Received: the keys "
            f"{keys!r:.100}. Pass {advice}."
        )
    return values_of(f"{place}: entities", entities)


def span_of(entity: Any, text: str, place: str) -> TextSpan:
    """Return an entity of any of the forms that `tag_words` takes; see there.

    Raises:
        DataError: the entity has another form, is empty or not in the text, or its own `text` is
            another one. The message begins with `place`.
    """
    start, end, label, own_text = _values_of(entity, place)
    shown = f"[{start!r}, {end!r}, {label!r}]"
    for value in (start, end):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise DataError(
                f"{place}: start and end of an entity must be whole numbers. Received: {shown:.200}"
            )
    if not isinstance(label, str) or not label.strip():
        raise DataError(
            f"{place}: the label of an entity must be text. Received: {shown:.200}. Write the name "
            "of the label."
        )
    start, end = int(start), int(end)
    if isinstance(own_text, str) and _plain(text[max(start, 0) : end]) != _plain(own_text):
        units = _from_utf16(text, start, end)
        if units is None or _plain(text[units[0] : units[1]]) != _plain(own_text):
            raise DataError(
                f"{place}: the entity {shown} must be {own_text!r:.100}. Received: "
                f"{text[max(start, 0) : end]!r:.100} at this place of the text. Correct start and "
                "end, which count characters from 0."
            )
        start, end = units
    if start >= end:
        raise DataError(
            f"{place}: the entity {shown} is empty: its end must be greater than its start. "
            f"Received: the text {text!r:.{_SHOWN}}. Correct or remove the entity."
        )
    if start < 0 or end > len(text):
        raise DataError(
            f"{place}: the entity {shown} is outside of the text, which has {len(text)} "
            f"characters. Received: {text!r:.{_SHOWN}}. Correct the entity."
        )
    inside = text[start:end]
    if not inside.strip():
        raise DataError(
            f"{place}: the entity {shown} has white space alone. Received: the text "
            f"{text!r:.{_SHOWN}}. Remove the entity."
        )
    start += len(inside) - len(inside.lstrip())
    return TextSpan(start, start + len(inside.strip()), label.strip())


def _values_of(entity: Any, place: str) -> tuple[Any, Any, Any, Any]:
    """Return start, end, label and text of an entity; the text is None if it has none."""
    if isinstance(entity, Mapping):
        values = cast("Mapping[Any, Any]", entity)
        start = next((values[key] for key in _START if key in values), None)
        end = next((values[key] for key in _END if key in values), None)
        label: Any = values.get("label", values.get("labels"))
        if isinstance(label, list | tuple):
            labels = cast("list[Any]", label)
            label = labels[0] if len(labels) == 1 else None
        if start is not None and end is not None and label is not None:
            return start, end, label, values.get("text")
    elif all(hasattr(entity, name) for name in ("start", "end", "label")):  # a slice has no label
        return entity.start, entity.end, entity.label, getattr(entity, "text", None)
    elif isinstance(entity, list | tuple) and len(cast("list[Any]", entity)) in (3, 4):
        start, end, label, *own_text = cast("list[Any]", entity)
        return start, end, label, own_text[0] if own_text else None
    raise DataError(
        f"{place}: an entity must be [start, end, label], or an object with start, end and one "
        f"label. Received: {entity!r:.200}"
    )


def _plain(text: str) -> str:
    """Return a text with every run of white space as one space, as browsers copy text."""
    return " ".join(text.split())


def _from_utf16(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Convert positions in UTF-16 units, which JavaScript counts, to positions in characters."""
    if not 0 <= start <= end:
        return None
    sizes = [2 if ord(character) > 0xFFFF else 1 for character in text]
    units = [0]
    for size in sizes:
        units.append(units[-1] + size)
    if start not in units or end not in units:
        return None
    return units.index(start), units.index(end)


def _tags(
    text: str,
    words: Sequence[tuple[int, int]],
    spans: Sequence[TextSpan],
    misaligned: str,
    place: str,
    errors: ErrorCollector,
) -> tuple[str, ...]:
    """Return the BIO tag of each word of a text. Errors of its spans are added to `errors`."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    tags = [OUTSIDE] * len(words)
    owners: dict[int, TextSpan] = {}
    for span in sorted(spans):
        first, stop = bisect_right(ends, span.start), bisect_left(starts, span.end)
        other = next((owners[word] for word in range(first, stop) if word in owners), None)
        is_exact = starts[first] == span.start and ends[stop - 1] == span.end
        if other is not None:
            errors.add(
                DataError(
                    f"{place}: two entities overlap: {_shown(other, text)} and "
                    f"{_shown(span, text)}. A word has one tag: remove one of them."
                )
            )
        elif not is_exact and (
            (is_long := _is_long(text, starts[first], ends[stop - 1], span))
            or misaligned == "refuse"
        ):
            begins_within = starts[first] != span.start
            cut, verb = (first, "begins") if begins_within else (stop - 1, "ends")
            word = text[starts[cut] : ends[cut]]
            errors.add(
                DataError(
                    f"{place}: the entity {_shown(span, text)} {verb} within the word "
                    f"{word!r:.{_SHOWN}}, characters {starts[cut]} to {ends[cut]}. "
                    + (_SEGMENT if is_long else _WIDEN)
                )
            )
        else:
            owners |= dict.fromkeys(range(first, stop), span)
            tags[first:stop] = [f"B-{span.label}", *[f"I-{span.label}"] * (stop - first - 1)]
    return tuple(tags)


_WIDEN = (
    'Correct the entity, or take whole words: tag_words(texts, entities, misaligned="widen"), '
    "whose words and tags `fit` takes too (in recipes misaligned=widen)."
)
_SEGMENT = (
    "The word is too long to be the entity. If the text has no spaces between words, split it with "
    "a word segmenter of its language: `fit(words, tags)` and `predict_tags(words)` take its "
    "words. `predict_entities` does not split such texts."
)


def _is_long(text: str, start: int, end: int, span: TextSpan) -> bool:
    """Return whether the whole words from `start` to `end` are too long for a span in them."""
    size, entity = end - start, span.end - span.start
    is_spaceless = _SPACELESS.search(text, start, end) is not None
    return 2 * size > 3 * entity if is_spaceless else size > 2 * entity + _MOST_WIDE


def _shown(span: TextSpan, text: str) -> str:
    """Return an entity for a message, with its text."""
    return f"[{span.start}, {span.end}, {span.label!r}] {text[span.start : span.end]!r:.{_SHOWN}}"
