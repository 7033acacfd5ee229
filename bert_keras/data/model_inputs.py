"""Model inputs: encoded texts of any length in flat arrays, and padded rows made from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.encoding import kept_lengths

_TEXTS_AT_ONCE = 4096  # texts that are tokenised together, which bounds the lists of ids


@dataclass(frozen=True)
class EncodedTexts:
    """Texts, or pairs of texts, as token ids with special tokens, without padding.

    Row i has the tokens from `bounds[i]` up to `bounds[i + 1]`.

    Attributes:
        token_ids: token ids of all rows, one row after another: int32 [tokens].
        segment_ids: their segment ids: int32 [tokens].
        bounds: index of the first token of each row, and the end: int64 [rows + 1].
        pad_id: token id of padding.
        num_cut: number of truncated texts or pairs.
        sources: index of the text of each row, in ascending order, where a long text has several
            rows: int64 [rows]. None where each row is a text or pair of its own.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    bounds: np.ndarray
    pad_id: int
    num_cut: int = 0
    sources: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        ids: Iterable[Any],
        segments: Iterable[Any],
        pad_id: int,
        *,
        num_cut: int = 0,
        sources: np.ndarray | None = None,
    ) -> EncodedTexts:
        """Build encoded texts from the token ids and segment ids of each row."""
        token_ids = [np.asarray(row, np.int32) for row in ids]
        segment_ids = [np.asarray(row, np.int32) for row in segments]
        bounds = np.cumsum([0, *map(len, token_ids)], dtype=np.int64)
        no_ids = np.zeros(0, np.int32)  # `concatenate` needs an array if there are no rows
        return cls(
            np.concatenate([no_ids, *token_ids]),
            np.concatenate([no_ids, *segment_ids]),
            bounds,
            pad_id,
            num_cut,
            sources,
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
        return EncodedTexts.of(
            [ids[n] for n in order],
            [segments[n] for n in order],
            self.pad_id,
            num_cut=self.num_cut + other.num_cut,
        )

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        """Return the token ids of one row: int32 [tokens of the row]."""
        return self.token_ids[self.bounds[number] : self.bounds[number + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row: int64 [rows]."""
        return np.diff(self.bounds)

    def inputs(self, numbers: np.ndarray, width: int) -> dict[str, np.ndarray]:
        """Return the model inputs of some rows, padded to a common width.

        Args:
            numbers: indices of the rows, of any shape [...], such as [B] or [B, choices].
            width: tokens of a padded row, at least as many as the longest row has.

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
        """Return the values of some rows, padded to a common width: [..., width].

        Args:
            values: a value for each token of `token_ids`: [tokens].
            numbers: indices of the rows, of any shape [...].
            width: tokens of a padded row.
            fill: value of padding.
        """
        within, places = self._places(numbers, width)
        if not len(values):
            return np.full(within.shape, fill, values.dtype)
        return np.where(within, values[places], np.asarray(fill, values.dtype))

    def _places(self, numbers: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return which columns have a token, bool, and its index in `token_ids`: [..., width]."""
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
    """Encode texts, or pairs of texts, as `tokenizer(texts, pairs)` does, but without padding.

    Args:
        tokenizer: the tokenizer of the model.
        texts: one text for each row.
        pairs: the second text of each row, or None.
        max_length: maximum number of tokens in a row; tokens of the longer text are cut. `num_cut`
            of the result has the number of rows in which some were cut.
    """
    ids: list[np.ndarray] = []
    segments: list[np.ndarray] = []
    num_cut, num_added = 0, tokenizer.scheme.num_added(1 if pairs is None else 2)
    for parts in ids_of_rows(tokenizer, texts, pairs):
        lengths = [len(part) for part in parts]
        kept = kept_lengths(lengths, max_length, num_added)
        num_cut += kept != lengths
        cut = [part[:length] for part, length in zip(parts, kept, strict=True)]
        row_ids, row_segments, _ = add_special_tokens(tokenizer, *cut)
        ids.append(np.array(row_ids, np.int32))  # less memory than a list
        segments.append(np.array(row_segments, np.int32))
    return EncodedTexts.of(ids, segments, tokenizer.pad_id, num_cut=num_cut)


def ids_of_rows(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None
) -> Iterator[tuple[list[int], ...]]:
    """Yield the token ids of each text, or of both texts of each pair, without special tokens.

    Raises:
        ValueError: if texts and pairs differ in number.
    """
    if pairs is not None and len(texts) != len(pairs):
        raise ValueError(
            "`texts` and `pairs` must be equally many. "
            f"Received: {len(texts)} texts, {len(pairs)} pairs"
        )
    columns = [texts] if pairs is None else [texts, pairs]
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        part = slice(start, start + _TEXTS_AT_ONCE)
        yield from zip(*(tokenizer.marked_ids(column[part]) for column in columns), strict=True)


def encode_apart(tokenizer: Tokenizer, *columns: Sequence[str], max_length: int) -> EncodedTexts:
    """Encode each text of each example in a row of its own; pair i has the rows 2i and 2i + 1."""
    texts = [text for example in zip(*columns, strict=True) for text in example]
    return encode(tokenizer, texts, max_length=max_length)


def add_special_tokens(
    tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None = None
) -> tuple[list[int], list[int], int]:
    """Put special tokens around the ids of one or two texts: "[CLS] first [SEP] second [SEP]".

    Some tokenizers put two separators between the texts, or use one segment for both.

    Returns:
        The token ids, the segment ids, and the column at which the last text begins.
    """
    scheme = tokenizer.scheme
    ids = [tokenizer.cls_id, *first, tokenizer.sep_id]
    if second is None:
        return ids, [0] * len(ids), 1
    ids += [tokenizer.sep_id] * (scheme.separators - 1)
    segment, num_first = int(scheme.two_segments), len(ids)
    ids += [tokenizer.cls_id] * scheme.cls_before_second
    begin = len(ids)
    ids += [*second, tokenizer.sep_id]
    return ids, [0] * num_first + [segment] * (len(ids) - num_first), begin


# === Spans to rows ===
# Names in shapes: B rows of a batch, T tokens of a row. All functions are vectorised over B.


RANDOM_BITS = 64  # bits of a random integer


class ModelInputs(NamedTuple):
    """Batch of model inputs, int32 [B, T], and flags of the tokens that are text.

    Special tokens and padding are not text.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    padding_mask: np.ndarray
    is_text: np.ndarray  # bool [B, T]


def truncate(
    length_a: np.ndarray, length_b: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of A and B, int64 [B] each, after cutting both to `room` tokens in all.

    The result is that of BERT's code, which takes tokens from the longer span, one by one, until
    both fit. If both are equally long, it takes one from B.
    """
    kept_a = np.minimum(length_a, np.maximum(room - length_b, -(-room // 2)))
    kept_b = np.minimum(length_b, np.maximum(room - length_a, room // 2))
    return kept_a, kept_b


def front_share(removed: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Return how many of the tokens to cut are cut at the front of a span, and not at its end.

    One random bit decides for each token, as in BERT's code.

    Args:
        removed: number of tokens to cut, at most 64 * W: int64 [B].
        raw: random 64-bit integers: uint64 [B, W].

    Returns:
        int64 [B].
    """
    numbers = np.arange(raw.shape[1], dtype=np.int64)
    bits = np.clip(removed[:, None] - RANDOM_BITS * numbers, 0, RANDOM_BITS).astype(np.uint64)
    # A shift by 64 is undefined in C, so shift by 63 and then by 1.
    ones = ~((~np.uint64(0) << (bits - (bits == RANDOM_BITS))) << (bits == RANDOM_BITS))
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
    """Build rows of [CLS] A [SEP] B [SEP] from two spans each, or [CLS] A [SEP] if B is empty.

    Args:
        tokens: tokens of the corpus, [num_tokens].
        start_a: index in `tokens` of the first token of A, int64 [B].
        length_a: number of tokens in A, int64 [B].
        start_b: index in `tokens` of the first token of B, int64 [B].
        length_b: number of tokens in B, 0 for none, int64 [B].
        length: T. Every row must fit, with its special tokens.
        cls_id: token id of [CLS].
        sep_id: token id of [SEP].
        pad_id: token id of padding.
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
    # The columns without text read any token, which is overwritten below: this is quicker than
    # reading the columns with text only.
    token_ids = tokens.take(source, mode="clip").astype(np.int32)
    token_ids[~real] = pad_id
    token_ids[:, 0] = cls_id
    token_ids[rows, first_sep] = sep_id
    token_ids[rows, last_sep] = sep_id
    return ModelInputs(token_ids, (in_b & real).astype(np.int32), real.astype(np.int32), is_text)
