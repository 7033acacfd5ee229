"""Time of a training step by kind of operation, from each backend's own profiler.

The functions `tensorflow`, `jax` and `torch` prepare a contender (`contest.py`). Its rounds return
milliseconds of a step. For each of `KINDS` they are the sum over all threads, as the profiler sees
it. `CLOCK` is the time of a step by the clock, without the profiler.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import train_steppers

PRODUCTS, RANDOM, SUMS, LAYOUT, OPTIMIZER, REST = KINDS = (
    *("matrix products", "random numbers", "sums and maxima", "copies and transposes"),
    *("optimizer", "elementwise and the rest"),
)
CLOCK = "a step, by the clock"
# Words in the lower-case names of operations of TensorFlow and PyTorch, by kind. `_HLO` has the
# operations of XLA.
_WORDS = {
    OPTIMIZER: ("resourceapply", "assign", "_fused_adam", "adam", "foreach"),
    PRODUCTS: (
        "matmul",
        "::mm",
        "::addmm",
        "::bmm",
        "baddbmm",
        "scaled_dot_product",
        "einsum",
        "linear",
    ),
    RANDOM: ("random", "bernoulli", "bitcast", "native_dropout"),
    SUMS: ("sum", "mean", "biasaddgrad", "addn", "argmax", "::max", "logsumexp"),
    LAYOUT: ("transpose", "copy", "concat", "::cat", "slice", "split", "pack", "reshape", "clone"),
}
_HLO = {PRODUCTS: ("dot", "custom-call"), SUMS: ("reduce",), LAYOUT: ("transpose", "copy")}
_STEP = "jit_train_step"

Round = Callable[[], dict[str, float]]
Function = str  # name of a function of `train_steppers`: "ours" or "keras_hub"


def kind_of(operation: str) -> str:
    """Return the kind of an operation of TensorFlow or PyTorch, by its name."""
    name = operation.lower()
    return next((kind for kind, words in _WORDS.items() if any(w in name for w in words)), REST)


def kinds_of_hlo(text: str) -> dict[str, str]:
    """Return the kind of each instruction of an XLA program, by the instruction's name.

    The kind of a fusion depends on the operations inside it.

    Args:
        text: text of the HLO module after XLA's optimisations.
    """
    bodies: dict[str, list[str]] = {}
    body: list[str] = []
    for line in text.splitlines():
        if head := re.match(r"(?:ENTRY )?%?([\w.\-]+) .*\{$", line):
            body = bodies.setdefault(head[1], [])
        else:
            body.append(line)
    kinds = {}
    for lines in bodies.values():
        for line in lines:
            if not (
                instruction := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = .*? ([a-z][\w\-]*)\(", line)
            ):
                continue
            called = re.search(r"calls=%?([\w.\-]+)", line)
            inside = "\n".join([line, *bodies.get(called[1] if called else "", ())])
            kinds[instruction[1]] = _kind_of_fusion(inside)
    return kinds


def _kind_of_fusion(text: str) -> str:
    operations = set(re.findall(r" ([a-z][\w\-]*)\(", text))
    if operations & set(_HLO[PRODUCTS]):
        return PRODUCTS
    scopes = " ".join(re.findall(r'op_name="([^"]*)"', text))
    if "adam" in scopes.lower():
        return OPTIMIZER
    if "threefry" in scopes or "random" in scopes or "xor" in operations:
        return RANDOM
    return next((kind for kind in (SUMS, LAYOUT) if operations & set(_HLO[kind])), REST)


def tensorflow(function: Function, size: train_steppers.Size) -> Round:
    """Prepare a contender that profiles a step with TensorFlow's profiler.

    Args:
        function: "ours" or "keras_hub", a function of `train_steppers`.
        size: sizes of the model and the batch, as for `train_steppers.sizes_of`.
    """
    import tensorflow as tf

    xplane_pb2: Any = importlib.import_module("tensorflow.tsl.profiler.protobuf.xplane_pb2")

    def traced(run: Round) -> Counter[str]:
        with tempfile.TemporaryDirectory() as folder:
            tf.profiler.experimental.start(folder)
            run()
            tf.profiler.experimental.stop()
            (path,) = Path(folder).rglob("*.xplane.pb")
            space = xplane_pb2.XSpace.FromString(path.read_bytes())
        totals: Counter[str] = Counter()
        for plane in space.planes:
            for event in (event for line in plane.lines for event in line.events):
                # The events of operations are named "name in the graph:type".
                event_name = plane.event_metadata[event.metadata_id].name
                name, _, kind = event_name.rpartition(":")
                if name and "::" not in event_name and " " not in event_name:
                    totals[kind_of(kind)] += event.duration_ps / 1e6
        return totals

    return _profiled(function, size, traced)


def jax(function: Function, size: train_steppers.Size) -> Round:
    """Prepare a contender that profiles a step with JAX's profiler.

    XLA's dump of the program gives the operations inside fusions.

    Args:
        function: "ours" or "keras_hub", a function of `train_steppers`.
        size: sizes of the model and the batch, as for `train_steppers.sizes_of`.
    """
    # `traced` refers to this object, and so keeps the folder.
    dumped = tempfile.TemporaryDirectory(prefix="bert_keras_hlo_")
    flags = f"--xla_dump_to={dumped.name} --xla_dump_hlo_as_text"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    profiler = importlib.import_module("jax").profiler

    def traced(run: Round) -> Counter[str]:
        newest = max(Path(dumped.name).glob(f"*{_STEP}*after_optimizations.txt"))
        kinds = kinds_of_hlo(newest.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            with profiler.trace(folder):
                run()
            (path,) = Path(folder).rglob("*.trace.json.gz")
            with gzip.open(path, "rt", encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        totals: Counter[str] = Counter()
        for event in events:
            if event.get("ph") == "X" and event["name"] in kinds:
                totals[kinds[event["name"]]] += event["dur"]
        return totals

    return _profiled(function, size, traced)


def torch(function: Function, size: train_steppers.Size) -> Round:
    """Prepare a contender that profiles a step with PyTorch's profiler.

    Args:
        function: "ours" or "keras_hub", a function of `train_steppers`.
        size: sizes of the model and the batch, as for `train_steppers.sizes_of`.
    """
    from torch import profiler

    def traced(run: Round) -> Counter[str]:
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as seen:
            run()
        totals: Counter[str] = Counter()
        for average in seen.key_averages():
            totals[kind_of(average.key)] += average.self_cpu_time_total
        return totals

    return _profiled(function, size, traced)


def _profiled(
    function: Function, size: train_steppers.Size, traced: Callable[[Round], Counter[str]]
) -> Round:
    run = getattr(train_steppers, function)(size, "float32")
    steps = train_steppers.sizes_of(size)["steps"]

    def round_() -> dict[str, float]:
        clock = run()["seconds_per_step"] * 1000
        totals: Mapping[str, Any] = traced(run)
        return {**{kind: totals[kind] / 1000 / steps for kind in KINDS}, CLOCK: clock}

    return round_
