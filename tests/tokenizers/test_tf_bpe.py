"""Byte-level BPE in a graph gives the pieces of the library, for any list of merges."""

from __future__ import annotations

import random

import pytest
import tokenizers as hf

from bert_keras.tokenizers.graph_pipeline import ByteBPE, byte_characters

tf = pytest.importorskip("tensorflow")

import numpy as np  # noqa: E402

from bert_keras.tokenizers.tf_bpe import MergedPieces  # noqa: E402

WORDS = ["a", "aa", "aaaaa", "abab", "ababab", "cab", "bcabcabc", "é", "abécab", "a" * 300]


def _model(
    merges: list[tuple[str, str]], *, ignore: bool = False
) -> tuple[MergedPieces, hf.models.BPE]:
    """Return the same model in the graph and of the library."""
    ids = {code: value for value, code in enumerate(byte_characters())}
    for left, right in merges:
        ids.setdefault(left + right, len(ids))
    if ignore:
        ids.setdefault("cab", len(ids))
    pairs = np.array([(ids[a], ids[b]) for a, b in merges], np.int64).reshape(-1, 2)
    merged = np.array([ids[a + b] for a, b in merges], np.int32)
    words = {piece.encode(): index for piece, index in ids.items() if piece.isascii()}
    values = np.arange(256, dtype=np.int32)
    graph = MergedPieces(ByteBPE(values, pairs, merged, words if ignore else None))
    return graph, hf.models.BPE(ids, merges, ignore_merges=ignore)


def _check(graph: MergedPieces, library: hf.models.BPE, words: list[str]) -> None:
    codes = byte_characters()
    ids, sizes = tf.function(graph)(tf.constant(words))
    spelled = ["".join(codes[byte] for byte in word.encode()) for word in words]
    expected = [library.tokenize(word) for word in spelled]
    assert ids.to_list() == [[token.id for token in tokens] for tokens in expected]
    lengths = [len(token.value) for tokens in expected for token in tokens]
    assert sizes.numpy().tolist() == lengths


# In the second list, a pair comes before the merge that makes its first piece.
@pytest.mark.parametrize(
    "merges",
    [
        [],
        [("a", "b"), ("a", "a"), ("c", "ab"), ("ab", "ab"), ("aa", "aa"), ("Ã", "©")],
        [("ab", "a"), ("b", "c"), ("a", "b"), ("aa", "a"), ("a", "a"), ("b", "ab")],
    ],
)
def test_lists_of_merges(merges: list[tuple[str, str]]) -> None:
    _check(*_model(merges), WORDS)


def test_words_of_the_vocabulary_stay_whole() -> None:
    merges = [("a", "b"), ("c", "a")]
    _check(*_model(merges, ignore=True), WORDS)


def test_no_words() -> None:
    ids, sizes = _model([("a", "b")])[0](tf.constant([], tf.string))
    assert (ids.nrows(), tf.size(sizes)) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_random_merges(seed: int) -> None:
    generator = random.Random(seed)
    pieces, merges = list("abc"), []
    for _ in range(25):
        pair = generator.choice(pieces), generator.choice(pieces)
        if pair not in merges:
            merges.append(pair)
            pieces.append("".join(pair))
    if seed % 2:
        generator.shuffle(merges)
    words = ["".join(generator.choices("abc", k=generator.randint(1, 40))) for _ in range(200)]
    _check(*_model(merges), words)
