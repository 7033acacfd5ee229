"""What is the same for every task."""

from __future__ import annotations

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


def test_from_preset_name_makes_a_new_model():
    task = Pretrainer.from_preset("bert_tiny_uncased", objective="sop", dtype="mixed_bfloat16")
    assert isinstance(task, Pretrainer)
    assert task.options == {"objective": "sop"}
    assert task.dtype_policy.name == task.encoder.dtype_policy.name == "mixed_bfloat16"
    assert task.encoder.config.hidden_size == 128


def test_options_survive_the_config():
    task = Pretrainer(BertEncoder(TINY, dtype="mixed_float16"), objective="sop", name="mine")
    rebuilt = Pretrainer.from_config(task.get_config())
    assert (rebuilt.name, rebuilt.options) == ("mine", {"objective": "sop"})
    assert rebuilt.dtype_policy.name == rebuilt.mlm.dtype_policy.name == "mixed_float16"
    assert rebuilt.encoder.config == TINY


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
    task.compile(keras.optimizers.AdamW(1e-3), **task.objective())
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
    task.compile(optimizer(1e-3, total_steps=3), **task.objective())
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
