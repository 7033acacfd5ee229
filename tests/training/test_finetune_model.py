"""The model of a fine-tuning run: its encoder, its head, its teacher."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bert_keras import Tokenizer
from bert_keras.errors import UsageError
from bert_keras.models import SequenceClassifier
from bert_keras.training import finetune_model
from bert_keras.training.finetune_folder import recipe_of
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.kinds import kind_of
from tests import contracts, hub


def test_a_name_of_a_preset_is_an_encoder_and_a_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both keys take weights: the name stands for the published ones."""
    hub.offline_cache(tmp_path, monkeypatch)
    recipe = FinetuneRecipe(
        task="text_classification", encoder=hub.NAME, teacher=hub.NAME, max_length=8
    )
    encoder = finetune_model.open_encoder(recipe)
    contracts.assert_same_weights(encoder, hub.published().encoder)
    tokenizer = Tokenizer.from_preset(recipe.encoder)
    task = SequenceClassifier(encoder, 2)
    with pytest.raises(UsageError, match=f"teacher={hub.NAME}: .*Pretrainer"):
        finetune_model.distiller_of(recipe, task, tokenizer)


def test_a_task_is_built_by_the_values_of_its_recipe(finetuned) -> None:
    recipe = recipe_of(finetuned("text_classification"))
    assert recipe is not None
    tokenizer = finetune_model.tokenizer_of(recipe)

    def build(**values: object) -> SequenceClassifier:
        changed = dataclasses.replace(recipe, **values)
        labels = ["bad", "good"]
        task = finetune_model.build_task(changed, kind_of(changed), labels, tokenizer)
        assert isinstance(task, SequenceClassifier)
        return task

    task, frozen, adapted = build(), build(freeze=True), build(lora=2)
    contracts.assert_same_weights(task.encoder, finetune_model.open_encoder(recipe))
    assert task.encoder.trainable_variables
    assert not frozen.encoder.trainable_variables
    assert len(frozen.trainable_variables) > 0
    assert adapted.count_params() > task.count_params()
    with pytest.raises(UsageError, match=r"encoder=.*max_length"):
        build(max_length=10_000)


def test_a_dry_run_reads_no_weights(finetuned) -> None:
    recipe = recipe_of(finetuned("text_classification"))
    assert recipe is not None
    tokenizer = finetune_model.tokenizer_of(recipe)
    labels = ["bad", "good"]
    task = finetune_model.build_task(recipe, kind_of(recipe), labels, tokenizer, load_weights=False)
    whole = finetune_model.build_task(recipe, kind_of(recipe), labels, tokenizer)
    assert task.count_params() == whole.count_params()
    with pytest.raises(AssertionError):
        contracts.assert_same_weights(task.encoder, whole.encoder)
