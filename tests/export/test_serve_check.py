"""Each check must find what it is there for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.export import serve_check
from bert_keras.export.clients import Client, RuntimeClient, TextClient
from bert_keras.export.runtimes.manifest import Manifest


class Lengths(Client):
    """Answers with the length of a text, and with a fault where it is told to have one."""

    names, mask = ("text",), ""

    def __init__(self, fault: str = ""):
        self.fault = fault

    def answer(self, columns: Any) -> dict[str, np.ndarray]:
        texts = columns["text"]
        if self.fault == "long" and any(len(text) > 10_000 for text in texts):
            raise MemoryError("too long\nby far")
        found = np.array([float(len(text)) for text in texts], np.float32)
        if self.fault == "blank" and texts and not texts[0]:
            found[0] = np.nan
        if self.fault == "alone" and len(texts) == 1:
            found[0] = np.nan
        if self.fault == "batch":
            found += len(texts)
        if self.fault == "names" and len(texts) == 1:
            return {"number": found, "label": np.array([b"x"])}
        return {"number": found, "label": np.array([b"y"] * len(texts))}


class Texts(Lengths, TextClient):
    """The same as a SavedModel, which takes bytes."""

    def answer(self, columns: Any) -> dict[str, np.ndarray]:
        if self.fault == "nothing" and not columns["text"]:
            return {"number": np.zeros(1, np.float32)}
        if self.fault == "bytes" and b"\xff" in b"".join(
            text for text in columns["text"] if isinstance(text, bytes)
        ):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return super().answer(columns)


def failed(client: Client) -> list[str]:
    return [check.name for check in serve_check.checks(client) if not check.passed]


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        ("", []),
        ("long", ["a text of 100 kB"]),
        ("blank", ["empty and blank texts"]),
        ("batch", ["a batch is its rows one by one", "bytes that are not UTF-8"]),
        ("names", ["a batch is its rows one by one", "bytes that are not UTF-8"]),
        ("alone", ["a batch is its rows one by one", "bytes that are not UTF-8"]),
        ("nothing", ["no texts at all"]),
        ("bytes", ["bytes that are not UTF-8"]),
    ],
)
def test_faults_are_found(fault: str, names: list[str]) -> None:
    assert failed(Texts(fault)) == names


def test_what_python_reads_is_not_given_broken_bytes() -> None:
    class Ids(Lengths, RuntimeClient):
        """The same as a model with a tokenizer in Python."""

    client = Ids("bytes")
    client.manifest = Manifest("onnx", None, "", 8, {}, False, 0, {}, {})
    found = list(serve_check.checks(client))
    assert (len(found), failed(client)) == (5, [])


def test_what_is_told_is_one_line() -> None:
    check = next(check for check in serve_check.checks(Lengths("long")) if not check.passed)
    assert check.told == "too long"


def test_columns() -> None:
    client = Lengths()
    client.names, client.mask = ("prompt", "options"), "[MASK]"
    assert serve_check.columns_of(client, ["a", "b"]) == {
        "prompt": ["[MASK] a", "[MASK] b"],
        "options": [["[MASK] b", "[MASK] a"], ["[MASK] a", "[MASK] b"]],
    }


def test_what_is_shown() -> None:
    outputs = {
        "label": np.array([b"caf\xc3\xa9"]),
        "score": np.array([0.123456789], np.float32),
        "count": np.array([3], np.int32),
        "vector": np.ones((1, 4, 3), np.float32),
        "tokens": np.array([[b"a", b"b"]]),
    }
    assert serve_check.shown(outputs, 0) == {
        "label": "café",
        "score": 0.123457,
        "count": 3,
        "vector": {"shape": [4, 3], "first": [1.0] * 4},
        "tokens": ["a", "b"],
    }
