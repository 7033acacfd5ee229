"""JSON bodies: NaN and Infinity, and texts that are not JSON."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.serving.http_json import json_response
from tests.serving.running import Running


def send(served: Running, body: bytes) -> tuple[int, str]:
    response = served.client.post("/embed", content=body)
    return response.status_code, response.text


def test_nan_and_infinity_are_read(served: Running) -> None:
    assert send(served, b'{"inputs": "a", "comment": [NaN, -Infinity, 1]}')[0] == 200
    status, text = send(served, b'{"inputs": NaN}')
    assert status == 400
    assert "`inputs` must be a text" in text


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs": NaN',
        b'{"inputs": nan}',
        b'{"inputs": "NaN\\ud800"}',
        b'{"inputs": NaN, "n": ' + b"9" * 5000 + b"}",
        b'{"inputs": ' + b"[" * 5000 + b"NaN" + b"]" * 5000 + b"}",
        b'{"inputs": "NaN\xff"}',
    ],
)
def test_other_bodies_are_refused(served: Running, body: bytes) -> None:
    status, text = send(served, body)
    assert status == 400
    assert "not JSON" in text


def test_numbers_that_json_lacks_become_null() -> None:
    response = json_response({"scores": np.array([1.0, np.nan, np.inf], np.float32)})
    assert response.body == b'{"scores":[1.0,null,null]}'
