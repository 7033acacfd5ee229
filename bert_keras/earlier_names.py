"""Earlier names of arguments and methods, answered with those of today; of saved options, read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def renamed(
    caller: str, **names: str
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator of a function whose keyword arguments had other names.

    Args:
        caller: name of the function or class in the message.
        names: earlier name -> name of today.
    """

    def decorate(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @functools.wraps(function)
        def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            for old in names.keys() & kwargs.keys():
                raise TypeError(
                    f"`{old}` of `{caller}` is called `{names[old]}` now. "
                    f"Received: {old}={kwargs[old]!r:.100}"
                )
            return function(*args, **kwargs)

        # Keras reads the signature without following `__wrapped__`, and takes a model with plain
        # (*args, **kwargs) for a `Functional` with inputs and outputs.
        run.__signature__ = inspect.signature(function)  # pyright: ignore[reportAttributeAccessIssue]
        return run

    return decorate


class EarlierNames:
    """Mixin: reading a method by its earlier name raises AttributeError with today's name.

    Attributes:
        earlier_names: earlier name -> name of today.
    """

    earlier_names: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:  # for names that Python has not found
        if name in type(self).earlier_names:
            today = type(self).earlier_names[name]
            raise AttributeError(f"`{type(self).__name__}.{name}` is called `{today}` now.")
        of_parent = getattr(super(), "__getattr__", None)  # PyTorch's modules have one
        # Without one, Python's own error: that of the property, where a property raised it.
        return object.__getattribute__(self, name) if of_parent is None else of_parent(name)


# Methods of tasks and of their views: earlier name -> name of today.
METHODS_OF_TASKS = {
    "objective": "loss_and_metrics",
    "in_chunks": "loss_chunks",
    "unread": "unused_variables",
}
# Options of tasks in saved models: earlier name -> name of today.
_SAVED_OPTIONS = {"objective": "loss", "objective_name": "loss"}


def saved_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a saved task by the names of today."""
    return {_SAVED_OPTIONS.get(name, name): value for name, value in options.items()}
