"""Pretraining recipes: values and files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bert_keras import PRESETS
from bert_keras.errors import UsageError
from bert_keras.training import pretrain_recipe as module
from bert_keras.training.finetune_recipe import TASK_NAMES, FinetuneRecipe
from bert_keras.training.pretrain_recipe import (
    PretrainRecipe,
    known_recipes,
    load_recipe,
    quicktest,
)
from bert_keras.training.recipe_base import RENAMED, RENAMED_TASKS, rules_of
from bert_keras.training.recipe_files import parse_overrides
from tests.contracts import TINY

# What a model of a family has in every size.
_KIND = ("family", "block", "norm", "gated", "window", "attention_positions", "position_embedding")


def _recipe(**values) -> PretrainRecipe:
    return PretrainRecipe(**{"corpus": "text.txt", "steps": 100, **values})


def test_a_recipe_is_frozen_and_comparable() -> None:
    recipe = _recipe()

    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.steps = 1  # pyright: ignore[reportAttributeAccessIssue]
    assert recipe == _recipe()


def test_whole_numbers_become_numbers_where_those_are_meant() -> None:
    recipe = _recipe(learning_rate=1, ema_momentum=0)

    assert type(recipe.learning_rate) is float
    assert (
        type(parse_overrides(["ema_momentum=0.9"], dataclasses.asdict(recipe))["ema_momentum"])
        is float
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"corpus": ""}, "corpus must name"),
        ({"steps": 0}, "steps must be at least 1. Received: steps=0"),
        ({"steps": 1e5}, "steps must be a whole number. Received: steps=100000.0"),
        (
            {"steps": 120},
            "a multiple of log_every=50, such as steps=100; or give log_every=10",
        ),
        ({"steps": True}, "steps must be a whole number. Received: steps=True"),
        ({"learning_rate": "1e-4"}, "learning_rate must be a number. Received: "),
        ({"learning_rate": 0.0}, "learning_rate must be above 0 and finite"),
        ({"seed": 2**32}, "seed must be below 4,294,967,296"),
        ({"optimizer": "lion"}, "optimizer must be one of adamw, lamb, muon"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0 and finite"),
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0 and finite"),
        ({"validation_split": 1.0}, "validation_split must be above 0 and below 1"),
        ({"mask_rate": 0.0}, "mask_rate must be above 0 and below 1"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1"),
        ({"sequence_length": 7}, "sequence_length must be at least 8"),
        ({"sequence_length": 513}, "at most 512, the positions of bert_mini_uncased"),
        ({"sequence_length": 65, "max_positions": 64}, "at most 64, max_positions"),
        ({"packed_length": 127}, "packed_length must be 0, or at least sequence_length=128"),
        ({"loss": "rtd", "packed_length": 128}, "packed_length must be 0 with loss=rtd"),
        ({"loss_chunks": 0}, "loss_chunks must be at least 1"),
        ({"loss": "rtd", "loss_chunks": 2}, "must be 1 with loss=rtd"),
        ({"warmup_steps": 101}, "warmup_steps must be at most steps=100"),
        ({"loss": "nps"}, r"must be one of nsp, sop, rtd, mlm. .*Did you mean 'nsp'\?"),
        ({"config": "bert_minni_uncased"}, "Did you mean 'bert_mini_uncased'"),
        ({"config": "nowhere.json"}, "config must be a JSON file or a name of PRESETS"),
        ({"max_positions": 10**8}, "config does not fit: `max_positions` must be .* at most"),
        ({"steps": 10**12}, "steps must be below 2,147,483,648"),
        ({"precision": "float16"}, "precision must be one of float32"),
        ({"lowercase": "yes"}, "lowercase must be true or false"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"config": "roberta_base"}, "must be mlm or rtd: roberta_base has no second segment"),
        (
            {"loss": "rtd", "config": "albert_base_v2"},
            "rtd: albert_base_v2 shares its",
        ),
    ],
)
def test_a_bad_value_is_named(values: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _recipe(**values)


def test_sizes_in_a_file(tmp_path: Path) -> None:
    """`config=` reads a file of `BertConfig.save`; the recipe sets the vocabulary size."""
    path = tmp_path / "sizes.json"
    TINY.replace(max_positions=200).save(path)
    recipe = _recipe(config=str(path), vocab_size=70)
    assert recipe.sizes() == TINY.replace(max_positions=200, vocab_size=70)
    assert _recipe(config=str(path), max_positions=128).sizes().max_positions == 128
    for text, message in {
        "{": "config cannot be read: .*not JSON",
        "[]": "config cannot be read: .*expected a JSON object",
        '{"depth": 3}': "config is not of a model: Unknown config values: depth",
        '{"num_layers": 100000}': "config is not of a model: `num_layers` must be .* at most 512",
    }.items():
        path.write_text(text)
        with pytest.raises(UsageError, match=message):
            _recipe(config=str(path))


def test_a_key_of_older_recipes_is_answered_with_todays(tmp_path: Path) -> None:
    keys = (
        dataclasses.asdict(_recipe()),
        dataclasses.asdict(FinetuneRecipe(task="text_classification")),
    )
    for old, new in RENAMED.items():
        for known in (each for each in keys if new in each):
            with pytest.raises(
                UsageError, match=rf"^{old}= is called {new}= now\. Received: '{old}="
            ):
                parse_overrides([f"{old}=x"], known)
        assert any(new in each for each in keys)
        assert not any(old in each for each in keys)
    for old, new in RENAMED_TASKS.items():
        with pytest.raises(
            UsageError, match=rf"^task is called {new} now\. Received: task='{old}'"
        ):
            FinetuneRecipe(task=old)
        assert new in TASK_NAMES
    path = tmp_path / "old.py"
    body = "PretrainRecipe(corpus='demo', steps=100, preset='bert_tiny_uncased')"
    path.write_text(
        f"from bert_keras.training.pretrain_recipe import PretrainRecipe\nrecipe = {body}\n"
    )
    with pytest.raises(
        UsageError,
        match=r"old\.py: PretrainRecipe has no key preset=\. It is called config= now\.$",
    ):
        load_recipe(str(path))
    path.write_text(path.read_text().replace("preset=", "lr="))
    with pytest.raises(UsageError, match=r"no key lr=\. Did you mean 'learning_rate'\?$"):
        load_recipe(str(path))


def test_values_at_the_edge_of_what_is_allowed() -> None:
    _recipe(
        dropout=0.0,
        clip_norm=0.0,
        warmup_steps=100,
        max_predictions_per_seq=0,
        seed=0,
        ema_momentum=0.0,
    )
    _recipe(sequence_length=600, max_positions=1024)


def test_own_sizes_stand_beside_those_of_config() -> None:
    usual = _recipe().sizes()
    own = _recipe(hidden_size=64, num_layers=3, num_heads=2, intermediate_size=96, vocab_size=50)
    expected = usual.replace(
        hidden_size=64, num_layers=3, num_heads=2, intermediate_size=96, vocab_size=50
    )
    assert own.sizes() == expected
    assert own.sizes().embedding_size == 64
    assert own.sizes().unique_layers == 3
    with pytest.raises(UsageError, match=r"config does not fit: .*num_heads"):
        _recipe(hidden_size=65, num_heads=2)


def test_choices_are_those_of_the_library() -> None:
    from bert_keras import data, optimization
    from bert_keras.data import fill_mask, pretraining

    choices = {field.name: rule.choices for field, rule in rules_of(PretrainRecipe)}
    assert set(choices["optimizer"]) == set(optimization.OPTIMIZERS)
    assert set(choices["schedule"]) <= set(optimization.SCHEDULES)
    assert set(choices["layout"]) == set(data.LAYOUTS)
    assert set(choices["masking"]) == set(fill_mask.UNITS)
    assert set(choices["loss"]) == set(pretraining.LOSSES)


def _file(folder: Path, body: str) -> str:
    path = folder / "mine.py"
    path.write_text(f'"""A recipe."""\nfrom bert_keras.training import PretrainRecipe\n{body}\n')
    return str(path)


def test_a_recipe_file_by_its_path(tmp_path: Path) -> None:
    recipe = load_recipe(_file(tmp_path, 'recipe = PretrainRecipe(corpus="x", steps=50)'))

    assert recipe == PretrainRecipe(corpus="x", steps=50, name="mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_a_recipe_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _file(tmp_path, 'recipe = PretrainRecipe(corpus="x", steps=50, name="other")')
    (tmp_path / "__init__.py").touch()
    monkeypatch.setattr(module, "FOLDER", tmp_path)

    assert known_recipes() == ["mine"]
    assert load_recipe("mine").name == "other"
    with pytest.raises(UsageError, match=r"'mien'. Did you mean 'mine'\? Known recipes: mine;"):
        load_recipe("mien")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("recipe = (", r"mine.py, line 3: the file is not valid Python: '\(' was never closed"),
        (
            "recipes = 1",
            r"mine.py: must define recipe = PretrainRecipe\(…\). Received: recipe=None",
        ),
        ("recipe = {}", "Received: recipe={}"),
        ("import nothing_of_that_name", "mine.py: ModuleNotFoundError: No module named"),
        ("from training.recipe import x", r"Write: from bert_keras.training import Pretrain"),
        ('recipe = PretrainRecipe(corpus="x", steps=0)', "mine.py: UsageError: steps must be"),
        (
            'recipe = PretrainRecipe(corpus="x", stesp=0)',
            r"mine.py: PretrainRecipe has no key stesp=\. Did you mean 'steps'",
        ),
    ],
)
def test_a_bad_recipe_file_is_named(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_recipe(_file(tmp_path, body))


def test_a_missing_recipe_file() -> None:
    with pytest.raises(UsageError, match=r"There is no recipe file nowhere/mine[.]py"):
        load_recipe("nowhere/mine.py")


def test_quicktest_keeps_what_makes_the_recipe_and_shrinks_the_rest() -> None:
    recipe = _recipe(
        name="mine",
        steps=100_000,
        warmup_steps=10_000,
        masking="span",
        loss="sop",
        out="runs/x",
    )
    quick = quicktest(recipe)

    assert (quick.masking, quick.loss) == ("span", "sop")
    assert (quick.corpus, quick.name, quick.out) == ("demo", "mine_quicktest", "")
    assert quick.steps <= 10
    assert quick.sequence_length <= 32


@pytest.mark.parametrize("name", PRESETS)
def test_quicktest_has_a_tiny_model_of_the_family(name: str) -> None:
    quick = quicktest(_recipe(config=name, loss="mlm")).sizes()
    assert quick.hidden_size <= 192
    for first, second in (("table_size", "hidden_size"), ("key_value_heads", "num_heads")):
        whole = getattr(PRESETS[name], first) == getattr(PRESETS[name], second)
        assert (getattr(quick, first) == getattr(quick, second)) == whole
    assert quick.num_layers == 2
    same = {key: getattr(PRESETS[name], key) for key in _KIND}
    assert {key: getattr(quick, key) for key in _KIND} == same


def test_every_recipe_loads_and_has_its_quicktest() -> None:
    for name in known_recipes():
        assert quicktest(load_recipe(name)).steps <= 10
