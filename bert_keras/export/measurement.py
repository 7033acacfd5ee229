"""Exported models asked as clients ask them: checks of each answer, size, agreement, speed."""

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
        alone = client.answer(clients.part_of_columns(batch, row, row + 1))
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
    gap = _gap(beside, 0, client.answer(clients.part_of_columns(both, 0, 1)))
    if gap > _TOLERANCE:
        raise ValueError(f"the row beside them differs by up to {gap:.2g}")
    return f"the row beside them differs by no more than {gap:.2g}"


def _nothing(client: Client, batch: Columns) -> str:
    outputs = client.answer(clients.part_of_columns(batch, 0, 0))
    if any(len(values) for values in outputs.values()):
        raise ValueError("rows were answered that were not asked")
    return "no answers"


# === Measurement ===


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
    return (clients.part_of_columns(columns, start, start + 32) for start in range(0, count, 32))


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
