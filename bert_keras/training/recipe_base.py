"""Recipes in Python files: declared values, `key=value` on a command line, one message each."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import runpy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from bert_keras.errors import UsageError
from bert_keras.escaping import require_utf8

# Keys of earlier versions -> their names today. An old run folder goes on with the new names.
RENAMED = {
    "accumulate": "gradient_accumulation_steps",
    "ema": "ema_momentum",
    "evaluation_pairs": "eval_examples",
    "held_out": "validation_split",
    "highest": "max_score",
    "jit": "jit_compile",
    "max_predictions": "max_predictions_per_seq",
    "objective": "loss",
    "preset": "config",
    "report_every": "log_every",
    "row_length": "packed_length",
    "short_probability": "short_seq_prob",
    "start": "init_checkpoint",
    "vocabulary_chunks": "loss_chunks",
}
# Likewise of the values of `task`.
RENAMED_TASKS = {
    "labels": "text_classification",
    "multi_label": "multi_label_classification",
    "scores": "text_regression",
    "entities": "token_classification",
    "questions": "question_answering",
    "choices": "multiple_choice",
    "similarity": "sentence_similarity",
    "pair_labels": "pair_classification",
}
# Names of such keys in other libraries -> ours, the first of which a program has is suggested.
ALIASES: dict[str, tuple[str, ...]] = {
    "batch": ("batch_size",),
    "checkpoint": ("encoder", "init_checkpoint"),
    "data": ("train", "corpus"),
    "lr": ("learning_rate",),
    "max_grad_norm": ("clip_norm",),
    "max_seq_len": ("max_length", "sequence_length"),
    "max_seq_length": ("max_length", "sequence_length"),
    "max_steps": ("steps", "epochs"),
    "mlm_probability": ("mask_rate",),
    "model": ("encoder", "init_checkpoint"),
    "num_epochs": ("epochs", "steps"),
    "num_train_epochs": ("epochs", "steps"),
    "output_dir": ("out",),
    "seq_len": ("max_length", "sequence_length"),
    "seq_length": ("max_length", "sequence_length"),
    "warmup_ratio": ("warmup", "warmup_steps"),
}
# What a value must be, by the name of its type.
KINDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run by the names of today, where an earlier version stored them."""
    found = {RENAMED.get(name, name): value for name, value in values.items()}
    if isinstance(task := found.get("task"), str):
        found["task"] = RENAMED_TASKS.get(task, task)
    return found


