"""Knowledge distillation from a teacher to a student."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Distiller,
    MultipleChoice,
    QuestionAnswerer,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
)
from bert_keras.losses import InBatchLoss
from bert_keras.models.distiller import DistillationLoss
from bert_keras.models.token_classification import TagLoss
from tests import contracts
from tests.contracts import TINY

_SMALL = TINY.replace(num_layers=1, dropout=0.0, attention_dropout=0.0)


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_teacher_stays_as_it_was_set(is_trained: bool, tmp_path: Path) -> None:
    """A rebuilt distiller keeps whether its teacher is trainable."""
    distiller = Distiller(*(SequenceClassifier(BertEncoder(_SMALL), 3) for _ in range(2)))
    distiller.teacher.trainable = is_trained
    distiller.save(tmp_path / "distiller.keras")
    for rebuilt in (
        keras.models.load_model(tmp_path / "distiller.keras"),
        Distiller.from_config(distiller.get_config()),
        copy.deepcopy(distiller),
    ):
        expected = [variable.name for variable in distiller.trainable_variables]
        assert [variable.name for variable in rebuilt.trainable_variables] == expected


def _softmax(logits: np.ndarray) -> np.ndarray:
    found = np.exp(logits - logits.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def test_the_loss_is_hintons() -> None:
    """The loss has Hinton's formula for temperature and alpha."""
    rng = np.random.default_rng(0)
    student, teacher = rng.normal(size=(2, 5, 3)).astype("float32")
    labels = np.array([0, 1, 2, 1, 0])
    hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = DistillationLoss(hard, temperature=3.0, alpha=0.25)
    found = float(loss(labels, np.stack([student, teacher], axis=-1)))
    p, q = _softmax(teacher / 3), _softmax(student / 3)
    soft = 9 * (p * np.log(p / q)).sum(-1)
    crossed = -np.log(_softmax(student)[np.arange(5), labels])
    np.testing.assert_allclose(found, (0.75 * crossed + 0.25 * soft).mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("hard", "labels"),
    [
        (keras.losses.BinaryCrossentropy(from_logits=True), np.eye(3, dtype="float32")),
        (keras.losses.MeanSquaredError(), np.ones((3, 3), "float32")),
    ],
)
def test_a_student_that_answers_as_its_teacher_has_no_soft_loss(hard: Any, labels: Any) -> None:
    logits = np.random.default_rng(0).normal(size=(3, 3)).astype("float32")
    loss = DistillationLoss(hard, alpha=1.0)
    np.testing.assert_allclose(float(loss(labels, np.stack([logits, logits], -1))), 0, atol=1e-6)
    other = np.stack([logits + np.arange(3, dtype="float32"), logits], -1)
    assert float(loss(labels, other)) > 0.01


def _pairs(loss: str, **options: Any) -> Any:
    return lambda encoder: SentencePairs(encoder, loss=loss, **options)


@pytest.mark.parametrize(
    ("make", "hidden"),
    [
        (lambda encoder: SequenceClassifier(encoder, 3), 0.0),
        (lambda encoder: SequenceClassifier(encoder, 3, problem="multi_label"), 1.0),
        (lambda encoder: SequenceClassifier(encoder, 1), 0.0),
        (lambda encoder: TokenClassifier(encoder, 3), 0.0),
        (lambda encoder: TokenClassifier(encoder, 3), 1.0),
        (lambda encoder: QuestionAnswerer(encoder), 1.0),
        (lambda encoder: MultipleChoice(encoder), 1.0),
        (_pairs("similarity"), 0.0),
        (_pairs("classification", num_classes=3), 1.0),
        (_pairs("in_batch"), 1.0),
    ],
    ids=[
        *("labels", "multi_label-hidden", "scores", "tags", "tags-hidden", "spans-hidden"),
        *("choices-hidden", "similarity", "pair_labels-hidden", "in_batch-hidden"),
    ],
)
def test_a_student_comes_near_its_teacher(make: Any, hidden: float) -> None:
    """With alpha=1 the student learns from the teacher alone, and the teacher does not change."""
    keras.utils.set_random_seed(0)
    teacher = contracts.as_trained(make(BertEncoder(TINY)))
    student = make(BertEncoder(_SMALL))
    distiller = Distiller(student, teacher, alpha=1.0, temperature=1.0, hidden=hidden)
    distiller.compile(keras.optimizers.Adam(3e-2), **distiller.loss_and_metrics())
    before = [contracts.numpy(weight.value) for weight in teacher.weights]
    x = contracts.inputs_of(teacher)
    wanted = contracts.numpy(teacher(x))
    y = {name: _labels(student, name, logits) for name, logits in wanted.items()}

    def distance() -> float:
        found = contracts.numpy(student(x))
        return float(sum(_gap(student, name, found[name], wanted[name]) for name in wanted))

    first = distance()
    contracts.learn(distiller, x, y, steps=30)
    assert distance() < 0.7 * first
    for weight, old in zip(teacher.weights, before, strict=True):
        np.testing.assert_array_equal(contracts.numpy(weight.value), old)


