"""List the recipes, with their task, data and result.

    bert-keras recipes [NAME]

NAME shows one recipe: command, machine, time, result and all values.

Then: bert-keras pretrain NAME, or bert-keras finetune NAME
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from bert_keras import escaping
from bert_keras.errors import UsageError
from bert_keras.training import finetune_recipe, pretrain_recipe, recipe_files, recipe_help
from bert_keras.training.recipe_base import nearest
from bert_keras.training.run import run

# Command, the class of its recipes, their folder, and the field that names their task.
_PROGRAMS: tuple[tuple[str, type[Any], Path, str], ...] = (
    ("pretrain", pretrain_recipe.PretrainRecipe, pretrain_recipe.FOLDER, "loss"),
    ("finetune", finetune_recipe.FinetuneRecipe, finetune_recipe.FOLDER, "task"),
)

_MOST = 120  # characters of a result; `bert-keras recipes NAME` shows all


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    if len(arguments) > 1:
        raise UsageError(f"One name at most: bert-keras recipes [NAME]. Received: {arguments}")
    if arguments:
        print(_one(arguments[0]))
        return 0
    for program, kind, folder, task in _PROGRAMS:
        escaping.console().print(_table(program, kind, folder, task))
    print('Where a result ends with "…", `bert-keras recipes NAME` shows all of it.')
    return 0


def _one(name: str) -> str:
    known: dict[str, tuple[str, type[Any], Path]] = {}
    for program, kind, folder, _ in _PROGRAMS:
        known |= dict.fromkeys(recipe_files.known_recipes(folder), (program, kind, folder))
    if name not in known:
        raise UsageError(
            f"No recipe of that name. Received: {name!r}.{nearest(name, known)} "
            f"Known recipes: {', '.join(known)}."
        )
    program, kind, folder = known[name]
    told = recipe_help.describe([name], kind, folder, "")
    return f"bert-keras {program} {name}\n\n{told}"


def _table(program: str, kind: type[Any], folder: Path, task: str) -> Table:
    names = (Column(name, no_wrap=True) for name in ("recipe", task))
    columns = (*names, *(Column(name, overflow="fold") for name in ("data", "result")))
    table = Table(*columns, title=f"bert-keras {program} RECIPE", show_lines=True)
    for name in recipe_files.known_recipes(folder):
        header = recipe_help.header_of(folder / f"{name}.py")
        values = recipe_files.load_recipe(name, kind, folder)
        told = header.parts.get("Result", "not measured")
        result = textwrap.shorten(told, _MOST, placeholder=" …")
        cells = name, getattr(values, task), header.title, result
        table.add_row(*map(escaping.printable, cells))
    return table


if __name__ == "__main__":
    run(main)
