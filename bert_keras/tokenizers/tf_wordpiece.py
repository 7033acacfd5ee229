"""WordPiece in a TensorFlow graph: with tensorflow-text, or with TensorFlow alone and a trie.

The trie is a double-array trie (Aoe, 1989, "An efficient digital search algorithm"). The child of
node `n` for characters of class `c` is the node `bases[n] + c`, if `parents` of that node is `n`.
So a step to the next character needs two gathers, which every runtime has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers.graph_pipeline import WordPieces
from bert_keras.tokenizers.tf_basic_tokenizer import NO_SPECIAL
from bert_keras.tokenizers.tf_characters import changes
from bert_keras.tokenizers.vocabulary import CONTINUATION, SPECIAL_TOKENS
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH

NOTHING = -1
FIRST_ROOT, INNER_ROOT = 0, 1  # roots of the pieces that begin a word and that continue one
_CANDIDATES = 64  # number of places that are tried together

_Children = Mapping[int, "_Node"]


class Trie(NamedTuple):
    """A vocabulary as a double-array trie.

    Attributes:
        characters: int32 [classes], all code points of the pieces, ascending; the index is the
            class.
        bases: int32 [nodes], offset of the node's children.
        parents: int32 [nodes], number of the parent node; `NOTHING` for an unused place.
        ids: int32 [nodes], id of the piece that ends at this node; `NOTHING` for none.
    """

    characters: np.ndarray
    bases: np.ndarray
    parents: np.ndarray
    ids: np.ndarray


class _Node:
    """A node of the trie under construction: its children by character class, and its id."""

    __slots__ = ("children", "id")

    def __init__(self) -> None:
        self.children: defaultdict[int, _Node] = defaultdict(_Node)
        self.id = NOTHING


def vocabulary_trie(vocabulary: Sequence[str]) -> Trie:
    """Build the trie of a WordPiece vocabulary, without entries that are longer than any word."""
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
    """Add a piece with id `number` below a node; `path` are the classes of its characters."""
    for step in path:
        node = node.children[step]
    node.id = number


def _packed(roots: Sequence[_Node], num_classes: int) -> tuple[np.ndarray, ...]:
    """Return the arrays `bases`, `parents` and `ids` of a trie.

    Nodes with many children are placed first, because few places fit them.
    """
    nodes = list(roots)
    for node in nodes:  # the list grows during the loop
        nodes.extend(node.children.values())
    taken = np.zeros(len(nodes) + num_classes, np.bool_)
    taken[: len(roots)] = True
    base_of: dict[int, int] = {}
    inner = [node for node in nodes if node.children]
    for _, alike in groupby(sorted(inner, key=_num_children, reverse=True), key=_num_children):
        begin = int(taken.argmin())
        for node in alike:
            steps = np.array(sorted(node.children))
            # Places that did not fit a node of this size hardly fit the next one: skip them.
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
    """Return the number of children, the sort key of `_packed`."""
    return len(node.children)


def _base(taken: np.ndarray, steps: np.ndarray, begin: int) -> int:
    """Return the first base for which the places `base + steps` are all free.

    Args:
        taken: bool [places], True for a used place. It is enlarged if needed.
        steps: classes of the node's children, ascending.
        begin: lowest place of the first child.
    """
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


# === Pieces ===


_MAX_BYTES = 4  # of a character in UTF-8


class FastPieces(tf.Module):
    """WordPiece with one operation of tensorflow-text, which a loading program has to import.

    Args:
        vocabulary: all pieces; the position is the id.
        special_ids: ids of special and added tokens that a word can be. Ids from len(vocabulary) on
            are of added tokens. The last is of the token for unknown words.

    Raises:
        RuntimeError: if a vocabulary entry has more than 256 bytes, the limit of tensorflow-text.
    """

    def __init__(self, vocabulary: Sequence[str], special_ids: Sequence[int]):
        import tensorflow_text

        super().__init__(name="pieces")
        # tensorflow-text knows five special tokens and the unknown token, and no added tokens.
        unknown, others = vocabulary[special_ids[-1]], special_ids[len(SPECIAL_TOKENS) : -1]
        first = [vocabulary[index] for index in special_ids[: len(SPECIAL_TOKENS)]]
        self._names = tf.constant([*first, *[unknown] * len(others), unknown])
        self._special_ids = tf.constant(special_ids, tf.int32) if others else None
        self._wordpiece = tensorflow_text.FastWordpieceTokenizer(
            _matchable(vocabulary),
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=MAX_WORD_LENGTH * _MAX_BYTES,
            token_out_type=tf.int32,
            unknown_token=unknown,
            no_pretokenization=True,
        )

    def __call__(self, words: tf.RaggedTensor, special: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of words.

        Args:
            words: code points, int32 [words, (characters)]. No word is empty.
            special: int32 [words], number of the special token that a word is, or `NO_SPECIAL`.

        Returns:
            Ids of the pieces, int32 [words, (pieces)].
        """
        spelled = tf.strings.unicode_encode(words, "UTF-8")
        names = tf.gather(self._names, tf.maximum(special, 0))
        pieces = self._wordpiece.tokenize(tf.where(special == NO_SPECIAL, spelled, names))
        if self._special_ids is None:
            return pieces
        whole = tf.where(special != NO_SPECIAL)[:, 0]  # each has one piece
        places = tf.gather(pieces.row_splits, whole)[:, tf.newaxis]
        ids = tf.gather(self._special_ids, tf.gather(special, whole))
        return pieces.with_flat_values(tf.tensor_scatter_nd_update(pieces.flat_values, places, ids))


