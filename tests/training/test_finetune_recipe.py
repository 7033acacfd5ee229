"""Fine-tuning recipes: values, error messages, and the quick test."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.errors import UsageError
from bert_keras.training.finetune import quicktest
from bert_keras.training.finetune_recipe import (
    TASK_NAMES,
    FinetuneRecipe,
    known_finetunings,
    load_finetuning,
)
from bert_keras.training.recipe_base import rules_of


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"task": "text_clasification"},
            r"task must be one of text_classification, .*Did you mean 'text_classification'\?",
        ),
        ({"epochs": 0}, "epochs must be at least 1. Received: epochs=0"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"validation_split": 0.0}, "validation_split must be above 0 and below 1"),
        ({"validation_split": 1.0}, "validation_split must be above 0 and below 1"),
        ({"learning_rate": -1.0}, "learning_rate must be at least 0 and finite"),
        ({"warmup": 1.0}, "warmup must be at least 0 and below 1"),
        ({"layer_decay": 1.5}, "layer_decay must be at least 0 and below 1"),
        ({"patience": -1}, "patience must be at least 0"),
        ({"seed": 2**32}, "seed must be below 4,294,967,296"),
        ({"seed": 2**32 - 1, "seeds": 2}, "seeds must leave all seeds below 4,294,967,296"),
        ({"max_length": 7}, "max_length must be at least 8"),
        ({"format": "xls"}, "format must be one of"),
        ({"header": "yes"}, "header must be true or false"),
        ({"max_score": float("nan")}, "max_score must be above 0 and finite"),
        (
            {"task": "multiple_choice", "representation": "mix"},
            "representation is for text_classification, .* alone",
        ),
        ({"task": "retrieval", "freeze": True}, "freeze is for text_classification, .* alone"),
        (
            {"task": "text_regression", "class_weights": "balanced"},
            "class_weights is for text_classification, .* alone",
        ),
        (
            {"task": "question_answering", "text": "words"},
            "text is for text_classification, .* alone. Received: text=",
        ),
        ({"no_answer": True}, "no_answer is for question_answering alone"),
        ({"task": "retrieval", "dropout": 0.0}, "dropout is for text_classification, .* alone"),
        (
            {"task": "question_answering", "format": "jsonl"},
            "format is for text_classification, .* alone",
        ),
        ({"options": "a,b"}, "options is for multiple_choice alone"),
        (
            {"task": "question_answering", "language": "zh", "no_answer": True},
            "no_answer must be false",
        ),
        (
            {"task": "token_classification", "crf": True, "all_pieces": True},
            "all_pieces must be false",
        ),
        (
            {"task": "token_classification", "crf": True, "packing": True},
            "packing must be false with crf=",
        ),
        ({"teacher": "runs/a", "packing": True}, "packing must be false with teacher="),
        (
            {"task": "question_answering", "packing": True},
            "packing is for text_classification, .* alone",
        ),
        ({"freeze": True, "hidden": 0.5}, "hidden must be 0 with freeze=true"),
        ({"task": "retrieval", "loss": "cosent"}, "loss must be in_batch or triplet for retrieval"),
        ({"task": "retrieval", "loss": "triplet"}, "negatives must name one column with loss=trip"),
        (
            {"task": "retrieval", "loss": "triplet", "negatives": "a,b"},
            "negatives must name one column with loss=triplet. Received: negatives='a,b'",
        ),
        (
            {"task": "retrieval", "loss": "triplet", "negatives": "a", "teacher": "runs/a"},
            "loss must be in_batch or similarity with teacher=",
        ),
        ({"negatives": "a"}, "negatives is for retrieval alone"),
        ({"loss": "in_batch"}, "loss is for retrieval, sentence_similarity, text_ranking alone"),
        ({"task": "retrieval", "label": "kind"}, "label is for text_classification, .* alone"),
        (
            {"task": "text_regression", "temperature": 1.0},
            "temperature is for text_classification, .* alone",
        ),
        ({"keep": "last", "patience": 2}, "patience must be 0 with keep='last'"),
        (
            {"task": "question_answering", "max_length": 64},
            "max_question must be at most max_length=64 less 5. Received: max_question=64",
        ),
    ],
)
def test_a_bad_value_is_named(values: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FinetuneRecipe(**{"task": "text_classification", **values})


def test_values_at_the_edge() -> None:
    FinetuneRecipe(task="text_classification", max_length=8, warmup=0, clip_norm=0, patience=0)
    FinetuneRecipe(task="token_classification", tag_column=-3)
    FinetuneRecipe(task="question_answering", max_length=69)
    FinetuneRecipe(task="pair_classification", freeze=True)


def test_choices_are_those_of_the_library() -> None:
    from bert_keras import optimization
    from bert_keras.data import tag_schemes, text_classification
    from bert_keras.layers import pooling
    from bert_keras.training import tasks

    choices = {field.name: rule.choices for field, rule in rules_of(FinetuneRecipe)}
    assert set(choices["optimizer"]) == set(optimization.OPTIMIZERS)
    assert set(choices["schedule"]) <= set(optimization.SCHEDULES)
    assert set(choices["format"]) - {""} == set(
        text_classification.read_rows.__globals__["FORMATS"]
    )
    assert set(choices["scheme"]) - {"auto"} == set(tag_schemes.SCHEMES)
    assert set(TASK_NAMES) == set(tasks.TASKS)
    assert set(choices["pooling"]) == set(pooling.POOLINGS)


def test_every_known_recipe_loads_and_has_its_short_way() -> None:
    for name in known_finetunings():
        recipe = load_finetuning(name)
        assert recipe.name == name
        assert quicktest(recipe).epochs == 2


def test_the_short_way_keeps_what_makes_a_recipe() -> None:
    recipe = FinetuneRecipe(
        task="question_answering",
        max_length=384,
        no_answer=True,
        rows=9,
        epochs=9,
        name="mine",
        out="x",
    )
    quick = quicktest(recipe)
    assert (quick.task, quick.no_answer, quick.out) == ("question_answering", True, "x")
    assert (quick.name, quick.rows, quick.epochs) == ("mine_quicktest", 0, 2)


def test_a_recipe_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from bert_keras.training import PretrainRecipe\nrecipe = PretrainRecipe(steps=50)"
    )
    with pytest.raises(UsageError, match=r"mine\.py: .*"):
        load_finetuning(str(path))


@pytest.mark.parametrize("name", known_finetunings())
def test_a_recipe_takes_files_with_labels_of_any_name(name: str) -> None:
    """Labels are those of the file, so a recipe names none."""
    recipe = load_finetuning(name)
    assert (recipe.positive, recipe.labels) == ("", "")
