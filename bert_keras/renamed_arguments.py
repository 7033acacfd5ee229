"""Earlier names of keyword arguments, answered with the names of today."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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

        return run

    return decorate
