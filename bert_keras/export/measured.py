"""An exported model measured: its size, how near it is to the model it was made from, how fast."""

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
from bert_keras.export import requests
from bert_keras.export.clients import Client, HubClient, IdsClient
from bert_keras.export.requests import Columns
from bert_keras.export.runtimes.axes import LENGTH, flat, output_axes
from bert_keras.predictor import Predictor

TEXTS, BATCHES = 200, (1, 32)
CALLS = {1: 100, 32: 25}  # that are timed, by the size of the batch


@dataclass(frozen=True)
class Latency:
    """Milliseconds of a call: half of the calls took no longer than `p50`, 99 of 100 than `p99`.

    `calls` is how many were timed.
    """

    p50: float
    p99: float
    calls: int


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def latencies(
    answer: Callable[[Columns], Any],
    columns: Columns,
    *,
    seconds: float = math.inf,
    progress: Callable[[int, int, int], object] = lambda *_: None,
) -> dict[int, Latency]:
    """Time calls with batches of `BATCHES` examples; return the latency by the size of the batch.

    Every request has been answered once before, so that what is compiled for its size is not
    counted.

    Args:
        answer: takes a batch of texts.
        columns: examples, taken in turn.
        seconds: no call is begun later than this, but for the first of each size, twice.
        progress: told the size of the batch, how many calls are done, and of how many.
    """
    found = {}
    limit = time.perf_counter() + seconds
    for number, size in enumerate(BATCHES):
        count = len(next(iter(columns.values())))
        starts = [call * size % max(count - size + 1, 1) for call in range(CALLS[size])]
        batches = [requests.part(columns, start, start + size) for start in starts]
        now = time.perf_counter()
        end = now + max(0.0, limit - now) / (len(BATCHES) - number)
        progress(size, 0, len(batches))
        answered = len(list(_timed(answer, batches, (now + end) / 2)))
        times = []
        for milliseconds in _timed(answer, batches[:answered], end):
            times.append(milliseconds)
            progress(size, len(times), len(batches))
        p50, p99 = np.percentile(times, (50, 99))
        found[size] = Latency(float(p50), float(p99), len(times))
    return found


def _timed(
    answer: Callable[[Columns], Any], batches: Sequence[Columns], end: float
) -> Iterator[float]:
    """Return the milliseconds of the first call and of those that begin before `end`."""
    for number, batch in enumerate(batches):
        begin = time.perf_counter()
        if number and begin >= end:
            return
        answer(batch)
        yield 1000 * (time.perf_counter() - begin)


def difference(client: Client, predictor: Predictor, columns: Columns) -> float:
    """The largest difference to the model that was exported; infinite where answers are others.

    Of a SavedModel the numbers that it answers with (probabilities, cosines, vectors), and labels
    and places, are compared with those of `Predictor`; of models that take ids their outputs with
    those of `predict`, where there are tokens: what stands at padding is nobody's.

    Args:
        client: the exported model.
        predictor: with the model it was made from.
        columns: texts to ask both.
    """
    if isinstance(client, IdsClient):
        model = predictor.encoder if isinstance(client, HubClient) else predictor.task
        return max(_of_outputs(client, model, batch) for batch in _batches(columns))
    expected = [_of_answer(answer) for answer in predictor(*columns.values())]
    is_list = predictor.options.get("top_k") is not None
    batches = (client.answer(batch) for batch in _batches(columns))
    found = [row for outputs in batches for row in _rows(outputs, is_list=is_list)]
    if [(len(row), told) for row, told in found] != [(len(row), told) for row, told in expected]:
        return math.inf
    return _largest([row for row, _ in found], [row for row, _ in expected])


def _of_outputs(client: IdsClient, model: keras.Model, batch: Columns) -> float:
    inputs = client.encode(batch)
    taken = {tensor.name: inputs[tensor.name] for tensor in model.inputs}
    expected = flat(model.predict_on_batch(taken))
    found = client.run(inputs)
    names = list(expected)
    if isinstance(client, HubClient):  # with a pooled output of models that have none, and no more
        names = [name for name in found if name in expected]
    if not names or any(name not in found for name in names):
        return math.inf
    axes, is_token = output_axes(model), np.asarray(inputs[features.PADDING_MASK], bool)
    kept = {name: is_token if LENGTH in axes[name] else ... for name in names}
    return _largest(*([part[name][kept[name]] for name in names] for part in (found, expected)))


def _batches(columns: Columns) -> Iterator[Columns]:
    count = len(next(iter(columns.values())))
    return (requests.part(columns, start, start + 32) for start in range(0, count, 32))


def _largest(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Infinite where a number is not finite."""
    largest = 0.0
    for one, other in zip(found, expected, strict=True):
        gap = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
        largest = max(largest, float(gap.max(initial=0.0)) if np.isfinite(gap).all() else math.inf)
    return largest


_Told = tuple[list[float], list[str | int]]  # numbers, and what they are of
_SAID = ("label", "start", "end", "index")


def _rows(outputs: dict[str, np.ndarray], *, is_list: bool) -> Iterator[_Told]:
    """Return the answers of a SavedModel, by example, without padding."""
    counts = outputs.get("count", outputs.get("mask_count"))
    is_list = is_list or "label" not in outputs
    names = ("score", "scores", features.SENTENCE_VECTOR, features.SIMILARITY)
    if is_list and "labels" in outputs:
        names, outputs = ("scores",), {**outputs, "label": outputs["labels"]}
    values = outputs[next(name for name in names if name in outputs)]
    said = [outputs[name] for name in _SAID if name in outputs]
    for number, row in enumerate(values):
        cut = slice(None) if counts is None else slice(counts[number])
        words = zip(*(np.atleast_1d(each[number])[cut] for each in said), strict=True)
        numbers = np.ravel(np.atleast_1d(row)[cut]).tolist()
        yield numbers, [_word(word) for each in words for word in each]


def _word(value: Any) -> str | int:
    return value.decode() if isinstance(value, bytes) else int(value)


def _of_answer(answer: Any) -> _Told:
    """The same of a `Predictor`'s answer to one text."""
    if isinstance(answer, list | tuple):
        parts = [_of_answer(each) for each in answer]
        return [n for numbers, _ in parts for n in numbers], [w for _, said in parts for w in said]
    if is_dataclass(answer):
        said = [getattr(answer, name) for name in _SAID if hasattr(answer, name)]
        return [getattr(answer, "score")], said  # noqa: B009
    return np.ravel(answer).tolist(), []
