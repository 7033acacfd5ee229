"""A pooler that a task does not read stays as it is, and is still the task's."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, Distiller, MaskedLM, SequenceClassifier, optimizer
from tests import contracts
from tests.contracts import TINY


def _ids(variables: list[Any]) -> list[int]:
    return sorted(map(id, variables))


@pytest.fixture
def encoder() -> BertEncoder:
    return BertEncoder(TINY)


@pytest.fixture
def pooler(encoder: BertEncoder) -> list[Any]:
    assert encoder.pooler is not None
    return encoder.pooler.weights


def test_it_decays_on_no_backend_and_another_task_may_train_it(
    encoder: BertEncoder, pooler: list[Any]
) -> None:
    reader, task = SequenceClassifier(encoder, 2), MaskedLM(encoder)
    contracts.as_trained(reader)
    before = [contracts.numpy(weight).copy() for weight in pooler]
    task.compile(optimizer(0.1, total_steps=10, weight_decay=0.5), **task.loss_and_metrics())
    x = contracts.batch(TINY, predictions=2)
    task.fit(x, {"mlm": x["mask_positions"]}, verbose=0)  # pyright: ignore[reportArgumentType]
    contracts.assert_close(contracts.numpy(pooler), before)
    reader.compile(optimizer(0.1, total_steps=10), **reader.loss_and_metrics())
    reader.fit(contracts.inputs_of(reader), np.zeros(3), verbose=0)  # pyright: ignore[reportArgumentType]
    assert all((a != b).any() for a, b in zip(contracts.numpy(pooler), before, strict=True))


def test_who_reads_it_trains_it(encoder: BertEncoder, pooler: list[Any]) -> None:
    reader = SequenceClassifier(encoder, 2)
    assert {id(weight) for weight in pooler} <= set(_ids(reader.trainable_weights))
    own = SequenceClassifier(encoder, 2, hidden_activation="tanh")
    assert _ids(own.non_trainable_weights) == _ids(pooler)
    assert all(weight.trainable for weight in pooler)


@pytest.mark.parametrize("names", ["weights", "variables"])
@pytest.mark.parametrize("is_distilled", [False, True], ids=["task", "distiller"])
def test_all_variables_are_of_one_kind(
    encoder: BertEncoder, pooler: list[Any], names: str, is_distilled: bool
) -> None:
    task: keras.Model = MaskedLM(encoder)
    if is_distilled:
        task = Distiller(task, MaskedLM(BertEncoder(TINY)))
    trained, others = (getattr(task, f"{kind}trainable_{names}") for kind in ("", "non_"))
    assert _ids([*trained, *others]) == _ids(getattr(task, names))
    assert {id(weight) for weight in pooler} <= set(_ids(others))


def test_a_fixed_encoder_stays_fixed(encoder: BertEncoder) -> None:
    task = MaskedLM(encoder)
    encoder.trainable = False
    assert not {id(weight) for weight in encoder.weights} & set(_ids(task.trainable_weights))
