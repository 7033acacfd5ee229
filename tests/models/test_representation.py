"""Encoder outputs that heads read, and encoders that are not trained."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    SequenceClassifier,
    TokenClassifier,
    features,
    load_checkpoint,
    optimizer,
)
from bert_keras.models.representation import token_vectors
from tests import contracts
from tests.contracts import TINY, numpy

FOUR = TINY.replace(num_layers=4, pooler=False)
_TASKS = {
    "tokens": lambda encoder, **options: TokenClassifier(encoder, 3, **options),
    "text": lambda encoder, **options: SequenceClassifier(
        encoder, 3, hidden_activation="tanh", **options
    ),
}


@pytest.mark.parametrize(
    ("kind", "representation", "num_layers"), [("tokens", "concat_last_4", 4), ("text", "mix", 1)]
)
def test_contract(kind: str, representation: str, num_layers: int, tmp_path):
    contracts.check_task(
        lambda encoder: _TASKS[kind](encoder, representation=representation),
        FOUR.replace(num_layers=num_layers),
        tmp_path,
    )


@pytest.mark.parametrize("representation", ["concat_last_4", "mix"])
@pytest.mark.parametrize("kind", _TASKS)
def test_format(kind: str, representation: str, tmp_path):
    task = _TASKS[kind](BertEncoder(FOUR), representation=representation)
    contracts.check_format(task, contracts.inputs_of(task), tmp_path)
    assert load_checkpoint(tmp_path).options["representation"] == representation
    contracts.assert_same_weights(BertEncoder.from_preset(tmp_path), task.encoder)


def test_a_head_may_be_put_on_any_checkpoint(tmp_path):
    encoder = contracts.as_trained(BertEncoder(FOUR))
    encoder.save_to_preset(tmp_path)
    task = TokenClassifier.from_preset(
        tmp_path, num_classes=3, representation="mix", allow_missing=("tags", "mix")
    )
    contracts.assert_same_weights(task.encoder, encoder)
    np.testing.assert_array_equal(contracts.weights(task)["mix/scale"], 1.0)


@pytest.mark.parametrize("representation", ["last", "concat_last_4", "mix"])
def test_vectors_are_those_of_the_layers(representation: str):
    encoder = contracts.as_trained(BertEncoder(FOUR))
    x = contracts.batch(FOUR)
    states = numpy(encoder.with_outputs(hidden_states=True)(x))[features.HIDDEN_STATES]
    assert len(states) == 5
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in x}
    model: Any = keras.Model(inputs, token_vectors(encoder, inputs, representation))
    if representation == "mix":
        model.get_layer("mix").scores.assign([1.0, 0.0, -1.0, 2.0, 0.5])
        weights = np.exp([1.0, 0.0, -1.0, 2.0, 0.5])
        expected = np.einsum("n,nbth->bth", weights / weights.sum(), np.stack(states))
    else:
        last = {"last": 1, "concat_last_4": 4}[representation]
        expected = np.concatenate(states[-last:], axis=-1)
    np.testing.assert_allclose(numpy(model(x)), expected, rtol=0, atol=1e-5)
    own = {id(weight) for weight in encoder.weights}
    others = [weight.path for weight in model.weights if id(weight) not in own]
    assert others == (["mix/scores", "mix/scale"] if representation == "mix" else [])


@pytest.mark.parametrize("representation", ["last", "mix"])
def test_a_frozen_encoder_is_fixed_and_its_head_learns(representation: str):
    keras.utils.set_random_seed(0)
    task = TokenClassifier(
        contracts.as_trained(BertEncoder(FOUR)),
        3,
        representation=representation,
        dropout=0.0,
    )
    before = contracts.weights(task)
    task.encoder.trainable = False
    x = contracts.inputs_of(task)
    # Dropout of 0.1 in every block, and yet:
    np.testing.assert_array_equal(
        numpy(task(x, training=True)[features.TAGS]), numpy(task(x, training=True)[features.TAGS])
    )
    task.compile(optimizer(0.05, total_steps=100), **task.loss_and_metrics())
    y = {features.TAGS: x[features.TOKEN_IDS] % 3}
    counted = {features.TAGS: x[features.PADDING_MASK].astype("float32")}
    first, last = contracts.learn(task, x, y, counted, steps=100)
    assert last < 0.9 * first
    heads = tuple(f"{name}/" for name in task.head_layers)
    for path, values in contracts.weights(task).items():
        assert (values != before[path]).any() == path.startswith(heads), path


def test_a_layer_that_is_frozen_alone_still_drops():
    """As in Keras: nothing but an encoder without anything to train is fixed."""
    encoder = BertEncoder(FOUR)
    encoder.blocks[0].trainable = False
    x = contracts.batch(FOUR)
    first, second = (numpy(encoder(x, training=True)["sequence_output"]) for _ in range(2))
    assert (first != second).any()
    encoder.trainable = False
    first, second = (numpy(encoder(x, training=True)["sequence_output"]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_what_cannot_be_is_refused():
    with pytest.raises(
        ValueError, match="`representation` must be one of last, concat_last_4, mix"
    ):
        TokenClassifier(BertEncoder(TINY), 3, representation="first")
    with pytest.raises(ValueError, match=r"needs an encoder of 4 layers or more.*num_layers=2"):
        TokenClassifier(BertEncoder(TINY), 3, representation="concat_last_4")
    with pytest.raises(ValueError, match="pooled output is made of the last layer"):
        SequenceClassifier(BertEncoder(TINY), 3, representation="mix")
