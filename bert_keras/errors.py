"""Errors that a program turns into an exit code: what the user can mend, by kind.

A library call with a bad argument raises the plain `ValueError` or `TypeError`; these are for
inputs that come from outside the process: command lines, corpora, saved artefacts, the machine.
"""


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
