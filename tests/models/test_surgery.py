"""Smaller encoders: exact, really smaller, and remembered."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import BertEncoder, features, load_checkpoint
from tests import contracts, reference
from tests.contracts import TINY, numpy

_CONFIG = TINY.replace(hidden_size=12, num_heads=3, num_layers=3)


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return contracts.as_trained(BertEncoder(_CONFIG))


def _masked(encoder: BertEncoder, heads: dict[int, list[int]]) -> BertEncoder:
    """The same encoder with what these heads give to the output set to zero."""
    other = BertEncoder(encoder.config)
    other.set_weights(encoder.get_weights())
    size = encoder.config.head_size
    for block, numbers in heads.items():
        kernel = other.blocks[block].attention.output_projection.kernel
        values = numpy(kernel).copy()
        for head in numbers:
            values[head * size : (head + 1) * size] = 0.0
        kernel.assign(values)
    return other


@pytest.mark.parametrize("heads", [{0: [1]}, {0: [0, 2], 2: [1]}, {}])
def test_pruning_is_exact(heads: dict[int, list[int]], encoder: BertEncoder, tmp_path):
    pruned = encoder.prune_heads(heads)
    x = contracts.inputs_of(encoder)
    contracts.assert_close(numpy(pruned(x)), numpy(_masked(encoder, heads)(x)), 1e-5)
    gone = sum(map(len, heads.values()))
    of_a_head = 4 * 12 * 4 + 3 * 4  # four matrices, three biases
    assert pruned.count_params() == encoder.count_params() - gone * of_a_head
    pruned.save_to_preset(tmp_path)
    opened = load_checkpoint(tmp_path)
    assert opened.config == pruned.config
    contracts.assert_same_weights(opened, pruned)


def test_pruning_twice_is_pruning_once(encoder: BertEncoder):
    """Heads keep the numbers they had at first."""
    twice = encoder.prune_heads({0: [0], 1: [1]}).prune_heads({0: [2]})
    contracts.assert_same_weights(twice, encoder.prune_heads({0: [0, 2], 1: [1]}))


def test_pruned_attention_looks_as_before(encoder: BertEncoder):
    x = contracts.inputs_of(encoder)
    pruned = encoder.prune_heads({0: [1]}).with_outputs(attentions=True)
    before = numpy(encoder.with_outputs(attentions=True)(x)[features.ATTENTIONS][0])
    found = numpy(pruned(x)[features.ATTENTIONS][0])
    np.testing.assert_allclose(found, before[:, [0, 2]], atol=1e-5)


@pytest.mark.parametrize("heads", [{3: [0]}, {-1: [0]}, {0: [3]}, {0: [0, 1, 2]}])
def test_what_cannot_be_pruned(heads: dict[int, list[int]], encoder: BertEncoder):
    with pytest.raises(ValueError, match=r"blocks 0 to 2|heads from 0 to 2"):
        encoder.prune_heads(heads)


def test_the_first_layers(encoder: BertEncoder):
    x = contracts.inputs_of(encoder)
    states = numpy(encoder.with_outputs(hidden_states=True)(x)[features.HIDDEN_STATES])
    shallow = encoder.keep_layers(2)
    assert shallow.config.num_layers == 2
    found = numpy(shallow(x))[features.SEQUENCE_OUTPUT]
    np.testing.assert_allclose(found, states[2], atol=1e-5)


def test_chosen_layers(encoder: BertEncoder, tmp_path):
    pruned = encoder.prune_heads({2: [0]})
    shallow = pruned.keep_layers([0, 2])
    assert shallow.config.pruned_heads == ((), (0,))
    weights, before = contracts.weights(shallow), contracts.weights(pruned)
    for path, values in weights.items():
        old = path.replace("block_1/", "block_2/")
        assert values.tobytes() == before[old].tobytes(), path
    x = contracts.inputs_of(shallow)
    assert reference.difference(numpy(shallow(x)), reference.numpy_outputs(shallow, x)) < 1e-5
    shallow.save_to_preset(tmp_path)
    contracts.assert_same_weights(load_checkpoint(tmp_path), shallow)


@pytest.mark.parametrize("layers", [0, 4, [], [0, 3], [-1], [1, 0], [0, 0]])
def test_layers_that_cannot_be_kept(layers, encoder: BertEncoder):
    with pytest.raises(ValueError, match="`layers` must be a number from 1 to 3"):
        encoder.keep_layers(layers)


def test_shared_blocks_have_no_layers_of_their_own():
    with pytest.raises(ValueError, match="The layers share blocks"):
        BertEncoder(TINY.replace(num_unique_layers=1)).keep_layers(1)


def test_layers_as_numbers_of_numpy():
    encoder = BertEncoder(TINY)
    for layers in (np.int64(1), np.array([0])):
        shallow = encoder.keep_layers(layers)  # pyright: ignore[reportArgumentType]
        assert type(shallow.config.num_layers) is int
        assert shallow.config.num_layers == 1
