"""Programs that are measured in turn, each in a process of its own.

A Keras backend belongs to a process, and so does the memory that a program takes. The contenders
take turns, one round each, while the others sleep; before its first one each is started and warmed
up. As a program this module is the process of a contender:

    python -m benchmarks.contest CONTENDER

CONTENDER is a JSON object with the attributes of one. Its function, called with the arguments,
gives a function of no arguments that runs one round and returns its figures, a dict of numbers.
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

if TYPE_CHECKING:  # what a contender's process does not need is not loaded into it
    from rich.console import Console


# === `bert_keras.training.machine` without `bert_keras`: for processes that measure other
# libraries.
# `import bert_keras` registers our layers as soon as Keras is imported. In the process of a peer,
# or of an earlier commit, that would be measured too. So the file is loaded by its path.


def _load() -> ModuleType:
    path = Path(__file__).parents[1] / "bert_keras" / "training" / "machine.py"
    spec = importlib.util.spec_from_file_location("benchmarks_machine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


machine = _load()


# === An earlier commit of this package, to be measured beside the files as they lie here.


BEFORE = "f489339"  # the last commit without kernels of its own
HERE = Path(__file__).parents[1]


def unpacked(commit: str, folder: Path) -> Path:
    """The repository at a commit, in a new folder.

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


# === Datasets of TensorFlow that are not tuned: so that what is timed is no tuner's sleep.
# tf.data tunes datasets in a thread that sleeps twice as long each time, and whoever drops an
# iterator often waits until it wakes (TensorFlow 2.21). Rounds that end in between then take 0.63,
# 1.27, 2.55, 5.11, 10.23 or 20.47 seconds, whatever they compute.


def untuned(dataset: Any) -> Any:
    """The same dataset, without the tuner; AUTOTUNE in it is then as many as there are cores."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def untuned_batches(parts: Any, size: int) -> Any:
    """Arrays as such a dataset of batches, as Keras and KerasHub make one of arrays for TensorFlow.

    Args:
        parts: a structure of arrays: rows, or tuples of inputs, labels and weights.
        size: rows of a batch.
    """
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices(parts)
    return untuned(rows.batch(size).prefetch(2))


@dataclass(frozen=True)
class Contender:
    """One of those who are measured.

    Attributes:
        name: as tables call it.
        function: "module:function" that prepares it.
        arguments: of the function, JSON values.
        backend: of Keras; "" where it uses none.
        keeps_freed_memory: whether its C library does, as in our programs (`training.machine`).
        place: a folder whose `bert_keras` is meant; "" for the one beside this package.
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
    """The figures of every contender in every round; those who fail are told and left out.

    Args:
        contenders: by turns.
        rounds: how many each.
        console: where it is told who runs.
        together: whether all stay in memory between rounds; else each is started for each round.
    """
    found: Rounds = {}
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
                    found.setdefault(contender.name, []).append(figures_of(contender))
                except _FailedError as error:
                    console.print(f"{contender.name}: not measured: {error}")
                    found.pop(contender.name)
                    left.remove(contender)
    return found


def summary(rounds: Rounds) -> dict[str, dict[str, dict[str, float]]]:
    """Median, least and most of each figure of each contender."""
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
        with suppress(BrokenPipeError):  # its answer, or the lack of one, says why
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
    given = json.dumps(asdict(contender))
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contest", given],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        yield _Process(process, errors)


def main() -> None:
    """The process of a contender: a line of JSON when it is ready, and one for each line read."""
    # What libraries print goes where errors go.
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


# === Ours and the peers, to train or to infer: who is measured in most of these benchmarks.


OURS, KERAS_HUB, TRANSFORMERS = "bert_keras", "KerasHub", "transformers"
BACKENDS = ("tensorflow", "jax", "torch")
# The modules whose functions `ours`, `keras_hub` and `transformers` prepare them.
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
) -> list[Contender]:
    """Ours and KerasHub on each backend, and transformers; without those who cannot do this.

    Args:
        mode: "training" or "inference".
        size: as for `train_steppers.sizes_of`.
        dtype: a Keras dtype policy.
        attention_dropout: in training. KerasHub has one rate of dropout, which this one becomes.
        checkpointed: whether blocks are computed again for their gradients, in training.
        chunks: parts of the vocabulary in the loss, in training.
        option: what of it all their names say.
    """
    common: dict[str, Any] = {"size": dict(size), "dtype": dtype}
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

    found = []
    for backend in BACKENDS:
        found.append(contender(OURS, "ours", ours_kind, backend))
        if not checkpointed and chunks == 1:
            found.append(contender(KERAS_HUB, "keras_hub", hub_kind, backend))
    return found if chunks > 1 else [*found, contender(TRANSFORMERS, "transformers", kind)]
