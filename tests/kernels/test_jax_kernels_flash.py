"""Arguments for cuDNN's attention on JAX. Their meaning is checked with XLA's implementation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import keras
import numpy as np
import pytest
from jax import numpy as jnp

from bert_keras import BertEncoder, kernels
from bert_keras.kernels import jax_kernels
from tests.contracts import TINY

DRAW = np.random.default_rng(11)
QUERY, KEY, VALUE = (jnp.asarray(DRAW.normal(size=(4, 6, 2, 8)), jnp.float32) for _ in range(3))
# Padding at the end, at the beginning, in the middle, and none.
MASK = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1], [1] * 6], bool)
KEYS = jnp.asarray(MASK)[:, None, None]
PAIRS = KEYS & jnp.ones((1, 1, 6, 1), bool)


def _composed(query: Any, key: Any, value: Any) -> Any:
    scores = jnp.einsum("BTNK,BSNK->BNTS", query, key) / 8**0.5
    return jnp.einsum("BNTS,BSNK->BTNK", jax.nn.softmax(jnp.where(KEYS, scores, -1e9)), value)


def _flash(query: Any, key: Any, value: Any) -> Any:
    return jax_kernels.flash(query, key, value, KEYS, "xla")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the options of all calls of JAX's attention, recorded on a simulated GPU."""
    found: list[dict[str, Any]] = []

    def heard(query: Any, key: Any, value: Any, **options: Any) -> Any:
        found.append(options)
        return jnp.zeros_like(query)

    monkeypatch.setattr(
        jax, "devices", lambda: [SimpleNamespace(platform="gpu", compute_capability="9.0")]
    )
    monkeypatch.setattr(jax.nn, "dot_product_attention", heard)
    return found


def _half() -> tuple[Any, Any, Any]:
    return (QUERY.astype(jnp.bfloat16), KEY.astype(jnp.bfloat16), VALUE.astype(jnp.bfloat16))


def test_padding_anywhere() -> None:
    found, expected = _flash(QUERY, KEY, VALUE), _composed(QUERY, KEY, VALUE)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_gradients(argument: int) -> None:
    weights = jnp.cos(jnp.arange(QUERY.size, dtype=jnp.float32)).reshape(QUERY.shape)
    found, expected = (
        jax.grad(lambda *x, f=function: jnp.sum(f(*x) * weights), argument)(QUERY, KEY, VALUE)
        for function in (_flash, _composed)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_row_that_may_look_nowhere_is_zero() -> None:
    mask = KEYS.at[0].set(False)
    found = jax_kernels.flash(QUERY, KEY, VALUE, mask, "xla")
    assert not found[0].any()
    gradient = jax.grad(lambda x: jax_kernels.flash(QUERY, x, x, mask, "xla").sum())(KEY)
    assert np.isfinite(gradient).all()


def test_padding_is_given_as_lengths(asked: list[dict[str, Any]]) -> None:
    jax_kernels.attention(*_half(), None, KEYS)
    assert asked[0]["implementation"] == "cudnn"
    assert "mask" not in asked[0]
    np.testing.assert_array_equal(asked[0]["key_value_seq_lengths"], MASK.sum(axis=1))
    jax_kernels.attention(*_half(), None, None)
    assert asked[1] == {"implementation": "cudnn", "key_value_seq_lengths": None}


@pytest.mark.parametrize("options", [{"mask": PAIRS}, {"bias": jnp.zeros((4, 2, 6, 6))}])
def test_what_lengths_cannot_say_is_left_to_keras(
    options: dict[str, Any], asked: list[dict[str, Any]]
) -> None:
    """Other masks and a bias are not passed as lengths of the rows."""
    jax_kernels.attention(*_half(), options.get("bias"), options.get("mask"))
    assert "key_value_seq_lengths" not in asked[0]


def test_what_the_kernel_refuses_is_left_to_keras(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arrays: Any, **options: Any) -> Any:
        if options["implementation"] == "cudnn":
            raise NotImplementedError("the head dim must be a multiple of 8")
        asked.append(options)
        return arrays[0]

    monkeypatch.setattr(jax.nn, "dot_product_attention", refused)
    monkeypatch.setattr(jax_kernels, "_REFUSALS", [])
    jax_kernels.attention(*_half(), None, KEYS)
    assert asked[0]["implementation"] == "xla"
    assert asked[0]["mask"] is KEYS
    assert "refused, the head dim must be" in jax_kernels.attention_kernel("bfloat16", False)


@pytest.mark.parametrize(
    ("capability", "dtype", "words"),
    [
        ("9.0", "bfloat16", "cuDNN's flash attention, padding as lengths"),
        ("9.0", "float32", "needs half precision, this is float32"),
        ("7.5", "float16", "compute capability 8.0"),
        ("gfx90a", "bfloat16", "compute capability 8.0"),
    ],
)
def test_the_kernel_is_told(
    capability: str, dtype: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`attention_kernel` names the kernel for each GPU and dtype."""
    devices = [SimpleNamespace(platform="gpu", compute_capability=capability)]
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert words in jax_kernels.attention_kernel(dtype, False)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_kernels, "_compute_capability", lambda: 9.0)
    assert jax_kernels.has_flash("bfloat16")
    monkeypatch.setattr(keras.config, "is_flash_attention_enabled", lambda: False)
    assert not jax_kernels.has_flash("bfloat16")
    assert "switched cuDNN's kernel off" in jax_kernels.attention_kernel("bfloat16", False)


def test_an_encoder_tells_it_of_its_own_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    """`describe_kernels` uses the compute dtype of the encoder."""
    encoder = BertEncoder(TINY, dtype="mixed_bfloat16")
    assert "few probabilities in memory at once" in encoder.describe_kernels()["inference"]
    told = BertEncoder(TINY, dtype="mixed_float16").describe_kernels()["inference"]
    assert told == kernels.attention_kernel("float16")
    assert "all probabilities in memory: JAX has no kernel of float16 on a CPU" in told
    monkeypatch.setattr(jax_kernels, "_compute_capability", lambda: 9.0)
    assert "padding as lengths" in encoder.describe_kernels()["inference"]
