"""The edge of every program: help, one clear message for what the user can mend, exit codes."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from bert_keras import escaping
from bert_keras.errors import exit_code_of, forget_output, message_of, quiet
from bert_keras.training import machine

# What to do where one of the last steps of a training failed.
AGAIN = "Repeat the command when this is mended: it trains no step again."
_INTERRUPTED = 130  # 128 + SIGINT and 128 + SIGPIPE, as a shell reports them
_BROKEN_PIPE = 141


def run(
    program: Callable[[list[str]], int | None],
    arguments: Sequence[str] | None = None,
    *,
    describe: Callable[[list[str]], str] | None = None,
) -> NoReturn:
    """Run a program and exit with its code (None: 0).

    Args:
        program: called with the arguments.
        arguments: by default those of the command line.
        describe: returns the help for `--help` and the words beside it; by default the docstring
            of the program's module.

    An error with an `exit_code` (those of `bert_keras.errors`) becomes one message on stderr and
    that code, after its traceback if BERT_KERAS_TRACEBACK=1; any other keeps its traceback, code 1.
    A full or read-only disk is such an error too.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    quiet()
    escaping.escape_streams()
    machine.keep_freed_memory()
    try:
        if {"-h", "--help"}.intersection(arguments):
            words = [word for word in arguments if word not in ("-h", "--help")]
            print(describe(words) if describe else _docstring_of(program))
            code = 0
        else:
            code = program(arguments) or 0
        sys.stdout.flush()  # here, so that a closed pipe is met inside this block
    except BrokenPipeError:
        if not _reader_is_gone():
            raise  # the pipe of a worker process, not ours
        code = _BROKEN_PIPE
    except KeyboardInterrupt:
        code = _complain("interrupted", _INTERRUPTED)
    except Exception as error:
        found = exit_code_of(error)
        if found is None:
            raise
        if isinstance(error, OSError):
            error.add_note("What was written before stays. Mend this and repeat the command.")
        forget_output()
        code = _complain(message_of(error), found)
    sys.exit(code)


def _docstring_of(program: Callable[..., object]) -> str:
    return inspect.getdoc(inspect.getmodule(program)) or "This program has no help."


def _reader_is_gone() -> bool:
    """Return whether nobody reads stdout any more; if so, nothing more is written to it."""
    try:
        print(flush=True)  # what could not be written before is forgotten: a flush alone may pass
    except BrokenPipeError:
        forget_output()
        return True
    return False


def _complain(message: str, code: int) -> int:
    """Prints the message of the error being handled on stderr; answers `code`."""
    if os.environ.get("BERT_KERAS_TRACEBACK") == "1":
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    return code
