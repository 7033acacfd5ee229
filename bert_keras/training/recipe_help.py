"""Help of the programs that run recipes: all values with type and meaning, and shell completion."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from bert_keras.errors import UsageError
from bert_keras.training import finetune_grid, finetune_recipe, pretrain_recipe, recipe_files
from bert_keras.training.recipe_base import RENAMED, VALUE_TYPES, Rule, nearest, rules_of


class RecipeProgram(NamedTuple):
    """A program that runs recipes.

    Attributes:
        recipe_class: class of its recipes.
        folder: folder of its named recipes.
        task_key: key of a recipe that names its task.
    """

    recipe_class: type[Any]
    folder: Path
    task_key: str


# The programs by their word on the command line.
PROGRAMS: Mapping[str, RecipeProgram] = {
    "pretrain": RecipeProgram(pretrain_recipe.PretrainRecipe, pretrain_recipe.FOLDER, "loss"),
    "finetune": RecipeProgram(finetune_recipe.FinetuneRecipe, finetune_recipe.FOLDER, "task"),
}

_INDENT, _COLUMN, _WIDEST = 4, 36, 100


@dataclasses.dataclass(frozen=True)
class Header:
    """Docstring of a recipe's file, in parts.

    Attributes:
        title: its first line.
        parts: "Command", "Hardware", "Time", "Result" and the like, each as one line.
        text: the whole docstring.
    """

    title: str
    parts: dict[str, str]
    text: str


def header_of(path: Path) -> Header:
    """Read the docstring of a recipe's file."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    title, _, rest = text.partition("\n")
    parts: dict[str, str] = {}
    last = ""
    for line in rest.splitlines():
        name, colon, value = line.partition(":")
        is_part = bool(colon) and name.isalpha() and name.istitle()
        if is_part:
            parts[last := name] = value.strip()
        elif last and line.strip():
            parts[last] += f" {line.strip()}"
        else:  # a blank line ends the last part
            last = ""
    return Header(title, parts, text)


def describe(words: Sequence[str], recipe_class: type[Any], folder: Path, usage: str) -> str:
    """Return the help of a program: all of it, or that of one key, or of one recipe.

    Args:
        words: the command line without `--help`: nothing, a key, a value such as whole_word, or a
            recipe. A value gives the help of its key. Words behind the first one are ignored.
        recipe_class: class of the program's recipes.
        folder: folder of the program's recipes.
        usage: docstring of the program.

    Raises:
        UsageError: the first word is no key, value or recipe.
    """
    known = recipe_files.known_recipes(folder)
    if not words:
        titles = {name: header_of(folder / f"{name}.py").title for name in known}
        recipes = [_row(name, title) for name, title in titles.items()]
        return "\n".join(
            [inspect.cleandoc(usage), "", "Recipes:", *recipes, "", _values(recipe_class)]
        )
    name = words[0].partition("=")[0].lstrip("-")
    name = RENAMED.get(name, name)
    fields = {field.name: (field, rule) for field, rule in rules_of(recipe_class)}
    if name in fields:
        return _explained(*fields[name])
    if name in known:
        recipe = recipe_files.load_recipe(name, recipe_class, folder)
        return f"{header_of(folder / f'{name}.py').text}\n\n{_values(recipe)}"
    if holders := [pair for pair in fields.values() if name in pair[1].choices]:
        return "\n\n".join(_explained(*pair) for pair in holders)
    raise UsageError(
        f"There is no recipe, key or value of this name. Received: {name!r}."
        f"{nearest(name, [*fields, *known])} `--help` without a name lists all."
    )


def _values(recipe: Any) -> str:
    """List every value of a class of recipes, or of a recipe and for its task, by section."""
    lines: list[str] = []
    section = ""
    is_one = not isinstance(recipe, type)
    for field, rule in rules_of(recipe):
        if is_one and rule.tasks and recipe.task not in rule.tasks:
            continue
        if rule.section != section:
            lines += ["", f"{rule.section}:"]
            section = rule.section
        value = getattr(recipe, field.name) if is_one else field.default
        meaning = _meaning(field, rule, is_given=is_one)
        lines.append(_row(_assignment(field.name, value), meaning))
    return "\n".join(lines[1:])


def _assignment(name: str, value: object) -> str:
    """Return `name=value` as a command line has it; `name=` for a value without a default."""
    if value is dataclasses.MISSING:
        return f"{name}="
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"{name}={shown}"


def _meaning(field: dataclasses.Field[Any], rule: Rule, *, is_given: bool = False) -> str:
    """Return the meaning, with the words that a value may be, or its type.

    A value that a recipe has to give, and that is not given, is marked.
    """
    type_name = VALUE_TYPES[str(field.type)].removeprefix("a ")
    if words := [word for word in rule.choices if word]:
        type_name = f"{', '.join(words[:-1])} or {words[-1]}"
    is_needed = field.default is dataclasses.MISSING and not is_given
    needed = "must be given" if is_needed else ""
    notes = "; ".join(filter(None, (type_name, needed)))
    return f"{rule.meaning} ({notes})"