def parse_overrides(arguments: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults with the values of `key=value` arguments, each of its default's type.

    Args:
        arguments: as given on the command line.
        defaults: every known key, with a text, whole number, number or truth value.

    Raises:
        UsageError: not key=value, an unknown or repeated key, or a value of another type.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise UsageError(f"Expected key=value. Received: {argument!r}")
        if key not in defaults:
            if (today := RENAMED.get(key)) in defaults:
                raise UsageError(f"{key}= is called {today}= now. Received: {argument!r}")
            raise UsageError(
                f"Unknown key. Received: {argument!r}.{nearest(key, defaults)} "
                f"Known keys: {', '.join(defaults)}."
            )
        if key in values:
            raise UsageError(f"{key} is given twice. Received: {argument!r}")
        kind = type(defaults[key])
        try:
            values[key] = _PARSERS[kind](text)
        except (ValueError, OverflowError, KeyError):
            raise UsageError(f"{key} must be {KINDS[kind.__name__]}. Received: {text!r}") from None
    return {**defaults, **values}


def _integer(text: str) -> int:
    """A whole number as written: 100_000 or 1e5."""
    number = float(text)
    return int(text) if "e" not in text.lower() or not number.is_integer() else int(number)


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PARSERS = {
    str: str,
    int: _integer,
    float: float,
    bool: lambda text: _TRUTH[text.lower()],
}


def nearest(word: str, known: Collection[str]) -> str:
    """Return a sentence that suggests the known word most like `word`; empty where none is."""
    word = word.lstrip("-")
    found = [name for name in ALIASES.get(word, ()) if name in known]
    found = found or difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


# === Declared values ===


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


def check_values(recipe: Any) -> None:
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


# === Recipe files ===


_Recipe = TypeVar("_Recipe", bound=Any)
# Python's message about a keyword argument that the class named in {} does not have.
_UNKNOWN = r"^{}\.__init__\(\) got an unexpected keyword argument '(\w+)'"


def known_recipes(folder: Path) -> list[str]:
    """The names of the recipes in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def load_recipe(name_or_path: str, kind: type[_Recipe], folder: Path) -> _Recipe:
    """The recipe of a name in a folder or of a path to a .py file, its `name` filled in.

    Args:
        name_or_path: either.
        kind: the class that it must be of.
        folder: where names are looked for.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    path = Path(name_or_path)
    if path.suffix != ".py":
        path = folder / f"{name_or_path}.py"
        if name_or_path not in known_recipes(folder):
            raise UsageError(
                f"No recipe of that name. Received: {name_or_path!r}."
                f"{nearest(name_or_path, known_recipes(folder))} Known recipes: "
                f"{', '.join(known_recipes(folder)) or 'none'}; or give the path of a .py file."
            )
    elif not path.is_file():
        raise UsageError(f"No such recipe file: {name_or_path}")
    try:
        recipe = runpy.run_path(str(path)).get("recipe")
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: not Python: {error.msg}") from error
    except Exception as error:
        if unknown := re.search(_UNKNOWN.format(kind.__name__), str(error)):
            raise UsageError(f"{path}: {_unknown(unknown[1], kind)}") from error
        cure = ""
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("training"):
            cure = ". Write: from bert_keras.training import PretrainRecipe, FinetuneRecipe"
        raise UsageError(f"{path}: {type(error).__name__}: {error}{cure}") from error
    if not isinstance(recipe, kind):
        raise UsageError(
            f"{path}: must define recipe = {kind.__name__}(…). Received: recipe={recipe!r}"
        )
    return dataclasses.replace(recipe, name=recipe.name or path.stem)


def _unknown(key: str, kind: type[Any]) -> str:
    """Return the message about a key that a class of recipes does not have."""
    known = [field.name for field in dataclasses.fields(kind)]
    today = f" It is called {RENAMED[key]}= now." if RENAMED.get(key) in known else ""
    return f"{kind.__name__} has no key {key}=.{today or nearest(key, known)}"


def require_no_flags(
    unknown: Sequence[str], keys: Collection[str], flags: Collection[str] = ("--help",)
) -> None:
    """Refuse words that begin with "-", with the right spelling of the first.

    Args:
        unknown: these words.
        keys: of `key=value` that the program knows.
        flags: that it knows.

    Raises:
        UsageError: there is one.
    """
    for word in unknown:
        name, _, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        name = RENAMED.get(name, name)
        if name in keys:
            raise UsageError(f"Write {name}={value or 'VALUE'}. Received: {word}")
        raise UsageError(
            f"Unknown flag. Received: {word}.{nearest(word, [*flags, *keys])} "
            f"Known flags: {', '.join(flags)}."
        )


def read_command(
    arguments: Sequence[str],
    kind: type[_Recipe],
    flags: Collection[str],
    load: Callable[[str], _Recipe],
    quicktest: Callable[[_Recipe], _Recipe],
    program: str,
    *,
    named: str,
) -> tuple[_Recipe, set[str]]:
    """The recipe of a command line `RECIPE [key=value …]`, and the flags that are given.

    Args:
        arguments: the command line.
        kind: the class of the recipe.
        flags: those that there are.
        load: opens a recipe by its name or path.
        quicktest: what --quicktest makes of it.
        program: its name, for messages.
        named: what the recipe's `name` names, likewise.

    Raises:
        UsageError: what cannot be meant.
    """
    given = {argument for argument in arguments if argument.startswith("-")}
    if unknown := sorted(given.difference(flags)):
        require_no_flags(unknown, [field.name for field in dataclasses.fields(kind)], flags)
    words = [argument for argument in arguments if argument not in given]
    if not words or "=" in words[0]:
        raise UsageError(f"Name a recipe: bert-keras {program} RECIPE [key=value …]")
    recipe = load(words[0])
    if "--quicktest" in given:
        recipe = quicktest(recipe)
    values = parse_overrides(words[1:], dataclasses.asdict(recipe))
    for key in ("name", "out"):  # now, not when all is trained
        require_utf8(values[key], f"{key}=")
    if not values["name"]:
        raise UsageError(f"name= must not be empty: it names {named}.")
    return type(recipe)(**values), given
