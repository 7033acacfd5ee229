"""Validation rules of recipe values, and the values that all recipes share."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from bert_keras.errors import UsageError
from bert_keras.training import FinetuneRecipe, PretrainRecipe
from bert_keras.training.recipe_base import (
    ALIASES,
    RENAMED,
    RunRecipe,
    Section,
    changed,
    check_values,
    fail,
    nearest,
    rules_of,
)


def test_names_of_other_libraries_are_suggested() -> None:
    pretraining, finetuning = (
        {field.name for field in dataclasses.fields(kind)}
        for kind in (PretrainRecipe, FinetuneRecipe)
    )
    assert nearest("batch", finetuning) == " Did you mean 'batch_size'?"
    assert nearest("--max_seq_length", finetuning) == " Did you mean 'max_length'?"
    assert nearest("max_seq_length", pretraining) == " Did you mean 'sequence_length'?"
    assert nearest("model", finetuning) == " Did you mean 'encoder'?"
    both = " Did you mean 'tokenizer_model' or 'init_checkpoint'?"
    assert nearest("model", pretraining) == both
    for alias, names in ALIASES.items():
        assert alias not in pretraining | finetuning | RENAMED.keys()
        assert set(names) <= pretraining | finetuning


# === Values of recipes: types, ranges and messages


_look, _size = Section("Look"), Section("Size")


@dataclasses.dataclass(frozen=True)
class _Values:
    color: str = _look("color of it", "red", choices=("red", "green"))
    name: str = _look("name of it", "anything")
    age: int = _size("years", 3, least=0, bound=150)
    count: int = _size("how many", 1)
    size: float = _size("metres", 2.0, above_zero=True, is_share=False)
    share: float = _size("share", 0.5)
    truth: bool = _look("true", True)
    only: int = _look("of one task", 1, tasks=("paint",))
    task: str = _look("task", "paint")


def test_good_values_pass_and_whole_numbers_become_numbers() -> None:
    values = _Values(size=3, share=0, age=0)
    check_values(values)
    assert (type(values.size), type(values.share), type(values.age)) == (float, float, int)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"color": "rde"}, r"color must be one of red, green. .*'rde'. Did you mean 'red'\?"),
        ({"color": 1}, "color must be text. Received: color=1"),
        ({"age": -1}, "age must be at least 0. Received: age=-1"),
        ({"age": 150}, "age must be below 150"),
        ({"age": 1.0}, "age must be a whole number"),
        ({"age": True}, "age must be a whole number"),
        ({"count": 0}, "count must be at least 1"),
        ({"size": 0.0}, "size must be above 0 and finite"),
        ({"size": float("inf")}, "size must be above 0 and finite"),
        ({"size": float("nan")}, "size must be above 0 and finite"),
        ({"share": 1.0}, "share must be at least 0 and below 1"),
        ({"truth": 1}, "truth must be true or false"),
        ({"only": 2, "task": "draw"}, "only is for paint alone. Received: only=2"),
    ],
)
def test_a_bad_value_is_named(values: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_values(_Values(**values))


def test_words_like_a_bad_one_are_suggested() -> None:
    with pytest.raises(UsageError, match=r"x is wrong. Received: x='abd'. Did you mean 'abc'\?"):
        fail("x", "is wrong", "abd", ("abc", "xyz"))


def test_every_value_has_its_section_and_meaning() -> None:
    rules = {field.name: rule for field, rule in rules_of(_Values)}
    assert (rules["age"].section, rules["age"].meaning) == ("Size", "years")
    assert [field.name for field in dataclasses.fields(_Values)] == list(rules)


@pytest.mark.parametrize("recipe", [PretrainRecipe, FinetuneRecipe])
def test_sections_of_recipes_are_whole(recipe: type) -> None:
    """The values of a section are adjacent, and all values have different meanings."""
    sections = [rule.section for _, rule in rules_of(recipe)]
    assert len(list(itertools.groupby(sections))) == len(set(sections))
    meanings = [rule.meaning for _, rule in rules_of(recipe)]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


# === Values that all recipes share


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run(RunRecipe):
    first: str = _look("own value", "")
    rounds: int = _size("own value before a shared one", 1, before="learning_rate")
    clip_norm: float = changed("clip_norm", 5.0, meaning="another meaning")
    out: str = changed("out", meaning="another folder")


def test_own_values_stand_before_the_shared_one_that_they_name() -> None:
    names = [field.name for field, _ in rules_of(_Run)]
    assert names[:4] == ["first", "batch_size", "rounds", "learning_rate"]
    assert list(_Run().values()) == names
    assert _Run().values() == dataclasses.asdict(_Run())


def test_a_shared_value_with_another_default_and_meaning() -> None:
    rules = {field.name: (field.default, rule) for field, rule in rules_of(_Run)}
    assert (rules["clip_norm"][0], rules["clip_norm"][1].meaning) == (5.0, "another meaning")
    assert rules["clip_norm"][1].is_share is False
    assert rules["out"][0] == ""
    with pytest.raises(UsageError, match="clip_norm must be at least 0"):
        _Run(clip_norm=-1.0)


@pytest.mark.parametrize("recipe", [PretrainRecipe, FinetuneRecipe])
def test_every_value_has_a_place(recipe: type) -> None:
    names = [field.name for field, _ in rules_of(recipe)]
    assert sorted(names) == sorted(field.name for field in dataclasses.fields(recipe))
    shared = [field.name for field, _ in rules_of(RunRecipe)]
    assert [name for name in names if name in shared] == shared
    assert names[-2:] == ["out", "name"]
