"""Words in a TensorFlow graph: rare characters, also at the borders between texts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bert_keras.tokenizers.added_tokens import AddedToken
from bert_keras.tokenizers.basic_tokenizer import code_point_table
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS

tf = pytest.importorskip("tensorflow")

from bert_keras.tokenizers.tf_basic_tokenizer import (  # noqa: E402
    NO_SPECIAL,
    InGraphWords,
)

HIGH, LOW = "\U0001d16d", "\u1b44"  # These are spacing marks of the combining classes 226 and 9.


@pytest.fixture(scope="module")
def words() -> InGraphWords:
    table = code_point_table(lowercase=True, strip_accents=True, split_cjk=True)
    tokens = [
        AddedToken(token, index, special=True, normalized=False)
        for index, token in enumerate(SPECIAL_TOKENS)
    ]
    return InGraphWords(table, tokens)


def split(words: InGraphWords, texts: list[str]) -> list[list[str]]:
    """Return the words of each text as strings."""
    found = words(tf.constant(texts, tf.string))
    spelled = [
        SPECIAL_TOKENS[number] if number != NO_SPECIAL else "".join(map(chr, characters))
        for characters, number in zip(
            found.characters.to_list(), found.special.numpy(), strict=True
        )
    ]
    splits = found.splits.numpy()
    return [spelled[a:b] for a, b in pairwise(splits)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t", []),
        ("Héllo, wörld", ["hello", ",", "world"]),
        ("a\u200bb 中c", ["ab", "中", "c"]),
        ("x[MASK]y[SEP", ["x", "[MASK]", "y", "[", "sep"]),
        ("é" * 101, ["e" * 101]),
        (f"a{HIGH}{LOW}", [f"a{LOW}{HIGH}"]),
        # The mark between them is stripped before reordering.
        (f"a{HIGH}\u0301{LOW}", [f"a{LOW}{HIGH}"]),
        # The joiner between them is stripped after reordering, and blocks it.
        (f"a{HIGH}\u034f{LOW}", [f"a{HIGH}{LOW}"]),
        (f"{HIGH}[MASK]{LOW}", [HIGH, "[MASK]", LOW]),
        ("가", ["\u1100\u1161"]),
    ],
)
def test_words(words, text, expected):
    assert split(words, [text]) == [expected]
    assert split(words, ["x" + HIGH, text, LOW]) == [["x" + HIGH], expected, [LOW]]


def test_texts_do_not_run_into_each_other(words):
    texts = ["가", "", "각a", "\x00", HIGH, LOW, "[MA", "SK]", "b", "", "\u0301", "각", "[MASK]"]
    alone = [split(words, [text])[0] for text in texts]
    assert split(words, texts) == alone
    assert split(words, texts[::-1]) == alone[::-1]


def test_no_texts(words):
    assert split(words, []) == []
    assert split(words, [""] * 3) == [[], [], []]
