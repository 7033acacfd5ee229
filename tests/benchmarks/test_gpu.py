"""The GPU report computes shares of the peak and ratios.

Our contender needs Keras and JAX alone.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest
from rich.console import Console

from benchmarks import gpu
from benchmarks.gpu import rows_of, show
from benchmarks.report import forward_flops, training_flops
from benchmarks.train_steppers import at_length

ROOT = Path(__file__).parents[2]

# Content of a sitecustomize.py, which every Python process imports. It hides other packages.
_NOT_THERE = """
import sys

class NotThere:
    names = {names!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotThere())
"""
_ABSENT = (
    *("keras_hub", "matplotlib", "sentencex", "sklearn", "tensorflow", "tensorflow_text"),
    *("torch", "transformers", "typer"),
)


def _figures(seconds: float) -> dict[str, Any]:
    found = {"seconds_per_step": seconds, "tokens_per_second": 1 / seconds, "beyond": 2.0}
    return {name: {"median": value, "least": value, "most": value} for name, value in found.items()}


def test_shares_and_ratios() -> None:
    names = [each.name for each in gpu.programs("training", gpu.TINY, on_gpu=True)]
    ours, peer, ours_fused, peer_fused = names
    found = {
        ours: _figures(0.5),
        peer: _figures(1.0),
        ours_fused: _figures(0.25),
        peer_fused: _figures(0.75),
        "matrix products, jax": {"flops_per_second": {"median": 100.0}},
        "matrix products, torch": {"flops_per_second": {"median": 80.0}},
    }
    rows = rows_of(found, operations=20)
    assert [row["share_of_peak"] for row in rows] == [0.4, 0.2, 0.8, pytest.approx(20 / 75)]
    assert [row["ratio"] for row in rows] == [2.0, 1.0, 3.0, 1.0]
    assert rows_of({ours: _figures(1.0)}, 20)[0]["share_of_peak"] is None
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    show(rows, "a step", console)
    assert "80.0 %" in screen.getvalue()


def test_what_is_counted() -> None:
    """The report counts the operations of `benchmarks.report` for its case."""
    sizes = at_length(gpu.SIZES["base"], 512)
    assert gpu.flops("inference", sizes) == forward_flops(sizes)
    assert gpu.flops("training", sizes) == training_flops(sizes, 77)


def test_the_kernels_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program writes the attention kernels of the encoder to a file."""
    from benchmarks import train_steppers

    class Encoder:
        def describe_kernels(self) -> dict[str, str]:
            return {"inference": "cudnn"}

    monkeypatch.setattr(train_steppers, "our_encoder", lambda *_: Encoder())
    path = tmp_path / "kernels.json"
    assert train_steppers.tell_kernels(gpu.TINY, gpu.DTYPE, str(path))() == {}
    assert json.loads(path.read_text()) == {"inference": "cudnn"}


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="measured is the backend jax")
def test_without_tensorflow_and_all_that_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_NOT_THERE.format(names=_ABSENT), encoding="utf-8")
    out = tmp_path / "gpu.json"
    command = ["benchmarks.gpu", "--quick", "--only", "bert_keras", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "JAX has no GPU here" in done.stdout
    assert "matrix products, torch: not measured: ModuleNotFoundError" in done.stdout
    training, inference = json.loads(out.read_text(encoding="utf-8"))["results"]
    rows = training["results"] + inference["results"]
    dropout = "bert_keras, attention dropout"
    assert [row["program"] for row in rows] == [f"{dropout} 0.1", f"{dropout} 0", "bert_keras"]
    for row in rows:
        assert row["share_of_peak"] > 0
        assert row["ratio"] is None