def _matchable(vocabulary: Sequence[str]) -> list[str]:
    """Replace entries that tensorflow-text refuses, by texts that no word can match.

    These are entries with a zero character or longer than any word, so no word matches them anyway.
    """
    longest = len(CONTINUATION) + MAX_WORD_LENGTH
    return [
        f"\n{index}" if "\0" in token or len(token) > longest else token
        for index, token in enumerate(vocabulary)
    ]


class PortablePieces(tf.Module):
    """WordPiece with TensorFlow's own operations, so that a SavedModel needs no other library.

    All words of a batch are matched together, one character at a time. As in BERT's
    tokenization.py, the longest piece at the beginning of a word is taken, then the longest piece
    that continues from there. Arguments and calls are those of `FastPieces`.

    Args:
        hidden: ids of pieces that a call with `hides=True` does not match.
    """

    def __init__(
        self, vocabulary: Sequence[str], special_ids: Sequence[int], hidden: Sequence[int] = ()
    ):
        super().__init__(name="pieces")
        trie = vocabulary_trie(vocabulary)
        self._characters = tf.constant(trie.characters)
        self._bases, self._parents = tf.constant(trie.bases), tf.constant(trie.parents)
        self._ids = self._visible = tf.constant(trie.ids)
        if hidden:
            self._visible = tf.constant(np.where(np.isin(trie.ids, hidden), NOTHING, trie.ids))
        self._special_ids = tf.constant(special_ids, tf.int32)

    def __call__(
        self, words: tf.RaggedTensor, special: tf.Tensor, *, hides: bool = False
    ) -> tf.RaggedTensor:
        """Return the ids of words; see `FastPieces`."""
        splits = tf.cast(words.row_splits, tf.int32)
        begins, ends = splits[:-1], splits[1:]
        ordinary = tf.where(special == NO_SPECIAL)[:, 0]
        starts, ids, failed = self._match(
            self._classes(words.flat_values),
            tf.gather(begins, ordinary),
            tf.gather(ends, ordinary),
            self._visible if hides else self._ids,
        )
        # [all characters]: the id of each piece at its first character, else `NOTHING`.
        pieces = tf.fill(tf.shape(words.flat_values), NOTHING)
        pieces = tf.tensor_scatter_nd_update(pieces, starts[:, tf.newaxis], ids)
        failed = tf.gather(ordinary, failed)
        pieces = tf.cond(
            tf.size(failed) > 0, lambda: _without(pieces, splits, failed), lambda: pieces
        )
        last = tf.size(self._special_ids) - 1
        special = tf.tensor_scatter_nd_update(
            special, failed[:, tf.newaxis], tf.fill([tf.size(failed)], last)
        )
        whole = tf.where(special != NO_SPECIAL)[:, 0]
        pieces = tf.tensor_scatter_nd_update(
            pieces,
            tf.gather(begins, whole)[:, tf.newaxis],
            tf.gather(self._special_ids, tf.gather(special, whole)),
        )
        is_piece = pieces != NOTHING
        count = tf.concat([[0], tf.cumsum(tf.cast(is_piece, tf.int64))], axis=0)
        return tf.RaggedTensor.from_row_splits(  # pyright: ignore[reportAttributeAccessIssue]
            tf.boolean_mask(pieces, is_piece), tf.gather(count, splits), validate=False
        )

    def _classes(self, points: tf.Tensor) -> tf.Tensor:
        """Return the class of each code point [characters]; `NOTHING` if no piece has it."""
        last = tf.size(self._characters) - 1
        index = tf.minimum(tf.searchsorted(self._characters, points), last)
        return tf.where(tf.gather(self._characters, index) == points, index, NOTHING)

    def _match(
        self, classes: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor, ids_of: tf.Tensor
    ) -> list[tf.Tensor]:
        """Match words against the trie.

        Args:
            classes: int32 [all characters], the class of each character.
            begins: int32 [words], index of the first character of each word.
            ends: int32 [words], index after its last character.
            ids_of: int32 [nodes], id of the piece that ends at each node; `NOTHING` for none.

        Returns:
            Index of the first character of each piece and id of each piece, int32 [pieces]; and
            int32 [failed], the numbers of words that have no pieces.
        """

        def step(
            number: tf.Tensor,
            starts: tf.TensorArray,
            ids: tf.TensorArray,
            failed: tf.TensorArray,
            *state: tf.Tensor,
        ) -> list[tf.Tensor | tf.TensorArray]:
            """Read one more character of every word that is not finished."""
            word, begin, at, end, node, best, best_end = state
            child = tf.gather(self._bases, node) + tf.gather(classes, at)
            child = tf.clip_by_value(child, 0, tf.size(self._parents) - 1)
            is_child = tf.gather(self._parents, child) == node
            piece = tf.where(is_child, tf.gather(ids_of, child), NOTHING)
            at += 1
            is_best = piece != NOTHING
            best, best_end = tf.where(is_best, piece, best), tf.where(is_best, at, best_end)
            is_over = (at == end) | tf.logical_not(is_child)
            is_piece = is_over & (best != NOTHING)
            starts = starts.write(number, tf.boolean_mask(begin, is_piece))
            ids = ids.write(number, tf.boolean_mask(best, is_piece))
            failed = failed.write(number, tf.boolean_mask(word, is_over & (best == NOTHING)))
            begin, at = tf.where(is_over, best_end, begin), tf.where(is_over, best_end, at)
            node, best = tf.where(is_over, INNER_ROOT, child), tf.where(is_over, NOTHING, best)
            goes_on = tf.where(tf.logical_not(is_over) | (is_piece & (best_end < end)))[:, 0]
            state = word, begin, at, end, node, best, best_end
            return [number + 1, starts, ids, failed, *(tf.gather(x, goes_on) for x in state)]

        words = tf.range(tf.size(begins))
        roots, none = tf.fill(tf.shape(begins), FIRST_ROOT), tf.fill(tf.shape(begins), NOTHING)
        arrays = tf.while_loop(
            lambda *state: tf.size(state[4]) > 0,
            step,
            [
                *(tf.constant(1), *(_growing() for _ in range(3))),
                *(words, begins, begins, ends, roots, none, begins),
            ],
        )[1:4]
        return [array.concat() for array in arrays]


