"""The grid of tried values: its combinations, and words that are refused."""

from __future__ import annotations

import pytest

from bert_keras.errors import UsageError, message_of
from bert_keras.training.finetune_grid import (
    OF_EXAMPLES,
    Grid,
    GridPoint,
    read_grid,
    shown,
    split_words,
    untried_reason,
)
from bert_keras.training.finetune_recipe import FinetuneRecipe, usual_values
from bert_keras.training.recipe_base import rules_of
from bert_keras.training.recipe_files import parse_overrides
from bert_keras.training.run_folder import FinetuneFolder

_TASK = "text_classification"


def _recipe(words: list[str]) -> tuple[FinetuneRecipe, set[str]]:
    values = FinetuneRecipe(task=_TASK).values()
    return FinetuneRecipe(**parse_overrides(words, values)), {"--dry-run"}


def _grid(*tried: str, others: tuple[str, ...] = ()) -> Grid:
    return read_grid([f"try={text}" for text in tried], others, _recipe)[0]


def test_words_of_the_grid_are_apart_from_the_others() -> None:
    words = ["sst2", "try=learning_rate=1", "seeds=3", "try=epochs=1,2", "--dry-run"]
    tried, others = split_words(words)
    assert tried == ["try=learning_rate=1", "try=epochs=1,2"]
    assert others == ["sst2", "seeds=3", "--dry-run"]
    assert read_grid(["try=epochs=1,2"], [], _recipe)[1] == {"--dry-run"}


def test_every_combination_is_a_point() -> None:
    grid = _grid("learning_rate=2e-5,1e-5 batch_size=16,32", others=("seeds=3",))
    values = [(point.recipe.batch_size, point.recipe.learning_rate) for point in grid.points]
    assert values == [(16, 2e-5), (16, 1e-5), (32, 2e-5), (32, 1e-5)]
    assert {point.recipe.seeds for point in grid.points} == {3}
    assert grid.tried() == {"batch_size": [16, 32], "learning_rate": [2e-5, 1e-5]}
    assert grid.points[0].label == "batch_size=16 learning_rate=2e-05"


def test_several_words_and_another_order_are_the_same_grid() -> None:
    first = _grid("learning_rate=2e-5,1e-5 batch_size=16,32")
    assert _grid("batch_size=16,32", "learning_rate=0.00002,0.00001") == first


def test_a_bar_separates_values_with_commas() -> None:
    layers = [point.values["layers"] for point in _grid("layers=0,5|0,3,5").points]
    assert layers == ["0,5", "0,3,5"]


def test_quotes_keep_a_space() -> None:
    encoders = [point.recipe.encoder for point in _grid("encoder='my bert|other'").points]
    assert encoders == ["my bert", "other"]


def test_a_folder_is_named_by_its_values() -> None:
    """The name has no character that a file system or a command line reads as something else."""
    (point, _) = _grid("learning_rate=1e-5,2e-5 freeze=true").points
    assert point.folder == "try-freeze-true+learning_rate-1e-05"
    handles = ["runs/a", "runs_a", "runs a", "é" * 300, "é" * 301, "b\udcffd"]
    points = [GridPoint({"encoder": handle}, point.recipe) for handle in handles]
    folders = [point.folder for point in points]
    assert len(set(folders)) == len(handles)
    for folder in folders:
        assert not set(folder) & set("=,/\\ ")
        assert len(folder.encode()) < 256
    again = [GridPoint({"encoder": handle}, point.recipe).folder for handle in handles]
    assert again == folders


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (1e-5, "1e-05"), (0.1, "0.1"), (1 / 3, repr(1 / 3)), (3, "3"), ("a", "a")],
)
def test_a_value_is_shown_as_a_command_has_it(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize("name", [field.name for field, _ in rules_of(FinetuneRecipe)])
def test_a_key_is_tried_or_refused_with_a_reason(name: str) -> None:
    """A refused key has no effect on the scores, or decides what is measured."""
    if reason := untried_reason(name):
        with pytest.raises(UsageError, match=rf"try= cannot have {name}: it {reason}\."):
            _grid(f"{name}=1")
        return
    assert name not in FinetuneFolder.free
    default = usual_values()[name]
    choices = {field.name: rule.choices for field, rule in rules_of(FinetuneRecipe)}[name]
    text = shown(default) if default != "" else next(filter(None, choices or ()), "1")
    task = {"loss": ("task=retrieval", "pair=pair")}.get(name, ())
    assert list(_grid(f"{name}={text}", others=task).points[0].values) == [name]


def test_the_examples_to_measure_on_are_the_same_for_all() -> None:
    sections = {field.name: rule.section for field, rule in rules_of(FinetuneRecipe)}
    tried = {name for name in sections if not untried_reason(name)}
    assert {name for name in tried if sections[name] == "Task and data"} == set(OF_EXAMPLES)
    assert not any(sections[name] == "Files" for name in tried)
    assert {"learning_rate", "batch_size", "epochs", "encoder", "max_length", "layers"} <= tried


BAD = [
    (("learning_rat=1",), "unknown key. Received: 'learning_rat'. Did you mean 'learning_rate'?"),
    (("lr=1",), "unknown key. Received: 'lr'. Did you mean 'learning_rate'?"),
    (("objective=1",), "unknown key. Received: 'objective'"),
    (("learning_rate=1e-3,0.001",), "twice. Received: learning_rate=1e-3 and learning_rate=0.001"),
    (("epochs=1,2,1",), "twice. Received: epochs=1 and epochs=1. Leave one out."),
    (("epochs=1", "epochs=2"), "try= has epochs twice. Received: 'epochs=2'"),
    (("learning_rate=abc,1",), "learning_rate must be a number. Received: 'abc'"),
    (("epochs=1,0",), "epochs must be at least 1. Received: epochs=0."),
    (("crf=true",), "crf is for token_classification alone"),
    (("epochs",), "try= must hold KEY=VALUE,VALUE,… Received: 'epochs'"),
    (("epochs=1, 2",), "try= has an empty value of epochs. Received: 'epochs=1,'"),
    (("",), "try= is empty"),
    (("encoder='a",), "try= has an open quote"),
    (("jit=1",), "It is called jit_compile= now"),
]


@pytest.mark.parametrize(("tried", "message"), BAD)
def test_wrong_words_are_named(tried: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _grid(*tried)
    assert message in str(caught.value)


def test_a_refused_combination_is_named() -> None:
    with pytest.raises(UsageError, match="patience must be 0 with keep='last'") as caught:
        _grid("patience=0,2 keep=best,last")
    assert message_of(caught.value).endswith("these values of try=: keep=last patience=2")
    with pytest.raises(UsageError, match="epochs= is given twice"):
        _grid("epochs=1,2", others=("epochs=3",))


def test_no_value_is_needed_beside_the_tried_ones() -> None:
    """Values that do not fit the default of a tried key are fine with every tried value."""
    recipe = FinetuneRecipe(task="question_answering").values()

    def read(words: list[str]) -> tuple[FinetuneRecipe, set[str]]:
        return FinetuneRecipe(**parse_overrides(words, recipe)), set()

    words = ["max_length=32"]
    with pytest.raises(UsageError, match="max_question"):
        read(words)
    grid, _ = read_grid(["try=max_question=8,16"], words, read)
    assert [point.recipe.max_question for point in grid.points] == [8, 16]
