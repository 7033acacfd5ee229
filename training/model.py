"""The model of a run."""

from __future__ import annotations

import numpy as np

from bert_keras.features import PAIR_OBJECTIVES
from bert_keras.models import BertEncoder, ElectraPretrainer, MaskedLM, Pretrainer, Task
from bert_keras.optimization import optimizer
from bert_keras.presets import PRESETS
from training.recipe import PretrainRecipe


def build(recipe: PretrainRecipe, vocab_size: int) -> Task:
    """A new, compiled task: the recipe's model, objective and optimizer.

    Args:
        recipe: what to train.
        vocab_size: of the tokenizer, learned or given.
    """
    preset = PRESETS[recipe.preset]
    config = preset.replace(
        vocab_size=vocab_size,
        dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        initializer_range=recipe.initializer_range,
        max_positions=recipe.max_positions or preset.max_positions,
        pooler=recipe.objective in PAIR_OBJECTIVES,  # nothing else would train it
        family="electra" if recipe.objective == "rtd" else preset.family,
    )
    encoder = BertEncoder(config, dtype=recipe.precision)
    if recipe.objective == "mlm":
        task = MaskedLM(encoder)
    elif recipe.objective == "rtd":
        task = ElectraPretrainer(encoder, generator_size=recipe.generator_size)
    else:
        task = Pretrainer(encoder, objective=recipe.objective)
    task.compile(
        optimizer(
            recipe.learning_rate,
            total_steps=recipe.steps // recipe.accumulate,
            warmup_steps=recipe.warmup_steps // recipe.accumulate,
            schedule=recipe.schedule,
            name=recipe.optimizer,
            weight_decay=recipe.weight_decay,
            clip_norm=recipe.clip_norm or None,
            accumulate=recipe.accumulate,
            ema=recipe.ema,
        ),
        jit_compile={"auto": "auto", "true": True, "false": False}[recipe.jit],
        **task.objective(),
    )
    return task


def start_from_frequencies(task: Task, log_shares: np.ndarray) -> None:
    """Lets a new MLM head begin with the tokens' frequencies, the best guess without context.

    With a bias of zeros the first hundreds of steps are spent on learning them, and all rows of
    the token table are pushed one way for it.

    Args:
        task: a new model with an MLM head.
        log_shares: of `unigram.log_shares`; -inf becomes the lowest of the others.
    """
    lowest = log_shares[np.isfinite(log_shares)].min()
    bias = np.maximum(log_shares, lowest)
    task.mlm.bias.assign((bias - bias.mean()).astype(np.float32))  # a softmax ignores the mean
