"""Kinds of errors and their exit codes."""

from __future__ import annotations

import inspect

import pytest

from bert_keras import errors


@pytest.mark.parametrize(
    ("kind", "base", "exit_code"),
    [
        (errors.UsageError, ValueError, 2),
        (errors.DataError, ValueError, 3),
        (errors.ArtifactError, ValueError, 4),
        (errors.ResourceError, RuntimeError, 5),
        (errors.NumericError, RuntimeError, 6),
    ],
)
def test_kind(kind: type[Exception], base: type[Exception], exit_code: int):
    assert issubclass(kind, base)
    assert kind.exit_code == exit_code
    assert str(kind("what and where")) == "what and where"


def test_no_code_twice():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert len({kind.exit_code for kind in kinds}) == len(kinds) == 5