def _without(pieces: tf.Tensor, splits: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Remove the pieces of words.

    Args:
        pieces: int32 [all characters], ids at the first characters of pieces.
        splits: int32 [words + 1], index of the first character of each word.
        words: numbers of the words.
    """
    places = tf.ragged.range(tf.gather(splits, words), tf.gather(splits, words + 1)).flat_values
    nothing = tf.fill([tf.size(places)], NOTHING)
    return tf.tensor_scatter_nd_update(pieces, places[:, tf.newaxis], nothing)


def _growing() -> tf.TensorArray:
    """Return a growing array of vectors to concatenate. An empty first vector makes that safe."""
    array = tf.TensorArray(
        tf.int32, size=1, dynamic_size=True, infer_shape=False, element_shape=[None]
    )
    return array.write(0, tf.zeros([0], tf.int32))


# === WordPiece of a tokenizer.json ===


class LongestPieces(tf.Module):
    """Pieces of words, each the longest that fits: `pieces(words, hides=…)`.

    Args:
        model: the model.
    """

    def __init__(self, model: WordPieces):
        super().__init__(name="pieces")
        self._match = PortablePieces(model.pieces, [model.unknown], model.hidden)
        self._lengths = tf.constant([*map(len, model.pieces)], tf.int32)

    def __call__(self, words: tf.Tensor, *, hides: bool) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Return the ids of words, int32 [words, (pieces)], and the characters of each piece.

        Args:
            words: UTF-8 strings [words], none of them empty.
            hides: True if special pieces are ordinary text.

        Returns:
            Ids; and int32 [pieces], the number of characters of each.
        """
        rows = tf.strings.unicode_decode(words, "UTF-8")
        lengths = rows.row_lengths()
        pieces = self._match(rows, tf.where(lengths > MAX_WORD_LENGTH, 0, NO_SPECIAL), hides=hides)
        word = pieces.value_rowids()
        begins = changes(word)
        sizes = tf.gather(self._lengths, pieces.flat_values)
        sizes = tf.where(begins, sizes, sizes - len(CONTINUATION))
        # A single piece is its word, also where it is the unknown token.
        is_whole = tf.gather(pieces.row_lengths() == 1, word)
        return pieces, tf.where(is_whole, tf.gather(tf.cast(lengths, tf.int32), word), sizes)
