"""The dry run of a fine-tuning: its counts agree with the actual run."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
from rich.console import Console

from bert_keras import PRESETS
from bert_keras.errors import UsageError
from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import FinetuneRecipe, setup
from bert_keras.training import finetune_dry_run as module
from bert_keras.training.finetune import main
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_dry_run import files_of_run, plan, print_plan, small_config
from bert_keras.training.finetune_recipe import TASK_NAMES
from bert_keras.training.finetune_report import STEPS
from bert_keras.training.finetune_seed import build_task, tokenizer_of
from bert_keras.training.run_folder import QUICKTEST, recipe_of
from bert_keras.training.setup import build_shapes
from bert_keras.training.tasks import task_of
from tests.contracts import FAMILIES, TINY, VALUES


def _recipe(folder: Path) -> FinetuneRecipe:
    recipe = recipe_of(folder)
    assert recipe is not None
    return recipe


@pytest.mark.parametrize("task", TASK_NAMES)
def test_examples_and_steps_are_those_of_the_run(task: str, finetuned) -> None:
    folder = finetuned(task)
    recipe, found = _recipe(folder), plan(_recipe(folder))
    assert found.examples[0] > 0 < found.examples[1]
    assert found.lengths.max() <= recipe.max_length
    log = (folder / f"seed-{recipe.seed}" / "metrics.jsonl").read_text().splitlines()
    last = max(json.loads(line)["step"] for line in log)
    assert found.steps * recipe.epochs == last
    assert found.parameters > 0 < found.memory
    # === Files
    patterns = {step.name: step.writes for step in STEPS}
    written = {path.name for path in folder.iterdir()} - {"LOCK", QUICKTEST}
    listed = set()
    for name in files_of_run(recipe):
        matched = {path.name for each in patterns.get(name, [name]) for path in folder.glob(each)}
        assert matched, f"{name} is not written"
        listed |= matched
    assert written == listed
    assert found.seconds > 0


def test_the_model_has_no_values(finetuned, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def build_shapes(build: Callable[[], Any]) -> Any:
        built.append(setup.build_shapes(build))
        return built[-1]

    monkeypatch.setattr(module, "build_shapes", build_shapes)
    plan(_recipe(finetuned("text_classification")))
    assert all(weight._value is None for weight in built[0].weights)


def test_the_table(finetuned) -> None:
    recipe = _recipe(finetuned("text_classification"))
    screen = io.StringIO()
    print_plan(recipe, console=Console(file=screen, width=500))
    for told in ("the plan; nothing was written", "2 seeds", "good", "run folder", recipe.train):
        assert told in screen.getvalue()


def test_a_batch_is_not_larger_than_the_data(finetuned) -> None:
    recipe = dataclasses.replace(_recipe(finetuned("text_classification")), epochs=1)
    rows = plan(recipe).examples[0]
    few, many = (
        plan(dataclasses.replace(recipe, batch_size=size)) for size in (rows, 1_000_000 * rows)
    )
    assert (few.batch, few.memory, few.steps) == (many.batch, many.memory, many.steps)
    screen = io.StringIO()
    large = dataclasses.replace(recipe, batch_size=1_000)
    print_plan(large, console=Console(file=screen, width=500))
    assert f"1 an epoch, 1 epoch, batches of {rows}, " in screen.getvalue()


def test_the_program_writes_nothing(finetuned, tmp_path: Path, call) -> None:
    recipe = _recipe(finetuned("text_classification"))
    words = [f"{name}={getattr(recipe, name)}" for name in ("train", "dev", "encoder")]
    done = call(main, "sst2", *words, "text=text", "--dry-run")
    assert done.code == 0, done.err
    assert "runs/sst2" in done.out
    assert list(tmp_path.iterdir()) == []
    done = call(main, "sst2", "--dry-run", "--quicktest")
    assert done.code == 2
    assert "--dry-run and --quicktest exclude each other" in done.err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["max_length=65"], "`max_length` must be from 3 to 64, the model's positions"),
        (["layers=5"], "layers=5: "),
        (["representation=concat_last_4"], "encoder="),
        (
            ["freeze=true", "layer_decay=0.9"],
            "layer_decay=0.9 trains the encoder, which freeze=true",
        ),
        (["alpha=0.9"], "alpha=0.9 needs a teacher"),
        (["schedule=slanted_triangular"], "Give warmup=0"),
        (["metric=acuracy"], "metric must be one of "),
        (["teacher=nowhere"], "nowhere"),
        (["encoder=nowhere"], "encoder=nowhere"),
        (["out=taken"], "taken is not the folder of a run"),
    ],
)
def test_the_plan_refuses_what_the_run_refuses(
    values: list[str], message: str, finetuned, tmp_path: Path, call
) -> None:
    recipe = _recipe(finetuned("text_classification"))
    named = {word.partition("=")[0] for word in values}
    files = [name for name in ("train", "dev", "encoder") if name not in named]
    words = [f"{name}={getattr(recipe, name)}" for name in files]
    words += [word for word in ("max_length=32", "out=run") if word.partition("=")[0] not in named]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").touch()
    command = ("sst2", *words, "text=text", *values)
    planned, done = call(main, *command, "--dry-run"), call(main, *command)
    assert (planned.code, planned.err) == (done.code, done.err.removeprefix("seed 0\n"))
    assert done.code != 0
    assert message in planned.err


def test_a_plan_of_another_run_in_its_folder(finetuned, call) -> None:
    folder = finetuned("text_classification")
    recipe = _recipe(folder)
    words = [f"{name}={getattr(recipe, name)}" for name in ("train", "dev", "encoder")]
    done = call(main, "sst2", *words, f"out={folder}", "--dry-run")
    assert done.code == 2
    assert "holds a run with other values" in done.err


def test_the_plan_counts_the_layers_that_are_kept(finetuned, tmp_path: Path) -> None:
    recipe = _recipe(finetuned("text_classification"))
    config = BertEncoder.from_preset(recipe.encoder).config.replace(num_layers=2)
    BertEncoder(config).save_to_preset(tmp_path)
    Tokenizer.from_preset(recipe.encoder).save_to_preset(tmp_path)
    whole = dataclasses.replace(recipe, encoder=str(tmp_path))
    kept = dataclasses.replace(whole, layers="0")
    assert plan(kept).parameters == plan(recipe).parameters < plan(whole).parameters


@pytest.mark.parametrize("values", [{"layers": "0"}, {"lora": 2}, {"freeze": True}], ids=str)
def test_the_model_of_a_plan_takes_no_values(
    finetuned, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = dataclasses.replace(_recipe(finetuned("text_classification")), **values)
    kind, tokenizer = task_of(recipe), tokenizer_of(recipe)
    labels = Data.read(recipe, kind).labels

    def refuse(variable: keras.Variable, value: Any) -> None:
        pytest.fail(f"{variable.path} was assigned a value of shape {value.shape}")

    monkeypatch.setattr(keras.Variable, "assign", refuse)
    task = build_shapes(lambda: build_task(recipe, kind, labels, tokenizer, load_weights=False))
    assert [weight.path for weight in task.weights if weight._value is not None] == []


def test_metrics_of_entity_types(finetuned) -> None:
    recipe = _recipe(finetuned("token_classification"))
    whole = plan(dataclasses.replace(recipe, metric="precision"))
    assert whole.labels is not None
    entity = next(tag.partition("-")[2] for tag in whole.labels if "-" in tag)
    plan(dataclasses.replace(recipe, metric=f"{entity}_f1"))
    with pytest.raises(UsageError, match="metric must be one of"):
        plan(dataclasses.replace(recipe, metric="accurate"))


def test_every_kind_of_encoder_has_a_small_one() -> None:
    """`metric=` is checked with it. Grouped heads have fewer heads of keys than of queries."""
    grouped = TINY.replace(num_heads=4, num_key_value_heads=2)
    for config in (grouped, *FAMILIES.values(), *VALUES.values()):
        assert BertEncoder(small_config(config)).config.num_heads == 1
    for config in PRESETS.values():
        assert small_config(config).vocab_size == config.vocab_size
