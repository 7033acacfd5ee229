"""An exported folder asked as a client would, with what breaks servers: each answer looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras.export import requests
from bert_keras.export.clients import Client, Outputs, RuntimeClient
from bert_keras.export.requests import Columns
from bert_keras.export.runtimes.formats import INT8_DYNAMIC

EXAMPLES = (
    "The film was a pleasure from beginning to end.",
    "In March, Ada Lovelace moved from London to Paris.",
    "Nothing of this works, and nobody answers.",
)
_TOLERANCE, _ROUNDED = 1e-4, 1e-2
_LONG = "the test " * 12_000  # 100 kB
_NOT_UTF8 = b"\xff caf\xe4 \xe4\xb8"
_ROWS = 8


@dataclass(frozen=True)
class Check:
    """One thing that was tried.

    Attributes:
        name: what.
        passed: whether it is as it should be.
        told: what was found.
    """

    name: str
    passed: bool
    told: str


def checks(client: Client) -> Iterator[Check]:
    """Tries one thing after another; a failure does not keep the others from being tried."""
    draw = np.random.default_rng(1)
    words = ["the", "a", "film", "test", "1999", "Paris", ",", "good", "é", "中文", "unbelievable"]
    texts = [" ".join(draw.choice(words, size)) for size in draw.integers(1, 24, _ROWS)]
    batch = columns_of(client, texts)
    tries: dict[str, Callable[[], str]] = {
        "answers are finite": lambda: _finite(client.answer(batch)),
        "a batch is its rows one by one": lambda: _rows_agree(client, batch),
        "empty and blank texts": lambda: _finite(client.answer(columns_of(client, ["", " \n"]))),
        "a text of 100 kB": lambda: _finite(client.answer(columns_of(client, [_LONG, "a"]))),
        "no texts at all": lambda: _nothing(client, batch),
    }
    if not isinstance(client, RuntimeClient):  # whose tokenizer is Python's
        tries["bytes that are not UTF-8"] = lambda: _neighbours(client, texts[0])
    for name, attempt in tries.items():
        try:
            yield Check(name, passed=True, told=attempt())
        except Exception as error:
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            yield Check(name, passed=False, told=first_line[:200])


def columns_of(client: Client, texts: Sequence[Any]) -> Columns:
    """A batch of texts as this model is asked: each text with the next one where it takes two."""
    mask = client.mask and f"{client.mask} "
    ours = [mask.encode() + text if isinstance(text, bytes) else mask + text for text in texts]
    others = [*ours[1:], *ours[:1]]
    second = [list(pair) for pair in zip(others, ours, strict=True)]
    found: dict[str, Any] = dict(zip(client.names, (ours, others), strict=False))
    return found | ({"options": second} if "options" in found else {})


def shown(outputs: Outputs, row: int) -> dict[str, Any]:
    """An example's outputs as JSON values; of long ones the beginning and the shape."""
    found = {}
    for name, values in outputs.items():
        value = np.asarray(values[row])
        if value.size > 8:
            first = [_plain(number) for number in value.ravel()[:4]]
            found[name] = {"shape": list(value.shape), "first": first}
        else:
            found[name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value] if value.ndim else _plain(value.item())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return round(float(value), 6) if isinstance(value, float | np.floating) else int(value)


def _finite(outputs: Outputs) -> str:
    for name, values in outputs.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    return ", ".join(f"{name} {list(values.shape)}" for name, values in outputs.items())


def _rows_agree(client: Client, batch: Columns) -> str:
    together = client.answer(batch)
    gap = 0.0
    for row in range(_ROWS):
        alone = client.answer(requests.part(batch, row, row + 1))
        gap = max(gap, _gap(together, row, alone))
    if gap > _tolerance(client):
        raise ValueError(f"they differ by up to {gap:.2g}")
    return f"no difference above {gap:.2g}"


def _tolerance(client: Client) -> float:
    if not isinstance(client, RuntimeClient) or client.manifest.quantization is None:
        return _TOLERANCE
    # One scale for the activations of a batch: neighbours matter.
    return math.inf if client.manifest.quantization == INT8_DYNAMIC else _ROUNDED


def _gap(together: Outputs, row: int, alone: Outputs) -> float:
    """The largest difference in what both have; a batch fills its rows up."""
    gap = 0.0
    for name, values in alone.items():
        one = np.asarray(values[0])  # strings come as bytes
        other = np.asarray(together[name][row])[tuple(slice(size) for size in one.shape)]
        if one.dtype.kind == "f":
            if not (np.isfinite(one).all() and np.isfinite(other).all()):
                raise ValueError(f"{name} of row {row} holds numbers that are not finite")
            gap = max(gap, float(np.abs(one - other).max(initial=0.0)))
        elif not np.array_equal(one, other):
            raise ValueError(f"{name} of row {row} differs: {one!r:.60} alone, {other!r:.60} here")
    return gap


def _neighbours(client: Client, text: str) -> str:
    """Beside broken bytes a row is answered as it is alone."""
    both = columns_of(client, [text.encode(), _NOT_UTF8])
    beside = client.answer(both)
    _finite(beside)
    gap = _gap(beside, 0, client.answer(requests.part(both, 0, 1)))
    if gap > _TOLERANCE:
        raise ValueError(f"the row beside them differs by up to {gap:.2g}")
    return f"the row beside them differs by no more than {gap:.2g}"


def _nothing(client: Client, batch: Columns) -> str:
    outputs = client.answer(requests.part(batch, 0, 0))
    if any(len(values) for values in outputs.values()):
        raise ValueError("rows were answered that were not asked")
    return "no answers"
