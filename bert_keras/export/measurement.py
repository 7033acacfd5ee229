"""Checks and measurements of exported models: answers, size, latency, difference to the model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras import features
from bert_keras.export import clients
from bert_keras.export.clients import Client, Columns, HubClient, IdsClient, Outputs, RuntimeClient
from bert_keras.export.runtimes.formats import INT8_DYNAMIC, LENGTH, flat, output_axes
from bert_keras.predictor import Predictor

EXAMPLES = (
    "The film was a pleasure from beginning to end.",
    "In March, Ada Lovelace moved from London to Paris.",
    "Nothing of this works, and nobody answers.",
)
_TOLERANCE, _ROUNDED = 1e-4, 1e-2  # largest accepted differences, without and with quantization
_LONG = "the test " * 12_000  # 100 kB
_NOT_UTF8 = b"\xff caf\xe4 \xe4\xb8"
_ROWS = 8


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: name of the check.
        passed: whether the model passed it.
        details: what was measured, or the error.
    """

    name: str
    passed: bool
    details: str


def checks(client: Client) -> Iterator[Check]:
    """Run all checks of an exported model and yield their results, also after a failure."""
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
    if not isinstance(client, RuntimeClient):  # its tokenizer takes Python strings, not bytes
        tries["bytes that are not UTF-8"] = lambda: _neighbours(client, texts[0])
    for name, attempt in tries.items():
        try:
            yield Check(name, passed=True, details=attempt())
        except Exception as error:
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            yield Check(name, passed=False, details=first_line[:200])


def columns_of(client: Client, texts: Sequence[Any]) -> Columns:
    """Make a batch of texts for a model. A model of two texts gets each text with the next one."""
    mask = client.mask and f"{client.mask} "
    firsts = [mask.encode() + text if isinstance(text, bytes) else mask + text for text in texts]
    others = [*firsts[1:], *firsts[:1]]
    options = [list(pair) for pair in zip(others, firsts, strict=True)]
    columns: dict[str, Any] = dict(zip(client.names, (firsts, others), strict=False))
    return columns | ({"options": options} if "options" in columns else {})


def shown(outputs: Outputs, row: int) -> dict[str, Any]:
    """Return one example's outputs as JSON values; for long ones the shape and first numbers."""
    values_by_name = {}
    for name, values in outputs.items():
        value = np.asarray(values[row])
        if value.size > 8:
            first = [_plain(number) for number in value.ravel()[:4]]
            values_by_name[name] = {"shape": list(value.shape), "first": first}
        else:
            values_by_name[name] = _plain(value)
    return values_by_name


