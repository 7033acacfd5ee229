"""Seeds and initial weights."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import Pooler
from bert_keras.layers.dropout import seeded_dropout, to_be_filled, truncated_normal
from tests import contracts
from tests.contracts import numpy

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
    # On PyTorch, Keras lets a few in a million through.
    assert np.quantile(np.abs(values), 0.999) <= 0.04
    # Cutting at two deviations leaves 0.88 of the deviation.
    assert abs(values.std() - 0.88 * 0.02) < 0.001


def test_weights_that_a_checkpoint_will_fill_are_zeros():
    with to_be_filled():
        layer = Pooler(8)
    layer.build((None, 7, 8))
    assert not contracts.weights(layer)[f"{layer.name}/dense/kernel"].any()
    layer = Pooler(8)
    layer.build((None, 7, 8))
    assert contracts.weights(layer)[f"{layer.name}/dense/kernel"].any()