def test_the_teacher_drops_nothing_in_training() -> None:
    teacher, student = (
        contracts.as_trained(SequenceClassifier(BertEncoder(TINY), 3, dropout=0.5)) for _ in "ab"
    )
    distiller = Distiller(student, teacher, hidden=1.0)
    x = contracts.inputs_of(teacher)
    expected = contracts.numpy(teacher(x))["label"]
    outputs = contracts.numpy(distiller(x, training=True))["label"]
    np.testing.assert_allclose(outputs[..., 1], expected, rtol=0, atol=1e-5)
    # The student applies dropout.
    assert (np.abs(outputs[..., 0] - expected) > 1e-3).any()


@pytest.mark.parametrize("make", [SequenceClassifier, TokenClassifier])
def test_hidden_states_are_compared(make: Any) -> None:
    """`hidden` weighs a loss of one minus the cosine between the last hidden states."""
    tasks = [contracts.as_trained(make(BertEncoder(TINY), 3), seed) for seed in range(2)]
    x = contracts.inputs_of(tasks[0])
    y = {name: np.zeros(values.shape[:-1], "int32") for name, values in tasks[0](x).items()}
    losses = []
    for hidden in (0.0, 0.5):
        distiller = Distiller(*tasks, hidden=hidden)
        distiller.compile("sgd", **distiller.loss_and_metrics())
        losses.append(distiller.evaluate(x, y, batch_size=len(x["token_ids"]), verbose=0))
    states = [contracts.numpy(task.encoder(x))["sequence_output"] for task in tasks]
    first, second = (state / np.linalg.norm(state, axis=-1, keepdims=True) for state in states)
    distances = 1.0 - (first * second).sum(-1)
    expected = 0.5 * distances[x["padding_mask"].astype(bool)].mean()
    assert expected > 0.1
    np.testing.assert_allclose(losses[1] - losses[0], expected, atol=1e-5)


def _gap(task: Any, name: str, found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the mean difference of two outputs, by what they mean for this task.

    Logits of one label can differ by a constant without a change of their meaning.
    """
    loss = task.loss_and_metrics()["loss"][name]
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy | TagLoss):
        found, wanted = _softmax(found), _softmax(wanted)
    if isinstance(loss, InBatchLoss):
        found, wanted = (pairs[:, 0] @ pairs[:, 1].T for pairs in (found, wanted))
    return float(np.abs(found - wanted).mean())


def _labels(task: Any, name: str, logits: np.ndarray) -> np.ndarray:
    loss = task.loss_and_metrics()["loss"][name]
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy | TagLoss):
        return np.zeros(logits.shape[:-1], "int32")
    if isinstance(loss, InBatchLoss):
        return np.zeros(len(logits), "float32")
    return np.zeros(logits.shape, "float32")


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: QuestionAnswerer(BertEncoder(_SMALL)), {}, "tasks of one class"),
        (lambda: SequenceClassifier(BertEncoder(_SMALL), 2), {}, "one shape of outputs"),
        (
            lambda: SequenceClassifier(BertEncoder(_SMALL), 3, labels=["a", "b", "c"]),
            {},
            "differ in labels",
        ),
        (
            lambda: SequenceClassifier(BertEncoder(_SMALL.replace(vocab_size=40)), 3),
            {},
            "the same vocabulary. .* Received: vocab_size=40 of the student, 50 of the teacher",
        ),
        (lambda: SequenceClassifier(BertEncoder(_SMALL), 3), {"alpha": 1.5}, "alpha=1.5"),
        (lambda: SequenceClassifier(BertEncoder(_SMALL), 3), {"temperature": 0}, "temperature=0"),
        (
            lambda: SequenceClassifier(BertEncoder(_SMALL.replace(hidden_size=4)), 3),
            {"hidden": 1.0},
            "states of one width. .* Received: hidden_size=4 of the student, 8 of the teacher",
        ),
    ],
)
def test_refused(make: Any, options: dict[str, Any], message: str) -> None:
    teacher = SequenceClassifier(BertEncoder(TINY), 3)
    with pytest.raises(ValueError, match=message):
        Distiller(make(), teacher, **options)


def test_hidden_states_that_a_task_does_not_read() -> None:
    """`hidden` is refused for a task that does not use the last hidden states alone."""
    config = TINY.replace(num_layers=4)
    tasks = [TokenClassifier(BertEncoder(config), 3, representation="mix") for _ in range(2)]
    with pytest.raises(ValueError, match=r"compares the last hidden states .* Pass hidden=0\.0"):
        Distiller(*tasks, hidden=1.0)
