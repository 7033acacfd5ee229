"""Reports name the machine and the versions, and contain no path of the machine."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import keras
import pytest

from benchmarks import report
from benchmarks.report import circumstances, command
from benchmarks.train_steppers import our_encoder, sizes_of
from bert_keras import MaskedLM
from bert_keras.training import machine


def test_the_command_without_files() -> None:
    arguments = ["--size", "base", "--out", "a/b.json", "--only", "jax", "a b", "--plot", "c.png"]
    found = command("memory", arguments)
    assert found == "python -m benchmarks.memory --size base --only jax 'a b'"
    assert command("memory", []) == "python -m benchmarks.memory"


def test_what_is_not_installed_has_no_version() -> None:
    found = circumstances(["keras", "no-such-package"])
    assert found["versions"]["no-such-package"] is None
    assert found["versions"]["keras"]
    assert found["machine"] == machine.facts()


def test_the_environment_is_told(monkeypatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--a=1")
    found = circumstances([])
    assert found["environment"]["XLA_FLAGS"] == "--a=1"
    assert set(found["environment"]) <= set(report.VARIABLES)
    assert found["commit"] is None or found["commit"].strip()


def test_a_report_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"missing.*x\.json: cannot be written: No such file"):
        report.write(tmp_path / "missing" / "x.json", "python -m benchmarks.memory", [])


def test_an_earlier_report_outlives_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text("earlier")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit, match="No space left on device"):
        report.write(path, "python -m benchmarks.memory", [])
    assert path.read_text() == "earlier"


def test_a_report_is_written_where_a_file_is_named(tmp_path: Path) -> None:
    report.write(None, "python -m benchmarks.memory", ["keras"], results={"a": 1})
    assert not list(tmp_path.iterdir())
    report.write(tmp_path / "memory.json", "python -m benchmarks.memory", ["keras"], results=[1.5])
    found = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))
    assert found["results"] == [1.5]
    assert found["command"] == "python -m benchmarks.memory"
    assert found["versions"].keys() == {"keras"}


# === Matrix products and weights are counted correctly, and products can be measured ===


TINY = {"layers": 2, "width": 4, "heads": 2, "batch": 3, "length": 5, "steps": 2}
TINY |= {"vocabulary": 7}


def test_a_hand_count() -> None:
    """A product of [m, k] and [k, n] has 2 m k n operations.

    Here 3 rows have 5 tokens and 2 heads.
    """
    projections = 4 * (2 * 15 * 4 * 4)
    scores = 3 * 2 * (2 * 5 * 2 * 5)
    sums = 3 * 2 * (2 * 5 * 5 * 2)
    feedforward = 2 * 15 * 4 * 16 + 2 * 15 * 16 * 4
    encoder = 2 * (projections + scores + sums + feedforward)
    assert encoder == 2 * (1920 + 600 + 600 + 3840)
    assert report.forward_flops(TINY) == encoder


def test_a_hand_count_of_a_masked_language_model() -> None:
    """In the last layer, only the 2 predictions of each row need more than keys and values."""
    keys_and_values = 2 * (2 * 15 * 4 * 4)
    queries_and_output = 2 * (2 * 6 * 4 * 4)
    scores = sums = 3 * 2 * (2 * 2 * 2 * 5)
    feedforward = 2 * 6 * 4 * 16 + 2 * 6 * 16 * 4
    last = keys_and_values + queries_and_output + scores + sums + feedforward
    head = 2 * 6 * 4 * 4 + 2 * 6 * 4 * 7
    first = report.forward_flops({**TINY, "layers": 1})
    assert report.forward_flops(TINY, predictions=2) == first + last + head
    assert report.training_flops(TINY, predictions=2) == 3 * (first + last + head)


def test_bert_base_is_about_its_weights_twice_a_token() -> None:
    """Without attention's scores, a token needs twice the 85 million weights of the layers."""
    base = sizes_of({"layers": 12, "width": 768, "heads": 12, "batch": 1, "length": 1, "steps": 1})
    assert report.forward_flops(base) == 2 * 84_934_656 + 12 * 4 * 768


def test_weights_are_those_of_the_model() -> None:
    sizes = sizes_of(TINY)
    assert report.weights(sizes) == MaskedLM(our_encoder(sizes, "float32")).count_params()
    assert report.training_bytes(sizes) == 16 * report.weights(sizes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_are_measured(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    found = report.products(dtype, 64)()
    assert math.isfinite(found["flops_per_second"])
    assert found["flops_per_second"] > 0


def test_the_peak_is_the_best_median() -> None:
    contenders = report.peaks("mixed_bfloat16", ("jax", "torch"))
    assert [each.backend for each in contenders] == ["jax", "torch"]
    assert {each.arguments["dtype"] for each in contenders} == {"bfloat16"}
    found = {
        each.name: {"flops_per_second": {"median": rate}}
        for each, rate in zip(contenders, (3.0, 5.0), strict=True)
    }
    assert report.peak_of({**found, "bert_keras": {}}) == 5.0
    assert report.peak_of({"bert_keras": {}}) is None
