"""The model of a run."""

from __future__ import annotations

from bert_keras.models import BertEncoder, MaskedLM, Pretrainer, Task
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
        max_positions=recipe.max_positions or preset.max_positions,
        pooler=recipe.objective != "mlm",  # nothing would train it
    )
    encoder = BertEncoder(config, dtype=recipe.precision)
    if recipe.objective == "mlm":
        task = MaskedLM(encoder)
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
