"""Tags in every scheme are converted to BIO and back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.tag_schemes import SCHEMES, detect_scheme, from_bio, to_bio
from bert_keras.errors import DataError

# A span of three words, a span of one, two adjacent spans of one type, and one of another type.
_BIO = "O B-A I-A I-A O B-B O B-A I-A B-A B-B.C-d"
_SAME = {
    "bio": _BIO,
    "iob1": "O I-A I-A I-A O I-B O I-A I-A B-A I-B.C-d",
    "bioes": "O B-A I-A E-A O S-B O B-A E-A S-A S-B.C-d",
    "bilou": "O B-A I-A L-A O U-B O B-A L-A U-A U-B.C-d",
    "bmes": "O B-A M-A E-A O S-B O B-A E-A S-A S-B.C-d",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_spans_in_every_scheme(scheme: str) -> None:
    tags = _SAME[scheme].split()
    assert to_bio(tags, scheme) == _BIO.split()
    assert from_bio(_BIO.split(), scheme) == tags
    assert to_bio(tags) == _BIO.split()


_SPANS = st.lists(st.tuples(st.sampled_from(["", "A", "B", "PER.NAM", "x-y"]), st.integers(0, 4)))


@given(_SPANS, st.sampled_from(SCHEMES))
def test_every_scheme_and_back(spans: list[tuple[str, int]], scheme: str) -> None:
    """Tags converted to any scheme and back are unchanged.

    A span with a length of 0 stands for a word outside of spans.
    """
    bio: list[str] = []
    for kind, length in spans:
        dash = f"-{kind}" if kind else ""
        bio += [f"B{dash}", *[f"I{dash}"] * (length - 1)] if length else ["O"]
    assert to_bio(from_bio(bio, scheme), scheme) == bio
    assert to_bio(from_bio(bio, scheme), scheme, repair=True) == bio


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])))
def test_any_bio_has_a_reading(tags: list[str]) -> None:
    """Any BIO tags can be read: only an I tag that begins a span is changed, to B.

    The spans are the same in every scheme.
    """
    bio = to_bio(tags, "bio")
    assert bio == to_bio(tags, "iob1") == to_bio(bio, "bio")
    for before, tag, found in zip(["O", *tags], tags, bio, strict=False):
        begins = tag[0] == "I" and before[1:] != tag[1:]
        assert found == (f"B{tag[1:]}" if begins else tag)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O B-A I-A", "bio"),
        ("O", "bio"),
        ("", "bio"),
        ("B-A E-A", "bioes"),
        ("S-A", "bioes"),
        ("B-A M-A E-A S-A", "bmes"),
        ("B M E S", "bmes"),
        ("U-A", "bilou"),
        ("B-M I-S", "bio"),
    ],
)
def test_schemes_are_told_by_their_letters(tags: str, scheme: str) -> None:
    assert detect_scheme(tags.split()) == scheme


# conlleval's reading of spans that lack a begin or an end.
_BROKEN = [
    ("I-A E-A", "tag 0: 'I-A' cannot stand at the start", "B-A I-A"),
    ("O E-A", "tag 1: 'E-A' cannot stand after 'O'", "O B-A"),
    ("B-A O", "tag 1: 'O' cannot stand after 'B-A'", "B-A O"),
    ("B-A S-A", "tag 1: 'S-A' cannot stand after 'B-A'", "B-A B-A"),
    ("B-A E-B", "tag 1: 'E-B' cannot stand after 'B-A'", "B-A B-B"),
    ("S-A E-A", "tag 1: 'E-A' cannot stand after 'S-A'", "B-A B-A"),
    ("B-A E-A I-A", "tag 2: 'I-A' cannot stand after 'E-A'", "B-A I-A B-A"),
    ("O B-A I-A", "tag 2: the sentence ends within the span of 'I-A'", "O B-A I-A"),
]


_OTHER_LETTERS = {"bioes": {}, "bilou": {"E-": "L-", "S-": "U-"}, "bmes": {"I-": "M-"}}


@pytest.mark.parametrize(("tags", "message", "repaired"), _BROKEN)
@pytest.mark.parametrize("scheme", list(_OTHER_LETTERS))
def test_broken_spans(tags: str, message: str, repaired: str, scheme: str) -> None:
    for letter, other in _OTHER_LETTERS[scheme].items():
        tags, message = tags.replace(letter, other), message.replace(letter, other)
    with pytest.raises(DataError, match=message):
        to_bio(tags.split(), scheme)
    assert to_bio(tags.split(), scheme, repair=True) == repaired.split()


@pytest.mark.parametrize(
    ("tag", "scheme", "message"),
    [
        ("X-A", "bio", r"tag 1: unknown tag 'X-A'\. .* scheme 'bio' is 'O', or .*'B-', 'I-'"),
        ("PER", "bio", "unknown tag 'PER'"),
        ("B-", "bio", "unknown tag 'B-'"),
        ("O-A", "bio", "unknown tag 'O-A'"),
        ("o", "bio", "unknown tag 'o'"),
        ("", "bio", "unknown tag ''"),
        ("-A", "bio", "unknown tag '-A'"),
        ("BI-A", "bio", "unknown tag 'BI-A'"),
        ("S-A", "iob1", "unknown tag 'S-A'"),
        ("I-A", "bmes", "unknown tag 'I-A'.*'B-', 'M-', 'E-', 'S-'"),
    ],
)
def test_unknown_tags(tag: str, scheme: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        to_bio(["O", tag], scheme)


def test_unknown_schemes() -> None:
    with pytest.raises(ValueError, match="scheme must be one of"):
        to_bio(["O"], "iob3")
    with pytest.raises(ValueError, match="scheme must be one of"):
        from_bio(["O"], "auto")
    with pytest.raises(DataError, match="unknown tag 'S-A'"):
        from_bio(["S-A"], "bio")


def test_all_that_is_wrong_is_named() -> None:
    """One error names all wrong tags of a sentence."""
    with pytest.raises(DataError) as caught:
        to_bio(["X-A", "O", "Y-A", "I-B"], "bioes")
    assert re.findall(r"tag (\d)", str(caught.value)) == ["0", "2", "3"]
    faults = ErrorCollector()
    assert to_bio(["X-A", "B-A"], "bio", faults=faults) == ["O", "B-A"]
    with pytest.raises(DataError, match="tag 0: unknown tag 'X-A'"):
        faults.check()
