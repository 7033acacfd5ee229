"""The peer of finetune_parity: transformers on PyTorch, as its documentation fine-tunes.

Dynamic padding, PyTorch's fused AdamW without decay of biases and LayerNorm, warm-up and linear
decay, gradients clipped; every value is the recipe's. Put to the same metrics as ours.
"""

from __future__ import annotations

import random
from time import perf_counter
from typing import Any

import torch
import transformers

from benchmarks.finetune_peer_tasks import WORKS, Features, padded
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.kinds import Kind

_UNDECAYED = ("bias", "LayerNorm.weight")


def run(recipe: FinetuneRecipe, kind: Kind, data: Data, encoder: str, seed: int) -> dict[str, Any]:
    """Trains and measures with one seed; seconds of the training, tokenisation included."""
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    work = WORKS[recipe.task](recipe, data, tokenizer)
    model = work.model(encoder)
    start = perf_counter()
    rows = work.training_rows()
    _train(recipe, model, tokenizer, rows, seed)
    seconds = perf_counter() - start
    model.eval()
    found = kind.evaluate(work.predictor(model), data.dev)
    return {"metrics": dict(found.metrics), "seconds": seconds, "rows": len(rows)}


def _train(recipe: FinetuneRecipe, model: Any, tokenizer: Any, rows: Features, seed: int) -> None:
    steps = recipe.epochs * -(-len(rows) // recipe.batch_size)
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if _is_decayed(n)], "weight_decay": recipe.weight_decay},
        {"params": [p for n, p in named if not _is_decayed(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(recipe.warmup * steps), steps
    )
    order = random.Random(seed)
    model.train()
    for _ in range(recipe.epochs):
        numbers = list(range(len(rows)))
        order.shuffle(numbers)
        for first in range(0, len(numbers), recipe.batch_size):
            batch = [rows[number] for number in numbers[first : first + recipe.batch_size]]
            loss = model(**padded(tokenizer, batch)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def _is_decayed(name: str) -> bool:
    return not any(part in name for part in _UNDECAYED)
