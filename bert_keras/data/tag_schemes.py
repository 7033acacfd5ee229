"""Tagging schemes, which write spans of words as one tag for each word, and conversion to BIO.

A tag is "O", or a letter, "-" and a type, which may be any text ("B-PER.NAM", "I-creative-work").
If there is only one type, the letter may stand alone. The letters, for a span of "PER":

    bio     B-PER I-PER I-PER      B-PER alone
    iob1    I-PER I-PER I-PER      B-PER only at the start of a span right after one of its type
    bioes   B-PER I-PER E-PER      S-PER alone
    bilou   B-PER I-PER L-PER      U-PER alone
    bmes    B-PER M-PER E-PER      S-PER alone

iob1: Ramshaw and Marcus 1995, "Text chunking using transformation-based learning"; bio (also IOB2)
and similar schemes: Tjong Kim Sang and Veenstra 1999, "Representing text chunks".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bert_keras.data.source_files import ErrorCollector
from bert_keras.errors import DataError

SCHEMES = ("iob1", "bio", "bioes", "bilou", "bmes")

OUTSIDE = "O"
# Letters of a tag that begins a span, continues it, ends it, and is a span of one word.
_LETTERS = {"iob1": "BI", "bio": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}


def detect_scheme(tags: Iterable[str]) -> str:
    """Return the scheme of a file, from the letters of its tags.

    "bio" is returned for "iob1" too, because both are read in the same way: a span begins at B, and
    at I after a tag of no type or another type.

    Args:
        tags: all tags of the file, or each different tag once.
    """
    letters = {tag.partition("-")[0] for tag in tags}
    if "M" in letters:
        return "bmes"
    if letters & {"L", "U"}:
        return "bilou"
    return "bioes" if letters & {"E", "S"} else "bio"


def to_bio(
    tags: Sequence[str],
    scheme: str = "auto",
    *,
    repair: bool = False,
    place: Callable[[int], str] = "tag {}".format,
    faults: ErrorCollector | None = None,
) -> list[str]:
    """Convert the tags of a sentence to BIO, for example S-PER O to B-PER O.

    In "bio" and "iob1" every sequence of tags is valid, as in conlleval: an I without a span of its
    type before it begins a span. In the other schemes, a span without its first or last tag is an
    error. With `repair` it is read as conlleval reads it: it begins at its first tag, and ends
    before the first tag that does not continue it.

    Args:
        tags: tags of one sentence.
        scheme: one of `SCHEMES`, or "auto" to detect it from these tags (see `detect_scheme`).
        repair: whether to read broken spans.
        place: returns the name of a tag in messages, from its index in the sentence.
        faults: collects the errors. None: they are raised at the end.

    Returns:
        As many tags: "B-" and a type at the start of a span, "I-" and a type inside, "O" outside.

    Raises:
        ValueError: an unknown scheme.
        DataError: tags that are not of the scheme, and broken spans.
    """
    errors = ErrorCollector() if faults is None else faults
    scheme = detect_scheme(tags) if scheme == "auto" else scheme
    letters = _letters(scheme)
    strict = len(letters) == 4 and not repair
    result: list[str] = []
    span: str | None = None  # type of the span that the next tag may continue
    is_reported = False  # whether this span has an error already
    for i, tag in enumerate(tags):
        letter, kind = OUTSIDE, ""
        with errors.row():
            letter, kind = _parse(tag, scheme, letters, place(i))
        goes_on = letter in letters[1:3] and kind == span
        if strict and not goes_on and (span is not None or letter in letters[1:3]):
            before = "at the start" if i == 0 else f"after {tags[i - 1]!r}"
            is_reported = True
            errors.add(
                DataError(
                    f"{place(i)}: {tag!r} cannot stand {before} in the scheme {scheme!r}. Correct "
                    "the tags, pass their scheme, or pass repair=true to read broken spans."
                )
            )
        elif not goes_on:
            is_reported = False
        result.append(OUTSIDE if letter == OUTSIDE else _tag("I" if goes_on else "B", kind))
        ended = letter == OUTSIDE or letter in letters[2:]
        span = None if ended else kind
    if strict and span is not None and not is_reported:
        errors.add(
            DataError(
                f"{place(len(tags) - 1)}: the sentence ends within the span of {tags[-1]!r} in the "
                f"scheme {scheme!r}. Correct the tags, pass their scheme, or pass repair=true to "
                "read broken spans."
            )
        )
    if faults is None:
        errors.check()
    return result


def from_bio(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert the BIO tags of a sentence to another scheme; `to_bio` converts them back.

    Args:
        tags: BIO tags of one sentence. An I that begins a span counts as B, as in `to_bio`.
        scheme: one of `SCHEMES`.

    Raises:
        ValueError: an unknown scheme.
        DataError: a tag that is not BIO.
    """
    letters = _letters(scheme)
    bio = [_parse(tag, "bio", "BI", "") for tag in to_bio(tags, "bio")]
    result: list[str] = []
    for i, (letter, kind) in enumerate(bio):
        goes_on = i + 1 < len(bio) and bio[i + 1] == ("I", kind)
        if letter != OUTSIDE and scheme == "iob1":
            follows_its_type = i > 0 and bio[i - 1][0] != OUTSIDE and bio[i - 1][1] == kind
            letter = "B" if letter == "B" and follows_its_type else "I"
        elif letter != OUTSIDE and len(letters) == 4:
            letter = letters[(0 if goes_on else 3) if letter == "B" else (1 if goes_on else 2)]
        result.append(_tag(letter, kind))
    return result


def _letters(scheme: str) -> str:
    """Return the letters of a scheme: "BI", or those for begin, inside, end and single."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {SCHEMES}. Received: {scheme!r}")
    return _LETTERS[scheme]


def _parse(tag: str, scheme: str, letters: str, place: str) -> tuple[str, str]:
    """Return the letter and the type of a tag. The type of "O" and of a letter alone is ""."""
    letter, dash, kind = tag.partition("-")
    outside = tag == OUTSIDE
    if not outside and (len(letter) != 1 or letter not in letters or (dash and not kind)):
        raise DataError(
            f"{place}: unknown tag {tag!r}. A tag of the scheme {scheme!r} is {OUTSIDE!r}, or a "
            f"type after one of {', '.join(repr(f'{known}-') for known in letters)}. Correct the "
            "tag, or pass another scheme."
        )
    return letter, kind


def _tag(letter: str, kind: str) -> str:
    """Return the tag of a letter and a type, the inverse of `_parse`."""
    return f"{letter}-{kind}" if kind else letter
