"""Masks and positions that the blocks of an encoder share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import keras
import pytest

from bert_keras import BertEncoder, features
from bert_keras.config_checks import ATTENTION_POSITIONS
from bert_keras.kernels import query_blocks
from bert_keras.layers import attention, local_attention
from bert_keras.models.attention_context import (
    AttentionContext,
    attention_context,
    describe_attention,
    position_layers,
)
from bert_keras.models.encoder_layers import encoder_inputs, packed_inputs
from tests.contracts import POLICIES, TINY, VALUES, batch

BACKEND = keras.backend.backend()
_POLICY = keras.DTypePolicy("float32")


@pytest.mark.parametrize("name", VALUES)
def test_layers_and_tensors_are_those_of_the_config(name: str) -> None:
    config = VALUES[name]
    layers = position_layers(config, _POLICY)
    has_two = config.local_rotary_base is not None and config.window is not None
    assert len(layers) == (config.attention_positions != "none") + has_two
    inputs = encoder_inputs(config)
    context = attention_context(layers, inputs, config)
    assert context.mask is context.local_mask is inputs[features.PADDING_MASK]
    assert (context.positions is None) == (config.attention_positions == "none")
    packed = attention_context(layers, packed_inputs(config), config)
    assert packed.local_mask is None
    assert len(packed.mask.shape) == 3
    assert features.EXAMPLE_IDS in packed.local_options


def test_every_kind_of_positions_has_a_config_here() -> None:
    kinds = {config.attention_positions for config in VALUES.values()}
    assert kinds == set(ATTENTION_POSITIONS)


def test_layers_get_their_mask_and_options() -> None:
    context = AttentionContext("mask", "angles", "ids", {"window": 2})
    assert context.of(False) == ("mask", {"positions": "angles"})
    assert context.of(True) == ("ids", {"window": 2})
    assert AttentionContext("mask").of(False) == ("mask", {})


# === The description of the kernels ===


_DESCRIBED = {
    **VALUES,
    "bert": TINY,
    "relative_key": TINY.replace(position_embedding="relative_key"),
    "relative_window": VALUES["window"].replace(position_embedding="relative_key"),
    "alibi_window": VALUES["window"].replace(attention_positions="alibi"),
    "window_without_local_layers": VALUES["window"].replace(num_layers=1, global_offset=0),
}
_SLOW = "all probabilities in memory"


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of fused kernels, and of layers in bands, which are as small as the window.

    On PyTorch these are the operations that it runs, and not the function that chooses one.
    """
    monkeypatch.setattr(local_attention, "_LEAST", 1)
    counts: Counter[str] = Counter()

    def count(module: Any, name: str, key: str) -> None:
        """Count the calls of a function of a module."""
        function: Callable[..., Any] = getattr(module, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            counts[key] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, counted)

    count(attention, "band_mask", "bands")
    if BACKEND == "jax":
        from bert_keras.kernels import jax_kernels

        count(jax_kernels, "cpu_attention", "fused")
    return counts


def _called(encoder: BertEncoder, counts: Counter[str], *, training: bool) -> dict[str, int]:
    """Return how many layers of a call had a fused kernel, and how many had bands."""
    counts.clear()
    x = batch(encoder.config)
    if BACKEND == "torch":
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        class Operations(TorchDispatchMode):
            """A context in which fused operations of PyTorch are counted."""

            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                del types
                counts["fused"] += "scaled_dot_product" in str(func)
                return func(*args, **(kwargs or {}))

        with Operations(), nullcontext() if training else torch.no_grad():
            encoder(x, training=training)
    else:
        encoder(x, training=training)
    return {key: counts[key] for key in ("fused", "bands")}


def _check_sentences(encoder: BertEncoder, counts: Counter[str]) -> None:
    """Assert that the sentences name the kernels that run."""
    config = encoder.config
    for use, sentence in encoder.describe_kernels().items():
        local_layers = sum(map(config.is_local, range(config.num_layers)))
        assert _called(encoder, counts, training=use == "training") == {
            "fused": 0 if _SLOW in sentence else config.num_layers,
            "bands": local_layers if "local layers in bands" in sentence else 0,
        }, (use, sentence)
        if "local layers" in sentence:
            assert (size := config.window) is not None
            assert f"bands of {size} tokens, in rows of more than {3 * size} tokens" in sentence


@pytest.mark.parametrize("attention_dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", _DESCRIBED)
def test_the_kernels_that_run_are_described(
    name: str, attention_dropout: float, counts: Counter[str]
) -> None:
    config = _DESCRIBED[name].replace(attention_dropout=attention_dropout)
    _check_sentences(BertEncoder(config), counts)
    without = describe_attention(config.replace(attention_dropout=0.0), "float32")["training"]
    told = describe_attention(config, "float32")["training"]
    assert told.endswith(without)
    assert (f"attention_dropout={attention_dropout}" in told) == (attention_dropout > 0)


@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize("name", ["bert", "buckets", "window"])
def test_the_kernels_of_half_precision(name: str, policy: str, counts: Counter[str]) -> None:
    config = _DESCRIBED[name].replace(attention_dropout=0.0)
    encoder = BertEncoder(config, dtype=policy)
    has_fused = query_blocks.has_fused_attention(encoder.compute_dtype)
    assert has_fused or _SLOW in encoder.describe_kernels()["inference"]
    _check_sentences(encoder, counts)


def test_the_kernels_of_a_frozen_encoder(counts: Counter[str]) -> None:
    """A frozen encoder drops nothing in training, and does not learn its biases."""
    encoder = BertEncoder(VALUES["buckets"].replace(attention_dropout=0.1))
    encoder.trainable = False
    kernels = encoder.describe_kernels()
    assert kernels["training"] == kernels["inference"]
    _check_sentences(encoder, counts)


def test_bands_of_small_windows_are_larger() -> None:
    told = describe_attention(VALUES["window"], "float32")["inference"]
    assert told.endswith("local layers in bands of 32 tokens, in rows of more than 96 tokens")
