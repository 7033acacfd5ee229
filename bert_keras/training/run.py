"""Entry of every program: help, one message for each error a user can correct, exit codes."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from bert_keras import escaping
from bert_keras.errors import (
    BROKEN_PIPE,
    Terminated,
    exit_code_of,
    forget_output,
    message_of,
    quiet,
    raising_on_sigterm,
    reader_is_gone,
)
from bert_keras.hooks import INTERRUPTED
from bert_keras.training import machine
from bert_keras.training.recipe_base import RunRecipe

# Advice after a failed last step of a training.
AGAIN = "Repeat the command when this is mended: it trains no step again."


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
        with raising_on_sigterm():
            if {"-h", "--help"}.intersection(arguments):
                words = [word for word in arguments if word not in ("-h", "--help")]
                print(describe(words) if describe else _docstring_of(program))
                code = 0
            else:
                code = program(arguments) or 0
        sys.stdout.flush()  # here, so that a closed pipe is met inside this block
    except BrokenPipeError:
        if not reader_is_gone():
            raise  # the pipe of a worker process, not ours
        code = BROKEN_PIPE
    except KeyboardInterrupt:
        code = _complain("interrupted", INTERRUPTED)
    except Terminated as error:
        code = _complain(str(error), error.exit_code)
    except Exception as error:
        error_code = exit_code_of(error)
        if error_code is None:
            raise
        if isinstance(error, OSError):
            error.add_note("What was written before stays. Mend this and repeat the command.")
        message = message_of(error)
        forget_output()
        code = _complain(message, error_code)
    sys.exit(code)


# === Programs that train ===


def train(
    recipe: RunRecipe,
    body: Callable[[Any], None],
    *,
    is_quicktest: bool,
    open_folder: Callable[[RunRecipe, str], Any] | None = None,
) -> int:
    """Call the body of a training program in the folder of its run, which is locked meanwhile.

    A quick test without `out=` gets a new temporary folder.

    Args:
        recipe: gives the folder.
        body: called with the `RunFolder`.
        is_quicktest: the command has --quicktest.
        open_folder: function that returns the `RunFolder` of the recipe, or of a temporary folder;
            None for `run_folder.folder_of`.

    Returns:
        The exit code: 0, or that of a signal that stopped the training after a checkpoint.
    """
    machine.order_for_memory()
    # Keras and its backend take seconds to import. A bad command has been refused before.
    from bert_keras.resume import RunLock
    from bert_keras.training.run_folder import folder_of
    from bert_keras.training.training_loop import Stopped

    is_temporary = is_quicktest and not recipe.out
    temporary = tempfile.mkdtemp(prefix="bert_keras_quicktest_") if is_temporary else ""
    folder = (open_folder or folder_of)(recipe, temporary)
    folder.check()  # before the lock puts a file into it
    with RunLock(folder.path):
        try:
            body(folder)
        except Stopped as stopped:
            print(stopped, file=sys.stderr)
            return stopped.exit_code
    return 0


def check_folder(
    recipe: RunRecipe, open_folder: Callable[[RunRecipe, str], Any] | None = None
) -> Any:
    """Check, for a dry run, that the run could use its folder. Nothing is written.

    Args:
        recipe: gives the folder.
        open_folder: as for `train`.

    Returns:
        The `RunFolder`.

    Raises:
        UsageError: the folder holds another run, or something else.
    """
    import keras

    from bert_keras.training.run_folder import folder_of

    folder = (open_folder or folder_of)(recipe, "")
    folder.check()
    folder.require_same(recipe, keras.backend.backend())
    return folder


# === Messages ===


def _docstring_of(program: Callable[..., object]) -> str:
    """Return the docstring of a program's module, which is its help."""
    return inspect.getdoc(inspect.getmodule(program)) or "This program has no help."


def _complain(message: str, code: int) -> int:
    """Print the message of the current error on stderr; return `code`."""
    if os.environ.get("BERT_KERAS_TRACEBACK") == "1":
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    return code
