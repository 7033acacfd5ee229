"""The folder of a run: which values a continued run may change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bert_keras import PRESETS
from bert_keras.errors import UsageError
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.recipe_base import RENAMED, rules_of
from bert_keras.training.run_folder import PretrainFolder

RECIPE = PretrainRecipe(corpus="text.txt", steps=100, name="mine")


def claim(folder: Path, backend: str = "jax", **values: object) -> None:
    recipe = dataclasses.replace(RECIPE, out=str(folder), **values)
    PretrainFolder(recipe).claim(recipe, backend, {"keras": "3"})


def test_where_it_is() -> None:
    assert PretrainFolder(RECIPE).path == Path("runs/mine")
    assert PretrainFolder(dataclasses.replace(RECIPE, out="there")).path == Path("there")
    assert PretrainFolder(RECIPE, "temporary").path == Path("temporary")


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    PretrainFolder(dataclasses.replace(RECIPE, out=str(tmp_path / "run"))).check()
    assert not list(tmp_path.iterdir())


def test_the_card_holds_every_value(tmp_path: Path) -> None:
    claim(tmp_path, seed=3)
    card = json.loads((tmp_path / "run.json").read_text())
    expected = dataclasses.replace(RECIPE, out=str(tmp_path), seed=3)
    assert card["recipe"] == dataclasses.asdict(expected)
    assert (card["backend"], card["versions"]) == ("jax", {"keras": "3"})


def test_what_may_change_while_nothing_is_done(tmp_path: Path) -> None:
    claim(tmp_path)
    claim(tmp_path, "torch", corpus="other.txt", steps=200)
    (tmp_path / "corpus").mkdir()
    claim(tmp_path, corpus="other.txt", steps=300)
    with pytest.raises(UsageError, match=r"corpus: 'other\.txt' then, 'text\.txt' now") as caught:
        claim(tmp_path, steps=400)
    assert "steps" not in str(caught.value)


@pytest.mark.parametrize(
    "values", [{"workers": 7}, {"tensorboard": True}, {"export": False}, {"backend": "jax"}]
)
def test_what_may_change_in_a_run(tmp_path: Path, values: dict) -> None:
    claim(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    card = (tmp_path / "run.json").read_bytes()
    claim(tmp_path, **values)
    assert (tmp_path / "run.json").read_bytes() == card


def test_a_run_may_be_moved(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    claim(tmp_path / "old")
    (tmp_path / "old" / "checkpoints").mkdir()
    (tmp_path / "old").rename(tmp_path / "new")
    claim(tmp_path / "new")


def test_a_run_of_fine_tuning_is_left_alone(tmp_path: Path) -> None:
    card = json.dumps({"recipe": {"task": "text_classification"}, "backend": "jax"})
    (tmp_path / "run.json").write_text(card)
    with pytest.raises(UsageError, match="is not of a pretraining run"):
        claim(tmp_path)
    assert (tmp_path / "run.json").read_text() == card


def test_what_may_not_change_in_a_run(tmp_path: Path) -> None:
    claim(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UsageError) as caught:
        claim(tmp_path, "torch", steps=200, name="other")
    assert str(caught.value).splitlines() == [
        f"{tmp_path} holds a run with other values:",
        "  steps: 100 then, 200 now",
        "  name: 'mine' then, 'other' now",
        "  backend: jax then, torch now",
        "Give the same values to go on with it, or out=FOLDER for a new run. override= can change "
        "steps, backend, and not the rest.",
    ]


def _begin(folder: Path, step: int) -> None:
    """Claim a folder, and put the place of a checkpoint there."""
    claim(folder)
    (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)


def test_values_that_override_lets_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """run.json records them; afterwards they are the run's values, with and without override=."""
    _begin(tmp_path, 60)
    with pytest.raises(UsageError, match="or override=steps,learning_rate,backend to go on with"):
        claim(tmp_path, "torch", steps=200, learning_rate=0.5)
    with pytest.raises(UsageError, match=r"steps: 100 then, 200 now\nGive.*or override=steps "):
        claim(tmp_path, steps=200, learning_rate=0.5, override="learning_rate")
    claim(tmp_path, steps=200, learning_rate=0.5, override="learning_rate, steps")
    assert "override: after step 60: steps 100 became 200, learning_rate" in capsys.readouterr().err
    (tmp_path / "checkpoints" / "step-00000080").mkdir()
    claim(tmp_path, steps=200, learning_rate=0.5)
    claim(tmp_path, "torch", steps=200, learning_rate=0.5, override="backend,steps")
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["overrides"] == [
        {"step": 60, "steps": [100, 200], "learning_rate": [1e-4, 0.5]},
        {"step": 80, "backend": ["jax", "torch"]},
    ]
    assert (card["recipe"]["steps"], card["recipe"]["override"]) == (200, "")
    with pytest.raises(UsageError, match="steps: 200 then, 100 now"):
        claim(tmp_path, "torch", learning_rate=0.5)


