"""WordPiece of many words at once: the longest piece that fits, again and again.

What the `tokenizers` library's model says of one word, for those of up to 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras.tokenizers.slots import KEY_BYTES, Window, cut
from bert_keras.tokenizers.vocabulary import CONTINUATION


class LongestMatch:
    """`match(window, starts, lengths)`: the ids of words (Wu et al., 2016, §4.1).

    Args:
        vocabulary: the pieces; the position is the id.
        unknown: the id of a word that pieces do not make.
    """

    def __init__(self, vocabulary: Sequence[str], unknown: int):
        pieces = [piece.encode() for piece in vocabulary]
        mark = CONTINUATION.encode()
        self._unknown = unknown
        self._begin = _Pieces(dict(zip(pieces, range(len(pieces)), strict=True)))
        self._go_on = _Pieces(
            {piece[len(mark) :]: id_ for id_, piece in enumerate(pieces) if piece.startswith(mark)}
        )

    def __call__(
        self, window: Window, starts: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids of words.

        Args:
            window: the text that holds them.
            starts: int64 [words].
            lengths: int64 [words], from 1 to `KEY_BYTES`.

        Returns:
            int32 [ids], those of all words, and int64 [words], how many each has.
        """
        is_unknown = np.zeros(len(starts), bool)
        words, ids = [], []
        rest, pieces = np.arange(len(starts)), self._begin
        while len(rest):
            found, sizes = pieces.longest(window.keys(starts, lengths), lengths)
            fits = sizes > 0
            is_unknown[rest[~fits]] = True
            words.append(rest[fits])
            ids.append(found[fits])
            goes_on = fits & (sizes < lengths)
            rest, pieces = rest[goes_on], self._go_on
            starts, lengths = (starts + sizes)[goes_on], (lengths - sizes)[goes_on]
        unknown = np.flatnonzero(is_unknown)
        word = np.concatenate([np.zeros(0, np.int64), *words])
        id_ = np.concatenate([np.zeros(0, np.int32), *ids])
        known = ~is_unknown[word]
        word = np.concatenate([word[known], unknown])
        id_ = np.concatenate([id_[known], np.full(len(unknown), self._unknown, np.int32)])
        # Stable: the pieces of a word were found one after the other.
        return id_[np.argsort(word, kind="stable")], np.bincount(word, minlength=len(is_unknown))


class _Pieces:
    """The pieces that may stand at one kind of place, with their ids."""

    def __init__(self, ids: dict[bytes, int]):
        # No word has a zero byte, and in a key it would be the end.
        fitting = [piece for piece in ids if 0 < len(piece) <= KEY_BYTES and 0 not in piece]
        lengths = np.fromiter(map(len, fitting), np.int64, len(fitting))
        keys = Window(b"".join(fitting)).keys(np.cumsum(lengths) - lengths, lengths)
        fitting_ids = np.array([ids[piece] for piece in fitting], np.int32)
        self._by_size = []
        for size in np.unique(lengths)[::-1].tolist():
            chosen = np.flatnonzero(lengths == size)
            names = _sortable(keys[:, chosen], size)
            order = np.argsort(names)
            self._by_size.append((size, names[order], fitting_ids[chosen[order]]))

    def longest(self, keys: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The longest piece that each key begins with: its id and its bytes, 0 where none does."""
        ids = np.zeros(len(lengths), np.int32)
        sizes = np.zeros(len(lengths), np.int64)
        rest = np.arange(len(lengths))
        for size, names, names_ids in self._by_size:
            tried = rest[lengths[rest] >= size]
            wanted = _sortable(keys[:, tried], size)
            places = np.minimum(names.searchsorted(wanted), len(names) - 1)
            is_piece = names[places] == wanted
            found = tried[is_piece]
            ids[found], sizes[found] = names_ids[places[is_piece]], size
            rest = rest[sizes[rest] == 0]
        return ids, sizes


def _sortable(keys: np.ndarray, size: int) -> np.ndarray:
    """The first bytes of each key, `size` of them: numbers where these hold them."""
    first, second = cut(keys, size)
    if size <= KEY_BYTES // 2:
        return first
    return np.stack([first, second], axis=1).view(f"S{KEY_BYTES}")[:, 0]
