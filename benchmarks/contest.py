"""Rounds of measurement by programs that take turns, each in a process of its own.

Each contender needs its own process, because a process has one Keras backend and one peak of
memory. The contenders run one round each, in turn, and the other processes wait. Each contender is
started and warmed up before its first round. As a program, this module runs one contender:

    python -m benchmarks.contest CONTENDER

CONTENDER is a JSON object with the attributes of `Contender`. The contender's function is called
with its arguments. It returns a function without arguments that runs one round and returns a dict
of figures.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:  # a contender's process does not load rich, which would take memory and time
    from rich.console import Console


# === `bert_keras.training.machine`, loaded without importing `bert_keras` ===
# `import bert_keras` registers our layers as soon as Keras is imported. In the process of another
# library or of an earlier commit, that work would be measured too. So the file is loaded by its
# path.


def _load() -> ModuleType:
    path = Path(__file__).parents[1] / "bert_keras" / "training" / "machine.py"
    spec = importlib.util.spec_from_file_location("benchmarks_machine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


machine = _load()


# === An earlier commit of this package, measured beside the working tree ===


BEFORE = "f489339"  # the last commit without kernels of its own
HERE = Path(__file__).parents[1]


def unpacked(commit: str, folder: Path) -> Path:
    """Unpack the repository at a commit into a new folder, and return the folder.

    Raises:
        SystemExit: git has no such commit.
    """
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    done = subprocess.run(
        ["git", "archive", "--output", str(archive), commit],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"--before={commit}: git has no such commit here: {done.stderr.strip()}")
    subprocess.run(["tar", "-x", "-f", str(archive), "-C", str(folder)], check=True)
    return folder


# === tf.data datasets without autotuning ===
# The autotuner of tf.data runs in a thread that sleeps twice as long each time. A program that
# drops an iterator often waits until the thread wakes (TensorFlow 2.21). Such a round takes 0.63,
# 1.27, 2.55, 5.11, 10.23 or 20.47 seconds, whatever it computes.


def untuned(dataset: Any) -> Any:
    """Return the dataset with autotuning disabled; AUTOTUNE then means the number of cores."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def untuned_batches(parts: Any, size: int) -> Any:
    """Return arrays as a dataset of batches without autotuning.

    Apart from the autotuning it is the dataset that Keras and KerasHub make of arrays on
    TensorFlow.

    Args:
        parts: a structure of arrays: inputs, or tuples of inputs, labels and sample weights.
        size: batch size.
    """
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices(parts)
    return untuned(rows.batch(size).prefetch(2))


@dataclass(frozen=True)
class Contender:
    """A program to measure.

    Attributes:
        name: name in tables and reports.
        function: "module:function", the function that prepares the contender.
        arguments: keyword arguments of the function, as JSON values.
        backend: the Keras backend; "" if the program does not use Keras.
        keeps_freed_memory: whether the C library keeps freed memory, as in our training programs
            (`training.machine`).
        place: folder whose `bert_keras` is imported; "" for the repository of this file.
    """

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    backend: str = ""
    keeps_freed_memory: bool = False
    place: str = ""


Rounds = dict[str, list[dict[str, float]]]


def contest(
    contenders: Sequence[Contender], rounds: int, console: Console, *, together: bool = True
) -> Rounds:
    """Measure all contenders in turn, and return the figures of each by round.

    A contender that fails is left out, and its error is printed.

    Args:
        contenders: the programs, in the order of their turns.
        rounds: number of rounds of each contender.
        console: prints progress and errors.
        together: whether all processes stay alive between rounds. If False, each contender is
            started again for each round.
    """
    results: Rounds = {}
    running: dict[str, _Process] = {}
    with ExitStack() as stack, console.status("") as status:

        def figures_of(contender: Contender) -> dict[str, float]:
            if not together:
                with _process(contender) as process:
                    return process.round()
            if contender.name not in running:
                running[contender.name] = stack.enter_context(_process(contender))
            return running[contender.name].round()

        left = list(contenders)
        for number in range(rounds):
            for contender in tuple(left):
                status.update(f"round {number + 1} of {rounds}: {contender.name}")
                try:
                    results.setdefault(contender.name, []).append(figures_of(contender))
                except _FailedError as error:
                    console.print(f"{contender.name}: not measured: {error}")
                    results.pop(contender.name)
                    left.remove(contender)
    return results


