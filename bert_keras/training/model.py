"""The model of a run."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from bert_keras.errors import UsageError
from bert_keras.features import PAIR_LOSSES
from bert_keras.models import (
    BertEncoder,
    ChunkedTask,
    ElectraPretrainer,
    MaskedLM,
    PackedTask,
    Pretrainer,
    Task,
)
from bert_keras.optimization import optimizer
from bert_keras.training.recipe import PretrainRecipe
from bert_keras.training.values import JIT

# Heads that a checkpoint may have, and a new task need not.
_HEADS = ("mlm", "nsp", "sop", "rtd", "label", "tags", "span", "choice", "pooler")


def build(recipe: PretrainRecipe, vocab_size: int) -> Task:
    """The recipe's model, new or begun.

    Args:
        recipe: what to train.
        vocab_size: of the tokenizer, learned or given.
    """
    task = _begun(recipe, vocab_size) if recipe.init_checkpoint else _new(recipe, vocab_size)
    task.encoder.checkpoint_gradients(recipe.gradient_checkpointing)
    return task


def learner(recipe: PretrainRecipe, task: Task) -> Task | PackedTask | ChunkedTask:
    """Return the compiled model to fit: the task or a view of it."""
    model: Any = task.packed() if recipe.packed_length else task
    if recipe.loss_chunks > 1:
        model = model.loss_chunks(recipe.loss_chunks)
    model.compile(
        optimizer(
            recipe.learning_rate,
            total_steps=recipe.steps // recipe.gradient_accumulation_steps,
            warmup_steps=recipe.warmup_steps // recipe.gradient_accumulation_steps,
            schedule=recipe.schedule,
            name=recipe.optimizer,
            weight_decay=recipe.weight_decay,
            clip_norm=recipe.clip_norm or None,
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
            ema_momentum=recipe.ema_momentum,
        ),
        jit_compile=JIT[recipe.jit_compile],
        **model.loss_and_metrics(),
    )
    return model


def _begun(recipe: PretrainRecipe, vocab_size: int) -> Task:
    """The checkpoint to go on from; heads that it has not are new."""
    kind = MaskedLM if recipe.loss == "mlm" else Pretrainer
    options: dict[str, Any] = {} if kind is MaskedLM else {"loss": recipe.loss}
    try:
        task = kind.from_preset(
            recipe.init_checkpoint,
            plain=True,
            dtype=recipe.precision,
            allow_missing=(*kind.head_layers, "pooler"),
            allow_unused=_HEADS,
            **options,
        )
    except ValueError as error:
        raise UsageError(f"init_checkpoint={recipe.init_checkpoint}: {error}") from error
    config = task.encoder.config
    if config.vocab_size != vocab_size or recipe.sequence_length > config.max_positions:
        raise UsageError(
            f"init_checkpoint={recipe.init_checkpoint} reads {config.vocab_size} pieces and "
            f"{config.max_positions} positions. Received: a vocabulary of {vocab_size}, "
            f"sequence_length={recipe.sequence_length}"
        )
    return task


def _new(recipe: PretrainRecipe, vocab_size: int) -> Task:
    sizes = recipe.sizes()
    config = sizes.replace(
        vocab_size=vocab_size,
        dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        initializer_range=recipe.initializer_range,
        pooler=recipe.loss in PAIR_LOSSES,  # nothing else would train it
        family="electra" if recipe.loss == "rtd" else sizes.family,
    )
    encoder = BertEncoder(config, dtype=recipe.precision)
    if recipe.loss == "mlm":
        return MaskedLM(encoder)
    if recipe.loss == "rtd":
        return ElectraPretrainer(encoder, generator_size=recipe.generator_size)
    return Pretrainer(encoder, loss=recipe.loss)


def start_from_frequencies(task: Task, log_shares: np.ndarray) -> None:
    """Lets a new MLM head begin with the tokens' frequencies, the best guess without context.

    One that has learned, as the bias says, stays as it is.

    With a bias of zeros the first hundreds of steps are spent on learning them, and all rows of
    the token table are pushed one way for it.

    Args:
        task: a new model with an MLM head.
        log_shares: of `unigram.log_shares`; -inf becomes the lowest of the others.
    """
    if np.any(keras.ops.convert_to_numpy(task.mlm.bias)):
        return
    lowest = log_shares[np.isfinite(log_shares)].min()
    bias = np.maximum(log_shares, lowest)
    task.mlm.bias.assign((bias - bias.mean()).astype(np.float32))  # a softmax ignores the mean
