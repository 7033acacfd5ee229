"""Signatures of served models: functions with named inputs and outputs, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras import features

DEFAULT, IDS = "serving_default", "ids"
# Method names of TensorFlow Serving.
PREDICT, CLASSIFY, REGRESS = (
    f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress")
)
STRING, INT, FLOAT = "string", "int32", "float32"

Columns = Mapping[str, Any]  # input name -> list of values, or array [batch, ...]
Outputs = dict[str, np.ndarray]  # output name -> array [batch, ...]; strings are of dtype object
Run = Callable[[Columns], Outputs]
_MOST_NUMBERS = 2**24  # maximum number of numbers in the outputs of all rows of a request


@dataclass(frozen=True)
class Spec:
    """Type and shape of an input or output.

    Attributes:
        dtype: NumPy's name of the type, or "string".
        shape: size of each axis, or None for any size. The first axis is the batch. The shape
            itself is None if the rank is not known.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Signature:
    """A function of a model.

    Attributes:
        run: function from columns of inputs to outputs.
        inputs: input name -> type and shape.
        outputs: output name -> type and shape.
        has_text_rows: True if the inputs are rows of texts, and each row has its own outputs. Rows
            of several requests then run in one batch.
        method: method name of TensorFlow Serving.
    """

    run: Run
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]
    has_text_rows: bool = True
    method: str = PREDICT


def in_batches(run: Run, size: int) -> Run:
    """Return a function that runs `run` on at most `size` rows at once, which bounds its memory.

    It raises `ValueError` if the inputs have different numbers of rows, or if the outputs of all
    rows would be too large for one answer.
    """

    def run_batches(columns: Columns) -> Outputs:
        counts = {name: len(values) for name, values in columns.items()}
        count = max(counts.values())
        if min(counts.values()) < count:
            received = ", ".join(f"{name} {number}" for name, number in counts.items())
            raise ValueError(f"The inputs must have equally many rows. Received: {received}.")
        batches: list[Outputs] = []
        for start in range(0, count, size):
            rows = {name: values[start : start + size] for name, values in columns.items()}
            batches.append(run(rows))
            numbers = sum(values.size for values in batches[0].values()) * max(1, count / size)
            if numbers > _MOST_NUMBERS:
                raise ValueError(
                    f"The outputs would have {numbers:,.0f} numbers, but an answer may have "
                    f"{_MOST_NUMBERS:,}. Send fewer or shorter rows."
                )
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    return run_batches


# Output name -> padding value, for outputs [batch, entities] and [batch, masks, ...]. Rows with
# fewer entities or masks than the longest row are padded.
ENTITY_PADDING = {"label": "", "text": "", "start": 0, "end": 0, "score": 0.0}
_MASK_PADDING = {"tokens": "", "token_ids": 0, "scores": 0.0}
_TOKEN_OUTPUTS = (features.SEQUENCE_OUTPUT, features.TOKEN_IDS, features.PADDING_MASK)


def without_padding(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of outputs, each an array [...], without its padding.

    Entities, masks and token vectors are padded to the longest row of their batch. Without the
    padding, a row has the same values as in a batch of one.
    """
    if "mask_count" in outputs:
        count, padded = int(outputs["mask_count"]), tuple(_MASK_PADDING)
    elif "count" in outputs and "start" in outputs:
        count, padded = int(outputs["count"]), tuple(ENTITY_PADDING)
    elif features.PADDING_MASK in outputs:
        count, padded = int(np.sum(outputs[features.PADDING_MASK])), _TOKEN_OUTPUTS
    else:
        return dict(outputs)
    return {name: x[:count] if name in padded else x for name, x in outputs.items()}


def joined_rows(rows: Sequence[Mapping[str, Any]], pad_id: int = 0) -> Outputs:
    """Return rows of outputs as one batch. Shorter rows are padded; see `without_padding`.

    Args:
        rows: outputs of each row, output name -> array [...] or scalar.
        pad_id: padding value of `token_ids`.
    """
    batch: Outputs = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if not isinstance(values[0], np.ndarray):
            batch[name] = _column(values)
            continue
        longest = max(values, key=len)
        is_string = longest.dtype == object
        fill = pad_id if name == features.TOKEN_IDS else "" if is_string else 0
        batch[name] = np.full((len(values), *longest.shape), fill, longest.dtype)
        for index, value in enumerate(values):
            batch[name][index, : len(value)] = value
    return batch


def _column(values: Sequence[Any]) -> np.ndarray:
    """Return scalars as an array [batch]. NumPy numbers keep their type; others become objects."""
    if isinstance(values[0], np.generic):
        return np.array(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column
