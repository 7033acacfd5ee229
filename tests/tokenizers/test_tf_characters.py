"""Steps that change or split the characters of a batch."""

from __future__ import annotations

import pytest
from tokenizers import normalizers

from bert_keras.tokenizers import split_patterns
from bert_keras.tokenizers.character_tables import Sequences, changes_of

tf = pytest.importorskip("tensorflow")

from bert_keras.tokenizers import tf_characters as chars  # noqa: E402

TEXTS = ["  ab a ", "", "中b\u3000"]


def _segments(text: chars.Characters) -> list[str]:
    """Return the segments as strings."""
    return [part.decode() for part in chars.spelled(text.points, text.begins()).numpy()]


def _places(text: chars.Characters) -> list[tuple[int, int, int]]:
    columns = (text.texts, text.starts, text.ends)
    return [*zip(*(column.numpy().tolist() for column in columns), strict=True)]


def test_texts_are_segments() -> None:
    text = chars.decoded(tf.constant(TEXTS))
    assert _segments(text) == ["  ab a ", "中b\u3000"]
    assert _places(text)[6:8] == [(0, 6, 7), (2, 0, 1)]
    assert _segments(chars.decoded(tf.constant([], tf.string))) == []


def test_flags() -> None:
    flags = tf.constant([False, True, False, True, False])
    assert chars.last_place(flags).numpy().tolist() == [-1, 1, 1, 3, 3]
    assert chars.following(tf.constant([1, 2])).numpy().tolist() == [2, 0]
    assert chars.changes(tf.constant([1, 1, 2])).numpy().tolist() == [True, False, True]


def test_mapping() -> None:
    mapping = chars.CharacterMapping(Sequences.of({"a": "xyz", " ": ""}))
    text = mapping(chars.decoded(tf.constant(TEXTS)))
    assert _segments(text) == ["xyzbxyz", "中b\u3000"]
    assert _places(text)[:4] == [(0, 2, 3)] * 3 + [(0, 3, 4)]
    lower = chars.CharacterMapping(Sequences.of(changes_of(normalizers.Lowercase())))
    assert _segments(lower(chars.decoded(tf.constant(["Aİß"])))) == ["ai\u0307ß"]


@pytest.mark.parametrize(
    ("left", "right", "parts"),
    [
        (True, True, ["ab a", "中b"]),
        (True, False, ["ab a ", "中b\u3000"]),
        (False, True, ["  ab a", "中b"]),
        (False, False, ["  ab a ", "中b\u3000", " \n"]),
    ],
)
def test_strip(left: bool, right: bool, parts: list[str]) -> None:
    stripper = chars.Stripper(left=left, right=right)
    assert _segments(stripper(chars.decoded(tf.constant([*TEXTS, " \n"])))) == parts


@pytest.mark.parametrize(
    ("expression", "dropped", "parts"),
    [
        (r"\s", "", [" ", " ", "ab", " ", "a", " ", "中b", "\u3000"]),
        (r"\s+", "matches", ["ab", "a", "中b"]),
        (r"[ab]", "others", ["a", "b", "a", "b"]),
        (r"\s+(?!\S)|\s+", "", [" ", " ", "ab", " ", "a", " ", "中b", "\u3000"]),
    ],
)
def test_split(expression: str, dropped: str, parts: list[str]) -> None:
    splitter = chars.Splitter(split_patterns.compiled(expression), dropped)
    assert _segments(splitter(chars.decoded(tf.constant(TEXTS)))) == parts


def test_replace() -> None:
    replacer = chars.Replacer(split_patterns.compiled(" {2,}|b"), "--")
    text = replacer(chars.decoded(tf.constant(TEXTS)))
    assert _segments(text) == ["--a-- a ", "中--\u3000"]
    assert _places(text)[:3] == [(0, 1, 2), (0, 1, 2), (0, 2, 3)]


@pytest.mark.parametrize(
    ("first_only", "parts"), [(False, ["_", "_a", "_b"]), (True, ["_", "_a", "b"])]
)
def test_split_before_and_prefix(first_only: bool, parts: list[str]) -> None:
    text = chars.decoded(tf.constant(["a b"]))._replace(segments=tf.constant([0, 1, 1], tf.int64))
    text = text._replace(points=tf.constant([*map(ord, "_ab")]))
    split = chars.CharacterSplitter("a")(text)
    assert _segments(split) == ["_", "ab"]
    each = split._replace(segments=tf.constant([0, 1, 2], tf.int64))
    each = each._replace(starts=tf.constant([0, 0, 2], tf.int64))
    assert _segments(chars.Prefixer("_", first_only=first_only)(each)) == parts
