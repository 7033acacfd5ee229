"""Behaviour that all kinds share."""

from __future__ import annotations

import importlib.util

import pytest

from bert_keras.errors import UsageError
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.kinds import KINDS, kind_of


@pytest.mark.parametrize("task", KINDS)
def test_a_package_that_is_missing_is_named_before_anything_is_done(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = FinetuneRecipe(task=task)
    assert isinstance(kind_of(recipe), KINDS[task])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    if KINDS[task].packages:
        with pytest.raises(
            UsageError, match=rf"task={task} is measured with .*bert-keras\[finetune"
        ):
            kind_of(recipe)
    else:
        kind_of(recipe)
