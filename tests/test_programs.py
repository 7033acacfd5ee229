"""The edge of programs. Each in a process of its own: tests/training/test_run.py."""

from __future__ import annotations

import errno
import logging

import pytest

from bert_keras import errors, programs


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.DataError("x"), 3),
        (MemoryError(), 5),
        (OSError(errno.ENOSPC, "full"), 5),
        (FileExistsError(errno.EEXIST, "a file", "out"), 5),
        (FileNotFoundError(errno.ENOENT, "none", "in"), None),
        (BrokenPipeError(errno.EPIPE, "gone"), None),
        (ModuleNotFoundError("No module named 'jax'", name="no_backend"), None),
        (KeyError("a bug"), None),
    ],
)
def test_exit_codes(error: Exception, code: int | None):
    assert programs.exit_code_of(error) == code


def test_a_backend_that_is_not_there(monkeypatch: pytest.MonkeyPatch):
    lacks = ModuleNotFoundError("No module named 'jax'", name="jax")
    monkeypatch.delitem(programs.sys.modules, "jax", raising=False)
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: name == "torch")
    assert programs.exit_code_of(lacks) == 2
    message = programs.missing_backend(lacks)
    assert message.startswith("jax is not installed. Install with: pip install")
    assert "KERAS_BACKEND=torch" in message
    assert programs.missing_backend(KeyError("jax")) == ""


def test_tracing_is_not_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    logger = logging.getLogger("tensorflow")
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "propagate", True)
    programs.quiet()
    logger.warning("5 out of the last 11 calls to %s triggered tf.function retracing.", "f")
    logger.warning("something else")
    assert [record.message for record in caplog.records] == ["something else"]