def _explained(field: dataclasses.Field[Any], rule: Rule) -> str:
    """Return the help of one key: default, meaning, values and limits, tasks, earlier names."""
    lines = [_assignment(field.name, field.default), _wrapped(_meaning(field, rule))]
    if isinstance(rule.choices, Mapping):
        meanings = cast("Mapping[str, str]", rule.choices)  # pyright: ignore[reportUnknownMemberType]
        lines += [_row(word, meaning) for word, meaning in meanings.items()]
    type_name = str(field.type)
    if type_name == "int":
        lines.append(_wrapped(f"from {rule.least:,} to {rule.bound - 1:,}"))
    if type_name == "float":
        low = "above 0" if rule.above_zero else "at least 0"
        lines.append(_wrapped(f"{low}, {'below 1' if rule.is_share else 'without a limit'}"))
    if rule.tasks:
        lines.append(_wrapped(f"for task={', '.join(rule.tasks)}"))
    if earlier := [old for old, name in RENAMED.items() if name == field.name]:
        lines.append(_wrapped(f"in earlier versions: {', '.join(earlier)}="))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    """Wrap a text to the width of the terminal, and indent it below the name of its key."""
    return textwrap.indent("\n".join(_lines(text, _width() - _INDENT)), " " * _INDENT)


def _lines(text: str, width: int) -> list[str]:
    """Wrap a text at spaces alone: "warm-up" and `--quicktest` stay words that a search finds."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _row(name: str, meaning: str) -> str:
    """Return a name and, in a column of its own, a wrapped meaning."""
    lines = _lines(meaning, max(_width() - _COLUMN, 20)) or [""]
    left = " " * _INDENT + name
    if len(left) >= _COLUMN:
        lines, left = ["", *lines], left
    first = f"{left:<{_COLUMN}}{lines[0]}".rstrip()
    return "\n".join([first, *(" " * _COLUMN + line for line in lines[1:])])


def _width() -> int:
    """Return the columns that a help text may fill: those of the terminal, at most 100."""
    return min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)


# === Shell completion ===


class _Key(NamedTuple):
    """Key of a recipe, for completion: its help, its default as text and its allowed values."""

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
    if command == "recipes":
        return [] if words else list(_recipes(PROGRAMS.values(), start))
    if command not in PROGRAMS:
        return []
    recipe_class, folder, _ = program = PROGRAMS[command]
    is_help = bool({"-h", "--help"}.intersection(words))
    words = [word for word in words if not word.startswith("-")]
    if not words:
        recipes = list(_recipes([program], start))
        keys = _keys(recipe_class).items() if is_help else ()
        return recipes + [(key, rule.meaning) for key, rule in keys if key.startswith(start)]
    keys = _keys(_opened(words[0], recipe_class, folder))
    if command == "finetune":
        keys[finetune_grid.KEY] = _Key("values to try, in one grid", "", ())
    key = words.pop() if words[-1] != "=" else "".join(words[-2:-1])
    if key in keys and (words[-1:] == ["="] or not start):
        return [(value, "") for value in keys[key].values if value.startswith(start)]
    taken = {word.partition("=")[0] for word in (*words[1:], key)}
    return list(_assignments({name: keys[name] for name in keys if name not in taken}, start))


def _recipes(programs: Iterable[RecipeProgram], start: str) -> Iterator[tuple[str, str]]:
    """Yield name and title of the programs' recipes whose names begin with `start`."""
    for program in programs:
        for name in recipe_files.known_recipes(program.folder):
            if name.startswith(start):
                yield name, header_of(program.folder / f"{name}.py").title


def _opened(name: str, recipe_class: type[Any], folder: Path) -> Any:
    """Return a recipe of this package; for the path of a file, which is not run, the class."""
    if name not in recipe_files.known_recipes(folder):
        return recipe_class
    return recipe_files.load_recipe(name, recipe_class, folder)


def _keys(recipe: Any) -> dict[str, _Key]:
    """Return the keys of a class of recipes, or of the task of a recipe."""
    keys: dict[str, _Key] = {}
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
    matches = {key: rule for key, rule in keys.items() if key.startswith(name)}
    if equals:
        rule = keys.get(name)
        yield from (
            (f"{name}={v}", "") for v in (rule.values if rule else ()) if v.startswith(begun)
        )
    elif len(matches) > 1:
        yield from ((f"{key}=", rule.meaning) for key, rule in matches.items())
    else:
        for key, rule in matches.items():
            if not rule.values:
                yield f"{key}=", rule.meaning
            for value in rule.values or filter(None, [rule.default]):
                yield f"{key}={value}", "" if rule.values else "as it is"
