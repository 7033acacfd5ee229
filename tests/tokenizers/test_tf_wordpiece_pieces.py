"""Words become the pieces of the `tokenizers` library, with and without tensorflow-text."""

from __future__ import annotations

import random

import pytest

from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from bert_keras.tokenizers.graph_pipeline import WordPieces  # noqa: E402
from bert_keras.tokenizers.tf_basic_tokenizer import NO_SPECIAL  # noqa: E402
from bert_keras.tokenizers.tf_wordpiece import (  # noqa: E402
    FastPieces,
    LongestPieces,
    PortablePieces,
)

PIECES = ["a", "ab", "abc", "##b", "##bc", "##cd", "##c", "b", "中", "##中", "##abcab", "ba", "##a"]
VOCABULARY = [*SPECIAL_TOKENS, *PIECES]
SPECIAL_IDS = [*range(len(SPECIAL_TOKENS)), SPECIAL_TOKENS.index("[UNK]")]
ENGINES = pytest.mark.parametrize("engine", [FastPieces, PortablePieces])


def ids_of(engine, words: list[str], special: list[int] | None = None) -> list[list[int]]:
    """Return the ids of the pieces of each word."""
    pieces = engine(VOCABULARY, SPECIAL_IDS)
    points = tf.ragged.constant([[*map(ord, word)] for word in words], tf.int32, ragged_rank=1)
    numbers = special or [NO_SPECIAL] * len(words)
    return pieces(points, tf.constant(numbers, tf.int32)).to_list()


@ENGINES
def test_the_longest_piece_comes_first(engine) -> None:
    words = ["abcd", "abc", "abcabcab", "ax", "xa", "b", "bab", "中中", "a" * 50, "abcx", "c"]
    tokenizer = Tokenizer(VOCABULARY)
    expected = [tokenizer.text_ids([word])[0] for word in words]
    assert ids_of(engine, words[:7] + words[8:]) == expected[:7] + expected[8:]
    assert ids_of(engine, ["中中"]) == [[VOCABULARY.index("中"), VOCABULARY.index("##中")]]


@ENGINES
def test_random_words(engine) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdx", k=draw.randint(1, 12))) for _ in range(2000)]
    assert ids_of(engine, words) == Tokenizer(VOCABULARY).text_ids(words)


@ENGINES
def test_special_tokens_are_their_own_ids(engine) -> None:
    words, numbers = ["ab", "?", "a", "?"], [NO_SPECIAL, 4, NO_SPECIAL, 5]
    assert ids_of(engine, words, numbers) == [[6], [4], [5], [1]]
    assert ids_of(engine, ["?"], [2]) == [[2]]


@ENGINES
def test_no_words(engine) -> None:
    pieces = engine(VOCABULARY, SPECIAL_IDS)
    nothing = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), tf.zeros([1], tf.int64))
    assert pieces(nothing, tf.zeros([0], tf.int32)).to_list() == []


@pytest.mark.parametrize("hides", [False, True])
def test_longest_pieces_and_their_characters(hides: bool) -> None:
    """A hidden piece, here "ab", is no piece of ordinary text. A word without pieces is one."""
    hidden = VOCABULARY.index("ab")
    model = WordPieces((*VOCABULARY[1:], "[PAD]"), 0, (hidden - 1,))
    words = ["abc", "abbc", "ab", "xa", "a" * 100, "a" * 101, "中中"]
    ids, sizes = LongestPieces(model)(tf.constant(words), hides=hides)
    pieces = [[model.pieces[index] for index in row] for row in ids.to_list()]
    assert pieces == [
        ["abc"],
        ["a", "##b", "##bc"] if hides else ["ab", "##bc"],
        ["a", "##b"] if hides else ["ab"],
        ["[UNK]"],
        ["a", *["##a"] * 99],
        ["[UNK]"],
        ["中", "##中"],
    ]
    found = ids.with_flat_values(sizes).to_list()
    assert [sum(row) for row in found] == [*map(len, words)]
    assert found[1] == ([1, 1, 2] if hides else [2, 2])
