"""The network of d2l.ai's small BERT, built from our layers, as its book trains it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.layers import MaskedLMHead, PairHead, Pooler, TransformerBlock
from bert_keras.layers.core import ReversibleEmbedding
from bert_keras.models.fill_mask import TokenAccuracy, TokenLoss

_LENGTH, _WIDTH, _INNER, _HEADS, _BLOCKS, _DROPOUT, _EPSILON = 64, 128, 256, 2, 2, 0.2, 1e-5


def book_network(vocab_size: int, seed: int) -> keras.Model:
    """Build the network of the book from our layers, with the weights that PyTorch draws for it.

    No layer normalisation or dropout of the embeddings, ReLU everywhere, and an output layer of
    its own in place of the token table. Tables are drawn from N(0, 1); kernels and biases evenly
    within 1 / sqrt(inputs) of zero, PyTorch's default for linear layers.
    """
    lengths = {"token_ids": _LENGTH, "segment_ids": _LENGTH, "padding_mask": _LENGTH}
    inputs = {name: keras.Input((n,), dtype="int32", name=name) for name, n in lengths.items()}
    inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
    positions = ops.cumsum(ops.ones_like(inputs["token_ids"]), axis=1) - 1
    rows = (inputs["token_ids"], inputs["segment_ids"], positions)
    sizes = {"tokens": vocab_size, "segments": 2, "positions": _LENGTH}
    x: Any = 0.0
    for (name, size), numbers in zip(sizes.items(), rows, strict=True):
        x += keras.layers.Embedding(size, _WIDTH, name=name)(numbers)
    for number in range(_BLOCKS):
        block = TransformerBlock(
            *(_WIDTH, _HEADS, _INNER, "relu", _EPSILON, _DROPOUT, _DROPOUT), name=f"block_{number}"
        )
        x = block(x, inputs["padding_mask"])
    table = ReversibleEmbedding(vocab_size, _WIDTH, name="output_table")
    outputs = {
        "mlm": MaskedLMHead(table, "relu", _EPSILON, name="mlm")(x, inputs["mask_positions"]),
        "nsp": PairHead(name="nsp")(Pooler(_WIDTH, name="pooler")(x)),
    }
    model = keras.Model(inputs, outputs)
    draw_as_pytorch(model, np.random.default_rng(seed))
    return model


def draw_as_pytorch(model: keras.Model, rng: np.random.Generator) -> None:
    """Draw the weights of `book_network`; layer normalisations begin as they are."""
    inputs = {
        w.path.removesuffix("kernel"): w.shape[0] for w in model.weights if "kernel" in w.path
    }
    for weight in model.weights:
        if weight.path.startswith(("tokens/", "segments/", "positions/")):
            weight.assign(rng.normal(size=weight.shape))
        elif weight.path.endswith(("kernel", "bias", "embeddings")):
            fan_in = inputs.get(weight.path.removesuffix("kernel").removesuffix("bias"), _WIDTH)
            weight.assign(rng.uniform(-1, 1, size=weight.shape) / np.sqrt(fan_in))


def compile_as_book(model: keras.Model, rate: float) -> None:
    """Compile the network as the book does: Adam with a constant rate, the sum of both losses."""
    pair_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Adam(rate, epsilon=1e-8),
        loss={"mlm": TokenLoss(), "nsp": pair_loss},
        weighted_metrics={"nsp": [TokenAccuracy()]},
    )
