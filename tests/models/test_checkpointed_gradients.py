"""Blocks that are computed again for their gradients learn the same, bit for bit or nearly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder
from bert_keras.models import MaskedLM, SequenceClassifier, Task
from tests.contracts import TINY, batch, weights

# Wide initial weights: every gradient is large enough to tell a wrong one.
CONFIG = TINY.replace(dropout=0.3, attention_dropout=0.2, initializer_range=0.5)


def _learned(task_class: type[Task], policy: str, checkpointed: bool) -> dict[str, np.ndarray]:
    keras.utils.set_random_seed(5)
    encoder = BertEncoder(CONFIG, dtype=policy)
    options: dict[str, Any] = {"num_classes": 2} if task_class is SequenceClassifier else {}
    task = task_class(encoder, **options)
    encoder.checkpoint_gradients(checkpointed)
    task.compile(keras.optimizers.SGD(0.1), **task.objective())
    is_mlm = task_class is MaskedLM
    x = batch(CONFIG, predictions=2 if is_mlm else 0)
    y = {"mlm": np.ones((3, 2), "int32")} if is_mlm else {"label": np.array([0, 1, 1])}
    task.fit(x, y, batch_size=3, epochs=2, shuffle=False, verbose=0)
    return weights(task)


@pytest.mark.parametrize("task_class", [MaskedLM, SequenceClassifier])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_training_is_the_same(task_class: type[Task], policy: str) -> None:
    plain, checkpointed = (_learned(task_class, policy, on) for on in (False, True))
    assert plain.keys() == checkpointed.keys()
    # Two steps of a tenth of the gradient each: gradients differ by less than 1e-5.
    tolerance = 2e-6 if policy == "float32" else 5e-2
    for path, values in plain.items():
        np.testing.assert_allclose(checkpointed[path], values, atol=tolerance, err_msg=path)
    # The lowest block has learned: its gradients came through all others.
    keras.utils.set_random_seed(5)
    start = weights(BertEncoder(CONFIG))
    path = "block_0/attention/query/kernel"
    found = next(values for name, values in plain.items() if name.endswith(path))
    assert np.abs(start[path] - found).max() > 1e-2


def test_it_is_a_matter_of_training_and_not_saved(tmp_path: Path) -> None:
    encoder = BertEncoder(CONFIG)
    encoder.checkpoint_gradients()
    assert all(block.checkpoints_gradients for block in encoder.blocks)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.models.load_model(tmp_path / "encoder.keras")
    assert not any(block.checkpoints_gradients for block in again.blocks)
    encoder.checkpoint_gradients(False)
    assert not any(block.checkpoints_gradients for block in encoder.blocks)


def test_the_kernels_are_told() -> None:
    told = BertEncoder(CONFIG).describe_kernels()
    assert "attention_dropout=0.2" in told["training"]
    told = BertEncoder(CONFIG.replace(attention_dropout=0.0)).describe_kernels()
    assert told["training"] == told["inference"]
