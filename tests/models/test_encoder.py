"""The encoder: its inputs and outputs, the NumPy reference, and properties that every BERT has."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import PRESETS, BertEncoder, features
from tests import contracts, reference
from tests.contracts import FAMILIES, TINY, VALUES, numpy

_SEQUENCE, _POOLED = features.SEQUENCE_OUTPUT, features.POOLED_OUTPUT

_BLOCK = [
    "attention/query/kernel",
    "attention/query/bias",
    "attention/key/kernel",
    "attention/key/bias",
    "attention/value/kernel",
    "attention/value/bias",
    "attention/output/kernel",
    "attention/output/bias",
    "feedforward/intermediate/kernel",
    "feedforward/intermediate/bias",
    "feedforward/output/kernel",
    "feedforward/output/bias",
    "attention_layer_norm/gamma",
    "attention_layer_norm/beta",
    "feedforward_layer_norm/gamma",
    "feedforward_layer_norm/beta",
]
_PATHS = [
    "embeddings/token/embeddings",
    "embeddings/position/embeddings",
    "embeddings/segment/embeddings",
    "embeddings/layer_norm/gamma",
    "embeddings/layer_norm/beta",
    *(f"block_0/{path}" for path in _BLOCK),
    "pooler/dense/kernel",
    "pooler/dense/bias",
]


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return contracts.as_trained(BertEncoder(TINY))


def _changed(x: dict[str, np.ndarray], name: str, values: Any) -> dict[str, np.ndarray]:
    return {**x, name: np.asarray(values, "int32")}


@pytest.mark.parametrize("everything", [False, True])
def test_contract(everything: bool, tmp_path):
    def make(**options: Any) -> BertEncoder:
        return BertEncoder(
            TINY.replace(num_layers=1), hidden_states=everything, attentions=everything, **options
        )

    contracts.check_encoder(make, tmp_path)


@pytest.mark.parametrize("name", [*FAMILIES, *VALUES])
def test_equals_the_numpy_reference(name: str):
    """Every output of every family and value equals the NumPy reference, on every backend."""
    config = (FAMILIES | VALUES)[name]
    encoder = contracts.as_trained(BertEncoder(config, hidden_states=True, attentions=True))
    x = contracts.batch(encoder.config)
    expected = reference.numpy_outputs(encoder, x)
    contracts.assert_close(
        keras.tree.map_structure(lambda output: output.astype("float64"), numpy(encoder(x))),
        expected,
        reference.TOLERANCE,
    )


# Variable paths are part of the file format. A renamed variable would break all checkpoints.
def test_variable_paths_are_pinned():
    encoder = BertEncoder(TINY.replace(num_layers=1))
    assert [weight.path for weight in encoder.weights] == _PATHS
    projected = BertEncoder(FAMILIES["projected"].replace(num_layers=1, pooler=False))
    assert [weight.path for weight in projected.weights] == [
        *_PATHS[:5],
        "embeddings/projection/kernel",
        "embeddings/projection/bias",
        *_PATHS[5:-2],
    ]


def test_paths_do_not_depend_on_name_or_outputs():
    encoder = BertEncoder(
        TINY.replace(num_layers=1), name="teacher", hidden_states=True, attentions=True
    )
    assert [weight.path for weight in encoder.weights] == _PATHS


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("bert_base_uncased", 109_482_240), ("bert_large_uncased", 335_141_888)],
)
def test_number_of_parameters(preset: str, parameters: int, monkeypatch):
    # One block is built, since all are alike. Zeros save time and memory.
    zeros = keras.initializers.Zeros()
    monkeypatch.setattr(keras.initializers, "TruncatedNormal", lambda **_: zeros)
    config = PRESETS[preset]
    encoder = BertEncoder(config.replace(num_unique_layers=1))
    others = (config.num_layers - 1) * encoder.blocks[0].count_params()
    assert encoder.count_params() + others == parameters


def test_shared_blocks_do_not_grow_with_depth():
    sizes = {
        depth: BertEncoder(TINY.replace(num_layers=depth, num_unique_layers=1)).count_params()
        for depth in (1, 2, 6)
    }
    assert len(set(sizes.values())) == 1, sizes


def test_inputs_are_those_the_config_needs(encoder):
    assert set(encoder.input) == {"token_ids", "segment_ids", "padding_mask"}
    assert set(BertEncoder(FAMILIES["one_segment"]).input) == {"token_ids", "padding_mask"}
    assert set(BertEncoder(FAMILIES["no_pooler"]).output) == {_SEQUENCE}


def test_padding_never_changes_real_tokens(encoder):
    x = contracts.batch(TINY, length=5)
    # A batch of another length, with padding of non-zero ids.
    longer = contracts.batch(TINY, length=7)
    for name, values in x.items():
        longer[name][:, :5] = values
    longer[features.PADDING_MASK][:, 5:] = 0
    short, long = numpy(encoder(x)), numpy(encoder(longer))
    real = x[features.PADDING_MASK] == 1
    np.testing.assert_allclose(long[_SEQUENCE][:, :5][real], short[_SEQUENCE][real], atol=1e-5)
    np.testing.assert_allclose(long[_POOLED], short[_POOLED], atol=1e-5)


def test_rows_do_not_see_each_other(encoder):
    x = contracts.batch(TINY)
    order = [2, 0, 1]
    found = numpy(encoder({name: values[order] for name, values in x.items()}))
    for name, values in numpy(encoder(x)).items():
        np.testing.assert_allclose(found[name], values[order], atol=1e-5)


def test_every_input_matters(encoder):
    x = contracts.batch(TINY)
    first = numpy(encoder(x))[_SEQUENCE]
    for name, values in x.items():
        other = numpy(encoder(_changed(x, name, 1 - np.minimum(values, 1))))[_SEQUENCE]
        assert np.abs(other - first).max() > 1e-2, name


def test_positions_matter(encoder):
    """Without positions, a permutation of the tokens would permute the outputs."""
    x = contracts.batch(TINY)
    for name, value in ((features.SEGMENT_IDS, 0), (features.PADDING_MASK, 1)):
        x = _changed(x, name, np.full_like(x[name], value))
    order = [3, 0, 6, 1, 5, 2, 4]
    permuted = numpy(encoder(_changed(x, features.TOKEN_IDS, x[features.TOKEN_IDS][:, order])))
    first = numpy(encoder(x))
    assert np.abs(permuted[_SEQUENCE] - first[_SEQUENCE][:, order]).max() > 1e-2


def test_a_row_of_padding_gives_finite_numbers(encoder):
    x = contracts.batch(TINY)
    x[features.PADDING_MASK][1] = 0
    assert all(np.isfinite(values).all() for values in numpy(encoder(x)).values())


def test_dropout_is_repeatable_and_in_training_only():
    x = contracts.batch(TINY)

    def outputs(seed: int) -> list[np.ndarray]:
        keras.utils.set_random_seed(seed)
        encoder = BertEncoder(TINY)
        return [numpy(encoder(x, training=training))[_SEQUENCE] for training in (1, 1, 0, 0)]

    first, again, other = outputs(1), outputs(1), outputs(2)
    contracts.assert_close(first, again)
    assert (first[0] != first[1]).any()
    assert (first[0] != first[2]).any()
    np.testing.assert_array_equal(first[2], first[3])
    assert (first[0] != other[0]).any()


@pytest.mark.parametrize("way", ["call", "predict"])
def test_a_sequence_that_is_too_long_is_refused(encoder, way: str):
    x = contracts.batch(TINY, length=13)
    with pytest.raises(ValueError, match=r"has 12 positions, .* have 13 tokens"):
        encoder(x) if way == "call" else encoder.predict(x, verbose=0)


def test_views_share_the_weights(encoder):
    x = contracts.batch(TINY)
    view = encoder.with_outputs(hidden_states=True, attentions=True)
    assert {id(weight) for weight in view.weights} == {id(weight) for weight in encoder.weights}
    assert len(view.weights) == len(encoder.weights)
    outputs = numpy(view(x))
    for name, values in numpy(encoder(x)).items():
        np.testing.assert_array_equal(outputs[name], values)
    states, attentions = outputs[features.HIDDEN_STATES], outputs[features.ATTENTIONS]
    assert len(states) == TINY.num_layers + 1
    np.testing.assert_array_equal(states[-1], outputs[_SEQUENCE])
    assert [each.shape for each in attentions] == [(3, 2, 7, 7)] * TINY.num_layers
    for probabilities in attentions:
        np.testing.assert_allclose(probabilities.sum(-1), 1.0, atol=1e-6)
        assert (probabilities[1, :, :, -1] == 0).all()  # the padding token gets no attention

    weight = encoder.weights[0]
    value = numpy(weight)
    weight.assign(value[::-1])
    assert np.abs(numpy(view(x))[_SEQUENCE] - outputs[_SEQUENCE]).max() > 1e-3
    weight.assign(value)


def test_can_be_frozen_and_used_as_a_layer(encoder, tmp_path):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    frozen = BertEncoder(TINY)
    frozen.trainable = False
    outputs = keras.layers.Dense(2, name="scores")(frozen(inputs)[_POOLED])
    model = keras.Model(inputs, outputs)
    assert len(model.trainable_weights) == 2
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "model.keras")
    x = contracts.batch(TINY)
    contracts.assert_close(numpy(loaded(x)), numpy(model(x)))


def test_weights_start_as_in_bert():
    for path, values in contracts.weights(BertEncoder(TINY)).items():
        match path.rpartition("/")[2]:
            case "kernel" | "embeddings":
                assert np.abs(values).max() < 0.06, path
                assert values.std() > 0.005, path
            case "gamma":
                np.testing.assert_array_equal(values, 1.0)
            case "bias" | "beta":
                np.testing.assert_array_equal(values, 0.0)
            case other:
                pytest.fail(other)
