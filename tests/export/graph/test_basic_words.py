"""The table of character classes agrees with Python's `unicodedata`."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from bert_keras.export.graph import basic_words as ch

tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def flags() -> np.ndarray:
    """Return the flags of every code point."""
    return ch.Characters()(tf.range(0x110000)).numpy()


@pytest.mark.parametrize(
    ("flag", "is_one"),
    [
        (ch.SPACE, str.isspace),
        (ch.WORD, lambda c: c.isalnum() or c == "_"),
        (ch.DIGIT, str.isdecimal),
        (ch.ACCENT, lambda c: unicodedata.category(c).startswith("M")),
        (ch.ATTACHED, lambda c: unicodedata.category(c) in ("Mn", "Mc", "Me", "Cf") and c > "~"),
        (ch.QUOTE, lambda c: c in "'’"),
        (ch.S, lambda c: c in "sS"),
        (ch.WIDE, lambda c: c in "，：；"),
        (ch.INNER, lambda c: c in ",;–—"),
    ],
)
def test_every_code_point(flags: np.ndarray, flag: int, is_one) -> None:
    expected = np.array([is_one(chr(code)) for code in range(0x110000)])
    np.testing.assert_array_equal((flags & flag) != 0, expected)


def test_flags_of_several_shapes() -> None:
    found = ch.Characters()(tf.constant([[ord("a"), ord("中")], [ord(" "), ord("!")]]))
    assert ch.has(found, ch.CHINESE | ch.SPACE).numpy().tolist() == [[False, True], [True, False]]
    assert ch.has(found, ch.MARK).numpy().tolist() == [[False, False], [False, True]]
    assert ch.Characters()(tf.zeros([0], tf.int32)).shape == (0,)
