"""Rows of few-shot training, the comparison with the peer, and a quick run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.contest import OURS
from benchmarks.few_shot import PEER, Rows, compared, draw, made_up, main, rows_of, show

pytest.importorskip("sklearn")


def test_rows_are_drawn_of_each_label() -> None:
    rows = Rows([f"text {number}" for number in range(30)], [*"aab"] * 10)
    drawn = draw(rows, 4, seed=0)
    assert sorted(drawn.labels) == [*"aaaabbbb"]
    assert len(set(drawn.texts)) == 8
    pairs = set(zip(*rows, strict=True))
    assert pairs.issuperset(zip(*drawn, strict=True))
    assert draw(rows, 4, seed=0) == drawn != draw(rows, 4, seed=1)


@pytest.mark.data
@pytest.mark.parametrize(("task", "classes"), [("sst2", 2), ("trec", 6)])
def test_rows_of_real_files(task: str, classes: int, shared_data: Path) -> None:
    rows, test = rows_of(task, shared_data, 500)
    assert len(test.texts) == 500
    assert set(test.labels) == set(rows.labels)
    assert len(set(rows.labels)) == classes
    # TREC repeats a few questions, and dev of SST-2 has sentences of other reviews.
    assert len(set(test.texts) & set(rows.texts)) < 30


def _runs(accuracies: list[float], seconds: list[float]) -> dict[str, dict[str, float]]:
    return {
        str(seed): {"accuracy": accuracy, "seconds": 2 * time, "processor_seconds": time}
        for seed, (accuracy, time) in enumerate(zip(accuracies, seconds, strict=True))
    }


@pytest.mark.parametrize(("accuracy", "is_within"), [(0.795, True), (0.785, False)])
def test_comparison_with_the_peer(accuracy: float, is_within: bool) -> None:
    peer = _runs([0.7, 0.9, 0.8], [10, 20, 40])
    found = compared({OURS: _runs([accuracy] * 3, [8, 10, 60]), PEER: peer})
    assert found[PEER]["accuracy"] == pytest.approx(0.8)
    assert found[PEER]["ratio"] == 1
    assert found[OURS]["ratio"] == pytest.approx(0.8)  # of 0.8, 0.5 and 1.5
    assert found[OURS]["is_within"] is is_within
    screen = io.StringIO()
    show({"sst2": found}, Console(file=screen, width=120))
    assert ("met" if is_within else "missed") in screen.getvalue()


def test_made_up_rows_have_both_labels() -> None:
    rows, test = made_up()
    assert set(rows.labels) == set(test.labels) == {"bad", "good"}


@pytest.mark.slow
def test_a_quick_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--shots", "2"]) == 0
    assert OURS in capsys.readouterr().out
