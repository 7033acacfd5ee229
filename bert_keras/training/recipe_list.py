"""List the recipes, with their task, data and result.

    bert-keras recipes [NAME]

NAME shows one recipe: command, machine, time, result and all values.

Then: bert-keras pretrain NAME, or bert-keras finetune NAME
"""

from __future__ import annotations

import textwrap

from rich.table import Column, Table

from bert_keras import escaping
from bert_keras.errors import UsageError
from bert_keras.training import recipe_files, recipe_help
from bert_keras.training.recipe_base import nearest
from bert_keras.training.run import run

_MOST = 120  # characters of a result; `bert-keras recipes NAME` shows all


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    if len(arguments) > 1:
        raise UsageError(
            f"Expected at most one name. Received: {' '.join(arguments)}. Write: "
            "bert-keras recipes [NAME]"
        )
    if arguments:
        print(_one(arguments[0]))
        return 0
    for word, program in recipe_help.PROGRAMS.items():
        escaping.console().print(_table(word, program))
    print('Where a result ends with "…", `bert-keras recipes NAME` shows all of it.')
    return 0


def _one(name: str) -> str:
    """Return the command and the help of one recipe.

    Raises:
        UsageError: no program has a recipe of this name.
    """
    known: dict[str, str] = {}
    for word, program in recipe_help.PROGRAMS.items():
        known |= dict.fromkeys(recipe_files.known_recipes(program.folder), word)
    if name not in known:
        raise UsageError(
            f"There is no recipe of that name. Received: {name!r}.{nearest(name, known)} "
            f"Known recipes: {', '.join(known)}."
        )
    program = recipe_help.PROGRAMS[known[name]]
    description = recipe_help.describe([name], program.recipe_class, program.folder, "")
    return f"bert-keras {known[name]} {name}\n\n{description}"


def _table(word: str, program: recipe_help.RecipeProgram) -> Table:
    """Return the table of a program's recipes, with the start of each result.

    Args:
        word: the program on the command line.
        program: class and folder of its recipes.
    """
    names = (Column(name, no_wrap=True) for name in ("recipe", program.task_key))
    columns = (*names, *(Column(name, overflow="fold") for name in ("data", "result")))
    table = Table(*columns, title=f"bert-keras {word} RECIPE", show_lines=True)
    for name in recipe_files.known_recipes(program.folder):
        header = recipe_help.header_of(program.folder / f"{name}.py")
        recipe = recipe_files.load_recipe(name, program.recipe_class, program.folder)
        result = header.parts.get("Result", "not measured")
        result = textwrap.shorten(result, _MOST, placeholder=" …")
        cells = name, getattr(recipe, program.task_key), header.title, result
        table.add_row(*map(escaping.printable, cells))
    return table


if __name__ == "__main__":
    run(main)
