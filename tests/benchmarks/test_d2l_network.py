"""The network of the book has its sizes, its initial weights and its loss."""

from __future__ import annotations

import keras
import numpy as np

from benchmarks.d2l_network import book_network, compile_as_book

_VOCAB = 50


def test_sizes_of_the_network() -> None:
    model = book_network(_VOCAB, seed=0)
    tables = (2 * _VOCAB + 2 + 64) * 128 + _VOCAB  # the output layer is a table of its own
    attention = 4 * (128 * 128 + 128)
    block = attention + (128 * 256 + 256) + (256 * 128 + 128) + 4 * 128
    heads = (128 * 128 + 128) * 2 + 2 * 128 + (128 * 2 + 2)  # pooler and MLM; LayerNorm; NSP
    assert model.count_params() == tables + 2 * block + heads


def test_weights_are_drawn_as_pytorch_draws_them() -> None:
    weights = {weight.path: weight for weight in book_network(_VOCAB, seed=0).weights}
    drawn = {path: keras.ops.convert_to_numpy(weight) for path, weight in weights.items()}
    for name in ("tokens", "positions"):
        assert 0.9 < drawn[f"{name}/embeddings"].std() < 1.1
    limits = {
        "block_0/attention/query/kernel": 128**-0.5,
        "block_0/feedforward/output/kernel": 256**-0.5,
        "block_1/feedforward/output/bias": 256**-0.5,
        "nsp/dense/kernel": 128**-0.5,
    }
    limits["mlm/output_table/embeddings"] = limits["mlm/bias"] = 128**-0.5
    for path, limit in limits.items():
        largest = np.abs(drawn[path]).max()
        assert 0.75 * limit < largest <= limit * (1 + 1e-6), path
    np.testing.assert_array_equal(drawn["block_0/attention_layer_norm/gamma"], 1.0)
    again = {weight.path: weight for weight in book_network(_VOCAB, seed=0).weights}
    np.testing.assert_array_equal(
        drawn["tokens/embeddings"], keras.ops.convert_to_numpy(again["tokens/embeddings"])
    )


def test_every_weight_learns() -> None:
    model = book_network(_VOCAB, seed=0)
    compile_as_book(model, 0.01)
    rng = np.random.default_rng(0)
    inputs = {
        "token_ids": rng.integers(0, _VOCAB, (8, 64)),
        "segment_ids": np.tile(np.arange(64) // 32, (8, 1)),
        "padding_mask": np.ones((8, 64), np.int32),
        "mask_positions": np.tile(np.arange(1, 11), (8, 1)),
    }
    inputs = {name: values.astype(np.int32) for name, values in inputs.items()}
    targets = {
        "mlm": rng.integers(0, _VOCAB, (8, 10)).astype(np.int32),
        "nsp": (np.arange(8) % 2).astype(np.int32),
    }
    before = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    logs = model.train_on_batch(inputs, targets, return_dict=True)
    after = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    assert all((old != new).any() for old, new in zip(before, after, strict=True))
    assert logs["loss"] == np.float32(logs["mlm_loss"] + logs["nsp_loss"])
