"""The dry run of a fine-tuning: what it counts is what the run has."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bert_keras.training import FinetuneRecipe
from bert_keras.training.finetune import main
from bert_keras.training.finetune_folder import recipe_of
from bert_keras.training.finetune_plan import plan, print_plan
from bert_keras.training.finetune_recipe import KINDS


def _recipe(folder: Path) -> FinetuneRecipe:
    recipe = recipe_of(folder)
    assert recipe is not None
    return recipe


@pytest.mark.parametrize("task", KINDS)
def test_examples_and_steps_are_those_of_the_run(task: str, finetuned) -> None:
    folder = finetuned(task)
    recipe, found = _recipe(folder), plan(_recipe(folder))
    assert found.examples[0] > 0 < found.examples[1]
    assert found.lengths.max() <= recipe.max_length
    log = (folder / f"seed-{recipe.seed}" / "metrics.jsonl").read_text().splitlines()
    last = max(json.loads(line)["step"] for line in log)
    assert found.steps * recipe.epochs == last
    assert found.parameters > 0 < found.memory
    assert found.seconds > 0


def test_the_table(finetuned) -> None:
    recipe = _recipe(finetuned("text_classification"))
    screen = io.StringIO()
    print_plan(recipe, console=Console(file=screen, width=500))
    for told in ("the plan; nothing was written", "2 seeds", "good", "run folder", recipe.train):
        assert told in screen.getvalue()


def test_the_program_writes_nothing(finetuned, tmp_path: Path, call) -> None:
    recipe = _recipe(finetuned("text_classification"))
    words = [f"{name}={getattr(recipe, name)}" for name in ("train", "dev", "encoder")]
    done = call(main, "sst2", *words, "text=text", "positive=", "--dry-run")
    assert done.code == 0, done.err
    assert "runs/sst2" in done.out
    assert list(tmp_path.iterdir()) == []
    done = call(main, "sst2", "--dry-run", "--quicktest")
    assert done.code == 2
    assert "leave --quicktest out" in done.err
