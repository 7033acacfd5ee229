"""Shell completion of `bert-keras`: names of recipes, keys of `key=value`, and values of keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras.training import finetune_recipe, recipe, recipe_files, recipe_help
from bert_keras.training.values import rules_of


class _Key(NamedTuple):
    meaning: str
    default: str
    values: tuple[str, ...]


def complete_words(command: str, words: list[str], start: str) -> list[tuple[str, str]]:
    """Return what a word of a command may become: pairs of a word and its help.

    Bash ends a word at "=": the words "masking", "=" and the start "to" are `masking=to`, and only
    the last of them is completed. Zsh and fish give `masking=to` as one word.

    Args:
        command: "pretrain", "finetune" or "recipes"; other commands have no completion.
        words: the words between the command and the one that is completed.
        start: the beginning of the word that is completed.
    """
    programs = _programs()
    if command == "recipes":
        return [] if words else list(_recipes(list(programs.values()), start))
    if command not in programs:
        return []
    recipe_class, folder = programs[command]
    is_help = bool({"-h", "--help"}.intersection(words))
    words = [word for word in words if not word.startswith("-")]
    if not words:
        recipes = list(_recipes([programs[command]], start))
        keys = _keys(recipe_class).items() if is_help else ()
        return recipes + [(key, rule.meaning) for key, rule in keys if key.startswith(start)]
    keys = _keys(_opened(words[0], recipe_class, folder))
    key = words.pop() if words[-1] != "=" else "".join(words[-2:-1])
    if key in keys and (words[-1:] == ["="] or not start):
        return [(value, "") for value in keys[key].values if value.startswith(start)]
    taken = {word.partition("=")[0] for word in (*words[1:], key)}
    return list(_assignments({name: keys[name] for name in keys if name not in taken}, start))


def _programs() -> dict[str, tuple[type[Any], Path]]:
    return {
        "pretrain": (recipe.PretrainRecipe, recipe.FOLDER),
        "finetune": (finetune_recipe.FinetuneRecipe, finetune_recipe.FOLDER),
    }


def _recipes(programs: list[tuple[type[Any], Path]], start: str) -> Iterator[tuple[str, str]]:
    for _, folder in programs:
        for name in recipe_files.known(folder):
            if name.startswith(start):
                yield name, recipe_help.header_of(folder / f"{name}.py").title


def _opened(name: str, recipe_class: type[Any], folder: Path) -> Any:
    """Return a recipe of this package; for the path of a file, which is not run, the class."""
    if name not in recipe_files.known(folder):
        return recipe_class
    return recipe_files.load(name, recipe_class, folder)


def _keys(recipe: Any) -> dict[str, _Key]:
    """Return the keys of a class of recipes, or of the task of a recipe."""
    keys = {}
    for field, rule in rules_of(recipe):
        if not isinstance(recipe, type) and rule.tasks and recipe.task not in rule.tasks:
            continue
        value = field.default if isinstance(recipe, type) else getattr(recipe, field.name)
        is_bool = str(field.type) == "bool"
        shown = "" if value is dataclasses.MISSING else str(value)
        values = ("true", "false") if is_bool else tuple(filter(None, rule.choices))
        keys[field.name] = _Key(rule.meaning, shown.lower() if is_bool else shown, values)
    return keys


def _assignments(keys: dict[str, _Key], start: str) -> Iterator[tuple[str, str]]:
    """Yield `key=` for the beginning of a key, and `key=value` for a whole one.

    A shell writes a space behind the only completion. So one key brings its values along, or its
    default: the shell then stops behind the "=", where the value is typed.
    """
    name, equals, begun = start.partition("=")
    found = {key: rule for key, rule in keys.items() if key.startswith(name)}
    if equals:
        rule = keys.get(name)
        yield from (
            (f"{name}={v}", "") for v in (rule.values if rule else ()) if v.startswith(begun)
        )
    elif len(found) > 1:
        yield from ((f"{key}=", rule.meaning) for key, rule in found.items())
    else:
        for key, rule in found.items():
            if not rule.values:
                yield f"{key}=", rule.meaning
            for value in rule.values or filter(None, [rule.default]):
                yield f"{key}={value}", "" if rule.values else "as it is"
