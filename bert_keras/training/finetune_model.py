"""Model of a fine-tuning run: a new head over the encoder of a recipe, and its teacher.

A dry run builds the same model without weights: what the run refuses, it refuses.
"""

from __future__ import annotations

from typing import Any

from bert_keras.checkpoints import load_opened, open_checkpoint
from bert_keras.compatibility import checked_length, encoder_of
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.models import BertEncoder, Distiller, SentenceEncoder, SentencePairs, Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.kinds import Kind


def tokenizer_of(recipe: FinetuneRecipe) -> Tokenizer:
    """Return the tokenizer of the recipe's encoder.

    Raises:
        ArtifactError: there is none, or a damaged one.
    """
    try:
        return Tokenizer.from_preset(recipe.encoder)
    except ArtifactError as error:
        raise ArtifactError(f"encoder={recipe.encoder}: {error}") from error


def build_task(
    recipe: FinetuneRecipe,
    kind: Kind,
    labels: list[str] | None,
    tokenizer: Tokenizer,
    *,
    load_weights: bool = True,
) -> Task:
    """Build the task that a recipe trains, over its encoder.

    Args:
        recipe: names the encoder, and says what moves in it.
        kind: of the recipe.
        labels: their names; None where the task has none.
        tokenizer: of the encoder.
        load_weights: False to read the config alone: new, random weights.

    Raises:
        UsageError: encoder, tokenizer and values of the recipe do not fit together.
        ArtifactError: no such encoder, or a damaged one.
    """
    encoder = open_encoder(recipe, load_weights=load_weights)
    _check(recipe, encoder, tokenizer)
    encoder.trainable = not recipe.freeze
    if recipe.lora:
        encoder.enable_lora(recipe.lora)
    try:
        return kind.build(encoder, labels)
    except ValueError as error:
        raise UsageError(f"encoder={recipe.encoder}: {error}") from error


def open_encoder(recipe: FinetuneRecipe, *, load_weights: bool = True) -> BertEncoder:
    """Open the encoder of a recipe, with the layers that the recipe keeps.

    Raises:
        UsageError: there are no such layers.
        ArtifactError: no such encoder, or a damaged one.
    """
    # What is frozen or adapted is the recipe's decision.
    encoder = BertEncoder.from_preset(
        recipe.encoder, dtype=recipe.precision, plain=True, load_weights=load_weights
    )
    if recipe.layers:
        try:
            encoder = encoder.keep_layers([int(number) for number in recipe.layers.split(",")])
        except ValueError as error:
            raise UsageError(f"layers={recipe.layers}: {error}") from error
    encoder.checkpoint_gradients(recipe.gradient_checkpointing)
    return encoder


def distiller_of(
    recipe: FinetuneRecipe, task: Task, tokenizer: Tokenizer, *, load_weights: bool = True
) -> Distiller:
    """Return the task as the student of the recipe's teacher.

    Raises:
        UsageError: the teacher does not fit the task or the tokenizer.
        ArtifactError: no such teacher, or a damaged one.
    """
    opened = open_checkpoint(recipe.teacher)
    is_encoder_of_pairs = opened.class_name == SentenceEncoder.__name__
    options: dict[str, Any] = {"dtype": recipe.precision, "load_weights": load_weights}
    if isinstance(task, SentencePairs) and is_encoder_of_pairs:  # all that such runs keep
        loss = task.options["loss"]
        teacher: Any = SentencePairs.from_preset(recipe.teacher, loss=loss, **options)
    else:
        teacher = load_opened(opened, **options)
    if Tokenizer.from_preset(recipe.teacher) != tokenizer:
        raise UsageError(f"teacher={recipe.teacher}: reads other tokens than {recipe.encoder}.")
    if not isinstance(teacher, Task):
        raise UsageError(f"teacher={recipe.teacher}: an encoder, which has no answers.")
    values = {"temperature": recipe.temperature, "alpha": recipe.alpha, "hidden": recipe.hidden}
    try:
        checked_length(recipe.max_length, teacher.encoder)
        return Distiller(task, teacher, **values)
    except ValueError as error:
        raise UsageError(f"teacher={recipe.teacher}: {error}") from error


def _check(recipe: FinetuneRecipe, encoder: BertEncoder, tokenizer: Tokenizer) -> None:
    """Check that encoder, tokenizer and values fit together, before anything is computed."""
    try:
        encoder_of(encoder, tokenizer)
        checked_length(recipe.max_length, encoder)
    except ValueError as error:
        raise UsageError(f"encoder={recipe.encoder}: {error}") from error
    for name in ("layer_decay", "unfreeze_every", "lora"):
        if getattr(recipe, name) and recipe.freeze:
            raise UsageError(f"{name} is of the encoder's blocks, which freeze=true leaves alone.")
    if (name := recipe.of_a_teacher) and not recipe.teacher:
        value = getattr(recipe, name)
        raise UsageError(f"{name}={value:g} compares with a teacher: name teacher=HANDLE.")
    if recipe.schedule == "slanted_triangular" and recipe.warmup:
        raise UsageError("schedule=slanted_triangular rises by itself: give warmup=0 with it.")
