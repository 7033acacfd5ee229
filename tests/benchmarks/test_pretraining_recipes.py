"""Recipes train for the same seconds, and go on where they were stopped."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import pretraining_recipes
from benchmarks.pretraining_recipes import RECIPES, measured_step, show, steps_in
from bert_keras.training.pretrain_recipe import load_recipe


def test_recipes_have_the_same_text_and_schedule() -> None:
    recipes = [load_recipe(name) for name, _ in RECIPES.values()]
    for key in ("corpus", "validation_split", "vocab_size", "batch_size", "learning_rate"):
        assert len({getattr(recipe, key) for recipe in recipes}) == 1
    bert, modern = (load_recipe(name).sizes() for name in ("wiki_mini", "modern_mini"))
    weights = [
        config.num_layers * (3 if config.gated else 2) * config.intermediate_size
        for config in (bert, modern)
    ]
    assert weights[1] == pytest.approx(weights[0], rel=0.01)


def test_steps_in_seconds() -> None:
    assert steps_in(100.0, 0.5) == 200
    assert steps_in(99.0, 0.5) == 150
    assert steps_in(1.0, 0.5) == 50


def test_a_step_is_measured_without_the_first_report(tmp_path: Path) -> None:
    seconds = (99.0, 5.0, 15.0, 10.0)
    records = [{"step": 50 * number, "seconds": each} for number, each in enumerate(seconds, 1)]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "speed.jsonl").write_text(text)
    assert measured_step(tmp_path) == 0.2
    assert pretraining_recipes.seconds_of(tmp_path) == 129.0


def test_the_table() -> None:
    runs = [
        {"seed": seed, "steps": 4_500, "seconds": 3_000.0, "loss": loss}
        for seed, loss in enumerate((5.0, 5.5))
    ]
    screen = io.StringIO()
    show({"wiki_mini": runs}, Console(file=screen, width=160))
    for cell in ("seed 1", "5.500", "5.250", "4,500", "3,000"):
        assert cell in screen.getvalue()


@pytest.mark.slow
def test_a_quick_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call reads the results of the finished runs."""
    folder, out = tmp_path / "runs", tmp_path / "recipes.json"
    words = ["program", "--quick", "--folder", str(folder), "--seconds", "1", "--seeds", "0"]
    monkeypatch.setattr(sys, "argv", [*words, "--out", str(out)])
    pretraining_recipes.main()
    results = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert list(results) == list(RECIPES)
    assert all(0 < run["loss"] < 10 for runs in results.values() for run in runs)

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError

    monkeypatch.setattr(pretraining_recipes, "run_program", refuse)
    pretraining_recipes.main()
    assert json.loads(out.read_text(encoding="utf-8"))["results"] == results
