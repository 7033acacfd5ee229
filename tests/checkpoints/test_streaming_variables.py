"""Copies between files and variables: in parts, with progress, and finite floats alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_keras import BertEncoder, load_checkpoint, save_checkpoint
from bert_keras.checkpoints import streaming, tensors
from bert_keras.checkpoints.name_mapping import LeafRule, TensorSpec
from bert_keras.errors import ArtifactError, NumericError
from tests import contracts

_VALUES = np.arange(35, dtype="float32").reshape(7, 5)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the size of a part to two rows of `_VALUES`."""
    monkeypatch.setattr(tensors, "PART", 2 * _VALUES[0].nbytes)


def _spec(values: np.ndarray, dtype: str = "float32", **options: Any) -> TensorSpec:
    """Return the tensor spec of one variable with these values."""
    return TensorSpec(
        keras.Variable(values, dtype=dtype, name="table"), "x", LeafRule("x", **options)
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_there_and_back(dtype: str, transposed: bool, tmp_path: Path) -> None:
    written = _spec(_VALUES, dtype, transposed=transposed)
    path = tmp_path / "x.safetensors"
    streaming.write_safetensors(path, [written])
    stored = "float32" if dtype == "bfloat16" else dtype
    if dtype == "bfloat16":  # NumPy has no bfloat16.
        save_file({"x": np.ascontiguousarray(_VALUES.T if transposed else _VALUES)}, path)
    with tensors.TensorFile(path) as source:
        assert len(list(source.rows("x"))) > 1
        expected = (_VALUES.T if transposed else _VALUES).astype(stored)
        np.testing.assert_array_equal(source.read("x"), expected)
        filled = _spec(np.zeros_like(_VALUES), dtype, transposed=transposed)
        streaming.fill(filled, source)
    found = keras.ops.convert_to_numpy(keras.ops.cast(filled.variable.value, "float32"))
    np.testing.assert_array_equal(found, _VALUES)


@pytest.mark.parametrize("name", ["hugging_face", "keras_hub", "google_tf1"])
def test_models_in_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model read and written in small parts keeps its weights, in each format."""
    if name == "google_tf1":
        pytest.importorskip("tensorflow")
    encoder = contracts.as_trained(BertEncoder(contracts.TINY.replace(activation="gelu_tanh")))
    save_checkpoint(encoder, tmp_path, format=name)
    contracts.assert_same_weights(load_checkpoint(tmp_path), encoder)
    monkeypatch.undo()
    contracts.assert_same_weights(load_checkpoint(tmp_path), encoder)


def test_a_filled_table_is_trained_on(tmp_path: Path) -> None:
    """A variable filled from a file can still be trained."""
    save_file({"x": _VALUES}, tmp_path / "x.safetensors")
    layer = keras.layers.Embedding(7, 5, name="table")
    layer.build((None,))
    with tensors.TensorFile(tmp_path / "x.safetensors") as source:
        streaming.fill(TensorSpec(layer.embeddings, "x", LeafRule("x")), source)
    model = keras.Sequential([keras.Input((1,), dtype="int32"), layer])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(np.array([[3]]), np.zeros((1, 1, 5)), verbose=0)
    found = keras.ops.convert_to_numpy(layer.embeddings.value)
    expected = _VALUES.copy()
    expected[3] -= 2 * _VALUES[3] / 5
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="backend: TensorFlow's")
def test_a_filled_table_is_read_without_a_copy(tmp_path: Path) -> None:
    save_file({"x": _VALUES}, tmp_path / "x.safetensors")
    spec = _spec(np.zeros_like(_VALUES))
    before = spec.variable.value.read_value()  # This array shares the memory of the variable.
    with tensors.TensorFile(tmp_path / "x.safetensors") as source:
        streaming.fill(spec, source)
    one, again = (np.asarray(memoryview(spec.variable.value.read_value())) for _ in range(2))
    assert np.shares_memory(one, again)
    np.testing.assert_array_equal(before.numpy(), 0)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="backend: TensorFlow's")
def test_a_table_on_several_devices(tmp_path: Path) -> None:
    import tensorflow as tf

    save_file({"x": _VALUES}, tmp_path / "x.safetensors")
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        spec = _spec(np.zeros_like(_VALUES))
        with tensors.TensorFile(tmp_path / "x.safetensors") as source:
            streaming.fill(spec, source)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(spec.variable.value), _VALUES)


def test_other_than_floats_is_refused(tmp_path: Path) -> None:
    save_file({"x": _VALUES.astype("int32")}, tmp_path / "x.safetensors")
    with (
        tensors.TensorFile(tmp_path / "x.safetensors") as source,
        pytest.raises(ArtifactError, match=r"x: expected floats. Received: int32"),
    ):
        streaming.fill(_spec(_VALUES), source)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_that_are_not_finite(value: float, dtype: str) -> None:
    good = keras.Variable([1.0, -2.0], dtype=dtype, name="good")
    np.testing.assert_array_equal(streaming.finite(good).astype("float32"), [1.0, -2.0])
    bad = _VALUES.copy()
    bad[5, 1] = value
    variable = keras.Variable(bad, dtype=dtype, name="bad")
    with pytest.raises(NumericError, match="bad has values that are not finite"):
        streaming.finite(variable)
    with pytest.raises(NumericError, match="bad has values that are not finite"):
        list(streaming.finite_rows(variable))


def test_rows_are_all_of_it() -> None:
    """The parts of a variable have all rows, with the last part smaller."""
    parts = list(streaming.finite_rows(keras.Variable(_VALUES)))
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(parts), _VALUES)


def test_progress_is_reported() -> None:
    specs = [_spec(_VALUES), _spec(_VALUES[:1])]
    seen: list[tuple[str, int, int]] = []
    with streaming.reported(lambda *progress: seen.append(progress)):
        assert list(streaming.with_progress(specs, "reading")) == specs
    assert list(streaming.with_progress(specs, "unseen")) == specs
    assert seen == [("reading", 35, 40), ("reading", 40, 40)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_numbers_of_other_types_are_looked_at_too(dtype: str) -> None:
    """Infinity is found in each floating-point dtype."""
    array = np.ones(1000, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    assert streaming._all_finite(array)
    array[-1] = np.inf
    assert not streaming._all_finite(array)
