"""Checks in the graph of a SavedModel name the input that has a wrong shape, id or length."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder
from tests.contracts import TINY

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
from bert_keras.export.graph.input_checks import with_shapes, with_valid_ids  # noqa: E402

AXES = {
    "text": ("batch",),
    "ids": ("batch", "length"),
    "mask": ("batch", "length"),
    "one": ("batch", 1),
}


def _loaded(function: Any, specs: dict[str, Any], folder: Path) -> Any:
    """Return a function as another program gets it: saved and loaded."""
    module = tf.Module()
    run = tf.function(lambda **inputs: function(inputs), autograph=False)
    module.run = run.get_concrete_function(**specs)
    tf.saved_model.save(module, str(folder), signatures={"run": module.run})
    model = tf.saved_model.load(str(folder))
    signature = model.signatures["run"]

    def call(**inputs: Any) -> dict[str, np.ndarray]:
        assert model is not None  # a signature does not keep its model alive
        return {name: value.numpy() for name, value in signature(**inputs).items()}

    return call


def test_shapes(tmp_path: Path) -> None:
    sizes = {
        name: [None if isinstance(size, str) else size for size in AXES[name]] for name in AXES
    }
    specs = {name: tf.TensorSpec(sizes[name], tf.int32, name=name) for name in AXES}
    call = _loaded(lambda inputs: with_shapes(inputs, AXES), specs, tmp_path)
    good = {
        "text": tf.zeros([2], tf.int32),
        "ids": tf.zeros([2, 3], tf.int32),
        "mask": tf.zeros([2, 3], tf.int32),
        "one": tf.zeros([2, 1], tf.int32),
    }
    assert {name: list(value.shape) for name, value in call(**good).items()} == {
        name: list(value.shape) for name, value in good.items()
    }
    call(**{name: value[:0] for name, value in good.items()})  # no rows
    for name, axes in AXES.items():
        for shape in ([], [2], [2, 1], [2, 3], [2, 2, 1]):
            if len(shape) != len(axes):
                message = f"`{name}` must have the shape [{', '.join(map(str, axes))}]"
                with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
                    call(**good | {name: tf.zeros(shape, tf.int32)})
    wrong = {
        "text": ([3], "`ids` must have as many rows as `text`"),
        "ids": ([2, 4], "`mask` must have the shape of `ids`. Received the sizes:] [2 3] [2 4]"),
        "mask": ([1, 3], "`mask` must have the shape of `ids`"),
        "one": ([2, 2], "`one` must have the shape [batch, 1]. Received the shape:] [2 2]"),
    }
    for name, (shape, message) in wrong.items():
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
            call(**good | {name: tf.zeros(shape, tf.int32)})


def test_ids_and_lengths(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY)
    names = {"token_ids": "words"}
    specs = {t.name: tf.TensorSpec([None, None], tf.int32, name=t.name) for t in encoder.inputs}
    specs["mask_positions"] = tf.TensorSpec([None, None], tf.int32, name="mask_positions")
    call = _loaded(lambda inputs: with_valid_ids(encoder, inputs, names), specs, tmp_path)

    def inputs(length: int = 3, **others: int) -> dict[str, Any]:
        """Return inputs of one row, with a value at the end of some of them."""
        rows = {name: np.ones((1, length), np.int32) for name in specs}
        for name, value in others.items():
            rows[name][0, -1] = value
        return {name: tf.constant(row) for name, row in rows.items()}

    call(**inputs(TINY.max_positions, token_ids=TINY.vocab_size - 1))
    call(**{name: value[:0] for name, value in inputs().items()})
    last = TINY.vocab_size - 1
    wrong = (
        (
            inputs(token_ids=last + 1),
            f"`words` must be numbers from 0 to {last}. Received:] [{last + 1}]",
        ),
        (inputs(token_ids=-1), f"`words` must be numbers from 0 to {last}. Received:] [-1]"),
        (inputs(segment_ids=2), "`segment_ids` must be numbers from 0 to 1. Received:] [2]"),
        (
            inputs(TINY.max_positions + 1),
            f"rows of `words` must have at most {TINY.max_positions} tokens",
        ),
        (
            inputs(mask_positions=3),
            "`mask_positions` must be positions in the row. Received position",
        ),
    )
    for rows, message in wrong:
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
            call(**rows)
