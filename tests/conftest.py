"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tiny models run for milliseconds and compile for seconds: JAX's compiler need not try hard.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

pytest_plugins = ["tests.plugins"]

_DATA = Path(os.environ.get("BERT_KERAS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real test data beside the checkout (or at BERT_KERAS_TEST_DATA)."""
    if not _DATA.is_dir():
        pytest.skip(f"no real test data at {_DATA}")
    return _DATA
