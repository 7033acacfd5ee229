"""JSON bodies: NaN and Infinity, and texts that are not JSON."""

from __future__ import annotations

import urllib.error
import urllib.request

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


@pytest.mark.parametrize("more", [b"", b', "n": NaN'])
def test_a_key_that_is_there_twice_is_refused(served: Running, more: bytes) -> None:
    status, text = send(served, b'{"inputs": "a", "inputs": "b"' + more + b"}")
    assert status == 400
    assert "'inputs' is said twice" in text


def test_a_client_that_sends_before_it_reads_sees_the_answer(served: Running) -> None:
    """Urllib sends the whole body first, and would see a connection that is closed meanwhile."""
    body = b'{"inputs": "' + b"a" * (9 * 2**20) + b'"}'
    request = urllib.request.Request(f"{served.url}/embed", body)
    for _ in range(3):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request)
        assert error.value.code == 413
        assert b"8,388,608 bytes" in error.value.read()


def test_numbers_that_json_lacks_become_null() -> None:
    response = json_response({"scores": np.array([1.0, np.nan, np.inf], np.float32)})
    assert response.body == b'{"scores":[1.0,null,null]}'
