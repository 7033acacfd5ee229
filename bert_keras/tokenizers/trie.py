"""A vocabulary as a trie of three arrays, which many words can walk at once.

A double-array trie (Aoe, 1989, "An efficient digital search algorithm"): the child of node `n` for
characters of class `c` stands at `bases[n] + c` if `parents` there says `n`. Two gathers take a
word one character further, and every runtime has those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from bert_keras.tokenizers.vocabulary import CONTINUATION, MAX_WORD_LENGTH

NOTHING = -1
FIRST_ROOT, INNER_ROOT = 0, 1  # of pieces that begin a word, of those that go on with it
_CANDIDATES = 64  # places that are tried together

_Children = Mapping[int, "_Node"]


class Trie(NamedTuple):
    """Where pieces lead to, character by character.

    Attributes:
        characters: int32 [classes], the code points in pieces, ascending; the index is the class.
        bases: int32 [nodes].
        parents: int32 [nodes], the node above; `NOTHING` where no node is.
        ids: int32 [nodes], the piece that ends here; `NOTHING` for none.
    """

    characters: np.ndarray
    bases: np.ndarray
    parents: np.ndarray
    ids: np.ndarray


class _Node:
    """While it is built: children by class."""

    __slots__ = ("children", "id")

    def __init__(self) -> None:
        self.children: defaultdict[int, _Node] = defaultdict(_Node)
        self.id = NOTHING


def vocabulary_trie(vocabulary: Sequence[str]) -> Trie:
    """The trie of a WordPiece vocabulary; entries that no word reaches are left out."""
    longest = len(CONTINUATION) + MAX_WORD_LENGTH
    entries = [(token, n) for n, token in enumerate(vocabulary) if len(token) <= longest]
    characters = np.array(sorted({ord(c) for token, _ in entries for c in token}), np.int32)
    classes = {int(code): number for number, code in enumerate(characters)}
    first, inner = _Node(), _Node()
    for token, number in entries:
        _insert(first, [classes[ord(c)] for c in token], number)
        if token.startswith(CONTINUATION) and token != CONTINUATION:
            rest = token.removeprefix(CONTINUATION)
            _insert(inner, [classes[ord(c)] for c in rest], number)
    return Trie(characters, *_packed([first, inner], len(classes)))


def _insert(node: _Node, path: Sequence[int], number: int) -> None:
    for step in path:
        node = node.children[step]
    node.id = number


def _packed(roots: Sequence[_Node], num_classes: int) -> tuple[np.ndarray, ...]:
    """The arrays. Nodes with many children choose their places first, as they find few that fit."""
    nodes = list(roots)
    for node in nodes:  # grows as it is read
        nodes.extend(node.children.values())
    taken = np.zeros(len(nodes) + num_classes, np.bool_)
    taken[: len(roots)] = True
    base_of: dict[int, int] = {}
    inner = [node for node in nodes if node.children]
    for _, alike in groupby(sorted(inner, key=_num_children, reverse=True), key=_num_children):
        begin = int(taken.argmin())
        for node in alike:
            steps = np.array(sorted(node.children))
            # What had no place for one as large has hardly one for this: it is not tried again.
            base = base_of[id(node)] = _base(taken, steps, begin)
            taken[base + steps] = True
            begin = base + steps[0]
    size = len(taken)
    bases, parents, ids = (np.full(size, NOTHING, np.int32) for _ in range(3))
    places = {id(root): place for place, root in enumerate(roots)}
    for node in nodes:
        place = places[id(node)]
        ids[place] = node.id
        if not node.children:
            continue
        base = bases[place] = base_of[id(node)]
        for step, child in node.children.items():
            parents[base + step] = place
            places[id(child)] = base + step
    used = int(np.flatnonzero(taken)[-1]) + 1
    return bases[:used], parents[:used], ids[:used]


def _num_children(node: _Node) -> int:
    return len(node.children)


def _base(taken: np.ndarray, steps: np.ndarray, begin: int) -> int:
    """The first base that puts every step on a free place, the first of them from `begin` on."""
    while True:
        if (needed := begin + _CANDIDATES + int(steps[-1]) + 1) > len(taken):
            taken.resize(2 * needed, refcheck=False)
        firsts = begin + np.flatnonzero(~taken[begin : begin + _CANDIDATES])
        begin += _CANDIDATES
        bases = firsts - steps[0]
        bases = bases[bases >= 0]
        fits = ~taken[bases[:, None] + steps].any(axis=1)
        if fits.any():
            return int(bases[fits.argmax()])
