"""A predictor computes with the dtype and on the device that it was opened with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.predictor import Predictor, device
from tests.contracts import MAY_CUT
from tests.predictor.test_dispatch import ARGUMENTS, METHODS

CPU = "cpu:0"


@pytest.fixture
def scopes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record the scopes of devices as (name of the thread, device); each is the CPU in truth."""
    entered: list[tuple[str, str]] = []
    real = keras.device

    @contextmanager
    def scope(name: str) -> Iterator[None]:
        entered.append((threading.current_thread().name, name))
        with real("cpu"):
            yield

    monkeypatch.setattr(keras, "device", scope)
    return entered


@pytest.fixture
def folder(task, tokenizer, tmp_path: Path) -> Path:
    """Return the folder of a classifier with its tokenizer."""
    Predictor(task("labels"), tokenizer).save_to_preset(tmp_path)
    return tmp_path


def test_loading_and_every_call_enter_the_device(
    folder: Path, scopes: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_devices", lambda: [CPU, "gpu:0", "gpu:1"])
    predictor = Predictor.from_preset(folder, device="cuda:1", batch_size=1)
    assert predictor.device == "gpu:1"
    assert scopes == [("MainThread", "gpu:1")]
    thread = threading.Thread(target=predictor.encode, args=(["a", "b"],), name="worker")
    thread.start()
    thread.join()
    assert scopes[1:] == [("worker", "gpu:1")] * 2
    predictor(["a"])
    assert scopes[3:] == [("MainThread", "gpu:1")]


def test_without_a_device_no_scope_is_entered(folder: Path, scopes: list[tuple[str, str]]) -> None:
    predictor = Predictor.from_preset(folder)
    predictor(["a"])
    assert (predictor.device, scopes) == (None, [])


@pytest.mark.parametrize("name", ["cpu", "CPU:0"])
def test_answers_on_the_cpu_are_those_without_a_device(folder: Path, name: str) -> None:
    texts = ["hello", "the wanted mask"]
    expected = Predictor.from_preset(folder).predict_scores(texts)
    predictor = Predictor.from_preset(folder, device=name)
    assert predictor.device == "cpu"
    np.testing.assert_allclose(predictor.predict_scores(texts), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["gpu:99", "cpu:7", "disk", "", "gpu:x", 0])
def test_a_wrong_device_is_refused_before_the_model_is_read(name: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`device` must be .* has here: cpu:0.* Received: device"):
        Predictor.from_preset(tmp_path / "missing", device=name)


@pytest.mark.parametrize("dtype", ["brain16", "int8", 16])
def test_a_wrong_dtype_is_refused_before_the_model_is_read(dtype: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`dtype` must be .* bfloat16, .* Received: dtype"):
        Predictor.from_preset(tmp_path / "missing", dtype=dtype)


@MAY_CUT
@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_float16"])
def test_answers_are_float32_with_any_dtype(
    task, tokenizer, tmp_path: Path, kind: str, dtype: str
) -> None:
    Predictor(task(kind), tokenizer).save_to_preset(tmp_path)
    predictor = Predictor.from_preset(tmp_path, dtype=dtype, device="cpu")
    policy = keras.dtype_policies.get(dtype)
    assert predictor.encoder.dtype_policy == policy
    assert predictor.encoder.blocks[0].variables[0].dtype == policy.variable_dtype
    getattr(predictor, METHODS[kind])(*ARGUMENTS[kind])
    vectors = predictor.encode(["hello world", "a"])
    assert vectors.dtype == np.float32
    exact = Predictor(task(kind), tokenizer).encode(["hello world", "a"])
    np.testing.assert_allclose(vectors, exact, rtol=0, atol=0.05 * np.abs(exact).max())
