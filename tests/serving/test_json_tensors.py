"""JSON values of inputs and outputs, for signatures that no model of ours has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.serving.http_requests import RequestError
from bert_keras.serving.json_tensors import (
    characters_of,
    columns_of_inputs,
    columns_of_rows,
    json_values,
)
from bert_keras.serving.signatures import STRING, Signature, Spec


def signature(**inputs: Spec) -> Signature:
    return Signature(dict, inputs, {}, has_text_rows=False)


def test_scalars_have_no_rows() -> None:
    taken = signature(texts=Spec(STRING, (None,)), training=Spec("bool", ()))
    columns, count = columns_of_inputs({"texts": ["a", "b"], "training": True}, taken)
    assert columns["texts"] == ["a", "b"]
    assert columns["training"].shape == ()
    assert count == 2


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float32", [[1, 2.5]]),
        ("int64", [[1, 2]]),
        ("bool", [[True, False]]),
        ("uint8", [[0, 255]]),
        ("bfloat16", [[1.0, 2.0]]),
    ],
)
def test_numbers_of_every_type(dtype: str, values: Any) -> None:
    columns, count = columns_of_rows(values, signature(x=Spec(dtype, (None, 2))))
    assert count == 1
    assert columns["x"].tolist() == values
    unknown, _ = columns_of_rows(values, signature(x=Spec(dtype, None)))
    assert unknown["x"].tolist() == values


def test_empty_lists_are_numbers_of_every_type() -> None:
    for dtype in ("int32", "float32", "bool"):
        columns, _ = columns_of_rows([[]], signature(x=Spec(dtype, (None, None))))
        assert columns["x"].shape == (1, 0)
        assert columns["x"].dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "values"), [("uint8", [[0, 256]]), ("bool", [[0, 1]]), ("float32", [["a", "b"]])]
)
def test_numbers_of_another_type_are_refused(dtype: str, values: Any) -> None:
    with pytest.raises(RequestError):
        columns_of_rows(values, signature(x=Spec(dtype, (None, 2))))


def test_strings_of_any_rank() -> None:
    nested = [["a", ["b", {"b64": "Yw=="}]]]
    columns, _ = columns_of_rows(nested, signature(x=Spec(STRING, None)))
    assert columns["x"] == [["a", ["b", b"c"]]]
    assert characters_of(columns["x"]) == 3


def test_outputs_that_are_no_text_are_base64() -> None:
    values = np.array([[b"text", b"\xff"]], object)
    assert json_values("words", values) == [["text", {"b64": "/w=="}]]
    assert json_values("words_bytes", values)[0][0] == {"b64": "dGV4dA=="}
    assert json_values("x", np.array([[1.5]], np.float32)) == [[1.5]]
