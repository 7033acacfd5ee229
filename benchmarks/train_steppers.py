"""Contenders that train: steps of masked language modelling with bert_keras and other libraries.

All train on the same rows, which are full and have no padding. 15 % of the tokens are predicted.
Each library is used as its documentation recommends. bert_keras and KerasHub train with `fit`,
transformers with the usual PyTorch loop and fused AdamW.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import untuned_batches

# === Encoders of each library, with sizes as from `sizes_of` ===


# A shape that is not BERT's -> the class of its config in transformers, and values of the published
# model that are not its defaults. Our preset SHAPE_base and these defaults have the values that
# sizes do not state, such as vocabulary, windows and dropout rates.
SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "modernbert": ("ModernBertConfig", {}),
    "mpnet": ("MPNetConfig", {"max_position_embeddings": 514}),
}


def shaped_encoder(
    sizes: Mapping[str, int], dtype: str, shape: str, *, checkpointed: bool = False
) -> Any:
    """Build a `BertEncoder` of a shape in `SHAPES`; see `our_encoder`."""
    from bert_keras import PRESETS, BertEncoder

    config = PRESETS[f"{shape}_base"].replace(
        hidden_size=sizes["width"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        intermediate_size=sizes["inner"],
    )
    encoder = BertEncoder(config, dtype=dtype)
    if checkpointed:
        encoder.checkpoint_gradients()
    return encoder


def shaped_config(sizes: Mapping[str, int], shape: str) -> Any:
    """Return the config of transformers for the model of `shaped_encoder`."""
    import transformers

    name, more = SHAPES[shape]
    return getattr(transformers, name)(
        **more,
        hidden_size=sizes["width"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=sizes["inner"],
    )


def our_encoder(
    sizes: Mapping[str, int],
    dtype: str,
    *,
    attention_dropout: float = 0.1,
    checkpointed: bool = False,
    activation: str = "gelu",
) -> Any:
    """Build a `BertEncoder` of BERT's shape.

    Args:
        sizes: sizes of the model.
        dtype: a Keras dtype policy.
        attention_dropout: dropout rate of the attention probabilities. Only at 0 is the attention
            kernel fused.
        checkpointed: whether to use gradient checkpointing for each block.
        activation: activation of the feed-forward layers. KerasHub always uses "gelu_tanh".
    """
    from bert_keras import BertConfig, BertEncoder

    config = BertConfig(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        intermediate_size=4 * sizes["width"],
        max_positions=sizes["positions"],
        attention_dropout=attention_dropout,
        activation=activation,
    )
    encoder = BertEncoder(config, dtype=dtype)
    if checkpointed:
        encoder.checkpoint_gradients()
    return encoder


def keras_hub_backbone(sizes: Mapping[str, int], dtype: str, *, dropout: float = 0.1) -> Any:
    """Build KerasHub's `BertBackbone`, which has a single dropout rate, also for attention."""
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=sizes["vocabulary"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        hidden_dim=sizes["width"],
        intermediate_dim=4 * sizes["width"],
        max_sequence_length=sizes["positions"],
        dropout=dropout,
        dtype=dtype,
    )


