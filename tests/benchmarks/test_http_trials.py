"""Trials of the server: memory by number of requests, versions that are put in place, swaps."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from benchmarks.http_trials import (
    copy_version,
    memory_over_requests,
    swap_under_load,
    texts_of_lengths,
)
from bert_keras import Predictor, export
from tests.benchmarks.test_http_servers import FAKE, TEXTS


def test_texts_have_all_lengths() -> None:
    texts = texts_of_lengths(TEXTS, 16)
    assert [len(text.split()) for text in texts] == [1, 2, 4, 8, 16, 32, 64, 128] * 2
    assert len(set(texts)) > 8


def test_memory_by_number_of_requests() -> None:
    found = memory_over_requests(FAKE, TEXTS, clients=2, warm_up=4, requests=25, step=10)
    sizes = found["bytes"]
    assert list(sizes) == [0, 10, 20, 25]
    assert found["growth_bytes"] == sizes[25] - sizes[0]
    assert (found["answered"], found["failed"], found["warm_up_requests"]) == (25, 0, 4)


def test_versions_appear_at_once(tmp_path: Path) -> None:
    source, base = tmp_path / "export", tmp_path / "versions"
    source.mkdir()
    base.mkdir()
    (source / "small").write_bytes(b"abc")
    (source / "large").write_bytes(b"x" * 100)
    copy_version(source, base, 1)
    copy_version(source, base, 2, broken=True)
    assert sorted(path.name for path in base.iterdir()) == ["1", "2"]
    assert [(base / n / "large").stat().st_size for n in "12"] == [100, 50]
    assert (base / "2" / "small").read_bytes() == b"abc"
    assert (source / "large").stat().st_size == 100


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="it is exported on the TensorFlow backend"
)
def test_swap_under_load(tiny_preset: Path, tmp_path: Path) -> None:
    for name in ("starlette", "onnx", "onnxruntime"):
        pytest.importorskip(name)
    opened = Predictor.from_preset(tiny_preset)
    folder = export.runtime_model(opened.task, opened.tokenizer, tmp_path / "export", "onnx")
    base = tmp_path / "versions"
    base.mkdir()
    found = swap_under_load(folder, base, TEXTS, clients=4, seconds=0.5)
    assert found["error"] is None
    assert set(found["answers_by_version"]) == {"1", "2", "4"}
    assert found["states"] == {"4": "AVAILABLE", "3": "END"}
    assert found["failed_answers"] == found["lost_before_sigterm"] == found["exit_code"] == 0
