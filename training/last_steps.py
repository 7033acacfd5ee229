"""The last steps of a program: one that fails takes no other with it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras.programs import exit_code_of, message_of

_BUG = 1  # exit code of an error that the user cannot mend


class Step(NamedTuple):
    """One of the last steps.

    Attributes:
        name: of what it makes, for messages.
        run: called with the results of the training, which it may add to.
        needs: names of earlier steps; this one is left out where one of them failed.
        writes: names or globs of the files that it writes into the folder of the run.
    """

    name: str
    run: Callable[[Any], object]
    needs: Sequence[str] = ()
    writes: Sequence[str] = ()


class StepsFailedError(RuntimeError):
    """Some of the last steps failed. The exit code is that of the first."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def run_steps(steps: Sequence[Step], results: Any, folder: Path) -> None:
    """Run all steps in order; a failure ends its own step and those that need it.

    Args:
        steps: the steps, what is most worth keeping first.
        results: what every step is called with.
        folder: of the run, for the message.

    Raises:
        StepsFailedError: at the end, one message about all that failed.
        BrokenPipeError: nobody reads standard output any more, and nothing else failed.
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
    if all(isinstance(error, BrokenPipeError) for error in failures.values()):
        raise first
    lines = [
        f"{folder}: the training is done, but {len(failures)} of the last {len(steps)} steps "
        "failed:",
        *(f"  {name}: {_reason(error)}" for name, error in failures.items()),
        *(f"  {name}: left out, it needs {other}" for name, other in left_out.items()),
        "All the rest is written. Repeat the command when this is mended: it trains no step again.",
    ]
    raise StepsFailedError("\n".join(lines), exit_code_of(first) or _BUG) from first


def _reason(error: Exception) -> str:
    """Return the message of an error; where it is a bug, also its class and its place."""
    if exit_code_of(error) is not None:
        return message_of(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return (
        f"{type(error).__name__}: {error} ({where}; BERT_KERAS_TRACEBACK=1 shows the whole "
        "traceback)"
    )
