"""The folder of a fine-tuning: its owner, and the values that a continued run must keep."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.training import input_digests
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.recipe_base import RENAMED
from bert_keras.training.run_folder import (
    QUICKTEST,
    FinetuneFolder,
    PretrainFolder,
    folder_of,
    recipe_of,
)


def _recipe(folder: Path, **values) -> FinetuneRecipe:
    return FinetuneRecipe(
        **{"task": "text_classification", "name": "mine", "out": str(folder), **values}
    )


def _claim(recipe: FinetuneRecipe, backend: str = "jax") -> None:
    FinetuneFolder(recipe).claim(recipe, backend, {"keras": "3"})


def test_where_it_lies(tmp_path: Path) -> None:
    assert FinetuneFolder(FinetuneRecipe(task="text_classification", name="x")).path == Path(
        "runs/x"
    )
    assert FinetuneFolder(_recipe(tmp_path)).of_seed(3) == tmp_path / "seed-3"


def test_values_bind_once_training_began(tmp_path: Path) -> None:
    _claim(_recipe(tmp_path, train="nowhere"))
    _claim(_recipe(tmp_path, train="here"))  # a corrected value
    (tmp_path / "seed-0" / "checkpoints").mkdir(parents=True)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UsageError, match=r"other values:\n  train: 'here' then, 'there' now\n"):
        _claim(_recipe(tmp_path, train="there"))
    with pytest.raises(UsageError, match="backend: jax then, torch now"):
        _claim(_recipe(tmp_path, train="here"), "torch")
    assert (tmp_path / "run.json").read_bytes() == before
    _claim(_recipe(tmp_path, train="here", seeds=5, workers=7, checkpoint_every=3))


def test_the_keys_of_a_card_have_their_order(tmp_path: Path) -> None:
    _claim(_recipe(tmp_path))
    card = json.loads((tmp_path / "run.json").read_text())
    assert list(card) == ["recipe", "backend", "files", "versions"]
    assert list(card["recipe"]) == list(_recipe(tmp_path).values())


def test_the_folder_of_a_recipe(tmp_path: Path) -> None:
    assert isinstance(folder_of(_recipe(tmp_path)), FinetuneFolder)
    pretraining = PretrainRecipe(corpus="demo", steps=50, name="x")
    assert isinstance(folder_of(pretraining, "temporary"), PretrainFolder)


def test_a_run_of_older_names_goes_on(tmp_path: Path) -> None:
    _claim(_recipe(tmp_path, validation_split=0.2))
    (tmp_path / "seed-0" / "checkpoints").mkdir(parents=True)
    card = json.loads((tmp_path / "run.json").read_text())
    for old, new in RENAMED.items():
        if new in card["recipe"]:
            card["recipe"][old] = card["recipe"].pop(new)
    card["recipe"]["task"] = "labels"
    (tmp_path / "run.json").write_text(json.dumps(card))
    assert recipe_of(tmp_path) == _recipe(tmp_path, validation_split=0.2)
    with pytest.raises(UsageError, match=r"validation_split: 0\.2 then, 0\.3 now"):
        _claim(_recipe(tmp_path, validation_split=0.3))
    _claim(_recipe(tmp_path, validation_split=0.2))
    assert "held_out" not in json.loads((tmp_path / "run.json").read_text())["recipe"]


def test_the_examples_bind_too(tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("one")
    (tmp_path / "run").mkdir()
    recipe = _recipe(tmp_path / "run", train=str(train), dev="gone")
    _claim(recipe)
    train.write_text("two")
    _claim(recipe)  # the training has not begun
    (tmp_path / "run" / "seed-0" / "checkpoints").mkdir(parents=True)
    _claim(recipe)
    train.unlink()
    _claim(recipe)  # a missing file is an error only where it is read
    train.write_text("three")
    with pytest.raises(
        UsageError, match=r"  train: .*train\.tsv holds something else .* \(train\.tsv\)\n"
    ):
        _claim(recipe)


def test_a_teacher_binds_too(tmp_path: Path) -> None:
    weights = tmp_path / "teacher" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"one")
    recipe = _recipe(tmp_path / "run", teacher=str(weights.parent))
    (tmp_path / "run").mkdir()
    _claim(recipe)
    (tmp_path / "run" / "seed-0" / "checkpoints").mkdir(parents=True)
    _claim(recipe)
    weights.write_bytes(b"two")
    with pytest.raises(
        UsageError, match=r"  teacher: .*teacher holds something else .*\(model\.safetensors\)"
    ):
        _claim(recipe)
    weights.write_bytes(b"one")
    (weights.parent / "report.md").touch()
    _claim(recipe)
    (weights.parent / "vocab.txt").write_text("new")
    _claim(recipe)  # a file that did not exist before is no difference
    (weights.parent / "vocab.txt").write_text("newer")
    with pytest.raises(UsageError, match=r"holds something else than then \(vocab\.txt\)"):
        _claim(recipe)


def test_a_repository_binds_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cached files of a repository must stay the same, because its main branch may change."""
    weights = tmp_path / "snapshot" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"one")
    opened = SimpleNamespace(directory=weights.parent)
    monkeypatch.setattr(input_digests, "open_checkpoint", lambda _: opened)
    recipe = _recipe(tmp_path / "run", encoder="hf://some/model")
    (tmp_path / "run" / "seed-0" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text(json.dumps({"recipe": dataclasses.asdict(recipe)}))
    with pytest.raises(UsageError, match="backend: None then"):
        _claim(recipe)
    card = {"recipe": dataclasses.asdict(recipe), "backend": "jax"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(card))
    _claim(recipe)
    weights.write_bytes(b"two")
    with pytest.raises(UsageError, match="encoder: hf://some/model holds something else"):
        _claim(recipe)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UsageError, match=r"has no run\.json but thesis\.txt"):
        FinetuneFolder(_recipe(tmp_path)).check()
    with pytest.raises(UsageError, match="is a file"):
        FinetuneFolder(_recipe(tmp_path / "thesis.txt")).check()
    (tmp_path / "run.json").write_text('{"recipe": {"corpus": "demo", "steps": 3}}')
    with pytest.raises(UsageError, match=r"not of a fine-tuning run.*Choose another folder"):
        FinetuneFolder(_recipe(tmp_path)).check()


