"""An interrupted and continued pretraining gives the same bytes as an uninterrupted one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras.training import training_loop
from bert_keras.training.pretrain import main
from tests.processes import kill, start_training, wait_until

_STEPS = 60  # 30 logging intervals, each followed by a checkpoint
_STOPPED_AT = 20
_SECONDS = 300.0  # time limit for a process to make progress
_SAME = ("model.safetensors", "metrics.jsonl")


@pytest.fixture(scope="module")
def whole(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main(_arguments(tiny, folder)) == 0
    return folder


@pytest.fixture(scope="module")
def stopped(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that a signal ended in the middle of a logging interval."""
    folder = tmp_path_factory.mktemp("stopped") / "run"

    class Stop(training_loop.WriteMetrics):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self._first_step + batch + 1 == _STOPPED_AT - 1:
                signal.raise_signal(signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_loop, "WriteMetrics", Stop)
        assert main(_arguments(tiny, folder)) == 143
    assert _last_checkpoint(folder).name == f"step-{_STOPPED_AT:08d}"
    return folder


@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="one backend; test_finetune_seed.py kills on all"
)
def test_three_kills(tiny: str, whole: Path, tmp_path: Path) -> None:
    """A run continues exactly after three `kill -9`, one of them during a checkpoint."""
    seed = int(os.environ.get("BERT_KERAS_TEST_SEED", time.time_ns() % 10**6))
    print(f"to repeat it: BERT_KERAS_TEST_SEED={seed}")
    rng = np.random.default_rng(seed)
    folder = tmp_path / "run"
    for is_saving in rng.permutation([True, False, False]):
        goal = _intervals(folder) + int(rng.integers(1, 6))
        with _start(tiny, folder) as process:
            wait_until(process, lambda goal=goal: _intervals(folder) >= goal)
            if is_saving:
                wait_until(process, lambda: any((folder / "checkpoints").glob(".tmp-*")))
            time.sleep(rng.uniform(0, 0.02 if is_saving else 0.05))
            kill(process)
        assert 0 < _intervals(folder) < _STEPS // 2, "killed too late: this tests nothing"
    with _start(tiny, folder) as process:
        assert process.wait(_SECONDS) == 0
    _check_same(folder, whole)


def test_stopped_by_a_signal(tiny: str, whole: Path, stopped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    assert _intervals(folder) == _STOPPED_AT // 2
    assert main(_arguments(tiny, folder, "workers=2")) == 0  # the number of workers has no effect
    _check_same(folder, whole)


def test_a_flipped_bit(tiny: str, whole: Path, stopped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    path = _last_checkpoint(folder) / "optimizer.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    # pytest.warns would raise the other warnings of Keras and its backends again.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        assert main(_arguments(tiny, folder)) == 0
    (warning,) = caught
    assert re.search(
        r"(?s)optimizer\.safetensors: the file is damaged.* to step 18;", str(warning.message)
    )
    _check_same(folder, whole)


def test_other_values_are_refused(tiny: str, stopped: Path, call: Callable) -> None:
    before = _contents(stopped)
    done = call(main, *_arguments(tiny, stopped, "learning_rate=2e-3", "seed=1", "workers=2"))
    assert done.code == 2
    assert done.err.startswith(f"error: {stopped} holds a run with other values:\n")
    assert "\n  learning_rate: 0.001 then, 0.002 now\n  seed: 0 then, 1 now\n" in done.err
    assert "out=FOLDER" in done.err
    assert "workers" not in done.err
    assert _contents(stopped) == before


def test_another_corpus_is_refused(
    tiny: str, stopped: Path, tmp_path: Path, call: Callable
) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    shutil.rmtree(folder / "corpus")
    text = Path(tiny).with_name("text.txt")
    other = tmp_path / "text.txt"
    other.write_text(text.read_text(encoding="utf-8").replace("a", "i"), encoding="utf-8")
    run_card = folder / "run.json"
    run_card.write_text(run_card.read_text().replace(str(text), str(other)))
    done = call(main, *_arguments(tiny, folder, f"corpus={other}"))
    assert done.code == 2
    assert "the corpus has changed since the run in" in done.err


def test_a_finished_run_is_not_trained_again(
    tiny: str, whole: Path, tmp_path: Path, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(keras.Model, "fit", None)
    done = call(main, *_arguments(tiny, folder))
    assert done.code == 0
    _check_same(folder, whole)


def _arguments(tiny: str, folder: Path, *values: str) -> list[str]:
    return [tiny, f"steps={_STEPS}", f"out={folder}", *values]


def _start(tiny: str, folder: Path) -> subprocess.Popen[bytes]:
    return start_training("pretrain", *_arguments(tiny, folder), folder=folder.parent)


def _intervals(folder: Path) -> int:
    log = folder / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def _last_checkpoint(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("step-*"))


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _check_same(folder: Path, whole: Path) -> None:
    assert _intervals(folder) == _STEPS // 2
    for name in _SAME:
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
