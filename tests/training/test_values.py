"""Values of recipes: types and ranges, one message each."""

from __future__ import annotations

import dataclasses

import pytest

from bert_keras.errors import UsageError
from bert_keras.training.values import Ranges

_RANGES = Ranges(
    choices={"color": ("red", "green")},
    least={"age": 0},
    bounds={"age": 150},
    above_zero=("size",),
    not_shares=("size",),
)


@dataclasses.dataclass(frozen=True)
class _Values:
    color: str = "red"
    name: str = "anything"
    age: int = 3
    count: int = 1
    size: float = 2.0
    share: float = 0.5
    truth: bool = True


def test_good_values_pass_and_whole_numbers_become_numbers() -> None:
    values = _Values(size=3, share=0, age=0)
    _RANGES.check(values)
    assert (type(values.size), type(values.share), type(values.age)) == (float, float, int)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"color": "rde"}, r"color must be one of red, green. .*'rde'. Did you mean 'red'\?"),
        ({"color": 1}, "color must be text. Received: color=1"),
        ({"age": -1}, "age must be at least 0. Received: age=-1"),
        ({"age": 150}, "age must be below 150"),
        ({"age": 1.0}, "age must be a whole number"),
        ({"age": True}, "age must be a whole number"),
        ({"count": 0}, "count must be at least 1"),
        ({"size": 0.0}, "size must be above 0 and finite"),
        ({"size": float("inf")}, "size must be above 0 and finite"),
        ({"size": float("nan")}, "size must be above 0 and finite"),
        ({"share": 1.0}, "share must be at least 0 and below 1"),
        ({"truth": 1}, "truth must be true or false"),
    ],
)
def test_a_bad_value_is_named(values: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _RANGES.check(_Values(**values))
