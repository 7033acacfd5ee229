"""Values that may change when a run is resumed, by `override=steps,learning_rate`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras import file_io
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


def require_steps(folder: Path, changes: Sequence[Change], checkpoints: Path) -> None:
    """Check that changed `steps` are not fewer than those trained, and a learning rate has some.

    Raises:
        UsageError: more steps are trained already, or a changed `learning_rate` has no step left.
    """
    if not changes:
        return
    now = {change.name: change.now for change in changes}
    step, steps = last_step_in(checkpoints), now.get("steps")
    if steps is not None and steps < step:
        raise UsageError(
            f"{folder}: step {step:,} is trained already. Received: steps={steps}. Give "
            f"at least steps={step}, or out=FOLDER for a new run."
        )
    if step == (steps or file_io.read_object(folder / "run.json")["recipe"].get("steps")):
        _refuse_learning_rate(folder, now, "steps")


def require_epochs(folder: Path, changes: Sequence[Change], seeds: Collection[int]) -> None:
    """Check that changed `epochs` are not fewer than a seed has trained.

    Args:
        folder: folder of a fine-tuning run.
        changes: the changed values.
        seeds: the seeds of the run.

    Raises:
        UsageError: more epochs are trained already, or a changed `learning_rate` has no step left.
    """
    now = {change.name: change.now for change in changes}
    epochs = now.get("epochs")
    if epochs is None:
        folders = {folder / f"seed-{seed}" for seed in seeds} | {*folder.glob("seed-*")}
        if all(map(_is_trained, folders)):
            _refuse_learning_rate(folder, now, "epochs")
        return
    evaluations = file_io.read_object(folder / "run.json")["recipe"].get("evaluations", 1)
    for checkpoints in sorted(folder.glob("seed-*/checkpoints")):
        state_file = checkpoints / f"step-{last_step_in(checkpoints):08d}" / "state.json"
        state = file_io.read_object(state_file) if state_file.is_file() else {}
        trained = _epochs_trained(state, epochs, evaluations)
        if trained > epochs:
            raise UsageError(
                f"{checkpoints.parent}: {trained} epochs are trained already. Received: "
                f"epochs={epochs}. Give at least epochs={trained}, or out=FOLDER for a new run."
            )


def _is_trained(seed: Path) -> bool:
    """Return whether the folder of a seed has the result of a training that did not fail."""
    path = seed / "result.json"
    return path.is_file() and "failed" not in file_io.read_object(path)


def _refuse_learning_rate(folder: Path, now: Mapping[str, Any], name: str) -> None:
    """Refuse another learning rate for a run whose steps are all trained.

    Its run.json and report would have a learning rate with which no step was trained.

    Args:
        folder: folder of the run.
        now: the changed values.
        name: name of the value that makes the run longer.
    """
    if "learning_rate" in now:
        raise UsageError(
            f"{folder}: all steps are trained already, so another learning rate has no effect. "
            f"Received: learning_rate={now['learning_rate']}. Give more {name} too, with "
            f"override={name},learning_rate; or out=FOLDER for a new run."
        )


def _epochs_trained(state: Mapping[str, Any], epochs: int, evaluations: int) -> int:
    """Return how many epochs were begun by the state of a checkpoint, at most `epochs` if it fits.

    A training ends with an evaluation, so its last step may be in the next epoch.
    """
    step, epoch, position = (int(state.get(name, 0)) for name in ("step", "epoch", "position"))
    if not epoch:
        return 0
    batches = (step - position) // epoch  # of an epoch
    interval = math.ceil(batches / evaluations)
    is_within = step <= math.ceil(epochs * batches / interval) * interval
    return epochs if is_within else epoch + (position > 0)


def reopen_seeds(folder: Path, changes: Sequence[Change]) -> None:
    """Let seeds of a fine-tuning run go on: all with other epochs, else those that failed."""
    names = {change.name for change in changes}
    for path in sorted(folder.glob("seed-*/result.json")):
        if "epochs" in names or "failed" in file_io.read_object(path):
            path.unlink()


def entry(step: Any, changes: Sequence[Change]) -> dict[str, Any]:
    """Return the run.json entry of changes: step, old and new values."""
    return {"step": step, **{change.name: [change.then, change.now] for change in changes}}


def with_changes(values: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return a run's values for its report; `override` has the changes that run.json lists."""
    entries = file_io.read_object(run).get(KEY, ()) if run.exists() else ()
    return {**values, "override": "; ".join(notes(entries))}


def notes(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each entry of run.json, for reports and the display."""
    lines = []
    for known in entries:
        step = known["step"]
        names = [name for name in known if name != "step"]
        values = ", ".join(f"{name} {known[name][0]} became {known[name][1]}" for name in names)
        lines.append(f"after step {_after(step)}: {values}")
    return lines


def _after(step: int | Mapping[str, int]) -> str:
    """Return the step of an entry as text; that of fine-tuning has one for each seed's folder."""
    if isinstance(step, int):
        return f"{step}"
    seeds: dict[int, list[str]] = {}
    for folder, of_seed in step.items():
        seeds.setdefault(of_seed, []).append(folder.removeprefix("seed-"))
    return ", ".join(
        f"{of_seed} (seed{'s' * (len(numbers) > 1)} {', '.join(numbers)})"
        for of_seed, numbers in seeds.items()
    )
