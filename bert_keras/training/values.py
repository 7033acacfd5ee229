"""Values of recipes: declared with type, range and meaning; checked with one message each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from bert_keras.errors import UsageError
from bert_keras.training.overrides import KINDS, nearest

# The words for XLA in a recipe, and what Keras's `compile` calls them.
JIT: dict[str, Any] = {"auto": "auto", "true": True, "false": False}

_RULE = "rule"  # key of a field's metadata


@dataclasses.dataclass(frozen=True)
class Rule:
    """Range and meaning of a value.

    Attributes:
        section: the heading that help shows the value under.
        meaning: a phrase for help.
        choices: the words that a text may be, or a dictionary of them and their meanings; () for
            any text.
        least: of a whole number.
        bound: a whole number stays below it.
        above_zero: a number must not be 0.
        is_share: a number stays below 1.
        tasks: of fine-tuning that the value is for; () for all.
    """

    section: str
    meaning: str
    choices: Collection[str] = ()
    least: int = 1
    bound: int = 2**31
    above_zero: bool = False
    is_share: bool = True
    tasks: tuple[str, ...] = ()


class Section:
    """Maker of the values in one section of a recipe; they are fields of a dataclass.

    Args:
        title: the heading in help.
    """

    def __init__(self, title: str):
        self._title = title

    def __call__(self, meaning: str, default: Any = dataclasses.MISSING, **rules: Any) -> Any:
        """Declare a value.

        Args:
            meaning: a phrase for help.
            default: without one, a recipe must give the value.
            rules: attributes of `Rule`.
        """
        rule = Rule(self._title, meaning, **rules)
        if default is dataclasses.MISSING:
            return dataclasses.field(metadata={_RULE: rule})
        return dataclasses.field(default=default, metadata={_RULE: rule})


def rules_of(recipe: Any) -> Iterator[tuple[dataclasses.Field[Any], Rule]]:
    """Yield the fields of a class of recipes, or of a recipe, with their rules."""
    for field in dataclasses.fields(recipe):
        yield field, field.metadata[_RULE]


def check(recipe: Any) -> None:
    """Check all values of a frozen recipe; whole numbers become numbers where those are.

    Raises:
        UsageError: a value of the wrong type, out of range, or for other tasks.
    """
    for field, rule in rules_of(recipe):
        kind, value = str(field.type), getattr(recipe, field.name)
        if kind == "float" and type(value) is int:
            object.__setattr__(recipe, field.name, value := float(value))
        if type(value).__name__ != kind:
            fail(field.name, f"must be {KINDS[kind]}", value)
        if kind in ("int", "float"):
            _check_number(field.name, value, rule)
        elif rule.choices and value not in rule.choices:
            words = ", ".join(rule.choices)
            fail(field.name, f"must be one of {words}", value, rule.choices)
    for field, rule in rules_of(recipe):
        value = getattr(recipe, field.name)
        if rule.tasks and value != field.default and recipe.task not in rule.tasks:
            fail(field.name, f"is for {', '.join(rule.tasks)} alone", value)


def _check_number(name: str, value: float, rule: Rule) -> None:
    if isinstance(value, int):
        if value < rule.least:
            fail(name, f"must be at least {rule.least}", value)
        if value >= rule.bound:
            fail(name, f"must be below {rule.bound:,}", value)
        return
    low = "above 0" if rule.above_zero else "at least 0"
    high = "below 1" if rule.is_share else "finite"
    limit = 1.0 if rule.is_share else math.inf
    if not (0 <= value < limit) or (value == 0 and rule.above_zero):
        fail(name, f"must be {low} and {high}", value)


def fail(name: str, rule: str, value: object, choices: Collection[str] = ()) -> NoReturn:
    """Raise the one message of a bad value; `choices`: words like it are suggested."""
    near = nearest(value, choices) if isinstance(value, str) and value not in choices else ""
    raise UsageError(f"{name} {rule}. Received: {name}={value!r}.{near}")