def _plain(value: Any) -> Any:
    """Return a value of an output as JSON values."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value] if value.ndim else _plain(value.item())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return round(float(value), 6) if isinstance(value, float | np.floating) else int(value)


def _finite(outputs: Outputs) -> str:
    """Return names and shapes of outputs.

    Raises:
        ValueError: if a number is not finite.
    """
    for name, values in outputs.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    return ", ".join(f"{name} {list(values.shape)}" for name, values in outputs.items())


def _rows_agree(client: Client, batch: Columns) -> str:
    """Check that each row of a batch has the same answer as alone.

    Raises:
        ValueError: if a difference is too large.
    """
    together = client.answer(batch)
    gap = 0.0
    for row in range(_ROWS):
        alone = client.answer(clients.part_of_columns(batch, row, row + 1))
        gap = max(gap, _gap(together, row, alone))
    if gap > _tolerance(client):
        raise ValueError(
            f"a row in a batch differs from the same row alone by up to {gap:.2g}, above the "
            f"tolerance of {_tolerance(client):.2g}"
        )
    return f"no difference above {gap:.2g}"


def _tolerance(client: Client) -> float:
    """Return the accepted difference between a row in a batch and alone."""
    if not isinstance(client, RuntimeClient) or client.manifest.quantization is None:
        return _TOLERANCE
    # "int8_dynamic" has one scale for the activations of a batch, so rows affect each other.
    return math.inf if client.manifest.quantization == INT8_DYNAMIC else _ROUNDED


def _gap(together: Outputs, row: int, alone: Outputs) -> float:
    """Return the largest difference between a row in a batch and alone, without its padding.

    Raises:
        ValueError: if numbers are not finite, or other values differ.
    """
    gap = 0.0
    for name, values in alone.items():
        one = np.asarray(values[0])  # strings are bytes
        other = np.asarray(together[name][row])[tuple(slice(size) for size in one.shape)]
        if one.dtype.kind == "f":
            if not (np.isfinite(one).all() and np.isfinite(other).all()):
                raise ValueError(f"{name} of row {row} holds numbers that are not finite")
            gap = max(gap, float(np.abs(one - other).max(initial=0.0)))
        elif not np.array_equal(one, other):
            raise ValueError(f"{name} of row {row} differs: {one!r:.60} alone, {other!r:.60} here")
    return gap


def _neighbours(client: Client, text: str) -> str:
    """Check that a row has the same answer beside a row of invalid UTF-8 as alone."""
    both = columns_of(client, [text.encode(), _NOT_UTF8])
    beside = client.answer(both)
    _finite(beside)
    gap = _gap(beside, 0, client.answer(clients.part_of_columns(both, 0, 1)))
    if gap > _TOLERANCE:
        raise ValueError(
            f"the row beside invalid UTF-8 differs from the same row alone by up to {gap:.2g}, "
            f"above the tolerance of {_TOLERANCE:.2g}"
        )
    return f"the row beside them differs by no more than {gap:.2g}"


def _nothing(client: Client, batch: Columns) -> str:
    """Check that an empty batch has no answers."""
    outputs = client.answer(clients.part_of_columns(batch, 0, 0))
    if any(len(values) for values in outputs.values()):
        raise ValueError(f"an empty batch has answers: {_finite(outputs)}")
    return "no answers"


# === Measurement ===


TEXTS, BATCHES = 200, (1, 32)
CALLS = {1: 100, 32: 25}  # batch size -> number of timed calls


@dataclass(frozen=True)
class Latency:
    """Latency of calls.

    Attributes:
        p50: median in milliseconds.
        p99: 99th percentile in milliseconds.
        calls: number of timed calls.
    """

    p50: float
    p99: float
    calls: int


def size_of(folder: Path) -> int:
    """Return the number of bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def latencies(
    answer: Callable[[Columns], Any],
    columns: Columns,
    *,
    seconds: float = math.inf,
    progress: Callable[[int, int, int], object] = lambda *_: None,
) -> dict[int, Latency]:
    """Measure the latency of calls with batches of `BATCHES` examples.

    Every batch is answered once before, so that compilation for its size is not measured.

    Args:
        answer: function that answers a batch of texts.
        columns: example texts, from which the batches are taken in turn.
        seconds: time limit after which no call is begun, except two for each batch size.
        progress: function that is called with (batch size, calls done, calls in all).

    Returns:
        Batch size -> latency.
    """
    results = {}
    limit = time.perf_counter() + seconds
    for number, size in enumerate(BATCHES):
        count = len(next(iter(columns.values())))
        starts = [call * size % max(count - size + 1, 1) for call in range(CALLS[size])]
        batches = [clients.part_of_columns(columns, start, start + size) for start in starts]
        now = time.perf_counter()
        end = now + max(0.0, limit - now) / (len(BATCHES) - number)
        progress(size, 0, len(batches))
        answered = len(list(_timed(answer, batches, (now + end) / 2)))
        times = []
        for milliseconds in _timed(answer, batches[:answered], end):
            times.append(milliseconds)
            progress(size, len(times), len(batches))
        p50, p99 = np.percentile(times, (50, 99))
        results[size] = Latency(float(p50), float(p99), len(times))
    return results


def _timed(
    answer: Callable[[Columns], Any], batches: Sequence[Columns], end: float
) -> Iterator[float]:
    """Yield the milliseconds of the first call and of all calls that begin before `end`."""
    for number, batch in enumerate(batches):
        begin = time.perf_counter()
        if number and begin >= end:
            return
        answer(batch)
        yield 1000 * (time.perf_counter() - begin)