def test_what_a_killed_process_leaves_is_no_stranger(tmp_path: Path) -> None:
    for name in ("LOCK", ".tmp-run.json"):
        (tmp_path / name).touch()
    (tmp_path / QUICKTEST).mkdir()
    FinetuneFolder(_recipe(tmp_path)).check()


def test_a_temporary_folder_is_not_stored(tmp_path: Path) -> None:
    names = {"train": f"{tmp_path}/{QUICKTEST}/train.jsonl", "encoder": "elsewhere/encoder"}
    recipe = dataclasses.replace(_recipe(tmp_path), out="", **names)
    folder = FinetuneFolder(recipe, str(tmp_path))
    folder.claim(recipe, "jax", {"keras": "3"})
    assert folder.path == tmp_path
    assert str(tmp_path) not in (tmp_path / "run.json").read_text()
    stored = dataclasses.replace(recipe, train=f"{QUICKTEST}/train.jsonl")
    assert recipe_of(tmp_path) == stored
    assert folder.values(recipe) == dataclasses.asdict(stored)
    assert FinetuneFolder(recipe).values(recipe) == dataclasses.asdict(recipe)


def test_the_values_are_read_back(tmp_path: Path) -> None:
    assert recipe_of(tmp_path) is None
    recipe = _recipe(tmp_path, epochs=7)
    _claim(recipe)
    assert recipe_of(tmp_path) == recipe
    values = dataclasses.asdict(recipe) | {"epochs": 0}
    other = "not of a fine-tuning run"
    unreadable = "not a readable fine-tuning recipe: epochs must be at least 1"
    for broken, message in (({"steps": 3}, other), (None, other), (values, unreadable)):
        (tmp_path / "run.json").write_text(json.dumps({"recipe": broken}))
        with pytest.raises(ArtifactError, match=rf"run\.json: {message}"):
            recipe_of(tmp_path)


