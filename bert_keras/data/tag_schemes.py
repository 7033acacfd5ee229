"""Ways of writing spans as one tag per word, turned into BIO and back.

A tag is "O" or a letter, "-" and a type, which may hold anything ("B-PER.NAM", "I-creative-work"),
or the bare letter where there is one type only. The letters, for a span of "PER":

    bio     B-PER I-PER I-PER      B-PER alone
    iob1    I-PER I-PER I-PER      B-PER only at the start of a span behind another of its type
    bioes   B-PER I-PER E-PER      S-PER alone
    bilou   B-PER I-PER L-PER      U-PER alone
    bmes    B-PER M-PER E-PER      S-PER alone

iob1: Ramshaw and Marcus 1995, "Text chunking using transformation-based learning"; bio (also IOB2)
and its like: Tjong Kim Sang and Veenstra 1999, "Representing text chunks".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bert_keras.data.columns import ErrorCollector
from bert_keras.errors import DataError

SCHEMES = ("iob1", "bio", "bioes", "bilou", "bmes")

OUTSIDE = "O"
# What begins a span, goes on, ends it, and stands alone.
_LETTERS = {"iob1": "BI", "bio": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}


def detect_scheme(tags: Iterable[str]) -> str:
    """The scheme of a file by the letters in its tags.

    "bio" and "iob1" are one to a reader, and "bio" is returned for both: a span begins at B, and
    at I where the tag before is of no or another type.

    Args:
        tags: all tags of the file, or the different ones.
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
    """The tags of a sentence in BIO.

    In "bio" and "iob1" every sequence has a reading, conlleval's: an I that no span of its type
    comes before begins one. In the other schemes a span that is not begun or not ended is an
    error, or, with `repair`, read as conlleval reads it: it begins where its first tag is, and
    ends before the first that does not go on with it.

    Args:
        tags: of one sentence.
        scheme: one of `SCHEMES`, or "auto" to tell it by these tags (see `detect_scheme`).
        repair: whether to read broken spans.
        place: names the tag of an index, from 0, in messages.
        faults: takes what is wrong, instead of an error at the end.

    Returns:
        As many tags: "B-" and a type where a span begins, "I-" and it inside, "O".

    Raises:
        ValueError: no such scheme.
        DataError: names every tag that the scheme has not, and every broken span.
    """
    own = ErrorCollector() if faults is None else faults
    scheme = detect_scheme(tags) if scheme == "auto" else scheme
    letters = _letters(scheme)
    strict = len(letters) == 4 and not repair
    result: list[str] = []
    span: str | None = None  # type of the one that may go on,
    is_told = False  # and whether something is wrong with it that was said
    for i, tag in enumerate(tags):
        letter, kind = OUTSIDE, ""
        with own.row():
            letter, kind = _parse(tag, scheme, letters, place(i))
        goes_on = letter in letters[1:3] and kind == span
        if strict and not goes_on and (span is not None or letter in letters[1:3]):
            before = "at the start" if i == 0 else f"after {tags[i - 1]!r}"
            is_told = True
            own.add(
                DataError(
                    f"{place(i)}: {tag!r} cannot stand {before} in the scheme {scheme!r}. Correct "
                    "the tags, pass their scheme, or pass repair=true to read broken spans."
                )
            )
        elif not goes_on:
            is_told = False
        result.append(OUTSIDE if letter == OUTSIDE else _tag("I" if goes_on else "B", kind))
        ended = letter == OUTSIDE or letter in letters[2:]
        span = None if ended else kind
    if strict and span is not None and not is_told:
        own.add(
            DataError(
                f"{place(len(tags) - 1)}: the sentence ends within the span of {tags[-1]!r} in the "
                f"scheme {scheme!r}. Correct the tags, pass their scheme, or pass repair=true to "
                "read broken spans."
            )
        )
    if faults is None:
        own.check()
    return result


def from_bio(tags: Sequence[str], scheme: str) -> list[str]:
    """BIO tags of a sentence in another scheme; `to_bio` gives them back.

    Args:
        tags: BIO, where an I that begins a span counts as B, as in `to_bio`.
        scheme: one of `SCHEMES`.

    Raises:
        ValueError: no such scheme.
        DataError: a tag that is not BIO.
    """
    letters = _letters(scheme)
    bio = [_parse(tag, "bio", "BI", "") for tag in to_bio(tags, "bio")]
    result: list[str] = []
    for i, (letter, kind) in enumerate(bio):
        goes_on = i + 1 < len(bio) and bio[i + 1] == ("I", kind)
        if letter != OUTSIDE and scheme == "iob1":
            behind = i > 0 and bio[i - 1][0] != OUTSIDE and bio[i - 1][1] == kind
            letter = "B" if letter == "B" and behind else "I"
        elif letter != OUTSIDE and len(letters) == 4:
            letter = letters[(0 if goes_on else 3) if letter == "B" else (1 if goes_on else 2)]
        result.append(_tag(letter, kind))
    return result


def _letters(scheme: str) -> str:
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {SCHEMES}. Received: {scheme!r}")
    return _LETTERS[scheme]


def _parse(tag: str, scheme: str, letters: str, place: str) -> tuple[str, str]:
    """Letter and type; the type of a bare letter is ""."""
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
    return f"{letter}-{kind}" if kind else letter
