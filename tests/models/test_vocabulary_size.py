"""Models for a vocabulary of another size: every family and every task keeps its other weights."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier, Tokenizer, features
from bert_keras.models import Task
from tests.contracts import (
    FAMILIES,
    TINY,
    as_trained,
    assert_close,
    assert_same_weights,
    batch,
    inputs_of,
    numpy,
    weights,
)
from tests.models import every_model

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TABLE = "embeddings/token/embeddings"


def _tokenizer(size: int = TINY.vocab_size) -> Tokenizer:
    return Tokenizer([*SPECIALS, *(f"w{n}" for n in range(size - len(SPECIALS)))])


def _check_grown(model: Any, grown: Any) -> None:
    """Check that a model with 7 more rows gives the same outputs, and its new rows are means."""
    before, after = weights(model), weights(grown)
    assert before.keys() == after.keys()
    for path, values in after.items():
        size = len(before[path])
        np.testing.assert_array_equal(values[:size], before[path], err_msg=path)
        if path in (TABLE, "mlm/bias"):
            assert len(values) == size + 7
            mean = np.broadcast_to(before[path].mean(axis=0), values[size:].shape)
            np.testing.assert_allclose(values[size:], mean, atol=1e-6)
        else:
            assert values.shape == before[path].shape
    x = inputs_of(model)
    expected, found = numpy(model(x)), numpy(grown(x))
    if features.RTD in expected:  # its tokens are drawn from another number of logits
        return
    if features.MLM in found:
        found[features.MLM] = found[features.MLM][..., : TINY.vocab_size]
    assert_close(found, expected, 1e-5)


def _with_slow(names: Iterable[str], quick: Container[str]) -> list[Any]:
    """Return parameters of a test; all names but some are slow."""
    slow = pytest.mark.slow
    return [name if name in quick else pytest.param(name, marks=slow) for name in names]


@pytest.mark.parametrize("family", _with_slow(FAMILIES, ["projected"]))
def test_every_family(family: str) -> None:
    encoder = as_trained(BertEncoder(FAMILIES[family], name="mine"))
    grown = encoder.resize_vocabulary(TINY.vocab_size + 7)
    assert grown.config == encoder.config.replace(vocab_size=TINY.vocab_size + 7)
    assert grown.name == "mine"
    _check_grown(encoder, grown)
    assert_same_weights(grown.resize_vocabulary(TINY.vocab_size), encoder)
    assert np.isfinite(numpy(grown(batch(grown.config)))[features.SEQUENCE_OUTPUT]).all()


@pytest.mark.parametrize("name", _with_slow(every_model.classes_below(Task), ["MaskedLM"]))
def test_every_task(name: str) -> None:
    task = as_trained(every_model.MODELS[every_model.BY_CLASS[name]]())
    task.tokenizer = _tokenizer()
    grown = task.resize_vocabulary(TINY.vocab_size + 7)
    assert type(grown) is type(task)
    assert grown.options == task.options
    assert grown.tokenizer == task.tokenizer
    _check_grown(task, grown)
    grown.tokenizer = task.tokenizer.add_tokens(["new"])
    with pytest.raises(ValueError, match="must be at least 51, the number of entries"):
        grown.resize_vocabulary(TINY.vocab_size)
    assert task.encoder.config.vocab_size == TINY.vocab_size


def test_normal_rows_are_those_of_a_new_model() -> None:
    task = as_trained(MaskedLM(BertEncoder(TINY)))
    first, again, other = (
        task.resize_vocabulary(400, new_rows="normal", seed=seed) for seed in (1, 1, 2)
    )
    assert_same_weights(first, again)
    rows = weights(first)[TABLE][TINY.vocab_size :]
    assert not np.array_equal(rows, weights(other)[TABLE][TINY.vocab_size :])
    assert 0.8 * TINY.initializer_range < rows.std() < 1.1 * TINY.initializer_range
    assert not weights(first)["mlm/bias"][TINY.vocab_size :].any()


def test_changes_of_the_model_are_kept() -> None:
    """Frozen parts, adapters and gradient checkpointing are; the compile state is not."""
    task = SequenceClassifier(BertEncoder(TINY), 3)
    task.encoder.enable_lora(2)
    task.encoder.checkpoint_gradients()
    as_trained(task).compile("sgd", **task.loss_and_metrics())
    grown = task.resize_vocabulary(TINY.vocab_size + 7)
    assert len(grown.trainable_weights) == len(task.trainable_weights)
    assert all(block.checkpoints_gradients for block in grown.encoder.blocks)
    assert not grown.compiled
    _check_grown(task, grown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": 0}, "whole number of at least 1"),
        ({"vocab_size": True}, "whole number of at least 1"),
        ({"vocab_size": 5.5}, "whole number of at least 1"),
        ({"vocab_size": 60, "new_rows": "zeros"}, "one of mean, normal"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BertEncoder(TINY).resize_vocabulary(**arguments)


def test_a_quantised_table_is_refused() -> None:
    encoder = BertEncoder(TINY)
    encoder.quantize("int8", filters=lambda layer: isinstance(layer, keras.layers.Embedding))
    with pytest.raises(ValueError, match="before `quantize`"):
        encoder.resize_vocabulary(60)


def test_a_forgotten_step_is_named() -> None:
    task = SequenceClassifier(BertEncoder(TINY), 2, tokenizer=_tokenizer())
    tokenizer = _tokenizer().add_tokens(["covid"])
    with pytest.raises(ValueError, match=r"model.resize_vocabulary\(51\)"):
        task.tokenizer = tokenizer
    task = task.resize_vocabulary(tokenizer.vocab_size)
    task.tokenizer = tokenizer
    task.compile(keras.optimizers.SGD(0.1), **task.loss_and_metrics())
    before = weights(task)[TABLE][-1].copy()
    task.fit(["covid w1", "w2 w3"], [0, 1], batch_size=2, verbose=0)
    assert np.abs(weights(task)[TABLE][-1] - before).max() > 0
