"""Behaviour that all tasks share."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    ElectraPretrainer,
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    QuestionAnswerer,
    ReplacedTokenDetector,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TextRanker,
    TokenClassifier,
    features,
    load_checkpoint,
    optimizer,
)
from bert_keras.models import Task
from bert_keras.models.task import token_vectors
from tests import contracts
from tests.contracts import TINY, numpy


def test_options_survive_the_config():
    task = Pretrainer(BertEncoder(TINY, dtype="mixed_float16"), loss="sop", name="mine")
    rebuilt = Pretrainer.from_config(task.get_config())
    assert (rebuilt.name, rebuilt.options) == ("mine", {"loss": "sop"})
    assert rebuilt.dtype_policy.name == rebuilt.mlm.dtype_policy.name == "mixed_float16"
    assert rebuilt.encoder.config == TINY


def test_counts_of_numpy_are_stored_as_plain_int():
    encoder = BertEncoder(TINY)
    two: Any = np.int64(2)
    tasks = [
        SequenceClassifier(encoder, two),
        TokenClassifier(encoder, two),
        SentencePairs(encoder, loss="classification", num_classes=two),
    ]
    for task in tasks:
        assert type(task.options["num_classes"]) is int
        json.dumps(task.options)
    wrong: Any
    for wrong in (np.float32(2), True, np.bool_(True), 0):
        with pytest.raises(ValueError, match="`num_classes` must be an integer of at least 1"):
            SequenceClassifier(encoder, wrong)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (("a", np.str_("b")), ["a", "b"]),
        ([0, 1], ["0", "1"]),
        (np.array([3, 10]), ["3", "10"]),
    ],
    ids=repr,
)
def test_labels_become_names_as_plain_str(labels: Any, names: list[str]):
    encoder = BertEncoder(TINY)
    for task in (
        SequenceClassifier(encoder, 2, labels=labels),
        TokenClassifier(encoder, 2, labels=labels),
        SentencePairs(encoder, loss="classification", num_classes=2, labels=labels),
    ):
        assert task.options["labels"] == names
        assert set(map(type, task.options["labels"])) == {str}
        json.dumps(task.options)


@pytest.mark.parametrize("labels", ["ab", [0.5, 1.5], [None, "a"], [True, False], [1, "1"]])
def test_what_is_no_name_is_refused(labels: Any):
    needed = "a list of names" if isinstance(labels, str) else "2 different names"
    with pytest.raises(ValueError, match=f"`labels` must be {needed}"):
        SequenceClassifier(BertEncoder(TINY), 2, labels=labels)


def test_two_tasks_share_one_encoder():
    encoder = BertEncoder(TINY)
    first, second = Pretrainer(encoder), MaskedLM(encoder)
    contracts.as_trained(first)
    for path in contracts.weights(encoder):
        assert _weight(first, path) is _weight(second, path)
    frozen = {weight.path for weight in encoder.weights}
    encoder.trainable = False
    assert all(weight.path not in frozen for weight in first.trainable_weights)


def test_optimizer_and_weights_go_on_after_reload(tmp_path):
    """A compiled task that was saved as `.keras` goes on with its weights and optimizer state."""
    task = MaskedLM(BertEncoder(TINY.replace(num_layers=1, pooler=False)))
    task.compile(keras.optimizers.AdamW(1e-3), **task.loss_and_metrics())
    x = contracts.batch(TINY, predictions=2)
    y = {"mlm": x["mask_positions"]}
    task.fit(x, y, verbose=0)
    task.save(tmp_path / "task.keras")
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    assert loaded.optimizer.iterations == 1
    moments = [numpy(variable) for variable in loaded.optimizer.variables]
    contracts.assert_close(moments, [numpy(variable) for variable in task.optimizer.variables])
    contracts.assert_same_weights(loaded, task)


def _weight(model: keras.Model, path: str):
    return next(weight for weight in model.weights if weight.path == path)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="another backend traces otherwise"
)
def test_a_step_is_traced_once(monkeypatch):
    """A training step is traced once. Keras alone would discard the first trace.

    The optimizer's variables, which Keras makes during that trace, are made before it.
    """
    task = SequenceClassifier(BertEncoder(TINY), 2)
    task.compile(optimizer(1e-3, total_steps=3), **task.loss_and_metrics())
    calls, loss = [], SequenceClassifier.compute_loss
    monkeypatch.setattr(
        SequenceClassifier, "compute_loss", lambda *a, **k: (calls.append(1), loss(*a, **k))[1]
    )
    task.train_on_batch(contracts.inputs_of(task), np.zeros(3))
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["encoder", "student"])
def test_every_task_gives_its_encoder_by_name(name: str) -> None:
    encoder = BertEncoder(TINY, name=name)
    tasks = [
        MaskedLM(encoder),
        Pretrainer(encoder),
        ElectraPretrainer(encoder, generator_size=0.5),
        SequenceClassifier(encoder, 3),
        SequenceClassifier(encoder, 3, hidden_activation="tanh"),
        SequenceClassifier(encoder, 3, hidden_activation="tanh", representation="mix"),
        TokenClassifier(encoder, 3),
        QuestionAnswerer(encoder),
        MultipleChoice(encoder),
        ReplacedTokenDetector(encoder),
        SentenceEncoder(encoder),
        SentencePairs(encoder),
        TextRanker(encoder),
    ]
    classes = {each for each in Task.__subclasses__() if each.__module__.startswith("bert_keras.")}
    assert {type(task) for task in tasks} == classes
    for task in tasks:
        assert task.get_layer("encoder") is task.get_layer(name) is encoder, type(task)
        # The graph is the one of the encoder alone.
        output = task.get_layer("encoder").get_layer("block_1").output
        assert keras.Model(encoder.input, output).output_shape == (None, None, 8)
        assert task.get_layer(index=0) is task.layers[0]


# === Encoder outputs that heads read, and frozen encoders ===


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
    """A task opens an encoder's checkpoint with a new head if `allow_missing` names it."""
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
    # The blocks have a dropout of 0.1, but a frozen encoder does not apply it.
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
    """A frozen layer still applies dropout, as in Keras. Only a fully frozen encoder does not."""
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
