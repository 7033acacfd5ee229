"""Fine-tune a model on labelled examples: train, measure and report, with several seeds.

    bert-keras finetune RECIPE train=FILE dev=FILE encoder=HANDLE [key=value …] [--dry-run]
    bert-keras finetune --help KEY      explains one key
    bert-keras finetune RECIPE --help   lists the values of a recipe

RECIPE is a name that `bert-keras recipes` lists, or the path of a recipe file; key=value changes
its values. try="learning_rate=1e-5,2e-5" seeds=3 trains with each value, and keeps the best one.
HANDLE is a checkpoint folder, a pretraining run, or hf://organisation/name.
The same command goes on with a run that was interrupted, exactly where its last checkpoint is.

    --dry-run     reads the files and prints what would be done: examples, steps, memory, time
    --quicktest   the whole way in seconds: a tiny model, made-up examples, in a temporary folder
                  unless out= names one

Examples:
    bert-keras finetune sst2 train=sst2/train.tsv dev=sst2/dev.tsv encoder=my_minilm
    bert-keras finetune conll2003 train=train.txt dev=testa.txt encoder=runs/mine seeds=5
    bert-keras finetune reviews.py train=reviews.csv encoder=my_bert seeds=3
                                try="learning_rate=2e-5,5e-5 batch_size=16,32"

Everything is written to runs/<name>/: report.md, the validation predictions, and the best model,
which `from_preset`, `bert-keras evaluate` and `bert-keras predict` open.
Exit codes: 0 done, 2 bad arguments, 3 bad examples, 4 damaged files, 5 no space or folder in use,
6 numbers that are not finite, 130 and 143 stopped by a signal after saving.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bert_keras.errors import NumericError, UsageError
from bert_keras.training import machine, recipe_help
from bert_keras.training.finetune_grid import HELP, KEY, Grid, read_grid, split_words
from bert_keras.training.finetune_recipe import FOLDER, FinetuneRecipe, load_finetuning
from bert_keras.training.recipe_files import read_command
from bert_keras.training.run import check_folder, run, train

if TYPE_CHECKING:
    from bert_keras.training.recipe_base import RunRecipe
    from bert_keras.training.run_folder import FinetuneFolder

_FLAGS = ("--dry-run", "--quicktest")
_MISSING = {"train": "FILE", "encoder": "HANDLE"}  # values that every training needs


def describe(words: list[str]) -> str:
    """Return the help; of one key or recipe where the words name one."""
    if words and words[0].partition("=")[0].lstrip("-") == KEY:
        return HELP
    return recipe_help.describe(words, FinetuneRecipe, FOLDER, __doc__ or "")


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    tried, others = split_words(arguments)
    grid: Grid | None = None
    if tried:
        grid, flags = read_grid(tried, others, _read)
        recipes = [point.recipe for point in grid.points]
    else:
        recipe, flags = _read(others)
        recipes = [recipe]
    is_quicktest = "--quicktest" in flags
    for name in _MISSING:
        if not is_quicktest and not all(getattr(recipe, name) for recipe in recipes):
            raise UsageError(
                f"{name}= is missing. Give {name}={_MISSING[name]}; `bert-keras finetune --help "
                f"{name}` explains it."
            )
    open_folder = _grid_folder(grid) if grid else None
    if "--dry-run" in flags:
        if is_quicktest:
            raise UsageError(
                "--dry-run and --quicktest exclude each other: a dry run reads the recipe's own "
                "files, and a quick test makes up examples. Leave one of them out."
            )
        _print_plan(recipes[0], grid, check_folder(recipes[0], open_folder))
        return 0
    command = shlex.join(["bert-keras", "finetune", *arguments])

    def body(folder: Any) -> None:
        """Train in the folder of the run; a quick test makes its examples there first."""
        if grid:
            from bert_keras.training.finetune_grid_run import run_grid, with_examples

            run_grid(with_examples(grid, folder) if is_quicktest else grid, folder, command)
        else:
            whole = _with_examples(recipes[0], folder) if is_quicktest else recipes[0]
            _finetune(whole, folder, command)

    return train(recipes[0], body, is_quicktest=is_quicktest, open_folder=open_folder)


def _read(words: list[str]) -> tuple[FinetuneRecipe, set[str]]:
    """Return the recipe of a command line without tried values, and its flags."""
    return read_command(
        words,
        FinetuneRecipe,
        _FLAGS,
        load_finetuning,
        quicktest,
        "finetune",
        named="the folder of the run",
    )


def quicktest(recipe: FinetuneRecipe) -> FinetuneRecipe:
    """Return the recipe of a quick test: few examples and steps, all else as it is."""
    is_question = recipe.task == "question_answering"
    more: dict[str, Any] = {"max_question": 16, "stride": 8} if is_question else {}
    if recipe.representation == "concat_last_4":  # its model has fewer layers
        more = {"representation": "last"}
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}_quicktest",
        rows=0,
        dev_rows=0,
        epochs=2,
        batch_size=4,
        max_length=32,
        evaluations=1,
        learning_rate=1e-3,
        layers="",
        **more,
    )


def _grid_folder(grid: Grid) -> Callable[[RunRecipe, str], FinetuneFolder]:
    """Return the function that opens the folder of a grid."""

    def open_folder(_: RunRecipe, temporary: str) -> FinetuneFolder:
        """Open the folder of the grid."""
        # Keras and its backend take seconds to import. A bad command has been refused before.
        from bert_keras.training.finetune_grid_run import GridFolder

        return GridFolder(grid, temporary)

    return open_folder


def _print_plan(recipe: FinetuneRecipe, grid: Grid | None, folder: Any) -> None:
    """Print what the command would do; write nothing."""
    if grid:
        from bert_keras.training.finetune_grid_run import print_grid_plan

        print_grid_plan(grid, folder)
    else:
        from bert_keras.training.finetune_dry_run import print_plan
        from bert_keras.training.finetune_grid_run import require_no_grid

        require_no_grid(folder)
        print_plan(recipe)


def _with_examples(recipe: FinetuneRecipe, folder: FinetuneFolder) -> FinetuneRecipe:
    """Return the recipe of a quick test, with made-up examples and models in its folder."""
    from bert_keras.training.finetune_data import quicktest_recipe
    from bert_keras.training.run_folder import QUICKTEST

    return quicktest_recipe(recipe, folder.given / QUICKTEST)


def _finetune(recipe: FinetuneRecipe, folder: FinetuneFolder, command: str) -> None:
    """Train with every seed, then write report and best model into the folder of the run."""
    import keras

    from bert_keras.training.finetune_data import Data, unknown_note
    from bert_keras.training.finetune_grid_run import require_no_grid
    from bert_keras.training.finetune_report import finish
    from bert_keras.training.finetune_seed import run_seed, tokenizer_of
    from bert_keras.training.tasks import task_of

    require_no_grid(folder)
    folder.require_same(recipe, keras.backend.backend())
    finetuning = task_of(recipe)
    data = Data.read(recipe, finetuning)
    tokenizer = tokenizer_of(recipe)
    folder.claim(recipe, keras.backend.backend(), machine.versions())
    if note := unknown_note(recipe, finetuning, data, tokenizer):
        print(note, file=sys.stderr)
    seeds = range(recipe.seed, recipe.seed + recipe.seeds)
    results = [
        run_seed(recipe, finetuning, data, tokenizer, seed, folder.of_seed(seed)) for seed in seeds
    ]
    finish(recipe, finetuning, data, tokenizer, results, folder, command)
    if all("failed" in result for result in results):
        raise NumericError(f"The training failed with every seed. Received: {results[0]['failed']}")


if __name__ == "__main__":
    run(main, describe=describe)
