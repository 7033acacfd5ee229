"""Examples into rows of one length, hardly a token left empty: bin packing over a histogram.

Krell et al., 2021, "Efficient sequence packing without cross-contamination": examples of one length
are alike, so that lengths are placed, with how many have them, and not examples.
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

import numpy as np


class _Rows(NamedTuple):
    """Rows that are filled alike."""

    count: int  # of these rows
    examples: int  # in each of them
    length: int  # of the examples that came last,
    copies: int  # of which there are so many in each row
    before: _Rows | None  # what they, and maybe others, were before; None: empty


def fill_rows(lengths: np.ndarray, row_length: int, most_examples: int | None = None) -> np.ndarray:
    """Puts examples into rows: the longest first, each into the row that has most room.

    There are from the start as many rows as the tokens fill; new ones come where none has room. So
    rows are alike: each has long examples and short ones, and about as many as the others. (The
    fullest row that has room would leave a little less empty, but some rows would be of short
    examples alone, which batches of a few rows then differ by.)

    Args:
        lengths: tokens of each example, [examples].
        row_length: tokens that a row holds.
        most_examples: that a row holds; None for any number.

    Returns:
        int64 [examples], the row of each, numbered from 0: a function of the lengths alone.

    Raises:
        ValueError: an example is empty or longer than a row, or a row may hold none.
    """
    lengths = np.asarray(lengths)
    if most_examples is not None and most_examples < 1:
        raise ValueError(f"most_examples must be at least 1. Received: {most_examples}")
    if not len(lengths):
        return np.zeros(0, np.int64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 1 or longest > row_length:
        wrong = shortest if shortest < 1 else longest
        raise ValueError(
            f"Examples must have 1 to {row_length} tokens, those of a row. Received: one of {wrong}"
        )
    counts = np.bincount(lengths)
    places = _places(_filled(counts, row_length, most_examples or row_length))
    if longest < 2**16:
        lengths = lengths.astype(np.uint16)  # sorted by radix, in a tenth of the time
    rows = np.empty(len(lengths), np.int64)
    rows[np.argsort(lengths, kind="stable")] = np.concatenate(
        [part for length in np.flatnonzero(counts).tolist() for part in places[length]]
    )
    return rows


def _filled(counts: np.ndarray, row_length: int, most: int) -> list[_Rows]:
    """How rows are filled where `counts[n]` examples have n tokens."""
    tokens = int(counts @ np.arange(len(counts)))
    fewest = max(-(-tokens // row_length), -(-int(counts.sum()) // most))
    full: list[_Rows] = []
    # Rows by the tokens that are free in them, and these numbers in order.
    partly = {row_length: [_Rows(fewest, 0, 0, 0, None)]}
    free = [row_length]

    def put(space: int, rows: _Rows) -> None:
        if not space or rows.examples == most:
            full.append(rows)
            return
        if space not in partly:
            partly[space] = []
            insort(free, space)
        partly[space].append(rows)

    for length in np.flatnonzero(counts)[::-1].tolist():
        left = int(counts[length])
        while left:
            if free and free[-1] >= length:
                space, copies = free[-1], 1
                before = partly[space].pop()
                if not partly[space]:
                    del partly[free.pop()]
                count = min(left, before.count)
            else:  # no row has room: new ones, filled with examples of this length
                space, before = row_length, None
                copies = min(left, row_length // length, most)
                count = left // copies
            examples = copies + (before.examples if before else 0)
            put(space - copies * length, _Rows(count, examples, length, copies, before))
            if before and count < before.count:
                put(space, before._replace(count=before.count - count))
            left -= count * copies
    return full + [rows for space in free for rows in partly[space]]


def _places(filled: list[_Rows]) -> dict[int, list[np.ndarray]]:
    """The numbers of the rows in which examples of each length have a place."""
    places: dict[int, list[np.ndarray]] = {}
    first = 0
    for rows in filled:
        numbers = np.arange(first, first + rows.count)
        first += rows.count
        part: _Rows | None = rows
        while part is not None:
            places.setdefault(part.length, []).append(np.repeat(numbers, part.copies))
            part = part.before
    return places
