"""A batch of examples, each in a row of its own, to one of rows that hold several."""

from __future__ import annotations

import numpy as np

from bert_keras.data.feeding import Batch
from bert_keras.features import (
    EXAMPLE_IDS,
    FIRST_POSITIONS,
    MASK_POSITIONS,
    MLM,
    PADDING_MASK,
    POSITION_IDS,
    SEGMENT_IDS,
    TOKEN_IDS,
)


def pack_batch(
    batch: Batch,
    rows: np.ndarray,
    *,
    shape: tuple[int, int],
    max_examples: int,
    max_predictions: int = 0,
    pad_id: int = 0,
    token_names: tuple[str, ...] = (),
) -> Batch:
    """The examples of a batch, one after the other in common rows.

    Args:
        batch: examples in rows of their own: x, y, sample_weight; padding comes last.
        rows: the row of each example, ascending: [examples].
        shape: rows, and tokens of a row.
        max_examples: slots of a row for examples,
        max_predictions: and for masked tokens.
        pad_id: what rows are filled up with.
        token_names: the labels that lie as the tokens do.

    Returns:
        x: token_ids, segment_ids (where the examples have them), position_ids, example_ids int32
            [rows, length]; first_positions int32 [rows, max_examples]; mask_positions int32 [rows,
            max_predictions] where tokens are masked.
        y: those of examples [rows, max_examples, ...]; of tokens [rows, length]; "mlm" [rows,
            max_predictions].
        sample_weight: likewise; 0 in unused slots and for padding. Those of tokens count
            rows / examples times, so that a mean over the rows is one over the examples.
    """
    x, y, weights = batch
    real = x[PADDING_MASK] > 0
    lengths = real.sum(axis=1)
    begins = np.cumsum(lengths) - lengths
    first = np.searchsorted(rows, rows)  # of the examples in each one's row
    slots = np.arange(len(rows)) - first
    starts = (begins - begins[first]).astype(np.int32)
    example, position = np.nonzero(real)
    places = rows[example], starts[example] + position

    def laid(values: np.ndarray, fill: int = 0) -> np.ndarray:
        found = np.full(shape, fill, values.dtype)
        found[places] = values[real]
        return found

    def slotted(values: np.ndarray) -> np.ndarray:
        found = np.zeros((shape[0], max_examples, *values.shape[1:]), values.dtype)
        found[rows, slots] = values
        return found

    positions = np.arange(real.shape[1], dtype=np.int32)
    numbers = 1 + slots.astype(np.int32)
    packed_x = {
        TOKEN_IDS: laid(x[TOKEN_IDS], pad_id),
        POSITION_IDS: laid(np.broadcast_to(positions, real.shape)),
        EXAMPLE_IDS: laid(np.broadcast_to(numbers[:, None], real.shape)),
        FIRST_POSITIONS: slotted(starts),
    }
    if SEGMENT_IDS in x:
        packed_x[SEGMENT_IDS] = laid(x[SEGMENT_IDS])
    packed_y: dict[str, np.ndarray] = {}
    packed_weights: dict[str, np.ndarray] = {}
    share = np.float32(shape[0] / len(rows))
    for name, values in y.items():
        if name == MLM:
            columns = x[MASK_POSITIONS] + starts[:, None]
            masks = columns, values, weights[MLM]
            packed_x[MASK_POSITIONS], packed_y[MLM], packed_weights[MLM] = _masks(
                *masks, rows=rows, shape=(shape[0], max_predictions)
            )
        elif name in token_names:
            packed_y[name], packed_weights[name] = laid(values), share * laid(weights[name])
        else:
            packed_y[name], packed_weights[name] = slotted(values), slotted(weights[name])
    return packed_x, packed_y, packed_weights


def _masks(*columns: np.ndarray, rows: np.ndarray, shape: tuple[int, int]) -> list[np.ndarray]:
    """Columns of masked tokens, the last of which is 0 in unused slots, without these, by row."""
    used = columns[-1] > 0
    row = rows[np.nonzero(used)[0]]
    slots = row, np.arange(len(row)) - np.searchsorted(row, row)
    found = [np.zeros(shape, values.dtype) for values in columns]
    for each, values in zip(found, columns, strict=True):
        each[slots] = values[used]
    return found
