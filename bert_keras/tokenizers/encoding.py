"""From the engine's pieces to what the model reads: cutting, [CLS] and [SEP], padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import tokenizers

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or a pair, as the model reads it. All lists have the same length.

    Attributes:
        ids: vocabulary ids.
        segment_ids: 0 in the first text, 1 in the second where the family tells them apart.
        tokens: the pieces.
        offsets: (start, end) of each piece in its own text, in characters; (0, 0) where added.
        special_tokens_mask: 1 for the special tokens added here, whatever the text spells.
        word_ids: number of the word in its own text; None where added.
    """

    ids: list[int]
    segment_ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]
    word_ids: list[int | None]

    def __len__(self) -> int:
        return len(self.ids)


def kept_lengths(lengths: list[int], max_length: int | None, num_added: int) -> list[int]:
    """How many pieces of each text stay: the longer text gives way first.

    Args:
        lengths: of one text, or of two.
        max_length: of the whole, with the `num_added` special tokens; None for any.
        num_added: how many special tokens are added.
    """
    if max_length is None:
        return lengths
    room = max_length - num_added
    if room < 0:
        raise ValueError(
            f"max_length must leave room for {num_added} special tokens. Received: {max_length}"
        )
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    shorter = min(*lengths, room // 2)
    return [shorter, room - shorter] if lengths[0] <= lengths[1] else [room - shorter, shorter]


def assemble(
    parts: Sequence[tokenizers.Encoding],
    kept: list[int],
    scheme: Scheme,
    added: tuple[int, int] | None,
) -> Encoding:
    """Joins the first pieces of one or two texts.

    Args:
        parts: the texts' pieces.
        kept: how many of them stay.
        scheme: what stands around the texts.
        added: the ids of its cls and sep; None to add neither.
    """
    result = Encoding([], [], [], [], [], [])

    def add(token: str, index: int, segment: int) -> None:
        result.ids.append(index)
        result.segment_ids.append(segment)
        result.tokens.append(token)
        result.offsets.append((0, 0))
        result.special_tokens_mask.append(1)
        result.word_ids.append(None)

    if added:
        add(scheme.cls, added[0], 0)
    for number, (part, length) in enumerate(zip(parts, kept, strict=True)):
        segment = number * scheme.two_segments
        if added and number:
            for _ in range(scheme.separators - 1):
                add(scheme.sep, added[1], 0)
        result.ids.extend(part.ids[:length])
        result.segment_ids.extend([segment] * length)
        result.tokens.extend(part.tokens[:length])
        result.offsets.extend(part.offsets[:length])
        result.special_tokens_mask.extend([0] * length)
        result.word_ids.extend(part.word_ids[:length])
        if added:
            add(scheme.sep, added[1], segment)
    return result


def pad(
    rows: list[list[list[int]]], pad_id: int, length: int | None, *, two_segments: bool
) -> dict[str, np.ndarray]:
    """Rows of one or two segments as int32 [batch, length]; None: as long as the longest row."""
    lengths = [sum(map(len, row)) for row in rows]
    width = max(lengths, default=0) if length is None else length
    token_ids = np.full((len(rows), width), pad_id, np.int32)
    segment_ids = np.zeros_like(token_ids)
    padding_mask = np.zeros_like(token_ids)
    for index, (row, used) in enumerate(zip(rows, lengths, strict=True)):
        token_ids[index, :used] = list(chain.from_iterable(row))
        segment_ids[index, len(row[0]) : used] = 1
        padding_mask[index, :used] = 1
    segments = {SEGMENT_IDS: segment_ids} if two_segments else {}
    return {TOKEN_IDS: token_ids, **segments, PADDING_MASK: padding_mask}
