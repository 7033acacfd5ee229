"""Errors that a user can mend, their exit codes, and the last steps of programs.

These errors are about inputs from outside the process: command lines, corpora, saved files, the
machine. A library call with a wrong argument raises a plain `ValueError` or `TypeError`.
"""

from __future__ import annotations

import errno
import importlib.util
import inspect
import logging
import os
import signal
import stat
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras import hooks


class UsageError(ValueError):
    """A wrong command line, recipe or option. Exit code 2."""

    exit_code = 2


class DataError(ValueError):
    """Input data that cannot be used. The message names file, line and content. Exit code 3."""

    exit_code = 3


class ArtifactError(ValueError):
    """A saved file or folder that is damaged, incomplete or of another kind. Exit code 4."""

    exit_code = 4


class ResourceError(RuntimeError):
    """A resource of the machine is missing: disk space, memory, a free folder. Exit code 5."""

    exit_code = 5


# Advice at the end of messages about damaged files.
COPY_AGAIN = "Download or copy it again."


class NumericError(RuntimeError):
    """Weights, losses or other numbers are not finite. Exit code 6."""

    exit_code = 6


# === Exit codes and steps of programs ===


# Numbers of operating system errors about a full disk, or a path that cannot be written.
_REFUSALS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
_BUG = 1  # exit code of an error that the user cannot mend
_BACKENDS = ("tensorflow", "jax", "torch")


def exit_code_of(error: BaseException) -> int | None:
    """Return the exit code of an error that the user can mend; None for a bug of the program."""
    is_refusal = isinstance(error, OSError) and error.errno in _REFUSALS
    if is_refusal or isinstance(error, MemoryError):
        return ResourceError.exit_code
    if missing_backend(error):
        return UsageError.exit_code
    code = getattr(error, "exit_code", None)
    return code if isinstance(code, int) else None


def message_of(error: BaseException) -> str:
    """Return the message that a program prints for an error that the user can mend."""
    message = missing_backend(error) or str(error)
    if isinstance(error, MemoryError):
        message = f"out of memory{f': {error}' if message else ''}"
    elif isinstance(error, OSError) and error.filename is None and _output_is_refused():
        reason = error.strerror or message
        message = f"standard output cannot be written: {reason}. Write it to another place."
    return "\n".join([message, *getattr(error, "__notes__", ())])


def _output_is_refused() -> bool:
    """Return whether standard output cannot be written: a full disk, or a device that is full."""
    try:
        sys.stdout.flush()  # may pass: text whose writing failed before is dropped
        descriptor = sys.stdout.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return not os.fstatvfs(descriptor).f_bavail
        os.write(descriptor, b"")
    except OSError as error:
        return error.errno is not None  # None: an object without a file descriptor
    return False


def forget_output() -> None:
    """Discard output of stdout that cannot be written. The interpreter would fail on it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports it


def reader_is_gone() -> bool:
    """Return whether the reader of stdout has closed it; if so, nothing more is written to it."""
    try:
        print(flush=True)  # a flush alone may pass: the text that failed before is dropped
    except BrokenPipeError:
        forget_output()
        return True
    return False


class Terminated(BaseException):
    """A program was told to end by SIGTERM. Only the entry of a program handles this."""

    exit_code = 143  # 128 + SIGTERM, as a shell reports it


@contextmanager
def raising_on_sigterm() -> Generator[None]:
    """Raise `Terminated` at a SIGTERM within the block, so that unfinished files are removed.

    A second SIGTERM ends the process at once. A handler that is installed already stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: object) -> None:
        """Handle the first signal."""
        del number, frame
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated("ended by SIGTERM")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def missing_backend(error: BaseException) -> str:
    """Return the message about a backend of Keras that cannot be imported; "" for another error.

    If another backend is installed, the advice names it too. The missing module of Windows counts
    as such an error, because no backend helps there.
    """
    if isinstance(error, ValueError) and str(error).startswith("Unable to import backend"):
        wrong = os.environ.get("KERAS_BACKEND", "")
        return f"KERAS_BACKEND must be {', '.join(_BACKENDS)}. Received: {wrong!r}."
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name == "fcntl":  # Windows has no such module
        return "bert_keras runs on Linux and macOS. On Windows, install it in WSL 2."
    # A backend that is imported is installed: then one of its own modules is missing.
    if name not in _BACKENDS or name in sys.modules:
        return ""
    others = [other for other in _BACKENDS if importlib.util.find_spec(other)]
    alternative = f", or set KERAS_BACKEND={others[0]} in the environment" if others else ""
    return f'{name} is not installed. Install with: pip install "bert-keras[{name}]"{alternative}.'


