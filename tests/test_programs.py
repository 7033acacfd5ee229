"""The edge of programs. Each in a process of its own: tests/training/test_run.py."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable
from typing import Any

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


def _fail(error: Exception) -> Callable[[Any], None]:
    def run(_: Any) -> None:
        raise error

    return run


def _run(*steps: programs.Step) -> list[str]:
    """What the steps do, which append to a list; the last line is the message of a failure."""
    done: list[str] = []
    try:
        programs.run_steps(steps, done, done="run: trained", again="Repeat the command.")
    except programs.StepsFailedError as error:
        return [*done, str(error)]
    return done


def _does(name: str, *needs: str) -> programs.Step:
    return programs.Step(name, lambda done: done.append(name), needs)


def test_steps_fail_one_by_one() -> None:
    assert _run(_does("a"), _does("b")) == ["a", "b"]
    full = programs.Step("full", _fail(OSError(errno.ENOSPC, "No space", "x.png")))
    bug = programs.Step("bug", _fail(KeyError("k")))
    *done, message = _run(full, _does("a"), _does("b", "full"), _does("c", "b"), bug, _does("d"))
    assert done == ["a", "d"]
    first, *lines, last = message.splitlines()
    assert first == "run: trained, but 2 of 6 last steps failed:"
    assert lines[0] == "  full: [Errno 28] No space: 'x.png'"
    assert re.fullmatch(r"  bug: KeyError: 'k' \(test_programs.py:\d+; BERT_KERAS_.*\)", lines[1])
    assert lines[2:] == ["  b: left out, it needs: full", "  c: left out, it needs: b"]
    assert last == "All the rest is written. Repeat the command."


def test_the_only_step_that_was_run_fails_with_its_own_error() -> None:
    with pytest.raises(KeyError):
        _run(programs.Step("a", _fail(KeyError("k"))), _does("b", "a"))


def test_a_reader_that_is_gone_stops_no_step() -> None:
    done: list[str] = []
    steps = [programs.Step("a", _fail(BrokenPipeError())), _does("b")]
    with pytest.raises(BrokenPipeError):
        programs.run_steps(steps, done, done="", again="")
    assert done == ["b"]


def test_messages() -> None:
    assert programs.message_of(MemoryError()) == "out of memory"
    error = errors.DataError("x.txt:3: bad")
    error.add_note("Mend it.")
    assert programs.message_of(error) == "x.txt:3: bad\nMend it."
