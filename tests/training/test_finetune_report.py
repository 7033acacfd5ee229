"""The report of a fine-tuning: escaped text, all values, and undefined metrics."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bert_keras.training import finetune_report
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.finetune_report import finish, summary
from bert_keras.training.run_folder import FinetuneFolder
from bert_keras.training.tasks import Evaluation, HardExample


def test_summary() -> None:
    assert summary([0.5]) == "0.5000"
    assert summary([0.25, 0.75]) == "0.5000 ± 0.3536"
    assert summary([0.5, None]) == summary([math.nan]) == summary([0.5, math.inf]) == "nan"


class _Kind:
    """Stand-in for a fine-tuning task with the methods that the report uses."""

    extension = "tsv"

    def __init__(self, _recipe: FinetuneRecipe, measured: Any = None):
        self.measured = measured

    def predictor(self, model: Any, _tokenizer: Any) -> Any:
        return model

    def write(self, path: Path, _data: Any, _predictions: Any) -> None:
        path.touch()

    def take(self, data: Any, numbers: list[int]) -> Any:
        return [data[number] for number in numbers]

    def row_lengths(self, _tokenizer: Any, data: Any) -> np.ndarray:
        return np.array(data)


class _Saved:
    def save_to_preset(self, folder: Path, card: dict) -> None:
        assert card["title"] == "a_[b]"
        (folder / "saved").touch()


def _finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: list[dict], found: Evaluation, **more
) -> tuple[str, list[int]]:
    """Write a report; return it and the seeds whose models were opened."""
    recipe = FinetuneRecipe(
        **{"task": "text_regression", "name": "a_[b]", "out": str(tmp_path), **more}
    )
    folder = FinetuneFolder(recipe)
    opened: list[int] = []
    for result in results:
        of_seed = folder.of_seed(result["seed"])
        of_seed.mkdir()
        lines = [{"step": 1, "loss": 0.5, "val_spearman": None}, {"step": 2, "loss": 0.25}]
        (of_seed / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))

    def open_best(path: Path, precision: str) -> Any:
        assert precision == "float32"
        opened.append(int(path.name.removeprefix("seed-")))
        return _Saved()

    monkeypatch.setattr(finetune_report, "open_best", open_best)
    monkeypatch.setattr(finetune_report, "measure", lambda *_: found)
    kind: Any = _Kind(recipe)
    data: Any = SimpleNamespace(train=range(1_000), validation=range(10))
    finish(recipe, kind, data, _Saved(), results, folder, "the command")  # pyright: ignore[reportArgumentType]
    report = tmp_path / "report.md"
    return report.read_text(encoding="utf-8") if report.exists() else "", opened


def _result(seed: int, **metrics: float | None) -> dict:
    return {"seed": seed, "metrics": metrics, "step": 1, "steps": 2, "seconds": 61.0}


def test_what_is_shown_cannot_break_the_tables(tmp_path: Path, monkeypatch, capsys) -> None:
    worst = [HardExample(1.5, "a | b\n<b>*c*</b> `d`" + "x" * 300, "[1]|", "_2_")]
    found = Evaluation({"spearman": 0.5, "A|B_f1": 0.1}, [], worst)
    results = [_result(0, spearman=0.5, **{"A|B_f1": 0.1}), {"seed": 1, "failed": "nan | *here*"}]
    report, _ = _finish(tmp_path, monkeypatch, results, found)
    for block in re.findall(r"(?:^\|.*\n)+", report, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1, block
    assert r"a \| b \<b\>\*c\*\</b\> \`d\`" in report
    assert "x" * 200 not in report
    assert r"**Seed 1 failed**: nan \| \*here\*" in report
    assert "1,000 to learn from, 10 to measure on" in report
    assert "the command" in report
    assert "a_[b]: seed 0" in capsys.readouterr().out


def test_metrics_that_are_not_defined(tmp_path: Path, monkeypatch) -> None:
    results = [_result(0, spearman=None), _result(1, spearman=None), _result(2, spearman=-0.5)]
    found = Evaluation({"spearman": -0.5}, [])
    report, opened = _finish(tmp_path, monkeypatch, results, found)
    assert opened == [2]
    assert "**spearman: nan**" in report
    assert "| spearman | nan | -0.5000 |" in report


def test_a_metric_that_one_seed_has_not(tmp_path: Path, monkeypatch) -> None:
    results = [_result(0, f1=0.9, X_f1=0.5), _result(1, f1=0.1)]
    report, opened = _finish(tmp_path, monkeypatch, results, Evaluation({"f1": 0.9}, []))
    assert opened == [0]
    assert r"| X_f1 | nan | 0.5000 |" in report


def test_the_least_error_is_the_best(tmp_path: Path, monkeypatch) -> None:
    values = [0.5, 0.1, 0.3]
    results = [_result(seed, mean_squared_error=value) for seed, value in enumerate(values)]
    found = Evaluation({"mean_squared_error": 0.1}, [])
    _, opened = _finish(tmp_path, monkeypatch, results, found, metric="mean_squared_error")
    assert opened == [1]
    assert json.loads((tmp_path / "metrics.json").read_text())["seed"] == 1


def test_where_every_seed_failed_the_report_says_why(tmp_path: Path, monkeypatch) -> None:
    found = Evaluation({"f1": 0.0}, [])
    results = [{"seed": 0, "failed": "x"}, {"seed": 1, "failed": "y"}]
    report, opened = _finish(tmp_path, monkeypatch, results, found)
    assert opened == []
    assert "- **Seed 0 failed**: x\n- **Seed 1 failed**: y\n" in report
    assert "the command" in report
    assert {path.name for path in tmp_path.iterdir()} == {"seed-0", "seed-1", "report.md"}


def test_a_seed_that_predicts_one_label_is_named(tmp_path: Path, monkeypatch, capsys) -> None:
    results = [_result(0, f1=0.9), {**_result(1, f1=0.3), "constant": True}]
    report, _ = _finish(tmp_path, monkeypatch, results, Evaluation({"f1": 0.9}, []))
    assert "- **Seed 1 predicts one label for all examples** (Mosbach et al., 2021)." in report
    assert "Seed 0 predicts" not in report
    assert "0.6000 ± 0.4243" in report
    assert "predicts one label for all examples" in capsys.readouterr().out


def test_the_lengths_of_the_rows(tmp_path: Path, monkeypatch) -> None:
    """They are of 1,000 rows with 0 to 999 tokens."""
    report, _ = _finish(
        tmp_path, monkeypatch, [_result(0, f1=0.9)], Evaluation({"f1": 0.9}, []), max_length=100
    )
    share = "899 of 1,000 training rows (89.9%)"
    assert f"{share} have more tokens than max_length=100. The median is 499 tokens" in report
    assert f"![Histogram of the training rows by tokens: {share} exceed 100](lengths.png)" in report
    assert (tmp_path / "lengths.png").is_file()
    assert "Reliability" not in report


def test_of_many_rows_a_sample_is_measured(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(finetune_report, "_MEASURED", 10)
    report, _ = _finish(tmp_path, monkeypatch, [_result(0, f1=0.9)], Evaluation({"f1": 0.9}, []))
    assert " of 10 training rows" in report


def test_the_reliability_of_probabilities(tmp_path: Path, monkeypatch) -> None:
    found = Evaluation({"f1": 0.9}, [], confidences=(np.array([0.95, 0.95]), np.array([1, 0])))
    report, _ = _finish(tmp_path, monkeypatch, [_result(0, f1=0.9)], found)
    assert "Expected calibration error: **0.4500** of 2 predictions in 10 bins" in report
    alternative = "Reliability diagram: the expected calibration error is 0.4500"
    assert f"![{alternative}](reliability.png)" in report
    assert (tmp_path / "reliability.png").is_file()
