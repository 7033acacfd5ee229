"""The learning rate benchmark trains every job, keeps its runs, and compares the default rate."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import default_rates
from benchmarks.default_rates import JOBS, compared, main, show

_ROWS = 6


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the four data sets, with a few rows each."""
    folder = tmp_path_factory.mktemp("data")
    labels = [str(row % 2) for row in range(_ROWS)]
    sentiment = ["label\tsentence", *(f"{label}\ta dog {label}" for label in labels)]
    pairs = ["index\tlabel\tsentence1\tsentence2"]
    pairs += [f'{row}\t{label}\t"a dog ."\tcats' for row, label in enumerate(labels)]
    scores = ["score\tsentence1\tsentence2"]
    scores += [f"{row}.5\ta dog\tcats {'a' * row}" for row in range(_ROWS)]
    words = ["dog NN O I-PER", "cats NN O O", ""] * _ROWS
    for name, lines in {
        "sst2/glue_train.tsv": sentiment,
        "sst2/glue_dev.tsv": sentiment,
        "mrpc/becel_train.tsv": pairs,
        "mrpc/becel_validation.tsv": pairs,
        "stsb/official_train.tsv": scores,
        "stsb/official_dev.tsv": scores,
        "conll2003/eng.train": words,
        "conll2003/eng.testa": words,
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
    return folder


def test_every_job_is_trained_once(
    data: Path, tiny_preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rates.json"
    command = [f"--data={data}", f"--encoder={tiny_preset}", f"--out={out}", "--epochs=2"]
    assert main([*command, "--rates=1e-3", "--rows=5", "--dev-rows=4"]) == 0
    record = json.loads(out.read_text())
    assert record["runs"].keys() == JOBS.keys()
    for rates in record["runs"].values():
        run = rates["0.001"]["0"]
        assert len(run["losses"]) == 2
        assert run["metric"] in run["scores"]
    # A second call trains nothing, and a call with other sizes is refused.
    monkeypatch.delattr(default_rates, "trained")
    assert main([*command, "--rates=1e-3", "--rows=5", "--dev-rows=4"]) == 0
    with pytest.raises(SystemExit, match="with other rows: name another --out"):
        main([*command, "--rows=6", "--dev-rows=4"])


@pytest.mark.parametrize("name", JOBS)
def test_rows_are_drawn_alike(name: str, data: Path) -> None:
    jobs = [JOBS[name](data, rows, 4) for rows in (5, 5, 100)]
    assert jobs[0].train == jobs[1].train
    assert [len(job.train[1]) for job in jobs] == [5, 5, _ROWS]
    assert all(len(job.dev[1]) == 4 for job in jobs)


def _run(score: float) -> dict[str, Any]:
    return {"metric": "f1", "scores": {"accuracy": 0.1, "f1": score}}


def test_means_over_seeds_are_compared() -> None:
    rates = {"0.0001": {"0": _run(0.8), "1": _run(0.9)}, "2e-05": {"0": _run(0.83)}}
    found = compared({"mrpc": rates}, {"mrpc": 2e-5})["mrpc"]
    assert found["metric"] == "f1"
    assert found["best"] == 1e-4
    assert found["seeds"] == {2e-5: 1, 1e-4: 2}
    assert found["points"] == pytest.approx(2)
    assert compared({"mrpc": rates}, {"mrpc": 1e-3})["mrpc"]["points"] is None


@pytest.mark.parametrize(("default", "told"), [(1e-4, "is within 1"), (2e-5, "is not within 1")])
def test_the_table_says_whether_the_default_is_near(default: float, told: str) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    rates = {"0.0001": {"0": _run(0.85)}, "2e-05": {"0": _run(0.83)}}
    show(compared({"mrpc": rates}, {"mrpc": default}), console)
    shown = screen.getvalue()
    assert "0.8500 (1)" in shown
    assert f"The default {told} point of the best rate" in shown