def test_values_that_override_cannot_change(tmp_path: Path) -> None:
    _begin(tmp_path, 60)
    card = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UsageError, match="override= cannot change 'batch_size' of a run"):
        claim(tmp_path, batch_size=8, override="batch_size")
    with pytest.raises(UsageError, match="override= can change steps, and not the rest"):
        claim(tmp_path, batch_size=8, steps=200)
    with pytest.raises(UsageError, match="batch_size: 32 then, 8 now\nGive the same values"):
        claim(tmp_path, batch_size=8, steps=200, override="steps")
    with pytest.raises(UsageError, match=r"step 60 is trained already. Received: steps=50\. Give"):
        claim(tmp_path, steps=50, override="steps")
    (tmp_path / "checkpoints" / "step-00000100").mkdir()  # no step is left for another rate
    with pytest.raises(UsageError, match=r"no effect\. .*=0\.5\. .*override=steps,learning_rate"):
        claim(tmp_path, learning_rate=0.5, override="steps,learning_rate")
    assert (tmp_path / "run.json").read_bytes() == card


def test_a_value_that_an_older_version_lacks_is_the_default(tmp_path: Path) -> None:
    claim(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    card = json.loads((tmp_path / "run.json").read_text())
    del card["recipe"]["masking"]
    (tmp_path / "run.json").write_text(json.dumps(card))
    claim(tmp_path)
    with pytest.raises(UsageError, match="masking: 'token' then, 'span' now"):
        claim(tmp_path, masking="span")
    del card["recipe"]["steps"]  # a key without a default value
    (tmp_path / "run.json").write_text(json.dumps(card))
    with pytest.raises(UsageError, match="steps: None then, 100 now"):
        claim(tmp_path)


def test_the_keys_of_a_card_have_their_order(tmp_path: Path) -> None:
    claim(tmp_path)
    card = json.loads((tmp_path / "run.json").read_text())
    assert list(card) == ["recipe", "sizes", "backend", "versions"]
    assert list(card["recipe"]) == [field.name for field, _ in rules_of(PretrainRecipe)]


@pytest.mark.parametrize("name", [".tmp-run.json", "LOCK", "corpus"])
def test_what_a_killed_process_leaves_is_no_stranger(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    claim(tmp_path)
    assert (tmp_path / "run.json").is_file()


def test_the_folder_of_something_else(tmp_path: Path) -> None:
    for name in "fedcba":
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"no run\.json but a, b, c, d, e\. Choose another"):
        claim(tmp_path)
    with pytest.raises(UsageError, match="a is a file"):
        claim(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == list("abcdef")


@pytest.mark.parametrize("card", ["", "[]", "{}", '{"recipe": 1, "backend": "jax"}', "\ufeff{"])
def test_a_card_that_is_none(tmp_path: Path, card: str) -> None:
    (tmp_path / "run.json").write_text(card, encoding="utf-8")
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        claim(tmp_path)
    assert (tmp_path / "run.json").read_text(encoding="utf-8") == card


def test_a_run_of_older_values_goes_on(tmp_path: Path) -> None:
    """A run.json with earlier key names and without sizes can be continued."""
    claim(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    card = json.loads((tmp_path / "run.json").read_text())
    for old, new in RENAMED.items():
        if new in card["recipe"]:
            card["recipe"][old] = card["recipe"].pop(new)
    del card["sizes"]
    (tmp_path / "run.json").write_text(json.dumps(card))
    claim(tmp_path)
    with pytest.raises(UsageError, match="config: 'bert_mini_uncased' then, 'bert_tiny_uncased'"):
        claim(tmp_path, config="bert_tiny_uncased")


def test_sizes_of_a_file_bind(tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.json"
    PRESETS["bert_tiny_uncased"].save(sizes)
    (tmp_path / "run").mkdir()
    claim(tmp_path / "run", config=str(sizes))
    (tmp_path / "run" / "checkpoints").mkdir()
    claim(tmp_path / "run", config=str(sizes))
    PRESETS["bert_tiny_uncased"].replace(dropout=0.3).save(sizes)
    with pytest.raises(UsageError, match=r"config: .*sizes\.json holds other sizes than then"):
        claim(tmp_path / "run", config=str(sizes))