def difference(client: Client, predictor: Predictor, columns: Columns) -> float:
    """Return the largest difference between an exported model and the original model.

    For a SavedModel, the numbers of its answers (probabilities, cosines, vectors), its labels and
    its positions are compared with those of `Predictor`. For a model that takes ids, its outputs
    are compared with those of `predict`, without padding.

    Args:
        client: exported model.
        predictor: predictor of the original model.
        columns: texts for both.

    Returns:
        The largest absolute difference of numbers; infinite if labels or positions differ.
    """
    if isinstance(client, IdsClient):
        model = predictor.encoder if isinstance(client, HubClient) else predictor.task
        return max(_of_outputs(client, model, batch) for batch in _batches(columns))
    on_cut, predictor.on_cut = predictor.on_cut, lambda _: None  # both cut the same texts
    try:
        expected = [_of_answer(answer) for answer in predictor(*columns.values())]
    finally:
        predictor.on_cut = on_cut
    is_list = predictor.options.get("top_k") is not None
    batches = (client.answer(batch) for batch in _batches(columns))
    received = [row for outputs in batches for row in _rows(outputs, is_list=is_list)]
    if [(len(row), said) for row, said in received] != [(len(row), said) for row, said in expected]:
        return math.inf
    return _largest([row for row, _ in received], [row for row, _ in expected])


def _of_outputs(client: IdsClient, model: keras.Model, batch: Columns) -> float:
    """Return the largest difference of the outputs of a batch, without padding."""
    inputs = client.encode(batch)
    taken = {tensor.name: inputs[tensor.name] for tensor in model.inputs}
    expected = flat(model.predict_on_batch(taken))
    received = client.run(inputs)
    names = list(expected)
    if isinstance(client, HubClient):  # its API fixes the outputs: compare those of both
        names = [name for name in received if name in expected]
    if not names or any(name not in received for name in names):
        return math.inf
    axes, is_token = output_axes(model), np.asarray(inputs[features.PADDING_MASK], bool)
    kept = {name: is_token if LENGTH in axes[name] else ... for name in names}
    return _largest(*([part[name][kept[name]] for name in names] for part in (received, expected)))


def _batches(columns: Columns) -> Iterator[Columns]:
    """Yield the examples in batches of 32."""
    count = len(next(iter(columns.values())))
    return (clients.part_of_columns(columns, start, start + 32) for start in range(0, count, 32))


def _largest(received: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the largest absolute difference of arrays; infinite if a number is not finite."""
    largest = 0.0
    for one, other in zip(received, expected, strict=True):
        gap = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
        largest = max(largest, float(gap.max(initial=0.0)) if np.isfinite(gap).all() else math.inf)
    return largest


_Told = tuple[list[float], list[str | int]]  # numbers of an answer, its labels and positions
_SAID = ("label", "start", "end", "index")


def _rows(outputs: dict[str, np.ndarray], *, is_list: bool) -> Iterator[_Told]:
    """Yield the answer to each example from the outputs of a SavedModel, without padding."""
    counts = outputs.get("count", outputs.get("mask_count"))
    is_list = is_list or "label" not in outputs
    names = ("score", "scores", features.SENTENCE_VECTOR, features.SIMILARITY)
    if is_list and "labels" in outputs:
        names, outputs = ("scores",), {**outputs, "label": outputs["labels"]}
    values = outputs[next(name for name in names if name in outputs)]
    said = [outputs[name] for name in _SAID if name in outputs]
    for number, row in enumerate(values):
        cut = slice(None) if counts is None else slice(counts[number])
        items = zip(*(np.atleast_1d(output[number])[cut] for output in said), strict=True)
        numbers = np.ravel(np.atleast_1d(row)[cut]).tolist()
        yield numbers, [_label_or_position(word) for item in items for word in item]


def _label_or_position(value: Any) -> str | int:
    """Return a value of a SavedModel's output: a label, in bytes there, or a position in a text."""
    return value.decode() if isinstance(value, bytes) else int(value)


def _of_answer(answer: Any) -> _Told:
    """Return numbers, and labels and positions, of a `Predictor`'s answer to one example."""
    if isinstance(answer, list | tuple):
        parts = [_of_answer(item) for item in answer]
        return [n for numbers, _ in parts for n in numbers], [w for _, said in parts for w in said]
    if is_dataclass(answer):
        said = [getattr(answer, name) for name in _SAID if hasattr(answer, name)]
        return [getattr(answer, "score")], said  # noqa: B009
    return np.ravel(answer).tolist(), []
