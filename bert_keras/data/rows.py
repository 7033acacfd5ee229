"""Encoded texts of any length in flat arrays, of which batches are cut: padded, int32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers import Tokenizer

_TEXTS_AT_ONCE = 4096  # tokenised together, which bounds the padded matrix


@dataclass(frozen=True)
class Rows:
    """Texts, or pairs of texts, as the model reads them, special tokens included.

    Attributes:
        token_ids: int32 [tokens] of all rows, one after the other.
        segment_ids: int32 [tokens], likewise.
        bounds: int64 [rows + 1], where each row begins, and the end.
        pad_id: what rows are filled up with.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    bounds: np.ndarray
    pad_id: int

    @classmethod
    def of(cls, ids: Iterable[Any], segments: Iterable[Any], pad_id: int) -> Rows:
        """From the ids and segments of each row, sequences of whole numbers."""
        token_ids = [np.asarray(row, np.int32) for row in ids]
        segment_ids = [np.asarray(row, np.int32) for row in segments]
        bounds = np.cumsum([0, *map(len, token_ids)], dtype=np.int64)
        nothing = np.zeros(0, np.int32)
        return cls(
            np.concatenate([nothing, *token_ids]),
            np.concatenate([nothing, *segment_ids]),
            bounds,
            pad_id,
        )

    def merged(self, other: Rows, order: np.ndarray) -> Rows:
        """These rows and others, of which `order` names those of the result."""
        ids, segments = [], []
        for rows in (self, other):
            parts = [slice(*bounds) for bounds in pairwise(rows.bounds.tolist())]
            ids += [rows.token_ids[part] for part in parts]
            segments += [rows.segment_ids[part] for part in parts]
        return Rows.of([ids[n] for n in order], [segments[n] for n in order], self.pad_id)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        """The ids of one row."""
        return self.token_ids[self.bounds[number] : self.bounds[number + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row: int64 [rows]."""
        return np.diff(self.bounds)

    def inputs(self, numbers: np.ndarray, width: int) -> dict[str, np.ndarray]:
        """Model inputs of some rows.

        Args:
            numbers: of the rows, of any shape [...].
            width: length to pad to; at least that of the longest of them.

        Returns:
            `token_ids`, `segment_ids`, `padding_mask`: int32 [..., width].
        """
        within, _ = self._places(numbers, width)
        return {
            TOKEN_IDS: self.gather(self.token_ids, numbers, width, self.pad_id),
            SEGMENT_IDS: self.gather(self.segment_ids, numbers, width),
            PADDING_MASK: within.astype(np.int32),
        }

    def gather(self, values: np.ndarray, numbers: np.ndarray, width: int, fill: int = 0) -> Any:
        """Values that lie as `token_ids` do, of some rows: [..., width], `fill` for padding."""
        within, places = self._places(numbers, width)
        if not len(values):
            return np.full(within.shape, fill, values.dtype)
        return np.where(within, values[places], np.asarray(fill, values.dtype))

    def _places(self, numbers: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Where there is a token, and which: both [..., width]."""
        columns, begin = np.arange(width), self.bounds[numbers]
        within = columns < (self.bounds[numbers + 1] - begin)[..., None]
        return within, np.where(within, begin[..., None] + columns, 0)


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    max_length: int,
) -> Rows:
    """Encodes texts, or pairs, as `tokenizer(texts, pairs)` does; longer ones are cut."""
    ids: list[np.ndarray] = []
    segments: list[np.ndarray] = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        part = slice(start, start + _TEXTS_AT_ONCE)
        second = None if pairs is None else pairs[part]
        found = tokenizer(texts[part], second, max_length=max_length)
        token_ids = found[TOKEN_IDS]
        segment_ids = found.get(SEGMENT_IDS, np.zeros_like(token_ids))
        lengths = found[PADDING_MASK].sum(axis=1)
        ids += [row[:length] for row, length in zip(token_ids, lengths, strict=True)]
        segments += [row[:length] for row, length in zip(segment_ids, lengths, strict=True)]
    return Rows.of(ids, segments, tokenizer.pad_id)


def encode_apart(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str], *, max_length: int
) -> Rows:
    """Two rows for each pair, each text for itself: rows 0 and 1 are those of the first pair."""
    both = [text for pair in zip(texts, pairs, strict=True) for text in pair]
    return encode(tokenizer, both, max_length=max_length)


def framed(
    tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None = None
) -> tuple[list[int], list[int], int]:
    """Pieces of one text or two with the special tokens around them.

    Returns:
        The ids, the segments, and where the last text begins.
    """
    scheme = tokenizer.scheme
    ids = [tokenizer.cls_id, *first, tokenizer.sep_id]
    if second is None:
        return ids, [0] * len(ids), 1
    ids += [tokenizer.sep_id] * (scheme.separators - 1)
    begin = len(ids)
    ids += [*second, tokenizer.sep_id]
    segment = int(scheme.two_segments)
    return ids, [0] * begin + [segment] * (len(ids) - begin), begin
