"""Ours and the others, each with a step of masked language modelling to repeat.

Each learns from the same rows: full length, 15 % of the tokens to predict, no padding. Every one is
used as its documentation recommends: ours and KerasHub by `fit`, transformers by PyTorch's usual
loop with its fused AdamW.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

VOCABULARY, MASK_ID = 30_522, 103
SIZES: dict[str, dict[str, int]] = {
    "small": {"layers": 4, "width": 256, "heads": 4, "batch": 32, "length": 128, "steps": 6},
    "base": {"layers": 12, "width": 768, "heads": 12, "batch": 8, "length": 128, "steps": 3},
}
_LEARNING_RATE = 1e-4

Round = Callable[[], dict[str, float]]


def rows(size: Mapping[str, int], steps: int) -> dict[str, np.ndarray]:
    """Rows of `steps` batches: ids with masks, where these are, and what stood there."""
    draw = np.random.default_rng(0)
    count, length = steps * size["batch"], size["length"]
    ids = draw.integers(1_000, VOCABULARY, (count, length)).astype(np.int32)
    predictions = round(0.15 * length)
    order = np.argsort(draw.random((count, length)), axis=1)
    places = np.sort(order[:, :predictions], axis=1).astype(np.int32)
    labels = np.take_along_axis(ids, places, axis=1)
    np.put_along_axis(ids, places, MASK_ID, axis=1)
    return {"ids": ids, "places": places, "labels": labels}


def ours(size: str, dtype: str, **options: Any) -> Round:
    """`MaskedLM` by `fit`.

    Args:
        size: a name of `SIZES`.
        dtype: a Keras dtype policy.
        options: of the encoder's config, or of `compile`.
    """
    from bert_keras import BertConfig, BertEncoder
    from bert_keras.models import MaskedLM
    from bert_keras.optimization import AdamW

    sizes = SIZES[size]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes["width"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        intermediate_size=4 * sizes["width"],
    )
    task = MaskedLM(BertEncoder(config, dtype=dtype))
    task.compile(AdamW(_LEARNING_RATE), **task.objective(), **options)
    names = [tensor.name for tensor in task.inputs]
    return _by_fit(task, sizes, names, label_name="mlm")


def keras_hub(size: str, dtype: str, **options: Any) -> Round:
    """KerasHub's `BertMaskedLM` by `fit`."""
    import keras
    import keras_hub

    sizes = SIZES[size]
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        hidden_dim=sizes["width"],
        intermediate_dim=4 * sizes["width"],
        dtype=dtype,
    )
    task = keras_hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
    task.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.AdamW(_LEARNING_RATE),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        **options,
    )
    return _by_fit(task, sizes, list(task.input), label_name=None)


def _by_fit(task: Any, sizes: Mapping[str, int], names: list[str], label_name: str | None) -> Round:
    def data(steps: int) -> dict[str, Any]:
        found = rows(sizes, steps)
        ids, labels = found["ids"], found["labels"]
        inputs = {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": np.ones_like(ids),
            "mask_positions": found["places"],
        }
        weights = np.ones(labels.shape, np.float32)
        return {
            "x": {name: inputs[name] for name in names},
            "y": {label_name: labels} if label_name else labels,
            "sample_weight": {label_name: weights} if label_name else weights,
        }

    once, steps = data(2), sizes["steps"]
    many = data(steps)

    def fit(given: dict[str, Any]) -> None:
        task.fit(**given, batch_size=sizes["batch"], shuffle=False, verbose=0)

    fit(once)
    fit(many)

    def run() -> dict[str, float]:
        begin = time.perf_counter()
        fit(many)
        return _figures(sizes, time.perf_counter() - begin)

    return run


def transformers(size: str, dtype: str, *, compiled: bool = False) -> Round:
    """`BertForMaskedLM`, by PyTorch's usual loop; its attention is SDPA."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    sizes = SIZES[size]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes["width"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=4 * sizes["width"],
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, fused=True)
    call: Any = torch.compile(model) if compiled else model
    found = rows(sizes, sizes["steps"])
    ids = torch.tensor(found["ids"], dtype=torch.long)
    labels = torch.full_like(ids, -100)
    labels.scatter_(1, torch.tensor(found["places"]).long(), torch.tensor(found["labels"]).long())
    is_mixed, batch = dtype == "mixed_bfloat16", sizes["batch"]

    def step(start: int) -> None:
        part = slice(start, start + batch)
        mask = torch.ones_like(ids[part])
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            loss = call(input_ids=ids[part], attention_mask=mask, labels=labels[part]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    step(0)
    step(batch)

    def run() -> dict[str, float]:
        begin = time.perf_counter()
        for start in range(0, len(ids), batch):
            step(start)
        return _figures(sizes, time.perf_counter() - begin)

    return run


def _figures(sizes: Mapping[str, int], seconds: float) -> dict[str, float]:
    tokens = sizes["steps"] * sizes["batch"] * sizes["length"]
    return {"seconds_per_step": seconds / sizes["steps"], "tokens_per_second": tokens / seconds}
