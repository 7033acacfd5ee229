"""Errors that a program turns into an exit code: what the user can mend, by kind.

A library call with a bad argument raises the plain `ValueError` or `TypeError`; these are for
inputs that come from outside the process: command lines, corpora, saved artefacts, the machine.
"""

from __future__ import annotations

import errno
import os
import sys

# What the machine refuses: a full disk, a place that may not be written, or that there cannot be.
_REFUSALS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
)


class UsageError(ValueError):
    """A bad command line, recipe or option. Exit code 2."""

    exit_code = 2


class DataError(ValueError):
    """Input data that cannot be used: names the file, the line and what was found. Exit code 3."""

    exit_code = 3


class ArtifactError(ValueError):
    """A saved artefact that is damaged, incomplete or of another kind. Exit code 4."""

    exit_code = 4


class ResourceError(RuntimeError):
    """The machine refuses: no space, no memory, a folder in use. Exit code 5."""

    exit_code = 5


class NumericError(RuntimeError):
    """Training produced numbers that are not finite. Exit code 6."""

    exit_code = 6


def exit_code_of(error: BaseException) -> int | None:
    """The exit code of an error that the user can mend; None of a fault of the program."""
    is_refusal = isinstance(error, OSError) and error.errno in _REFUSALS
    if is_refusal or isinstance(error, MemoryError):
        return ResourceError.exit_code
    code = getattr(error, "exit_code", None)
    return code if isinstance(code, int) else None


def forget_output() -> None:
    """Where stdout cannot be written: else the interpreter tries again at exit, and complains."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
