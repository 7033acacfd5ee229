"""Values that may change when a run is resumed, by `override=steps,learning_rate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras.errors import UsageError
from bert_keras.training.recipe_base import RunRecipe, nearest, rules_of

BACKEND = "backend"  # a name for override=, which no recipe has
KEY = "overrides"  # of run.json, if a value was changed


class Change(NamedTuple):
    """A value that differs between run.json and the command line.

    Attributes:
        name: name of the value.
        then: value in run.json.
        now: value of the command line.
    """

    name: str
    then: Any
    now: Any

    def __str__(self) -> str:
        """Return the line of a message."""
        then, now = (
            value if self.name == BACKEND else repr(value) for value in (self.then, self.now)
        )
        return f"  {self.name}: {then} then, {now} now"


def overridden(text: str, known: Sequence[str]) -> list[str]:
    """Return the names that `override=` lists.

    Args:
        text: the names, with commas between them.
        known: names that the run can change.

    Raises:
        UsageError: another name.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"override= cannot change {unknown[0]!r} of a run.{nearest(unknown[0], known)} It "
            f"takes one or more of {', '.join(known)}, with commas between them."
        )
    return names


def refusal(
    folder: Path, changes: Sequence[Change], others: Sequence[str], known: Collection[str]
) -> UsageError:
    """Return the error about a run with other values.

    Args:
        folder: folder of the run.
        changes: values that differ and that `override=` does not name.
        others: lines about anything else that differs, such as a file.
        known: names that `override=` can change.
    """
    listed = "\n".join([*map(str, changes), *others])
    names = [change.name for change in changes if change.name in known]
    advice = "Give the same values to go on with it, or out=FOLDER for a new run."
    if names and len(names) == len(changes) and not others:
        advice = (
            f"Give the same values to go on with it, or override={','.join(names)} to go on with "
            "the new ones, or out=FOLDER for a new run."
        )
    elif names:
        advice += f" override= can change {', '.join(names)}, and not the rest."
    return UsageError(f"{folder} holds a run with other values:\n{listed}\n{advice}")


def changed_values(
    recipe: RunRecipe, values: Mapping[str, Any], names: Collection[str], stored: Mapping[str, Any]
) -> list[Change]:
    """Return the values of a recipe that differ from those in run.json.

    Args:
        recipe: recipe of the command line.
        values: its values, as run.json shows them.
        names: names of the values to compare.
        stored: the values in run.json. An older file lacks new values, which are the defaults.
    """
    stored = _defaults(type(recipe)) | dict(stored)
    return [
        Change(name, stored.get(name), values[name])
        for name in names
        if stored.get(name) != values[name]
    ]


def _defaults(recipe_class: type[RunRecipe]) -> dict[str, Any]:
    """Return the default values of a class of recipes, for keys that an old run.json lacks."""
    return {
        field.name: field.default
        for field, _ in rules_of(recipe_class)
        if field.default is not dataclasses.MISSING
    }


def last_step_in(checkpoints: Path) -> int:
    """Return the step of the last checkpoint in a folder; 0 if there is none."""
    from bert_keras.resume import TrainingCheckpoints  # imports Keras

    return TrainingCheckpoints(checkpoints).last_step or 0


def entry(step: Any, changes: Sequence[Change]) -> dict[str, Any]:
    """Return what run.json keeps of changes: the step after which they count, then and now."""
    return {"step": step, **{change.name: [change.then, change.now] for change in changes}}


def notes(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each entry of run.json, for reports and the display."""
    lines = []
    for known in entries:
        step = known["step"]
        names = [name for name in known if name != "step"]
        values = ", ".join(f"{name} {known[name][0]} became {known[name][1]}" for name in names)
        after = step if isinstance(step, int) else ", ".join(f"{k}: {v}" for k, v in step.items())
        lines.append(f"after step {after}: {values}")
    return lines