def test_ended_seeds_go_on_after_a_change(tmp_path: Path) -> None:
    """With other epochs all seeds go on, with another learning rate only those that failed."""

    def claim(**values: object) -> list[str]:
        """Claim the folder, and return the seeds that have a result."""
        _claim(_recipe(tmp_path, **values))
        return [path.parent.name for path in sorted(tmp_path.glob("seed-*/result.json"))]

    claim()
    for seed, result in enumerate(({"metrics": {}}, {"failed": "the loss is nan"})):
        (tmp_path / f"seed-{seed}" / "checkpoints" / "step-00000030").mkdir(parents=True)
        (tmp_path / f"seed-{seed}" / "result.json").write_text(json.dumps({"seed": seed, **result}))
    with pytest.raises(UsageError, match="or override=learning_rate to go on with the new ones"):
        claim(learning_rate=0.5)
    assert claim(learning_rate=0.5, override="learning_rate") == ["seed-0"]
    assert claim(learning_rate=0.5, epochs=9, override="epochs") == []
    entries = json.loads((tmp_path / "run.json").read_text())["overrides"]
    steps = {"seed-0": 30, "seed-1": 30}
    assert [entry["step"] for entry in entries] == [steps, steps]
    assert claim(learning_rate=0.5, epochs=9, seeds=3) == []
    assert json.loads((tmp_path / "run.json").read_text())["overrides"] == entries


def test_a_learning_rate_for_no_step_is_refused(tmp_path: Path) -> None:
    """Otherwise run.json and the report would have a rate with which nothing was trained."""

    def claim(**values: object) -> None:
        _claim(_recipe(tmp_path, learning_rate=0.5, override="learning_rate,epochs", **values))

    _claim(_recipe(tmp_path, learning_rate=0.25))
    (tmp_path / "seed-0" / "checkpoints").mkdir(parents=True)
    (tmp_path / "seed-0" / "result.json").write_text('{"metrics": {}}')
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UsageError, match=r"no effect\. .*=0\.5\. .*override=epochs,learning_rate"):
        claim()
    assert (tmp_path / "run.json").read_bytes() == before
    claim(seeds=2)  # the second seed is trained with it
    _claim(_recipe(tmp_path, learning_rate=0.25, override="learning_rate", seeds=2))
    claim(epochs=9)


@pytest.mark.parametrize(
    ("evaluations", "state", "least"),
    [
        (1, {"step": 30, "epoch": 3, "position": 0}, 3),  # 10 batches in an epoch
        (1, {"step": 5, "epoch": 0, "position": 5}, 1),
        # 4 steps between evaluations: one epoch ends with step 12, two with step 20
        (3, {"step": 12, "epoch": 1, "position": 2}, 1),
        (3, {"step": 16, "epoch": 1, "position": 6}, 2),
    ],
)
def test_fewer_epochs_than_are_trained_are_refused_before_anything_is_written(
    tmp_path: Path, evaluations: int, state: dict, least: int
) -> None:
    def claim(epochs: int) -> None:
        _claim(_recipe(tmp_path, epochs=epochs, evaluations=evaluations, override="epochs"))

    claim(9)
    checkpoint = tmp_path / "seed-0" / "checkpoints" / f"step-{state['step']:08d}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text(json.dumps(state))
    (tmp_path / "seed-0" / "result.json").write_text('{"seed": 0, "metrics": {}}')
    before = (tmp_path / "run.json").read_bytes()
    if least > 1:
        with pytest.raises(UsageError, match=f"already.*Give at least epochs={least}, or out="):
            claim(least - 1)
    assert (tmp_path / "run.json").read_bytes() == before
    folder = FinetuneFolder(_recipe(tmp_path))
    changed = _recipe(tmp_path, epochs=least, evaluations=evaluations, override="epochs")
    folder.require_same(changed, "jax")  # a dry run checks the same, and writes nothing
    assert (tmp_path / "run.json").read_bytes() == before
    assert (tmp_path / "seed-0" / "result.json").is_file()
    claim(least)
    assert not (tmp_path / "seed-0" / "result.json").exists()
