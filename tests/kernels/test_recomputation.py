"""Tensors that are computed again for the gradient are not kept, and change nothing else."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import BertEncoder, features, kernels
from bert_keras.layers.attention import SelfAttention
from bert_keras.layers.transformer_block import FeedForward, PreNormBlock
from tests.contracts import TINY, VALUES, batch, numpy
from tests.gradients import gradients

X, Y = np.random.default_rng(0).normal(size=(2, 3, 4, 8)).astype("float32")
KERNEL = np.random.default_rng(1).normal(size=(8, 5)).astype("float32")
WEIGHTS = np.random.default_rng(2).normal(size=(3, 4, 5)).astype("float32")
on_torch = pytest.mark.skipif(keras.backend.backend() != "torch", reason="this backend's own way")


def _plain(x: Any, y: Any, kernel: Any = KERNEL) -> Any:
    """Return the product of a gated activation with a kernel."""
    return ops.matmul(ops.tanh(x) * y, kernel)


def _recomputed(x: Any, y: Any, kernel: Any = KERNEL) -> Any:
    """Return the same, with the gated activation computed again."""
    outer = lambda z: ops.matmul(z, kernel)  # noqa: E731
    return kernels.after_recomputed(lambda x, y: ops.tanh(x) * y, outer, x, y)


def _all_recomputed(x: Any, y: Any) -> Any:
    """Return the same, where all of it is computed again."""
    return kernels.recomputed(_recomputed)(x, y)


def _in_two_steps(x: Any, y: Any) -> Any:
    """Return the same, where the product with the kernel is not computed again."""
    return ops.matmul(
        kernels.recomputed(lambda x, y: ops.tanh(x) * y, part_of_block=True)(x, y), KERNEL
    )


@pytest.mark.parametrize("function", [_recomputed, _all_recomputed, _in_two_steps])
def test_outputs_and_gradients(function: Callable[..., Any]) -> None:
    arrays = X, Y
    found, expected = (
        numpy(each(*map(ops.convert_to_tensor, arrays))) for each in (function, _plain)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    pairs = zip(
        gradients(function, arrays, WEIGHTS), gradients(_plain, arrays, WEIGHTS), strict=True
    )
    for mine, theirs in pairs:
        assert np.abs(theirs).max() > 0.1
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


def _changes(make: Callable[[], Any]) -> dict[str, np.ndarray]:
    """Return how a training step changes each weight of a layer that `make` makes, by its path."""
    keras.utils.set_random_seed(0)
    layer = make()
    inputs = keras.Input(X.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before = [numpy(weight) for weight in layer.trainable_weights]
    model.train_on_batch(X, Y)
    pairs = zip(before, layer.trainable_weights, strict=True)
    return {weight.path: old - numpy(weight) for old, weight in pairs}


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_weights_of_a_gated_layer(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step changes them as if nothing was computed again."""
    make = functools.partial(FeedForward, 16, 8, gated=True, dropout=dropout, name="layer")
    found = _changes(make)
    monkeypatch.setattr(kernels, "_parts_save_memory", lambda: False)
    expected = _changes(make)
    assert found.keys() == expected.keys()
    assert len(found) == 6
    for path, theirs in expected.items():
        assert np.abs(theirs).max() > 1e-4
        np.testing.assert_allclose(found[path], theirs, atol=1e-6)


def _kept(function: Callable[[], Any]) -> tuple[Any, int]:
    """Return the output of a function, and how many numbers PyTorch keeps for its gradient."""
    import torch

    kept: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        """Count a tensor."""
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = function()
    return output, sum(kept.values())


@on_torch
def test_a_gated_layer_keeps_no_activations() -> None:
    """Two inner tensors are kept: those that its first layers return."""
    layer = FeedForward(64, 8, gated=True, intermediate_bias=False, output_bias=False)
    x = ops.convert_to_tensor(X)
    layer(x)
    weights = sum(int(np.prod(weight.shape)) for weight in layer.weights)
    output, kept = _kept(lambda: layer(x, training=True))
    assert kept <= weights + X.size + 2 * 12 * 64
    _, without = _kept(lambda: layer(x, training=False))
    assert without >= weights + X.size + 4 * 12 * 64
    np.testing.assert_allclose(numpy(output), numpy(layer(x)), atol=1e-6)


