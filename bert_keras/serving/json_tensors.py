"""Values of TensorFlow Serving's REST protocol: JSON to columns of inputs, and outputs to JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.serving.http_requests import RequestError, shown
from bert_keras.serving.signatures import FLOAT, STRING, Signature, Spec


def columns_of_rows(
    rows: Any, signature: Signature, key: str = "instances"
) -> tuple[dict[str, Any], int]:
    """Return rows of JSON as columns, and the number of rows.

    Args:
        rows: the value of `instances` or `examples`.
        signature: signature with the inputs.
        key: name of the value, for messages.

    Raises:
        RequestError: if a row does not have the inputs of the signature.
    """
    if not isinstance(rows, list) or not rows:
        raise RequestError(
            400, f'"{key}" must be a list of at least one row. Received: {shown(rows)}.'
        )
    names = list(signature.inputs)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for index, row in enumerate(rows):
        is_bare = not isinstance(row, dict) or set(row) == {"b64"}
        if is_bare and len(names) == 1:
            columns[names[0]].append(row)
            continue
        place = f"{key}[{index}]"
        if is_bare:
            raise RequestError(
                400, f"{place} must be an object with {', '.join(names)}. Received: {shown(row)}."
            )
        _check_names(row, names, place)
        for name in names:
            columns[name].append(row[name])
    checked = {
        name: _values(columns[name], spec, lambda i, name=name: f"{key}[{i}].{name}")
        for name, spec in signature.inputs.items()
    }
    return checked, len(rows)


def columns_of_inputs(inputs: Any, signature: Signature) -> tuple[dict[str, Any], int]:
    """Return `inputs` as columns, and the number of rows.

    Raises:
        RequestError: if they are not those of the signature, or differ in length. As in
            TensorFlow Serving, inputs of a SavedModel that is no export of ours may differ.
    """
    names = list(signature.inputs)
    if not isinstance(inputs, dict):
        if len(names) != 1:
            raise RequestError(
                400,
                f'"inputs" must be an object with {", ".join(names)}. Received: {shown(inputs)}.',
            )
        inputs = {names[0]: inputs}
    _check_names(inputs, names, "inputs")
    columns = {}
    for name, spec in signature.inputs.items():
        values = inputs[name]
        if spec.shape != () and (not isinstance(values, list) or not values):
            raise RequestError(
                400,
                f"inputs.{name} must be a list of at least one value. Received: {shown(values)}.",
            )
        is_scalar = spec.shape == ()
        columns[name] = _values(
            values, spec, lambda i, name=name: f"inputs.{name}[{i}]", is_scalar=is_scalar
        )
    counts = {
        name: len(values) for name, values in columns.items() if signature.inputs[name].shape != ()
    }
    if signature.has_text_rows and len(set(counts.values())) > 1:
        received = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise RequestError(400, f"The inputs must have equally many rows. Received: {received}.")
    return columns, max(counts.values(), default=1)


def _check_names(row: Mapping[str, Any], names: list[str], place: str) -> None:
    """Check that an object has exactly these keys.

    Raises:
        RequestError: if it does not.
    """
    expected = f"The signature takes {', '.join(names)}."
    if missing := [name for name in names if name not in row]:
        raise RequestError(400, f"{place} has no {missing[0]!r}. {expected}")
    if unknown := [name for name in row if name not in names]:
        raise RequestError(400, f"{place} has an unknown input {unknown[0]!r:.80}. {expected}")


def _values(values: Any, spec: Spec, place: Any, *, is_scalar: bool = False) -> Any:
    """Return the values of an input: a list of str or bytes, or an array of numbers.

    Args:
        values: values of all rows.
        spec: type and shape of the input.
        place: function from the index of a row to its name, for messages.
        is_scalar: True for one value that is not in rows.

    Raises:
        RequestError: if a value has another type or rank, or lists differ in length.
    """
    if spec.dtype == STRING:
        depth = None if spec.shape is None else max(0, len(spec.shape) - 1)
        if is_scalar:
            return string_value(values, 0, place(0))
        rows = [string_value(value, depth, place(index)) for index, value in enumerate(values)]
        if depth == 1 and len({len(row) for row in rows}) > 1:
            lengths = ", ".join(str(len(row)) for row in rows[:5])
            raise RequestError(
                400,
                f"{place(0)} and the others must have equally many values in one request. "
                f"Received: {lengths}.",
            )
        return rows
    return _numbers(values, spec, place)


def string_value(value: Any, depth: int | None, place: str) -> Any:
    """Return a str, or the bytes of {"b64": ...}; for a depth above 0, nested lists of them."""
    if isinstance(value, list) and depth != 0:
        deeper = None if depth is None else depth - 1
        return [string_value(item, deeper, f"{place}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict) and set(value) == {"b64"} and not depth:
        try:
            content = base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise RequestError(400, f"{place}.b64 is not base64: {error}.") from None
        return content
    if not isinstance(value, str) or depth:
        kind = "a list of texts" if depth else "a text"
        raise RequestError(400, f"{place} must be {kind}. Received: {shown(value)}.")
    return value


def _numbers(values: Any, spec: Spec, place: Any) -> np.ndarray:
    """Return numbers as an array of the type of an input."""
    wanted = np.dtype(spec.dtype if spec.dtype != "bfloat16" else FLOAT)
    if not _has_only_numbers(values):
        raise RequestError(
            400, f"{place(0)} must be numbers of type {wanted.name}. Received: {shown(values)}."
        )
    try:
        array = np.array(values)
    except ValueError:
        raise RequestError(
            400, f"{place(0)} and the others must have equal lengths in one request."
        ) from None
    if not array.size:  # NumPy's type of an empty list is float64
        array = array.astype(wanted)
    kinds = {"i": "iu", "u": "iu", "f": "iuf", "b": "b"}[wanted.kind]
    if array.dtype.kind not in kinds:
        raise RequestError(
            400, f"{place(0)} must be numbers of type {wanted.name}. Received: {shown(values)}."
        )
    if spec.shape is not None:
        fits = array.ndim == len(spec.shape) and all(
            size in (None, found) for size, found in zip(spec.shape, array.shape, strict=True)
        )
        if not fits:
            sizes = ", ".join("any" if size is None else str(size) for size in spec.shape)
            raise RequestError(
                400, f"{place(0)} must have the shape [{sizes}]. Received: {list(array.shape)}."
            )
    if wanted.kind in "iu" and array.size:
        limits = np.iinfo(wanted)
        if array.min() < limits.min or array.max() > limits.max:
            raise RequestError(400, f"{place(0)} has a number beyond {wanted.name}.")
    return array.astype(wanted)


def _has_only_numbers(values: Any) -> bool:
    """Return whether nested lists have only numbers and booleans.

    NumPy would give every text of a list the room of the longest, so a few megabytes of JSON could
    become terabytes.
    """
    level = [values]
    while level:
        if not all(isinstance(value, list | int | float) for value in level):
            return False
        level = [item for value in level if isinstance(value, list) for item in value]
    return True


def characters_of(value: Any) -> int:
    """Return the number of characters of all texts in nested lists."""
    if isinstance(value, str | bytes):
        return len(value)
    return sum(map(characters_of, value)) if isinstance(value, list) else 0


def json_values(name: str, values: np.ndarray) -> Any:
    """Return an output as JSON values. Bytes that are not UTF-8 become base64."""
    if values.dtype != object and values.dtype.kind not in "SU":
        return values.tolist()
    return _text(values.tolist(), name.endswith("_bytes"))


def _text(value: Any, as_base64: bool) -> Any:
    """Return str or bytes in nested lists as JSON values."""
    if isinstance(value, list):
        return [_text(item, as_base64) for item in value]
    content = value.encode() if isinstance(value, str) else value
    if not as_base64:
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(content).decode()}
