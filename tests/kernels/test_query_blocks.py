"""Attention in blocks of queries: outputs and gradients of all queries at once."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import BertEncoder
from bert_keras.kernels import query_blocks
from bert_keras.layers import SelfAttention
from tests import contracts
from tests.contracts import numpy
from tests.gradients import gradients

DRAW = np.random.default_rng(3)
QUERIES, KEYS = 13, 11
QUERY = DRAW.normal(size=(2, QUERIES, 2, 4)).astype("float32")
KEY, VALUE = DRAW.normal(size=(2, 2, KEYS, 2, 4)).astype("float32")
BIAS = DRAW.normal(size=(1, 2, QUERIES, KEYS)).astype("float32")
MASKS = {
    "no mask": None,
    "of keys": DRAW.random((2, 1, 1, KEYS)) < 0.7,
    "of queries": DRAW.random((2, 1, QUERIES, KEYS)) < 0.7,
}
without_blocks = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="the backend torch has a fused kernel"
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks of at most 4 queries, also of short rows."""
    monkeypatch.setattr(query_blocks, "LONG", 2)
    monkeypatch.setattr(query_blocks, "_QUERIES", 4)


def test_rows_of_known_and_many_tokens_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_blocks, "LONG", 12)
    query, key = ops.convert_to_tensor(QUERY), ops.convert_to_tensor(KEY)
    assert not query_blocks.is_long(query, key)
    monkeypatch.setattr(query_blocks, "LONG", 11)
    assert query_blocks.is_long(query, key)
    assert not query_blocks.is_long(keras.KerasTensor((2, None, 2, 4)), key)


@without_blocks
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("has_bias", [False, True])
def test_blocks_compute_what_all_queries_compute(
    has_bias: bool, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = [QUERY, KEY, VALUE, *([BIAS] if has_bias else [])]
    weights = DRAW.normal(size=QUERY.shape).astype("float32")
    sizes: list[int] = []

    def attend(*inputs: Any) -> Any:
        sizes.append(inputs[0].shape[1])
        return query_blocks._by_keras(*inputs)

    def attention(query: Any, key: Any, value: Any, *bias: Any) -> Any:
        seen = None if MASKS[mask] is None else ops.convert_to_tensor(MASKS[mask])
        added = bias[0] if bias else None
        return query_blocks.attention(attend, query, key, value, added, seen)

    def run() -> list[np.ndarray]:
        tensors = map(ops.convert_to_tensor, arrays)
        return [numpy(attention(*tensors)), *gradients(attention, arrays, weights)]

    expected = run()
    assert set(sizes) == {QUERIES}
    monkeypatch.setattr(query_blocks, "LONG", 2)
    monkeypatch.setattr(query_blocks, "_QUERIES", 4)
    sizes.clear()
    for one, other in zip(run(), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert set(sizes) == {4}


@without_blocks
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_layer(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer has the same outputs and gradients with blocks; JAX has them for float16 alone."""
    x = DRAW.normal(size=(2, 9, 8)).astype("float32")
    mask = np.arange(9) < np.array([[9], [6]])
    layer: Any = contracts.as_built(SelfAttention(2, 8, dtype=dtype), x)
    weights = DRAW.normal(size=x.shape).astype("float32")
    calls: list[int] = []
    mapped = query_blocks._mapped

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return mapped(*arguments)

    def run() -> list[np.ndarray]:
        def attention(x: Any) -> Any:
            return layer(x, mask, training=True)

        return [numpy(ops.cast(attention(x), "float32")), *gradients(attention, [x], weights)]

    monkeypatch.setattr(query_blocks, "_mapped", counted)
    found = run()
    has_blocks = keras.backend.backend() == "tensorflow" or not query_blocks.has_fused_attention(
        layer.compute_dtype
    )
    assert bool(calls) == has_blocks
    monkeypatch.setattr(query_blocks, "LONG", 2048)
    for one, other in zip(found, run(), strict=True):
        atol = 1e-5 if dtype == "float32" else 0.05
        np.testing.assert_allclose(one, other, atol=atol * max(1.0, np.abs(other).max()))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["rotary", "window", "alibi"])
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_encoder_trains_alike(
    name: str, jit_compile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled steps compute the same gradients, also with gradient checkpointing."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("backend: TensorFlow's loop of blocks")
    config = contracts.VALUES[name].replace(dropout=0.0, attention_dropout=0.0, pooler=False)
    encoder = contracts.as_trained(BertEncoder(config))
    x = contracts.batch(config, 12)
    found: list[list[np.ndarray]] = []
    for long, checkpointed in ((2, False), (2, True), (2048, False)):
        monkeypatch.setattr(query_blocks, "LONG", long)
        encoder.checkpoint_gradients(checkpointed)
        found.append(_gradients(encoder, x, jit_compile))
    for each in found[:2]:
        for one, other in zip(each, found[2], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5 * max(1.0, np.abs(other).max()))


def _gradients(encoder: Any, x: dict[str, np.ndarray], jit_compile: bool) -> list[np.ndarray]:
    """Return the outputs, and the gradients of all weights, of a compiled step."""
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile, autograph=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            output = encoder(x, training=True)["sequence_output"]
            total = tf.reduce_sum(tf.sin(output))
        weights = [weight.value for weight in encoder.trainable_variables]
        zero = tf.UnconnectedGradients.ZERO
        return [output, *tape.gradient(total, weights, unconnected_gradients=zero)]

    return [numpy(tf.convert_to_tensor(value)) for value in step()]


def test_a_length_of_long_rows_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """`predict_on_batch` computes long rows in blocks also after shorter rows."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("backend: TensorFlow compiles one function for all lengths")
    from bert_keras.models import base

    encoder = contracts.as_trained(BertEncoder(contracts.VALUES["rotary"]))
    rows = {length: contracts.batch(encoder.config, length) for length in (4, 6, 12)}
    expected = {length: encoder.predict_on_batch(x) for length, x in rows.items()}
    usual = encoder.predict_function
    for module in (base, query_blocks):
        monkeypatch.setattr(module, "LONG", 8)
    blocks: list[int] = []
    mapped = query_blocks._mapped

    def counted(*arguments: Any) -> Any:
        blocks.append(arguments[1][0].shape[0] * arguments[1][0].shape[2])
        return mapped(*arguments)

    monkeypatch.setattr(query_blocks, "_mapped", counted)
    for length in (12, 4, 6, 12):
        outputs = encoder.predict_on_batch(rows[length])
        contracts.assert_close(outputs, expected[length], 1e-5)
        assert encoder.predict_function is usual
    assert set(blocks) == {12}
    blocks.clear()
    encoder.compile()
    encoder.predict_on_batch(rows[12])
    assert blocks
