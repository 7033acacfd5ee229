"""Earlier names: errors that state the present name, and translation of saved options."""

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
    """Return a decorator that refuses earlier names of keyword arguments.

    Args:
        caller: name of the function or class in the message.
        names: earlier name -> present name.

    Raises:
        TypeError: by the decorated function, for an earlier name. The message states the new one.
    """

    def decorate(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        """Return the function with a check of its keyword arguments."""

        @functools.wraps(function)
        def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            """Refuse earlier names of arguments, then call the function."""
            for old in names.keys() & kwargs.keys():
                raise TypeError(
                    f"`{old}` of `{caller}` is called `{names[old]}` now. "
                    f"Received: {old}={kwargs[old]!r:.100}"
                )
            return function(*args, **kwargs)

        # Keras reads the signature without following `__wrapped__`. It would treat a model with
        # (*args, **kwargs) as a `Functional` that is built from inputs and outputs.
        run.__signature__ = inspect.signature(function)  # pyright: ignore[reportAttributeAccessIssue]
        return run

    return decorate


class EarlierNames:
    """Mixin that raises an AttributeError with the present name for earlier names of methods.

    Attributes:
        earlier_names: earlier name -> present name.
    """

    earlier_names: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        """Raise an error with the present name of a method; Python calls this for unknown names."""
        if name in type(self).earlier_names:
            today = type(self).earlier_names[name]
            raise AttributeError(f"`{type(self).__name__}.{name}` is called `{today}` now.")
        of_parent = getattr(super(), "__getattr__", None)  # PyTorch's modules have one
        # Otherwise raise Python's own error, which may come from within a property.
        return object.__getattribute__(self, name) if of_parent is None else of_parent(name)


# Methods of tasks and of their views: earlier name -> present name.
METHODS_OF_TASKS = {
    "objective": "loss_and_metrics",
    "in_chunks": "loss_chunks",
    "unread": "unused_variables",
}
# Options of tasks in saved models: earlier name -> present name.
_SAVED_OPTIONS = {"objective": "loss", "objective_name": "loss"}


def saved_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a saved task with their present names."""
    return {_SAVED_OPTIONS.get(name, name): value for name, value in options.items()}
