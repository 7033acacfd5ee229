"""The words of `override=`, and the lines about values that changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_keras.errors import UsageError
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.overrides import Change, entry, notes, overridden, with_changes
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.recipe_base import rules_of
from bert_keras.training.run_folder import FinetuneFolder, PretrainFolder


def test_names() -> None:
    assert overridden("", ("steps",)) == []
    assert overridden("steps, backend,", ("steps", "backend")) == ["steps", "backend"]
    with pytest.raises(UsageError, match=r"'step' of a run\. Did you mean 'steps'"):
        overridden("step", ("steps", "backend"))


@pytest.mark.parametrize(
    ("folder", "recipe"), [(PretrainFolder, PretrainRecipe), (FinetuneFolder, FinetuneRecipe)]
)
def test_every_name_is_a_value_of_the_recipe_and_in_its_help(folder: type, recipe: type) -> None:
    known = {field.name: rule for field, rule in rules_of(recipe)}
    for name in folder.overridable:
        assert name in known or name == "backend"
        assert name in known["override"].meaning


def test_lines_about_changes() -> None:
    changes = [Change("steps", 60, 80), Change("backend", "jax", "torch")]
    assert [str(change) for change in changes] == [
        "  steps: 60 then, 80 now",
        "  backend: jax then, torch now",
    ]
    entries = [entry(60, changes), entry({"seed-0": 4}, [Change("epochs", 1.0, 2.0)])]
    assert notes(entries) == [
        "after step 60: steps 60 became 80, backend jax became torch",
        "after step 4 (seed 0): epochs 1.0 became 2.0",
    ]


def test_seeds_with_the_same_step_are_named_together() -> None:
    known = {"step": {"seed-0": 72, "seed-1": 72, "seed-2": 30}, "epochs": [3, 4]}
    assert notes([known]) == ["after step 72 (seeds 0, 1), 30 (seed 2): epochs 3 became 4"]


def test_a_report_has_the_changes(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    assert with_changes({"steps": 8, "override": "steps"}, run) == {"steps": 8, "override": ""}
    changes = [entry(5, [Change("steps", 6, 7)]), entry(7, [Change("steps", 7, 8)])]
    run.write_text(json.dumps({"overrides": changes}))
    told = "after step 5: steps 6 became 7; after step 7: steps 7 became 8"
    assert with_changes({"steps": 8}, run) == {"steps": 8, "override": told}
