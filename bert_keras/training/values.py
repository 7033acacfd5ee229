"""Values of recipes: of the right type and range, or one message that names the value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from bert_keras.errors import UsageError
from bert_keras.training.overrides import KINDS, nearest

# The words for XLA in a recipe, and what Keras's `compile` calls them.
JIT: dict[str, Any] = {"auto": "auto", "true": True, "false": False}

_BOUND = 2**31


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranges:
    """What the values of a kind of recipe may be.

    Attributes:
        choices: the words that a text may be.
        least: of whole numbers, which are at least 1 where it says nothing.
        bounds: what whole numbers stay below, where it is not 2**31.
        above_zero: numbers that must not be 0.
        not_shares: numbers that may be 1 and more; all others are shares, below 1.
    """

    choices: Mapping[str, Collection[str]]
    least: Mapping[str, int]
    bounds: Mapping[str, int]
    above_zero: Collection[str]
    not_shares: Collection[str]

    def check(self, recipe: Any) -> None:
        """Checks all values of a frozen dataclass; whole numbers become numbers where those are.

        Raises:
            UsageError: a value of the wrong type or out of range.
        """
        for item in dataclasses.fields(recipe):
            kind, value = str(item.type), getattr(recipe, item.name)
            if kind == "float" and type(value) is int:
                object.__setattr__(recipe, item.name, value := float(value))
            if type(value).__name__ != kind:
                self.fail(item.name, f"must be {KINDS[kind]}", value)
            if kind in ("int", "float"):
                self._check_number(item.name, value)
            elif value not in self.choices.get(item.name, (value,)):
                words = ", ".join(map(str, self.choices[item.name]))
                self.fail(item.name, f"must be one of {words}", value)

    def _check_number(self, name: str, value: float) -> None:
        if isinstance(value, int):
            if value < self.least.get(name, 1):
                self.fail(name, f"must be at least {self.least.get(name, 1)}", value)
            if value >= (bound := self.bounds.get(name, _BOUND)):
                self.fail(name, f"must be below {bound:,}", value)
            return
        low = "above 0" if name in self.above_zero else "at least 0"
        high = "finite" if name in self.not_shares else "below 1"
        limit = math.inf if name in self.not_shares else 1.0
        if not (0 <= value < limit) or (value == 0 and name in self.above_zero):
            self.fail(name, f"must be {low} and {high}", value)

    def fail(
        self, name: str, rule: str, value: object, choices: Collection[str] | None = None
    ) -> NoReturn:
        """Raise the one message of a bad value; `choices`: words like it are suggested."""
        choices = self.choices.get(name, ()) if choices is None else choices
        is_known = value in choices  # and wrong for another reason
        near = nearest(value, choices) if isinstance(value, str) and not is_known else ""
        raise UsageError(f"{name} {rule}. Received: {name}={value!r}.{near}")
