"""Behaviour that every task shares."""

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
    TokenClassifier,
    optimizer,
)
from bert_keras.models import Task
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
    """A compiled task saved as `.keras` trains on from where it was."""
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
    """Keras makes the optimizer's variables within the first trace, which is then thrown away."""
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
    ]
    classes = {each for each in Task.__subclasses__() if each.__module__.startswith("bert_keras.")}
    assert {type(task) for task in tasks} == classes
    for task in tasks:
        assert task.get_layer("encoder") is task.get_layer(name) is encoder, type(task)
        # Its graph is that of the encoder alone.
        output = task.get_layer("encoder").get_layer("block_1").output
        assert keras.Model(encoder.input, output).output_shape == (None, None, 8)
        assert task.get_layer(index=0) is task.layers[0]
