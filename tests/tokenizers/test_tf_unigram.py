"""The unigram model in a graph gives the pieces of the library."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tokenizers as hf

from bert_keras.tokenizers.graph_pipeline import Unigram

tf = pytest.importorskip("tensorflow")

from bert_keras.tokenizers.tf_unigram import BestPieces  # noqa: E402

PIECES = [("<unk>", 0.0), ("[X]", 0.0), ("a", -1.0), ("b", -1.5), ("ab", -2.5), ("ba", -2.0)]
PIECES += [("aab", -3.0), ("é", -4.0), ("中é", -9.5), ("abab", -4.25)]
WORDS = ["a", "ab", "abab", "aab", "xx", "axxb", "中é", "中", "a<unk>x", "[X]a", "é" * 9, "b" * 300]


def _check(pieces: list[tuple[str, float]], words: list[str], unknown: int = 0) -> None:
    scores = np.array([score for _, score in pieces])
    names = tuple(piece for piece, _ in pieces)
    graph = BestPieces(Unigram(names, scores, unknown, ()))
    library = hf.models.Unigram(pieces, unknown, False)
    ids, sizes = tf.function(lambda x: graph(x, hides=False))(tf.constant(words))
    expected = [library.tokenize(word) for word in words]
    assert ids.to_list() == [[token.id for token in tokens] for tokens in expected]
    lengths = [len(token.value) for tokens in expected for token in tokens]
    assert sizes.numpy().tolist() == lengths


@pytest.mark.parametrize("unknown", [0, 2])
def test_words(unknown: int) -> None:
    _check(PIECES, WORDS, unknown)


def test_equal_sums_take_the_longest_last_piece() -> None:
    pieces = [("<unk>", 0.0), ("a", -1.0), ("aa", -2.0), ("aaa", -3.0)]
    _check(pieces, ["a" * length for length in range(1, 12)])


def test_hidden_pieces_are_text() -> None:
    names, scores = zip(*PIECES, strict=True)
    graph = BestPieces(Unigram(names, np.array(scores), 0, (1,)))
    words = tf.constant(["[X]"])
    assert graph(words, hides=False)[0].to_list() == [[1]]
    assert graph(words, hides=True)[0].to_list() == [[0]]


def test_no_words() -> None:
    graph = BestPieces(Unigram(("<unk>", "a"), np.array([0.0, -1.0]), 0, ()))
    ids, sizes = tf.function(lambda x: graph(x, hides=False))(tf.constant([], tf.string))
    assert (int(ids.nrows()), int(tf.size(sizes))) == (0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_random_pieces(seed: int) -> None:
    generator = random.Random(seed)
    parts = {"".join(generator.choices("abc中", k=generator.randint(1, 6))) for _ in range(60)}
    pieces = [(part, -generator.random() * 12) for part in sorted(parts)]
    words = ["".join(generator.choices("abcd中", k=generator.randint(1, 40))) for _ in range(200)]
    _check([("<unk>", 0.0), *pieces], words)
