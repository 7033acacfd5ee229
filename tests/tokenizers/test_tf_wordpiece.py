"""The trie of a vocabulary finds each piece by its characters, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

pytest.importorskip("tensorflow")

from bert_keras.tokenizers.tf_wordpiece import (
    FIRST_ROOT,
    INNER_ROOT,
    NOTHING,
    Trie,
    vocabulary_trie,
)


def walk(trie: Trie, root: int, piece: str) -> int:
    """Return the id at the end of the piece's path in the trie."""
    node = root
    characters = trie.characters.tolist()
    for character in piece:
        if ord(character) not in characters:
            return NOTHING
        child = int(trie.bases[node]) + characters.index(ord(character))
        if not 0 <= child < len(trie.parents) or trie.parents[child] != node:
            return NOTHING
        node = child
    return int(trie.ids[node])


def check(trie: Trie, vocabulary: Sequence[str], others: Sequence[str]) -> None:
    """Check that the trie finds exactly the pieces of the vocabulary."""
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    for piece in {*vocabulary, *others}:
        assert walk(trie, FIRST_ROOT, piece) == ids.get(piece, NOTHING), piece
        if inner := piece.removeprefix("##"):
            assert walk(trie, INNER_ROOT, inner) == ids.get("##" + inner, NOTHING), piece


def test_every_piece_is_found():
    vocabulary = ["[UNK]", "a", "ab", "abc", "##b", "##bc", "##", "中", "##中", "b", "##a", "😀"]
    check(vocabulary_trie(vocabulary), vocabulary, ["", "c", "ac", "ba", "##c", "中中", "x"])


def test_what_no_word_reaches_is_left_out():
    """Pieces longer than the longest word are left out of the trie."""
    trie = vocabulary_trie(["a", "x" * 103, "##" + "y" * 100])
    assert ord("x") not in trie.characters
    assert walk(trie, FIRST_ROOT, "a") == 0
    assert walk(trie, INNER_ROOT, "y" * 100) == 2


@pytest.mark.parametrize("letters", ["ab", "abcdefghij", "".join(map(chr, range(0x4E00, 0x4F00)))])
def test_random_vocabularies(letters):
    draw = random.Random(len(letters))
    words = {"".join(draw.choices(letters, k=draw.randint(1, 6))) for _ in range(2000)}
    vocabulary = [w if draw.random() < 0.5 else "##" + w for w in sorted(words)]
    others = ["".join(draw.choices(letters, k=draw.randint(1, 7))) for _ in range(2000)]
    check(vocabulary_trie(vocabulary), vocabulary, others)
