"""Gradient checkpointing gives the same training, up to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder
from bert_keras.models import MaskedLM, SequenceClassifier, Task
from tests.contracts import TINY, batch, weights

# Wide initial weights make every gradient large enough to show an error.
CONFIG = TINY.replace(dropout=0.3, attention_dropout=0.2, initializer_range=0.5)


def _learned(task_class: type[Task], policy: str, checkpointed: bool) -> dict[str, np.ndarray]:
    keras.utils.set_random_seed(5)
    encoder = BertEncoder(CONFIG, dtype=policy)
    options: dict[str, Any] = {"num_classes": 2} if task_class is SequenceClassifier else {}
    task = task_class(encoder, **options)
    encoder.checkpoint_gradients(checkpointed)
    task.compile(keras.optimizers.SGD(0.1), **task.loss_and_metrics())
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
    # Two SGD steps with a rate of 0.1. Gradients differ by less than 1e-5.
    tolerance = 2e-6 if policy == "float32" else 5e-2
    for path, values in plain.items():
        np.testing.assert_allclose(checkpointed[path], values, atol=tolerance, err_msg=path)
    # The lowest block has changed, so that the gradients passed through all other blocks.
    keras.utils.set_random_seed(5)
    start = weights(BertEncoder(CONFIG))
    path = "block_0/attention/query/kernel"
    found = next(values for name, values in plain.items() if name.endswith(path))
    assert np.abs(start[path] - found).max() > 1e-2


@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="the jax backend traces once what it computes twice"
)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_each_block_is_computed_again(checkpointed: bool, monkeypatch) -> None:
    encoder = BertEncoder(CONFIG)
    encoder.checkpoint_gradients(checkpointed)
    seen: list[str] = []
    outputs = type(encoder.blocks[0])._outputs

    def counted(block: Any, *given: Any, **tensors: Any) -> Any:
        seen.append(block.name)
        return outputs(block, *given, **tensors)

    monkeypatch.setattr(type(encoder.blocks[0]), "_outputs", counted)
    task = SequenceClassifier(encoder, num_classes=2)
    task.compile(keras.optimizers.SGD(0.1), **task.loss_and_metrics(), run_eagerly=True)
    step = batch(CONFIG), {"label": np.array([0, 1, 1])}
    task.train_on_batch(*step)
    seen.clear()  # before the first step, Keras calls the model once to see its outputs
    task.train_on_batch(*step)
    times = 2 if checkpointed else 1
    assert sorted(seen) == sorted([block.name for block in encoder.blocks] * times)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="programs of the jax backend")
def test_each_block_is_computed_again_by_xla() -> None:
    encoder = BertEncoder(CONFIG)
    once = _products_of_gradients(encoder)
    encoder.checkpoint_gradients()
    # The gradients of a block need all of its products again, except the one of its last kernel.
    products = 5 + 2
    assert _products_of_gradients(encoder) >= once + products * CONFIG.num_layers


def _products_of_gradients(encoder: BertEncoder) -> int:
    """Return the number of matrix products of blocks that JAX traces for a gradient."""
    import jax

    inputs = batch(CONFIG)
    variables = [v.value for v in encoder.trainable_variables]
    others = [v.value for v in encoder.non_trainable_variables]

    def loss(values: list[Any]) -> Any:
        outputs, _ = encoder.stateless_call(values, others, inputs, training=True)
        return outputs["sequence_output"].sum()

    return str(jax.make_jaxpr(jax.grad(loss))(variables)).count("dot_general")


def test_it_is_saved(tmp_path: Path) -> None:
    """A file keeps gradient checkpointing, which can be switched off again."""
    encoder = BertEncoder(CONFIG)
    encoder.checkpoint_gradients()
    assert all(block.checkpoints_gradients for block in encoder.blocks)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.models.load_model(tmp_path / "encoder.keras")
    assert all(block.checkpoints_gradients for block in again.blocks)
    encoder.checkpoint_gradients(False)
    assert not any(block.checkpoints_gradients for block in encoder.blocks)


def test_the_kernels_are_told() -> None:
    """`describe_kernels` names attention dropout as a reason in training."""
    told = BertEncoder(CONFIG).describe_kernels()
    assert "attention_dropout=0.2" in told["training"]
    told = BertEncoder(CONFIG.replace(attention_dropout=0.0)).describe_kernels()
    assert told["training"] == told["inference"]