def summary(rounds: Rounds) -> dict[str, dict[str, dict[str, float]]]:
    """Return median, minimum and maximum over the rounds, by contender and figure."""
    return {
        name: {
            key: {"median": statistics.median(values), "least": min(values), "most": max(values)}
            for key in figures[0]
            for values in [[each[key] for each in figures]]
        }
        for name, figures in rounds.items()
    }


class _FailedError(Exception):
    pass


class _Process:
    def __init__(self, process: subprocess.Popen[str], errors: IO[str]):
        self._process, self._errors = process, errors
        self._answer()

    def round(self) -> dict[str, float]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended: `_answer` raises with the reason
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = [line for line in self._errors.read().splitlines() if line.strip()][-1:]
            raise _FailedError(*last)
        return json.loads(line)


@contextmanager
def _process(contender: Contender) -> Iterator[_Process]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if contender.backend:
        environment["KERAS_BACKEND"] = contender.backend
    description = json.dumps(asdict(contender))
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contest", description],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        yield _Process(process, errors)


def main() -> None:
    """Run a contender: print a line of JSON when it is ready, and one for each line of stdin."""
    # Libraries print to stdout too. It goes to stderr, so that only answers reach the parent.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    contender = Contender(**json.loads(sys.argv[1]))
    if contender.keeps_freed_memory:
        machine.keep_freed_memory()
    if contender.place:
        sys.path.insert(0, contender.place)
    module, _, function = contender.function.partition(":")
    prepare = getattr(importlib.import_module(module), function)
    run = prepare(**contender.arguments)
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        figures = run()
        peak = machine.peak_memory_bytes() or 0
        print(json.dumps({**figures, "gigabytes": peak / 2**30}), file=answers, flush=True)


if __name__ == "__main__":
    main()


# === The contenders of most benchmarks: bert_keras, KerasHub and transformers ===


OURS, KERAS_HUB, TRANSFORMERS = "bert_keras", "KerasHub", "transformers"
BACKENDS = ("tensorflow", "jax", "torch")
# Modules with the functions `ours`, `keras_hub` and `transformers`, which prepare contenders.
MODULES = {"training": "benchmarks.train_steppers", "inference": "benchmarks.mean_vectors"}


def contenders(
    mode: str,
    size: Mapping[str, int],
    dtype: str = "float32",
    *,
    attention_dropout: float = 0.1,
    checkpointed: bool = False,
    chunks: int = 1,
    option: str = "",
    shape: str = "",
) -> list[Contender]:
    """Return bert_keras and KerasHub on each backend, and transformers.

    KerasHub is left out if gradients are checkpointed or the loss is computed in chunks, and of
    another shape than BERT's.
    transformers is left out if the loss is computed in chunks.

    Args:
        mode: "training" or "inference".
        size: sizes of the model and the batch, as for `train_steppers.sizes_of`.
        dtype: a Keras dtype policy.
        attention_dropout: dropout rate of the attention probabilities, in training. KerasHub has
            a single dropout rate, and takes this one for all its dropout.
        checkpointed: whether to use gradient checkpointing, in training.
        chunks: number of parts in which the loss takes the vocabulary, in training.
        option: description of these options, added to the names of the contenders.
        shape: a key of `train_steppers.SHAPES`; "" for BERT's shape.
    """
    common: dict[str, Any] = {"size": dict(size), "dtype": dtype}
    common |= {"shape": shape} if shape else {}
    kind: dict[str, Any] = {}
    ours_kind: dict[str, Any] = {}
    hub_kind: dict[str, Any] = {}
    if mode == "training":
        kind = {"attention_dropout": attention_dropout, "checkpointed": checkpointed}
        ours_kind = {**kind, "chunks": chunks}
        hub_kind = {"dropout": attention_dropout}

    def contender(name: str, function: str, own: dict[str, Any], backend: str = "") -> Contender:
        title = ", ".join(filter(None, (name, backend, option)))
        return Contender(title, f"{MODULES[mode]}:{function}", {**common, **own}, backend)

    programs = []
    for backend in BACKENDS:
        programs.append(contender(OURS, "ours", ours_kind, backend))
        if not checkpointed and chunks == 1 and not shape:
            programs.append(contender(KERAS_HUB, "keras_hub", hub_kind, backend))
    return programs if chunks > 1 else [*programs, contender(TRANSFORMERS, "transformers", kind)]
