"""All measured libraries give the same vectors with the same weights."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from rich.console import Console

from benchmarks import mean_vectors
from benchmarks.contest import Contender

TINY = {"layers": 2, "width": 16, "heads": 2, "batch": 3, "length": 20, "steps": 2}
TINY |= {"vocabulary": 50, "positions": 32}
PROGRAMS = ("ours", "keras_hub", "transformers")


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_the_same_vectors(activation: str, tmp_path: Path, transformers, keras_hub) -> None:
    assert mean_vectors.write_weights(TINY, str(tmp_path / "weights"), activation)() == {}
    vectors = {}
    for name in PROGRAMS:
        if name == "keras_hub" and activation == "gelu":  # KerasHub does not have this activation
            continue
        told = tmp_path / f"{name}.npy"
        options: dict[str, Any] = {"weights": str(tmp_path / "weights"), "told": str(told)}
        figures = getattr(mean_vectors, name)(TINY, "float32", **options)()
        assert figures["seconds_per_step"] > 0
        vectors[name] = np.load(told)
        assert vectors[name].shape == (3, 16)
    for name, found in vectors.items():
        np.testing.assert_allclose(found, vectors["transformers"], atol=2e-6, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_new_weights(name: str, transformers, keras_hub) -> None:
    assert getattr(mean_vectors, name)(TINY, "mixed_bfloat16")()["tokens_per_second"] > 0


def test_differences(tmp_path: Path) -> None:
    """Differences are measured in separate processes.

    A contender that fails is left out. If the peer fails, nothing is reported.
    """
    common = {"size": TINY, "dtype": "float32"}
    backend = keras.backend.backend()
    ours = Contender("bert_keras", "benchmarks.mean_vectors:ours", common, backend)
    failing = Contender("none", "benchmarks.mean_vectors:none", common)
    console = Console(file=io.StringIO())
    assert mean_vectors.differences([ours, failing], "none", tmp_path, console) == {}
    assert (tmp_path / "bert_keras.npy").is_file()
    peer = Contender("transformers", "", common)
    np.save(tmp_path / "transformers.npy", np.load(tmp_path / "bert_keras.npy") + 0.5)
    found = mean_vectors.told([ours, failing, peer], "transformers", tmp_path)
    assert found == {"bert_keras": pytest.approx(0.5, abs=1e-6)}