# Warnings of libraries about each other, which no user of a program can mend. They stay hidden with
# `python -W error`, which shows the warnings of this package.
_OF_LIBRARIES: dict[str, type[Warning]] = {
    # Keras reads tensors of PyTorch, whose `__array__` is older than NumPy 2.
    "__array__ implementation doesn't accept a copy keyword": DeprecationWarning,
}


_others: list[Callable[..., Any]] = []  # the function that showed warnings before


def _show_warning(message: Warning | str, *place: Any, **options: Any) -> None:
    """Print a warning of this package as a note; show another one as before."""
    frame: Any = inspect.currentframe()
    frame = frame and frame.f_back
    while frame is not None and frame.f_globals.get("__name__") in ("warnings", "_py_warnings"):
        frame = frame.f_back
    caller = frame.f_globals.get("__name__", "") if frame is not None else ""
    # NumPy's compiled functions warn of numbers in the line that calls them.
    is_of_numpy = isinstance(message, RuntimeWarning)
    if caller.partition(".")[0] == __name__.partition(".")[0] and not is_of_numpy:
        print(f"note: {message}", file=sys.stderr)
    else:
        _others[0](message, *place, **options)


def quiet() -> None:
    """Hide messages of libraries on stderr that do not help the user of a program.

    Those of TensorFlow are about oneDNN and CUDA at the import, about devices, and about functions
    that are traced again for other lengths. With BERT_KERAS_VERBOSE=1 in the environment all are
    shown. The warnings of this package become notes, without a line of code.
    """
    if warnings.showwarning is not _show_warning:
        _others[:] = [warnings.showwarning]
        warnings.showwarning = _show_warning
    if os.environ.get("BERT_KERAS_VERBOSE") == "1":
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for message, category in _OF_LIBRARIES.items():
        warnings.filterwarnings("ignore", message=message, category=category)
    logging.getLogger("tensorflow").addFilter(lambda record: "retracing" not in str(record.msg))
    hooks.install()


class CoverageWarning(UserWarning):
    """A warning that a tokenizer makes a part of a text [UNK], so that a model cannot read it."""


class Step(NamedTuple):
    """A last step of a program, which runs even if other steps fail.

    Attributes:
        name: name of its result, for messages.
        run: function that is called with the `results` of `run_steps`.
        needs: names of earlier steps. If one of them failed, this step is skipped.
        writes: names or globs of the files that it writes into the program's folder.
    """

    name: str
    run: Callable[[Any], object]
    needs: Sequence[str] = ()
    writes: Sequence[str] = ()


class StepsFailedError(RuntimeError):
    """Some steps failed. The exit code is that of the first."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def run_steps(steps: Sequence[Step], results: Any, *, done: str, again: str) -> None:
    """Run all steps in order. If one fails, only the steps that need it are skipped.

    Args:
        steps: the steps, the most important first.
        results: argument of every step.
        done: beginning of the error message: the work that was done before the steps.
        again: end of the error message: advice to the user.

    Raises:
        StepsFailedError: after the last step, with one message about all failures.
        BrokenPipeError: if standard output was closed by its reader and nothing else failed.
        Exception: the error of the step, if only one step ran.
    """
    failures: dict[str, Exception] = {}
    left_out: dict[str, str] = {}
    for step in steps:
        missing = [name for name in step.needs if name in failures or name in left_out]
        if missing:
            left_out[step.name] = missing[0]
            continue
        try:
            step.run(results)
        except Exception as error:
            failures[step.name] = error
    if not failures:
        return
    first = next(iter(failures.values()))
    is_alone = len(failures) == 1 == len(steps) - len(left_out)
    if is_alone or all(isinstance(error, BrokenPipeError) for error in failures.values()):
        raise first
    lines = [
        f"{done}, but {len(failures)} of {len(steps)} last steps failed:",
        *(f"  {name}: {_reason(error)}" for name, error in failures.items()),
        *(f"  {name}: left out, it needs: {other}" for name, other in left_out.items()),
        f"All the rest is written. {again}",
    ]
    raise StepsFailedError("\n".join(lines), exit_code_of(first) or _BUG) from first


def _reason(error: Exception) -> str:
    """Return the message of an error; for a bug also its class and its place in the code."""
    if exit_code_of(error) is not None:
        return message_of(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"{type(error).__name__}: {error} ({where}; BERT_KERAS_TRACEBACK=1 shows the traceback)"