@on_torch
def test_what_is_computed_again_is_freed() -> None:
    """Neither a kept tensor nor the functions that PyTorch keeps refer to it."""
    import torch

    made = []

    def inner(x: Any) -> Any:
        """Return an array and remember it weakly."""
        output = torch.tanh(x)
        made.append(weakref.ref(output))
        return output

    x, kernel = (torch.tensor(values, requires_grad=True) for values in (X, KERNEL))
    outputs = kernels.after_recomputed(inner, lambda x: [x @ kernel, x @ kernel], x)
    assert made[0]() is None
    (outputs[0] + outputs[1]).sum().backward()
    np.testing.assert_allclose(numpy(x.grad), 2 * (1 - np.tanh(X) ** 2) * KERNEL.sum(1), atol=1e-5)


@on_torch
def test_local_attention_keeps_no_bands() -> None:
    """One copy of keys and values is kept, where bands have three."""
    layer = SelfAttention(2, 8)
    x = ops.convert_to_tensor(np.tile(X[:1], (1, 100, 1)))  # 400 tokens
    call = functools.partial(layer, x, padding_mask=ops.ones((1, 400), "int32"), window=32)
    call()
    _, kept = _kept(lambda: call(training=True))
    _, without = _kept(lambda: call(training=False))
    assert kept < without - 4 * 400 * 8


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("gated", [True, False])
def test_weights_of_a_pre_norm_block(
    norm: str, gated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training step changes them as if the normalisations were kept."""
    sizes: dict[str, Any] = {"initializer_range": 0.5, "dropout": 0.1, "name": "block"}
    make = functools.partial(PreNormBlock, 8, 2, 16, gated=gated, norm=norm, **sizes)
    found = _changes(make)
    monkeypatch.setattr(kernels, "_parts_save_memory", lambda: False)
    expected = _changes(make)
    assert found.keys() == expected.keys()
    for path, theirs in expected.items():
        # The softmax does not change with the bias of the keys.
        assert np.abs(theirs).max() > 1e-4 or path.endswith("key/bias")
        np.testing.assert_allclose(found[path], theirs, atol=1e-5)


@on_torch
@pytest.mark.parametrize("name", ["bert", "pre_norm", "like_modernbert", "like_eurobert"])
def test_a_step_with_checkpointing_leaves_no_tensors(name: str) -> None:
    """PyTorch ends the second computation by an error. If Keras handles it, tensors stay."""
    import torch

    config = {**VALUES, "bert": TINY}[name].replace(dropout=0.0, attention_dropout=0.0)
    encoder = BertEncoder(config)
    encoder.checkpoint_gradients()
    x = batch(config)
    size = x[features.TOKEN_IDS].size * config.hidden_size

    def tensors() -> int:
        """Return the number of tensors that are as large as the vectors of all tokens."""
        found = [each for each in gc.get_objects() if type(each) is torch.Tensor]
        return sum(each.numel() >= size for each in found)

    encoder(x, training=True)["sequence_output"].sum().backward()
    gc.collect()
    before = tensors()
    try:
        gc.disable()
        encoder(x, training=True)["sequence_output"].sum().backward()
        assert tensors() <= before
    finally:
        gc.enable()


@on_torch
def test_second_derivatives() -> None:
    import torch

    found = []
    for function in (_plain, _recomputed):
        x, y, kernel = (torch.tensor(values, requires_grad=True) for values in (X, Y, KERNEL))
        (first,) = torch.autograd.grad(function(x, y, kernel).sum(), kernel, create_graph=True)
        found.append(torch.autograd.grad((first**2).sum(), (x, y)))
    for mine, theirs in zip(*found, strict=True):
        assert theirs.abs().max() > 0.1
        np.testing.assert_allclose(numpy(mine), numpy(theirs), rtol=1e-4, atol=1e-4)


@on_torch
def test_gradients_of_each_example() -> None:
    """`torch.func` allows no other way of keeping tensors."""
    import torch

    def loss(x: Any, y: Any) -> Any:
        """Return a loss of one example."""
        return (_recomputed(x, y) ** 2).sum()

    x, y = (torch.tensor(values) for values in (X, Y))
    found = torch.func.vmap(torch.func.grad(loss))(x, y)
    expected = gradients(lambda x, y: _plain(x, y) ** 2, (X, Y), np.ones_like(WEIGHTS))[0]
    np.testing.assert_allclose(numpy(found), expected, atol=1e-4)
