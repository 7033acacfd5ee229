"""Layers with quantised kernels and LoRA adapters: saving, loading, and files without adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.layers import Pooler, core
from bert_keras.layers.core import seeded_dropout, to_be_filled, truncated_normal
from tests import contracts
from tests.contracts import numpy

IDS = np.arange(6).reshape(2, 3)
X = np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(2, 6)
MAKE: dict[str, Any] = {
    "Dense": lambda: (core.Dense(4, name="part"), X),
    "Embedding": lambda: (core.Embedding(6, 4, name="part"), IDS),
    "ReversibleEmbedding": lambda: (core.ReversibleEmbedding(6, 4, name="part"), IDS),
}
MODES = (None, "int8", "int4")


def _model(kind: str, mode: str | None = None, rank: int = 0) -> tuple[keras.Model, Any, Any]:
    """Return a model of one layer with random weights, its layer and an input."""
    layer, x = MAKE[kind]()
    inputs = keras.Input(x.shape[1:], dtype=x.dtype.name.replace("64", "32"))
    model = keras.Model(inputs, layer(inputs))
    generator = np.random.default_rng(0)
    if mode is not None:
        layer.quantize(mode)
    if rank:
        layer.enable_lora(rank, lora_alpha=2.0 * rank)
    for weight in layer.weights:
        if weight.dtype == "float32" and "zero" not in weight.name and "idx" not in weight.name:
            weight.assign(generator.uniform(0.5, 1.0, weight.shape))
    return model, layer, x.astype(inputs.dtype)


def test_every_class_is_here() -> None:
    classes = {
        name
        for name, value in vars(core).items()
        if isinstance(value, type) and issubclass(value, core._SavesAdapters) and name[0] != "_"
    }
    assert classes == set(MAKE)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("mode", MODES)
def test_weights_of_an_adapted_layer(kind: str, mode: str | None, tmp_path: Path) -> None:
    model, layer, x = _model(kind, mode, rank=2)
    other, _, _ = _model(kind, mode, rank=2)
    for weight in other.weights:
        weight.assign(np.zeros(weight.shape))
    model.save_weights(tmp_path / "model.weights.h5")
    assert layer.lora_enabled  # saving does not change the layer
    other.load_weights(tmp_path / "model.weights.h5")
    for found, expected in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(numpy(found), numpy(expected))
    np.testing.assert_array_equal(numpy(other(x)), numpy(model(x)))


@pytest.mark.parametrize("kind", MAKE)
def test_weights_of_a_plain_layer_for_an_adapted_one(kind: str, tmp_path: Path) -> None:
    """Weights of a plain layer load into a layer with LoRA, whose adapter then starts at zero.

    One of the two adapter matrices is not zero, so that the adapter can learn.
    """
    plain, _, x = _model(kind)
    adapted, layer, _ = _model(kind, rank=2)
    plain.save_weights(tmp_path / "model.weights.h5")
    adapted.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(numpy(adapted(x)), numpy(plain(x)), atol=1e-6)
    first, second = (numpy(getattr(layer, name)) for name in layer.adapter_variables)
    assert first.any()
    assert not second.any()


# Keras visits the whole model before it raises.
@pytest.mark.filterwarnings("ignore:Skipping nested container")
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize(
    ("rank", "message"), [(0, "has an adapter of rank 2, the layer has none"), (3, "ranks must")]
)
def test_what_does_not_fit(kind: str, rank: int, message: str, tmp_path: Path) -> None:
    """Adapters of another rank, and adapters for a layer without one, are refused."""
    _model(kind, rank=2)[0].save_weights(tmp_path / "model.weights.h5")
    other, _, _ = _model(kind, rank=rank)
    with pytest.raises(ValueError, match=message):
        other.load_weights(tmp_path / "model.weights.h5")


@pytest.mark.parametrize("kind", MAKE)
def test_a_layer_of_the_users_own_model(kind: str, tmp_path: Path) -> None:
    """A layer with LoRA keeps its rank and scale in a user's own `.keras` file."""
    model, layer, x = _model(kind, rank=2)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.get_layer("part")) is type(layer)
    assert loaded.get_layer("part").lora_alpha == 4.0
    np.testing.assert_array_equal(numpy(loaded(x)), numpy(model(x)))


# === Seeds and initial weights ===


_ONES = np.ones((4, 100), "float32")


def test_seeds_repeat_under_the_global_seed():
    seeds = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        seeds.append([seeded_dropout(0.5, name, "float32").seed for name in ("a", "b")])
    assert seeds[0] == seeds[1]
    assert seeds[0][0] != seeds[0][1]


def test_randomness_is_a_variable_of_the_layer():
    layer = seeded_dropout(0.5, "dropout", "float32")
    assert layer.name == "dropout"
    state = numpy(layer.seed_generator.state)
    first, second = (numpy(layer(_ONES, training=True)) for _ in range(2))
    assert (first != second).any()
    layer.seed_generator.state.assign(state)
    np.testing.assert_array_equal(numpy(layer(_ONES, training=True)), first)


def test_share_and_scale():
    dropped = numpy(
        seeded_dropout(0.25, "dropout", "float32")(np.ones((100, 100), "float32"), training=True)
    )
    np.testing.assert_allclose(np.unique(dropped), [0.0, 1 / 0.75], rtol=1e-6)
    assert abs((dropped == 0).mean() - 0.25) < 0.02


def test_initial_weights_are_cut_at_two_deviations():
    values = numpy(truncated_normal(0.02)((200, 100)))
    # On PyTorch, Keras lets a few values in a million exceed the limit.
    assert np.quantile(np.abs(values), 0.999) <= 0.04
    # Truncation at two standard deviations leaves 0.88 of the standard deviation.
    assert abs(values.std() - 0.88 * 0.02) < 0.001


def test_weights_that_a_checkpoint_will_fill_are_zeros():
    with to_be_filled():
        layer = Pooler(8)
    layer.build((None, 7, 8))
    assert not contracts.weights(layer)[f"{layer.name}/dense/kernel"].any()
    layer = Pooler(8)
    layer.build((None, 7, 8))
    assert contracts.weights(layer)[f"{layer.name}/dense/kernel"].any()
