"""What all programs do at their edge: exit codes, and what their users need not see."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import sys

from bert_keras.errors import ResourceError, UsageError

# What the machine refuses: a full disk, a place that may not be written, or that there cannot be.
_REFUSALS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
_BACKENDS = ("tensorflow", "jax", "torch")


def exit_code_of(error: BaseException) -> int | None:
    """The exit code of an error that the user can mend; None of a fault of the program."""
    is_refusal = isinstance(error, OSError) and error.errno in _REFUSALS
    if is_refusal or isinstance(error, MemoryError):
        return ResourceError.exit_code
    if missing_backend(error):
        return UsageError.exit_code
    code = getattr(error, "exit_code", None)
    return code if isinstance(code, int) else None


def message_of(error: BaseException) -> str:
    """Return what a program tells its user of an error that the user can mend."""
    message = missing_backend(error) or str(error)
    if isinstance(error, MemoryError):
        message = f"out of memory{f': {error}' if message else ''}"
    return "\n".join([message, *getattr(error, "__notes__", ())])


def forget_output() -> None:
    """Where stdout cannot be written: else the interpreter tries again at exit, and complains."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def missing_backend(error: BaseException) -> str:
    """What to do where Keras's backend is not installed; "" of any other error."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name not in _BACKENDS or name in sys.modules:
        return ""
    others = [other for other in _BACKENDS if importlib.util.find_spec(other)]
    instead = f", or set KERAS_BACKEND={others[0]} in the environment" if others else ""
    return f'{name} is not installed. Install with: pip install "bert-keras[{name}]"{instead}.'


def quiet() -> None:
    """Keeps TensorFlow from telling a program's user of drivers and of functions traced again.

    Lengths differ, so functions are traced a few times. Nobody who runs a program can mend that.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").addFilter(lambda record: "retracing" not in str(record.msg))
