"""Recipes and `fit` have the same default values."""

from __future__ import annotations

import dataclasses

import pytest

from bert_keras.defaults import FINETUNING
from bert_keras.models import auto_compile, text_fit
from training.finetune_recipe import FinetuneRecipe


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(FINETUNING)])
def test_a_recipe_has_the_default(name: str) -> None:
    recipe = FinetuneRecipe(task="text_classification")
    assert getattr(recipe, name) == getattr(FINETUNING, name)


def test_fit_has_the_defaults() -> None:
    assert auto_compile.FINETUNING is text_fit.FINETUNING is FINETUNING
