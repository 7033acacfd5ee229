"""Grid of tried values: `try=` of a command line, read into one recipe for each combination."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_keras import escaping
from bert_keras.errors import UsageError
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.recipe_base import RENAMED, nearest, rules_of

KEY = "try"
HELP = """try=
    values to try, in one grid: try="KEY=VALUE,VALUE,… KEY=VALUE,VALUE,…"
    Every combination is trained with the same seeds= and measured on the same examples. The value
    with the best mean of metric= is kept. Values with a comma in them are separated by "|":
    try="layers=0,5|0,3,5". Values may be added later: the same folder trains only the new ones.
    Models and checkpoints of the values that lose are removed; their scores and logs stay."""

# Values of these sections say what is measured; these two of them choose the examples to train on.
_SECTIONS, OF_EXAMPLES = ("Task and data", "Files"), ("rows", "draw")
_INCOMPARABLE = (
    "changes the examples or the metric, so the scores could not be compared. Start a run for "
    "each value, with an out= of its own"
)
_FOLDER = "names the folder, which all values share"
_NO_EFFECT = "has no effect on the scores"
_REASONS = {
    "metric": _INCOMPARABLE,
    "no_answer": _INCOMPARABLE,
    "seed": "is the same for all values; seeds=N trains each value N times",
    "seeds": "is the same for all values; seeds=N trains each value N times",
    "out": _FOLDER,
    "name": _FOLDER,
    "override": "is for a run without try=",
    "workers": _NO_EFFECT,
    "checkpoint_every": _NO_EFFECT,
}
_MOST_CHARACTERS = 40  # of a value in the name of a folder


@dataclasses.dataclass(frozen=True)
class GridPoint:
    """One combination of tried values.

    Attributes:
        values: the tried keys and their values, in the order of `run.json`.
        recipe: recipe with these values, whose `out` is that of the grid.
    """

    values: Mapping[str, Any]
    recipe: FinetuneRecipe

    @property
    def label(self) -> str:
        """The values as text: "learning_rate=1e-05 batch_size=16"."""
        return " ".join(f"{name}={shown(value)}" for name, value in self.values.items())

    @property
    def folder(self) -> str:
        """Name of the point's folder in that of the grid: "try-learning_rate-1e-05+batch_size-16".

        It has no "=" and no comma, which have a meaning in the words of programs.
        """
        parts = [f"{name}-{_part(shown(value))}" for name, value in self.values.items()]
        return f"{KEY}-{'+'.join(parts)}"


@dataclasses.dataclass(frozen=True)
class Grid:
    """All combinations of tried values, at least one.

    Attributes:
        points: the combinations, in the order of training.
    """

    points: tuple[GridPoint, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The tried keys."""
        return tuple(self.points[0].values)

    def tried(self) -> dict[str, list[Any]]:
        """Return the tried values of each key, in the order of the command line."""
        return {
            name: list(dict.fromkeys(point.values[name] for point in self.points))
            for name in self.names
        }


def split_words(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command line that begin with `try=`, and the others."""
    tried = [word for word in arguments if word.startswith(f"{KEY}=")]
    return tried, [word for word in arguments if word not in tried]


def read_grid(
    tried: Sequence[str],
    others: Sequence[str],
    read: Callable[[list[str]], tuple[FinetuneRecipe, set[str]]],
) -> tuple[Grid, set[str]]:
    """Read the grid of a command line, and check every recipe of it.

    Args:
        tried: words `try=…`.
        others: all other words: the recipe, flags and `key=value`.
        read: function from the words of a command without `try=` to its recipe and flags.

    Returns:
        The grid, and the flags of the command.

    Raises:
        UsageError: a key that is unknown, given twice or cannot be tried; a value that its key
            refuses; the same value twice.
    """
    texts = _texts(tried)
    points: list[GridPoint] = []
    flags = set[str]()
    meanings: dict[tuple[str, str], Any] = {}  # key and text -> value
    for combination in itertools.product(*texts.values()):
        words = [f"{name}={text}" for name, text in zip(texts, combination, strict=True)]
        try:
            recipe, flags = read([*others, *words])
        except UsageError as error:
            error.add_note(f"The command was read with these values of {KEY}=: {' '.join(words)}")
            raise
        values = {name: getattr(recipe, name) for name in texts}
        points.append(GridPoint(values, recipe))
        meanings |= {pair: values[pair[0]] for pair in zip(texts, combination, strict=True)}
    for name, words in texts.items():
        seen: dict[Any, str] = {}
        for text in words:
            value = meanings[name, text]
            if value in seen:
                raise UsageError(
                    f"{KEY}= has the same value of {name} twice. Received: {name}={seen[value]} "
                    f"and {name}={text}. Leave one out."
                )
            seen[value] = text
    return Grid(tuple(points)), flags


def shown(value: object) -> str:
    """Return a value as a command line has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def _texts(tried: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each tried key as text; the keys are in the order of `run.json`.

    Raises:
        UsageError: a key that is unknown, given twice or cannot be tried; no value.
    """
    order = [field.name for field, _ in rules_of(FinetuneRecipe)]
    texts: dict[str, list[str]] = {}
    for word in tried:
        given = word.removeprefix(f"{KEY}=")
        try:
            assignments = shlex.split(given)
        except ValueError as error:
            raise UsageError(f"{KEY}= has an open quote: {error}. Received: {word!r}") from error
        if not assignments:
            raise UsageError(f'{KEY}= is empty. Write {KEY}="learning_rate=1e-5,2e-5".')
        for assignment in assignments:
            name, equals, values = assignment.partition("=")
            if not equals:
                raise UsageError(
                    f"{KEY}= must hold KEY=VALUE,VALUE,… Received: {assignment!r}. Write it in "
                    f'quotes and without a space at a comma: {KEY}="learning_rate=1e-5,2e-5".'
                )
            _require_tryable(name, order)
            if name in texts:
                raise UsageError(f"{KEY}= has {name} twice. Received: {assignment!r}.")
            texts[name] = values.split("|" if "|" in values else ",")
            if "" in texts[name]:
                raise UsageError(
                    f"{KEY}= has an empty value of {name}. Received: {assignment!r}. Write no "
                    "space at a comma."
                )
    return {name: texts[name] for name in order if name in texts}


def _require_tryable(name: str, known: Sequence[str]) -> None:
    """Raise `UsageError` for a key that is unknown or cannot be tried."""
    if name not in known:
        today = f" It is called {RENAMED[name]}= now." if RENAMED.get(name) in known else ""
        raise UsageError(
            f"{KEY}= has an unknown key. Received: {name!r}.{today or nearest(name, known)}"
        )
    if reason := untried_reason(name):
        raise UsageError(f"{KEY}= cannot have {name}: it {reason}.")


def untried_reason(name: str) -> str:
    """Return why a key cannot be tried; "" for a key that can."""
    section = next(rule.section for field, rule in rules_of(FinetuneRecipe) if field.name == name)
    is_measured = section in _SECTIONS and name not in OF_EXAMPLES
    return _REASONS.get(name, _INCOMPARABLE if is_measured else "")


def _part(text: str) -> str:
    """Return a value as a part of a folder's name; a digest keeps two names apart."""
    plain = re.sub(r"[^\w.-]", "_", text)[:_MOST_CHARACTERS]
    digest = hashlib.sha256(escaping.utf8(text)).hexdigest()[:8]
    return plain if plain == text else f"{plain}-{digest}"
