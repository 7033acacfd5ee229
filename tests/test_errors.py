"""Error classes and their exit codes."""

from __future__ import annotations

import errno
import importlib
import inspect
import logging
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

import bert_keras
from bert_keras import errors


@pytest.mark.parametrize(
    ("kind", "base", "exit_code"),
    [
        (errors.UsageError, ValueError, 2),
        (errors.DataError, ValueError, 3),
        (errors.ArtifactError, ValueError, 4),
        (errors.ResourceError, RuntimeError, 5),
        (errors.NumericError, RuntimeError, 6),
    ],
)
def test_kind(kind: type[Exception], base: type[Exception], exit_code: int):
    assert issubclass(kind, base)
    assert vars(kind)["exit_code"] == exit_code
    assert str(kind("what and where")) == "what and where"


def test_no_code_twice():
    classes = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    kinds = [
        each for each in classes if each.__module__ == errors.__name__ and "exit_code" in vars(each)
    ]
    assert len({vars(kind)["exit_code"] for kind in kinds}) == len(kinds) == 6


def test_a_handler_of_sigterm_that_is_there_stays() -> None:
    with errors.raising_on_sigterm():
        outer = signal.getsignal(signal.SIGTERM)
        with errors.raising_on_sigterm():
            assert signal.getsignal(signal.SIGTERM) is outer
        with pytest.raises(errors.Terminated):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a second one ends the process
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


# === Exit codes of programs. tests/training/test_run.py tests them in processes of their own.


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
    assert errors.exit_code_of(error) == code


def test_a_backend_that_is_not_there(monkeypatch: pytest.MonkeyPatch):
    lacks = ModuleNotFoundError("No module named 'jax'", name="jax")
    monkeypatch.delitem(errors.sys.modules, "jax", raising=False)
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: name == "torch")
    assert errors.exit_code_of(lacks) == 2
    message = errors.missing_backend(lacks)
    assert message.startswith("jax is not installed. Install with: pip install")
    assert "KERAS_BACKEND=torch" in message
    assert errors.missing_backend(KeyError("jax")) == ""
    windows = ModuleNotFoundError("No module named 'fcntl'", name="fcntl")
    assert "WSL 2" in errors.missing_backend(windows)

    def fail(name: str) -> None:
        """Fail as Keras does without its backend."""
        raise lacks

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="KERAS_BACKEND=torch"):
        bert_keras.__getattr__("BertEncoder")


def test_a_backend_that_keras_does_not_know(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KERAS_BACKEND", "pytorch")
    told = ValueError("Unable to import backend : pytorch")
    assert errors.exit_code_of(told) == 2
    message = "KERAS_BACKEND must be tensorflow, jax, torch. Received: 'pytorch'."
    assert errors.missing_backend(told) == message


def test_tracing_is_not_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    logger = logging.getLogger("tensorflow")
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "propagate", True)
    errors.quiet()
    logger.warning("5 out of the last 11 calls to %s triggered tf.function retracing.", "f")
    logger.warning("something else")
    assert [record.message for record in caplog.records] == ["something else"]


def _fail(error: Exception) -> Callable[[Any], None]:
    def run(_: Any) -> None:
        raise error

    return run


def _run(*steps: errors.Step) -> list[str]:
    """Run steps that append to a list; return it, with a failure's message as its last item."""
    done: list[str] = []
    try:
        errors.run_steps(steps, done, done="run: trained", again="Repeat the command.")
    except errors.StepsFailedError as error:
        return [*done, str(error)]
    return done


def _does(name: str, *needs: str) -> errors.Step:
    return errors.Step(name, lambda done: done.append(name), needs)


def test_steps_fail_one_by_one() -> None:
    assert _run(_does("a"), _does("b")) == ["a", "b"]
    full = errors.Step("full", _fail(OSError(errno.ENOSPC, "No space", "x.png")))
    bug = errors.Step("bug", _fail(KeyError("k")))
    *done, message = _run(full, _does("a"), _does("b", "full"), _does("c", "b"), bug, _does("d"))
    assert done == ["a", "d"]
    first, *lines, last = message.splitlines()
    assert first == "run: trained, but 2 of 6 last steps failed:"
    assert lines[0] == "  full: [Errno 28] No space: 'x.png'"
    assert re.fullmatch(r"  bug: KeyError: 'k' \(test_errors.py:\d+; BERT_KERAS_.*\)", lines[1])
    assert lines[2:] == ["  b: left out, it needs: full", "  c: left out, it needs: b"]
    assert last == "All the rest is written. Repeat the command."


def test_the_only_step_that_was_run_fails_with_its_own_error() -> None:
    with pytest.raises(KeyError):
        _run(errors.Step("a", _fail(KeyError("k"))), _does("b", "a"))


def test_a_reader_that_is_gone_stops_no_step() -> None:
    done: list[str] = []
    steps = [errors.Step("a", _fail(BrokenPipeError())), _does("b")]
    with pytest.raises(BrokenPipeError):
        errors.run_steps(steps, done, done="", again="")
    assert done == ["b"]


def test_messages() -> None:
    assert errors.message_of(MemoryError()) == "out of memory"
    error = errors.DataError("x.txt:3: bad")
    error.add_note("Mend it.")
    assert errors.message_of(error) == "x.txt:3: bad\nMend it."
