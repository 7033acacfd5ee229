"""Signatures of served models: functions with inputs and outputs by name, and rows of outputs."""

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


@dataclass(frozen=True)
class Spec:
    """Type and shape of an input or output.

    Attributes:
        dtype: NumPy's name of the type, or "string".
        shape: sizes of the axes, the first of which is the batch; None for any size. No shape is
            None for a rank that is not known.
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
        has_text_rows: True if each row of strings has an answer of its own, so that rows of several
            requests may run together.
        method: name of the method of TensorFlow Serving.
    """

    run: Callable[[Columns], Outputs]
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]
    has_text_rows: bool = True
    method: str = PREDICT


# Output that counts the entries of a row -> outputs whose second axis is padded for shorter rows,
# with the value of the padding.
ENTITY_PADDING = {"label": "", "text": "", "start": 0, "end": 0, "score": 0.0}
_MASK_PADDING = {"tokens": "", "token_ids": 0, "scores": 0.0}
_VECTORS_OF_TOKENS = (features.SEQUENCE_OUTPUT, features.TOKEN_IDS, features.PADDING_MASK)


def without_padding(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of outputs, each an array [...], without the padding of its second axis.

    Only entities, masks and vectors of tokens are padded. So the row is that of a batch of one.
    """
    if "mask_count" in outputs:
        count, padded = int(outputs["mask_count"]), tuple(_MASK_PADDING)
    elif "count" in outputs and "start" in outputs:
        count, padded = int(outputs["count"]), tuple(ENTITY_PADDING)
    elif features.PADDING_MASK in outputs:
        count, padded = int(np.sum(outputs[features.PADDING_MASK])), _VECTORS_OF_TOKENS
    else:
        return dict(outputs)
    return {name: x[:count] if name in padded else x for name, x in outputs.items()}


def joined_rows(rows: Sequence[Mapping[str, Any]], pad_id: int = 0) -> Outputs:
    """Return rows of outputs as one batch. Shorter rows are padded; see `without_padding`."""
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
    """Return scalars as an array [batch]; numbers keep their type, all else becomes objects."""
    if isinstance(values[0], np.generic):
        return np.array(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column
