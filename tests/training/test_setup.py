"""Seeds, compilation by a recipe, and models whose variables have shapes only."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, Pretrainer
from bert_keras.config import BertConfig
from bert_keras.models import ElectraPretrainer
from bert_keras.training import PretrainRecipe
from bert_keras.training.machine import peak_memory_bytes
from bert_keras.training.setup import (
    build_shapes,
    compile_for,
    compile_to_evaluate,
    set_seed_and_devices,
)
from tests.contracts import TINY

_RECIPE = PretrainRecipe(corpus="demo", steps=100, optimizer="lamb", clip_norm=0.0)


def test_the_seed_gives_the_weights() -> None:
    drawn = []
    for seed in (3, 3, 4):
        set_seed_and_devices(seed)
        weights = BertEncoder(TINY).embeddings.weights[0]
        drawn.append(keras.ops.convert_to_numpy(weights))
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_a_model_is_compiled_by_its_recipe() -> None:
    task = MaskedLM(BertEncoder(TINY, dtype=_RECIPE.precision))
    options: dict[str, Any] = {"warmup_steps": 2, "gradient_accumulation_steps": 4}
    compile_for(_RECIPE, task, 10, **options)
    assert (task.optimizer.name, task.optimizer.global_clipnorm) == ("lamb", None)
    assert task.optimizer.gradient_accumulation_steps == 4
    assert task.loss is not None
    compile_for(_RECIPE, task, 10, warmup_steps=0, learning_rate=0.5)
    assert float(keras.ops.convert_to_numpy(task.optimizer.learning_rate)) == pytest.approx(0.5)


def test_a_task_is_compiled_once_for_its_evaluation() -> None:
    task = MaskedLM(BertEncoder(TINY))
    compile_to_evaluate(_RECIPE, task)
    compiled = task.optimizer
    compile_to_evaluate(_RECIPE, task)
    assert task.compiled
    assert task.optimizer is compiled


# === Models whose variables have shapes only


def _tasks(config: BertConfig) -> list[Any]:
    plain = config.replace(pooler=False)
    return [
        MaskedLM(BertEncoder(plain)),
        Pretrainer(BertEncoder(config), loss="nsp"),
        ElectraPretrainer(BertEncoder(plain.replace(family="electra")), generator_size=0.5),
    ]


def test_counts_are_those_of_a_model_with_values() -> None:
    real, shapes = _tasks(TINY), build_shapes(lambda: _tasks(TINY))
    for task, other in zip(real, shapes, strict=True):
        assert other.count_params() == task.count_params()
        assert [weight.shape for weight in other.weights] == [
            weight.shape for weight in task.weights
        ]


def test_a_trillion_parameters_take_no_memory() -> None:
    sizes = {"hidden_size": 25_600, "num_heads": 200, "intermediate_size": 102_400}
    config = TINY.replace(**sizes, num_layers=127, vocab_size=30_522, max_positions=512)
    before = peak_memory_bytes()
    task = build_shapes(lambda: Pretrainer(BertEncoder(config), loss="nsp"))
    after = peak_memory_bytes()
    assert task.count_params() == pytest.approx(1e12, rel=0.01)
    assert before is not None
    assert after is not None
    assert after - before < 2**29


def test_a_later_scope_gives_no_variable_a_value() -> None:
    task = build_shapes(lambda: MaskedLM(BertEncoder(TINY)))
    with keras.StatelessScope():
        pass
    keras.layers.Dense(2).build((None, 3))
    assert all(weight._value is None for weight in task.weights)


def test_an_error_of_the_build_is_raised_and_no_thread_is_left(tmp_path: Path) -> None:
    threads = threading.active_count()
    with pytest.raises(Exception, match="nowhere"):
        build_shapes(lambda: BertEncoder.from_preset(tmp_path / "nowhere"))
    assert threading.active_count() == threads