def transformers_config(sizes: Mapping[str, int], *, attention_dropout: float = 0.1) -> Any:
    """Return a BERT config of transformers, whose models use SDPA for attention by default."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=4 * sizes["width"],
        max_position_embeddings=sizes["positions"],
        attention_probs_dropout_prob=attention_dropout,
    )


def tell_kernels(size: Mapping[str, int], dtype: str, told: str) -> Callable[[], dict[str, float]]:
    """Write the attention kernels that our encoder uses, as a contender without figures.

    Args:
        size: sizes of the model.
        dtype: a Keras dtype policy.
        told: path of the JSON file to write.
    """
    kernels = our_encoder(size, dtype).describe_kernels()
    Path(told).write_text(json.dumps(kernels, default=str), encoding="utf-8")
    return dict


VOCABULARY, MASK_ID = 30_522, 103
SIZES: dict[str, dict[str, int]] = {
    "small": {"layers": 4, "width": 256, "heads": 4, "batch": 32, "length": 128, "steps": 6},
    "base": {"layers": 12, "width": 768, "heads": 12, "batch": 8, "length": 128, "steps": 3},
}
_LEARNING_RATE = 1e-4

Round = Callable[[], dict[str, float]]
Size = str | Mapping[str, int]


def sizes_of(size: Size) -> dict[str, int]:
    """Return the sizes of a model and its batches, with defaults for vocabulary and positions.

    Args:
        size: a name in `SIZES`, or a dict with "layers", "width", "heads", "batch", "length" and
            "steps", the number of batches in a round. "vocabulary" and "positions" are optional.
    """
    sizes = SIZES[size] if isinstance(size, str) else size
    return {"vocabulary": VOCABULARY, "positions": max(512, sizes["length"]), **sizes}


def at_length(size: Size, length: int) -> dict[str, int]:
    """Return sizes with another row length and the same number of tokens in a batch.

    Args:
        size: a name or a dict, as for `sizes_of`.
        length: tokens of a row.
    """
    sizes = dict(SIZES[size] if isinstance(size, str) else size)
    tokens = sizes["batch"] * sizes["length"]
    return sizes_of({**sizes, "length": length, "batch": max(1, tokens // length)})


def predictions_of(length: int) -> int:
    """Return the number of predicted tokens in a row: 15 % of its length."""
    return round(0.15 * length)


def rows(size: Mapping[str, int], steps: int) -> dict[str, np.ndarray]:
    """Return random rows for training.

    Args:
        size: sizes of the model and the batch.
        steps: number of batches.

    Returns:
        "ids", token ids with masks; "places", the positions of the masks; "labels", the token ids
        that the masks replaced.
    """
    draw = np.random.default_rng(0)
    count, length = steps * size["batch"], size["length"]
    vocabulary = size.get("vocabulary", VOCABULARY)
    least = min(1_000, vocabulary // 2)
    ids = draw.integers(least, vocabulary, (count, length)).astype(np.int32)
    order = np.argsort(draw.random((count, length)), axis=1)
    places = np.sort(order[:, : predictions_of(length)], axis=1).astype(np.int32)
    labels = np.take_along_axis(ids, places, axis=1)
    np.put_along_axis(ids, places, min(MASK_ID, least - 1), axis=1)
    return {"ids": ids, "places": places, "labels": labels}


def ours(
    size: Size,
    dtype: str,
    *,
    attention_dropout: float = 0.1,
    checkpointed: bool = False,
    chunks: int = 1,
    shape: str = "",
    **options: Any,
) -> Round:
    """Prepare a contender that trains `MaskedLM` of bert_keras with `fit`.

    Args:
        size: sizes of the model and the batch, as for `sizes_of`.
        dtype: a Keras dtype policy.
        attention_dropout: dropout rate of the attention probabilities.
        checkpointed: whether to use gradient checkpointing.
        chunks: number of parts in which the loss takes the vocabulary.
        shape: a key of `SHAPES`, whose preset sets the dropout rates; "" for BERT's shape.
        options: further arguments of `compile`.
    """
    import keras

    from bert_keras.models import MaskedLM
    from bert_keras.optimization import AdamW

    sizes = sizes_of(size)
    if shape:
        encoder = shaped_encoder(sizes, dtype, shape, checkpointed=checkpointed)
    else:
        kind = {"attention_dropout": attention_dropout, "checkpointed": checkpointed}
        encoder = our_encoder(sizes, dtype, **kind)
    task: Any = MaskedLM(encoder)
    if chunks > 1:
        task = task.loss_chunks(chunks)
    task.compile(AdamW(_LEARNING_RATE), **task.loss_and_metrics(), **options)
    names = [tensor.name for tensor in task.inputs]
    feed = _as_dataset if keras.backend.backend() == "tensorflow" else _as_arrays
    return _by_fit(task, sizes, names, label_name="mlm", feed=feed)


def keras_hub(size: Size, dtype: str, *, dropout: float = 0.1, **options: Any) -> Round:
    """Prepare a contender that trains KerasHub's `BertMaskedLM` with `fit`.

    Its data are a dataset on every backend, because KerasHub turns arrays into one.
    """
    import keras
    import keras_hub

    sizes = sizes_of(size)
    backbone = keras_hub_backbone(sizes, dtype, dropout=dropout)
    task = keras_hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
    task.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.AdamW(_LEARNING_RATE),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        **options,
    )
    return _by_fit(task, sizes, list(task.input), label_name=None, feed=_as_dataset)


def _by_fit(
    task: Any,
    sizes: Mapping[str, int],
    names: list[str],
    *,
    label_name: str | None,
    feed: Callable[[dict[str, Any], int], dict[str, Any]],
) -> Round:
    def data(steps: int) -> dict[str, Any]:
        examples = rows(sizes, steps)
        ids, labels = examples["ids"], examples["labels"]
        inputs = {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": np.ones_like(ids),
            "mask_positions": examples["places"],
        }
        weights = np.ones(labels.shape, np.float32)
        return {
            "x": {name: inputs[name] for name in names},
            "y": {label_name: labels} if label_name else labels,
            "sample_weight": {label_name: weights} if label_name else weights,
        }

    once, steps = data(2), sizes["steps"]
    many = data(steps)

    def fit(arguments: dict[str, Any]) -> None:
        task.fit(**arguments, shuffle=False, verbose=0)

    fit(feed(once, sizes["batch"]))
    fit(feed(many, sizes["batch"]))

    def run() -> dict[str, float]:
        arguments = feed(many, sizes["batch"])
        begin = time.perf_counter()
        fit(arguments)
        return figures(sizes, time.perf_counter() - begin)

    return run


def _as_arrays(arrays: dict[str, Any], batch: int) -> dict[str, Any]:
    """Return arguments of `fit` with the arrays themselves."""
    return {**arrays, "batch_size": batch}


def _as_dataset(arrays: dict[str, Any], batch: int) -> dict[str, Any]:
    """Return arguments of `fit` with the arrays as a dataset without autotuning."""
    return {
        "x": untuned_batches(tuple(arrays[name] for name in ("x", "y", "sample_weight")), batch)
    }


def transformers(
    size: Size,
    dtype: str,
    *,
    attention_dropout: float = 0.1,
    checkpointed: bool = False,
    compiled: bool = False,
    masked: bool = True,
    shape: str = "",
) -> Round:
    """Prepare a contender that trains a masked LM of transformers in a PyTorch loop.

    It runs on a GPU if there is one, with SDPA for attention.

    Args:
        size: sizes of the model and the batch, as for `sizes_of`.
        dtype: "mixed_bfloat16" for PyTorch's autocast; otherwise the model computes in float32.
        attention_dropout: dropout rate of the attention probabilities.
        checkpointed: whether to use gradient checkpointing.
        compiled: whether to compile the model with `torch.compile`.
        masked: whether to pass a padding mask, which full rows do not need.
        shape: as for `ours`.
    """
    import torch
    from transformers import AutoModelForMaskedLM

    torch.manual_seed(0)
    sizes, device = sizes_of(size), "cuda" if torch.cuda.is_available() else "cpu"
    if shape:
        config = shaped_config(sizes, shape)
    else:
        config = transformers_config(sizes, attention_dropout=attention_dropout)
    model: Any = AutoModelForMaskedLM.from_config(config).train()
    model.to(device)
    if checkpointed:
        renamed = "activation_checkpointing_enable"  # transformers 5.23 warns at the old name
        getattr(model, renamed, model.gradient_checkpointing_enable)()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, fused=True)
    call = torch.compile(model) if compiled else model
    examples = rows(sizes, sizes["steps"])
    ids = torch.tensor(examples["ids"], dtype=torch.long)
    labels = torch.full_like(ids, -100)
    labels.scatter_(
        1, torch.tensor(examples["places"]).long(), torch.tensor(examples["labels"]).long()
    )
    is_mixed, batch = dtype == "mixed_bfloat16", sizes["batch"]

    def step(start: int) -> Any:
        part = slice(start, start + batch)
        inputs, target = ids[part].to(device), labels[part].to(device)
        mask = torch.ones_like(inputs) if masked else None
        with torch.autocast(device, torch.bfloat16, enabled=is_mixed):
            loss = call(input_ids=inputs, attention_mask=mask, labels=target).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    step(0)
    step(batch).item()

    def run() -> dict[str, float]:
        begin = time.perf_counter()
        # Losses are read at the end, so that on a GPU no step waits for the step before.
        torch.stack([step(start) for start in range(0, len(ids), batch)]).tolist()
        return figures(sizes, time.perf_counter() - begin)

    return run


def figures(sizes: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Return the figures of a round.

    Args:
        sizes: sizes of the model and the batch, with the number of steps.
        seconds: duration of the round.
    """
    tokens = sizes["steps"] * sizes["batch"] * sizes["length"]
    return {"seconds_per_step": seconds / sizes["steps"], "tokens_per_second": tokens / seconds}
