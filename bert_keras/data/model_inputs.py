"""Encoded texts of any length in flat arrays, and the rows of ids cut from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers import Tokenizer

_TEXTS_AT_ONCE = 4096  # tokenised together, which bounds the padded matrix


@dataclass(frozen=True)
class EncodedTexts:
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
    def of(cls, ids: Iterable[Any], segments: Iterable[Any], pad_id: int) -> EncodedTexts:
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

    def merged(self, other: EncodedTexts, order: np.ndarray) -> EncodedTexts:
        """Return rows of these texts and of others, in a new order.

        Args:
            other: texts of the same tokenizer.
            order: int [rows of the result], numbers of rows. Those of `other` follow those of this
                object. A row may be left out or come twice.
        """
        ids: list[np.ndarray] = []
        segments: list[np.ndarray] = []
        for rows in (self, other):
            parts = [slice(*bounds) for bounds in pairwise(rows.bounds.tolist())]
            ids += [rows.token_ids[part] for part in parts]
            segments += [rows.segment_ids[part] for part in parts]
        return EncodedTexts.of([ids[n] for n in order], [segments[n] for n in order], self.pad_id)

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
        """Return a mask of the columns with a token, and flat indices: [..., width] each."""
        columns, begin = np.arange(width), self.bounds[numbers]
        within = columns < (self.bounds[numbers + 1] - begin)[..., None]
        return within, np.where(within, begin[..., None] + columns, 0)


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    max_length: int,
) -> EncodedTexts:
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
    return EncodedTexts.of(ids, segments, tokenizer.pad_id)


def encode_apart(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str], *, max_length: int
) -> EncodedTexts:
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


# === Spans to rows ===
# Names: B batch, T row length. Everything is vectorised over the batch.


WORD_BITS = 64  # of a raw draw


class ModelInputs(NamedTuple):
    """A batch of model inputs, int32 [B, T], and where text is (not special, not padding)."""

    token_ids: np.ndarray
    segment_ids: np.ndarray
    padding_mask: np.ndarray
    is_text: np.ndarray  # bool [B, T]


def truncate(
    length_a: np.ndarray, length_b: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths [B] once tokens are taken from the longer side, one by one, until both fit in `room`.

    When both are equally long B gives one, as in the original recipe; closed form of that loop.
    """
    kept_a = np.minimum(length_a, np.maximum(room - length_b, -(-room // 2)))
    kept_b = np.minimum(length_b, np.maximum(room - length_a, room // 2))
    return kept_a, kept_b


def front_share(removed: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Return how many of `removed` [B] tokens to cut at the front: one raw bit, a fair coin, each.

    Args:
        removed: int64 [B], at most 64 * W.
        raw: uint64 [B, W].

    Returns:
        int64 [B].
    """
    words = np.arange(raw.shape[1], dtype=np.int64)
    bits = np.clip(removed[:, None] - WORD_BITS * words, 0, WORD_BITS).astype(np.uint64)
    # Shifting by 64 is undefined in C, therefore by 63 and then by 1.
    ones = ~((~np.uint64(0) << (bits - (bits == WORD_BITS))) << (bits == WORD_BITS))
    return np.bitwise_count(raw & ones).sum(axis=1, dtype=np.int64)


def assemble(
    tokens: np.ndarray,
    start_a: np.ndarray,
    length_a: np.ndarray,
    start_b: np.ndarray,
    length_b: np.ndarray,
    *,
    length: int,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> ModelInputs:
    """Gathers two spans per row into [CLS] A [SEP] B [SEP], or [CLS] A [SEP] where B is empty.

    Args:
        tokens: the corpus, [num_tokens].
        start_a: where A begins in tokens, [B].
        length_a: tokens in A, [B].
        start_b: where B begins in tokens, [B].
        length_b: tokens in B, 0 for none, [B].
        length: T; every row must fit, with its special tokens.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        pad_id: id of what fills a row.
    """
    column = np.arange(length)
    rows = np.arange(len(start_a))
    first_sep = 1 + length_a
    last_sep = first_sep + np.where(length_b > 0, length_b + 1, 0)
    in_b = column > first_sep[:, None]
    real = column <= last_sep[:, None]
    is_text = real.copy()
    is_text[:, 0] = False
    is_text[rows, first_sep] = False
    is_text[rows, last_sep] = False
    source = np.where(in_b, (start_b - first_sep - 1)[:, None], (start_a - 1)[:, None]) + column
    # Beside text anything may be read, and is overwritten: quicker than to read text alone.
    token_ids = tokens.take(source, mode="clip").astype(np.int32)
    token_ids[~real] = pad_id
    token_ids[:, 0] = cls_id
    token_ids[rows, first_sep] = sep_id
    token_ids[rows, last_sep] = sep_id
    return ModelInputs(token_ids, (in_b & real).astype(np.int32), real.astype(np.int32), is_text)
