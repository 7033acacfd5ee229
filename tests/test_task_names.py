"""The list of the tasks is whole, and every place that names tasks has its names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import bert_keras as bk
from bert_keras import BertEncoder, Predictor, SequenceClassifier, TokenClassifier, Tokenizer
from bert_keras.checkpoints import hugging_face_names
from bert_keras.models import Task, compiling, text_fit
from bert_keras.task_names import (
    FINETUNED,
    FINETUNING,
    PRETRAINED,
    SHARED_FILES,
    WIDTH,
    WITHOUT_FILE,
    tasks_of_class,
)
from bert_keras.training.finetune_recipe import TASK_NAMES, FinetuneRecipe
from bert_keras.training.recipe_base import RENAMED_TASKS, rules_of
from tests.models.test_text_fit import CONFIG
from tests.tokenizers.samples import VOCABULARY

_CLASSES = sorted(
    name
    for name in bk.__all__
    if isinstance(getattr(bk, name), type) and issubclass(getattr(bk, name), Task)
)


@pytest.mark.parametrize("name", _CLASSES)
def test_every_task_class_has_a_name(name: str) -> None:
    assert tasks_of_class(name)


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_has_the_name_of_its_task(name: str) -> None:
    assert getattr(bk, name).task_name in tasks_of_class(name)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"num_classes": 2}, "text_classification"),
        ({"num_classes": 1}, "text_regression"),
        ({"num_classes": 2, "problem": "multi_label"}, "multi_label_classification"),
    ],
)
def test_an_object_has_the_name_of_its_variant(options: dict[str, Any], name: str) -> None:
    assert SequenceClassifier(BertEncoder(CONFIG), **options).task_name == name


def test_every_name_is_of_a_task_class() -> None:
    for classes in (*FINETUNED.values(), *PRETRAINED.values()):
        assert set(classes) <= set(_CLASSES)
    assert not FINETUNED.keys() & PRETRAINED.keys()


def test_recipes_have_these_names() -> None:
    assert tuple(FINETUNED) == TASK_NAMES
    assert set(RENAMED_TASKS.values()) <= set(FINETUNED)
    named = {task for _, rule in rules_of(FinetuneRecipe) for task in rule.tasks}
    assert named <= set(FINETUNED)
    (rule,) = (rule for field, rule in rules_of(FinetuneRecipe) if field.name == "task")
    assert tuple(rule.choices) == TASK_NAMES
    assert next(rules_of(FinetuneRecipe))[0].name == "task"


# === A floor has a file with the task's name where it has code of that task.

# Every name of a task that files may have.
_FILES = {SHARED_FILES.get(name, name) for name in (*FINETUNED, *PRETRAINED)}


@pytest.mark.parametrize("floor", WITHOUT_FILE)
def test_a_floor_has_a_file_for_each_task_or_says_why_not(floor: str) -> None:
    folder = Path(bk.__file__).parent / floor
    present = {name for name in _FILES if (folder / f"{name}.py").is_file()}
    assert present | WITHOUT_FILE[floor].keys() == _FILES
    assert not present & WITHOUT_FILE[floor].keys()
    assert all(WITHOUT_FILE[floor].values())


def test_every_task_is_in_the_table() -> None:
    assert SHARED_FILES.keys() <= {*FINETUNED, *PRETRAINED}
    root = Path(bk.__file__).parent
    folders = {path.parent for name in _FILES for path in root.rglob(f"{name}.py")}
    folders -= {root / "training"}  # fill_mask.py is the program `bert-keras fill-mask`
    assert folders == {root / floor for floor in WITHOUT_FILE}


# === Tables by class or by method have every task.


@pytest.mark.parametrize("name", _CLASSES)
def test_a_checkpoint_may_hold_every_task(name: str) -> None:
    assert name in hugging_face_names.CLASSES


@pytest.mark.parametrize("name", _CLASSES)
def test_the_predictor_has_the_method_that_answers(name: str) -> None:
    task: Any = getattr(bk, name)
    if task.answers_texts:
        assert hasattr(Predictor, task.answers_with or "encode")


@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_the_predictor_has_the_method_of_every_problem(problem: str) -> None:
    classes = 1 if problem == "regression" else 2
    task = SequenceClassifier(BertEncoder(CONFIG), classes, problem=problem)
    assert hasattr(Predictor, task.answer_method())


# === Recipes and `fit` have the same default values.


_NAMES = [field.name for field in dataclasses.fields(FINETUNING)]


@pytest.mark.parametrize("name", [name for name in _NAMES if "learning_rate" not in name])
def test_a_recipe_has_the_default(name: str) -> None:
    recipe = FinetuneRecipe(task="text_classification")
    assert getattr(recipe, name) == getattr(FINETUNING, name)


@pytest.mark.parametrize("task", TASK_NAMES)
def test_the_rate_of_a_task(task: str) -> None:
    is_tags = task == "token_classification"
    rate = FINETUNING.tags_learning_rate if is_tags else FINETUNING.learning_rate
    assert FINETUNING.learning_rate_of(task) == rate
    assert FinetuneRecipe(task=task).learning_rate == 0.0  # which is the default
    base = FINETUNING.base_tags_learning_rate if is_tags else FINETUNING.base_learning_rate
    for width, expected in ((64, rate), (WIDTH, rate), (768, base)):
        assert FINETUNING.learning_rate_of(task, width) == pytest.approx(expected)
    rates = [FINETUNING.learning_rate_of(task, width) for width in (384, 512, 768, 1024)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(1.93e-5 if is_tags else 1.41e-5, rel=0.01)


def test_a_token_classifier_has_the_rate_of_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = Tokenizer(VOCABULARY)
    task = TokenClassifier(BertEncoder(CONFIG), labels=["O", "B-X"], tokenizer=tokenizer)
    task.fit([["hello", "mask"]], [["O", "B-X"]], verbose=2)
    assert f"a rate of {FINETUNING.tags_learning_rate:g} with" in capsys.readouterr().out


def test_fit_has_the_defaults() -> None:
    assert compiling.FINETUNING is text_fit.FINETUNING is FINETUNING


def test_fit_reads_texts_by_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIG.replace(max_positions=2 * FINETUNING.max_length)
    tokenizer = Tokenizer(VOCABULARY)
    task = SequenceClassifier(BertEncoder(config), 2, labels=["bad", "good"], tokenizer=tokenizer)
    encoded: dict[str, Any] = {}

    def encode(self: Any, *_: Any, **options: Any) -> Any:
        encoded.update(options)
        raise InterruptedError

    monkeypatch.setattr(text_fit.FitsText, "_encoded", encode)
    with pytest.raises(InterruptedError):
        task.fit(["hello", "mask"], ["good", "bad"], verbose=0)
    assert encoded["max_length"] == FINETUNING.max_length
    assert encoded["batch_size"] == FINETUNING.batch_size


def test_fit_updates_by_the_defaults() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    task = SequenceClassifier(BertEncoder(CONFIG), 2, labels=["bad", "good"], tokenizer=tokenizer)
    task.fit(["hello", "mask"] * 10, ["good", "bad"] * 10, batch_size=1, verbose=0)
    rule = task.optimizer.get_config()
    schedule = rule["learning_rate"]["config"]
    assert schedule["learning_rate"] == FINETUNING.learning_rate
    assert schedule["warmup_steps"] == round(FINETUNING.warmup * 20)
    assert schedule["schedule"] == FINETUNING.schedule
    assert rule["weight_decay"] == FINETUNING.weight_decay
    assert rule["global_clipnorm"] == FINETUNING.clip_norm
