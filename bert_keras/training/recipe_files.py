"""Recipe files and command lines: `RECIPE key=value …`, with one message for each mistake."""

from __future__ import annotations

import dataclasses
import re
import runpy
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from bert_keras.errors import UsageError
from bert_keras.escaping import require_utf8
from bert_keras.tokenizers import MODELS, check_model
from bert_keras.training.recipe_base import RENAMED, VALUE_TYPES, nearest

_Recipe = TypeVar("_Recipe", bound=Any)
# Python's message about a keyword argument that the class named in {} does not have.
_UNKNOWN = r"^{}\.__init__\(\) got an unexpected keyword argument '(\w+)'"


def known_recipes(folder: Path) -> list[str]:
    """Return the names of the recipes in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def load_recipe(name_or_path: str, recipe_class: type[_Recipe], folder: Path) -> _Recipe:
    """Load the recipe of a name in a folder or of a path to a .py file; fill in its `name`.

    Args:
        name_or_path: a name in the folder, or a path that ends in .py.
        recipe_class: class of the recipe.
        folder: folder of the named recipes.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    path = Path(name_or_path)
    if path.suffix != ".py":
        path = folder / f"{name_or_path}.py"
        if name_or_path not in known_recipes(folder):
            raise UsageError(
                f"There is no recipe of that name. Received: {name_or_path!r}."
                f"{nearest(name_or_path, known_recipes(folder))} Known recipes: "
                f"{', '.join(known_recipes(folder)) or 'none'}; or give the path of a .py file."
            )
    elif not path.is_file():
        raise UsageError(
            f"There is no recipe file {name_or_path}. Correct the path, or name a recipe."
        )
    try:
        recipe = runpy.run_path(str(path)).get("recipe")
    except SyntaxError as error:
        raise UsageError(
            f"{path}, line {error.lineno}: the file is not valid Python: {error.msg}. Correct "
            "the line."
        ) from error
    except Exception as error:
        if unknown := re.search(_UNKNOWN.format(recipe_class.__name__), str(error)):
            raise UsageError(f"{path}: {_unknown(unknown[1], recipe_class)}") from error
        cure = ""
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("training"):
            cure = ". Write: from bert_keras.training import PretrainRecipe, FinetuneRecipe"
        raise UsageError(f"{path}: {type(error).__name__}: {error}{cure}") from error
    if not isinstance(recipe, recipe_class):
        raise UsageError(
            f"{path}: must define recipe = {recipe_class.__name__}(…). Received: recipe={recipe!r}"
        )
    return dataclasses.replace(recipe, name=recipe.name or path.stem)


def _unknown(key: str, recipe_class: type[Any]) -> str:
    """Return the message about a key that a class of recipes does not have."""
    known = [field.name for field in dataclasses.fields(recipe_class)]
    today = f" It is called {RENAMED[key]}= now." if RENAMED.get(key) in known else ""
    return f"{recipe_class.__name__} has no key {key}=.{today or nearest(key, known)}"


def require_no_flags(
    unknown: Sequence[str], keys: Collection[str], flags: Collection[str] = ("--help",)
) -> None:
    """Refuse words that begin with "-", with the right spelling of the first.

    Args:
        unknown: the words that begin with "-".
        keys: keys of `key=value` that the program knows.
        flags: flags that the program knows.

    Raises:
        UsageError: there is such a word.
    """
    for word in unknown:
        name, _, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        name = RENAMED.get(name, name)
        if name in keys:
            raise UsageError(
                f"A key has no dashes before it. Received: {word}. Write {name}={value or 'VALUE'}."
            )
        raise UsageError(
            f"Unknown flag. Received: {word}.{nearest(word, [*flags, *keys])} "
            f"Known flags: {', '.join(flags)}."
        )


def read_command(
    arguments: Sequence[str],
    recipe_class: type[_Recipe],
    flags: Collection[str],
    load: Callable[[str], _Recipe],
    quicktest: Callable[[_Recipe], _Recipe],
    program: str,
    *,
    named: str,
) -> tuple[_Recipe, set[str]]:
    """Return the recipe of a command line `RECIPE [key=value …]`, and its flags.

    Args:
        arguments: the command line.
        recipe_class: class of the recipe.
        flags: flags that the program knows.
        load: function that opens a recipe by its name or path.
        quicktest: function that returns the recipe of --quicktest.
        program: name of the program, for messages.
        named: thing that is named by the recipe's `name`, for messages.

    Raises:
        UsageError: an unknown flag, key or recipe, or a bad value.
    """
    used_flags = {argument for argument in arguments if argument.startswith("-")}
    if unknown := sorted(used_flags.difference(flags)):
        require_no_flags(unknown, [field.name for field in dataclasses.fields(recipe_class)], flags)
    words = [argument for argument in arguments if argument not in used_flags]
    if not words or "=" in words[0]:
        raise UsageError(
            f"The recipe is missing. Write: bert-keras {program} RECIPE [key=value …]. "
            "`bert-keras recipes` lists the recipes."
        )
    recipe = load(words[0])
    if "--quicktest" in used_flags:
        recipe = quicktest(recipe)
    values = parse_overrides(words[1:], recipe.values())
    for key in ("name", "out"):  # before the training, not when its files are written
        require_utf8(values[key], f"{key}=")
    if not values["name"]:
        raise UsageError(f"name= must not be empty: it names {named}. Give name=NAME.")
    return type(recipe)(**values), used_flags


# === Command lines ===


def parse_overrides(arguments: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults, changed by `key=value` arguments of the same types.

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
            raise UsageError(
                f"Expected key=value behind the first word. Received: {argument!r}. Put a value "
                "with spaces in quotes."
            )
        if key not in defaults:
            if (today := RENAMED.get(key)) in defaults:
                raise UsageError(
                    f"{key}= is called {today}= now. Received: {argument!r}. Write {today}={text}."
                )
            hint = nearest(key, defaults) or f" Known keys: {', '.join(defaults)}."
            raise UsageError(f"Unknown key. Received: {argument!r}.{hint}")
        if key in values:
            raise UsageError(f"{key}= is given twice. Received: {argument!r}. Leave one out.")
        value_type = cast("type[Any]", type(defaults[key]))
        try:
            values[key] = _PARSERS[value_type](text)
        except (ValueError, OverflowError, KeyError):
            raise UsageError(
                f"{key} must be {VALUE_TYPES[value_type.__name__]}. Received: {text!r}"
            ) from None
    return {**defaults, **values}


def check_learned(name: str, model: str, vocab_size: int, vocab: str) -> None:
    """Check the kind and the size of a tokenizer that is to be learned, before any text is read.

    Args:
        name: key of the kind on the command line.
        model: kind of the tokenizer.
        vocab_size: number of entries to learn.
        vocab: a tokenizer to take in place of a new one, or "".

    Raises:
        UsageError: no such kind, one that is not installed, or values that do not fit it.
    """
    if vocab:
        if model != MODELS[0]:
            raise UsageError(
                f"{name}={model} is for a tokenizer that is learned, and the tokenizer is that of "
                f"{vocab}. Leave {name}= out."
            )
        return
    try:
        check_model(model, vocab_size)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{name}={model}: {error}") from error


def _integer(text: str) -> int:
    """Return a whole number that may be written as 100_000 or 1e5."""
    number = float(text)
    return int(text) if "e" not in text.lower() or not number.is_integer() else int(number)


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PARSERS: Mapping[type[Any], Callable[[str], object]] = {
    str: str,
    int: _integer,
    float: float,
    bool: lambda text: _TRUTH[text.lower()],
}
