"""Token spans to rows: truncation from the longer side, and [CLS] A [SEP] B [SEP].

Names: B batch, T row length. Everything is vectorised over the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WORD_BITS = 64  # of a raw draw


class Rows(NamedTuple):
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
    """How many of `removed` [B] tokens go at the front: a fair coin for each, one bit of raw each.

    Args:
        removed: int64 [B], at most 64 * W.
        raw: uint64 [B, W].

    Returns:
        int64 [B].
    """
    words = np.arange(raw.shape[1])
    bits = np.clip(removed[:, None] - WORD_BITS * words, 0, WORD_BITS).astype(np.uint64)
    # Shifting by 64 is undefined in C, therefore by 63 and then by 1.
    ones = ~((~np.uint64(0) << (bits - (bits == WORD_BITS))) << (bits == WORD_BITS))
    return np.bitwise_count(raw & ones).sum(axis=1, dtype=np.int64)


def pack(
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
) -> Rows:
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
    return Rows(token_ids, (in_b & real).astype(np.int32), real.astype(np.int32), is_text)
