"""Fine-tune a model on labelled examples: train, measure and report, with several seeds.

    bert-keras finetune RECIPE train=FILE dev=FILE encoder=HANDLE [key=value …] [--dry-run]
    bert-keras finetune --help KEY      explains one key
    bert-keras finetune RECIPE --help   lists the values of a recipe

RECIPE is a name that `bert-keras recipes` lists, or the path of a recipe file; key=value changes
its values. HANDLE is a checkpoint folder, a pretraining run, or hf://organisation/name.
The same command goes on with a run that was interrupted, exactly where its last checkpoint is.

    --dry-run     reads the files and prints what would be done: examples, steps, memory, time
    --quicktest   the whole way in seconds: a tiny model, made-up examples, in a temporary folder
                  unless out= names one

Examples:
    bert-keras finetune sst2 train=sst2/train.tsv dev=sst2/dev.tsv encoder=my_minilm
    bert-keras finetune conll2003 train=train.txt dev=testa.txt encoder=runs/mine seeds=5

Everything is written to runs/<name>/: report.md, the validation predictions, and the best model,
which `from_preset`, `bert-keras evaluate` and `bert-keras predict` open.
Exit codes: 0 done, 2 bad arguments, 3 bad examples, 4 damaged files, 5 no space or folder in use,
6 numbers that are not finite, 130 and 143 stopped by a signal after saving.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from bert_keras.errors import NumericError, UsageError
from bert_keras.training import machine, recipe_help
from bert_keras.training.finetune_recipe import FOLDER, FinetuneRecipe, load_finetuning, quicktest
from bert_keras.training.recipe_files import read_command
from bert_keras.training.run import check_folder, run, train

if TYPE_CHECKING:
    from bert_keras.training.run_folder import FinetuneFolder

_FLAGS = ("--dry-run", "--quicktest")
_MISSING = {"train": "FILE", "encoder": "HANDLE"}  # values that every training needs


def describe(words: list[str]) -> str:
    """Return the help; of one key or recipe where the words name one."""
    return recipe_help.describe(words, FinetuneRecipe, FOLDER, __doc__ or "")


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    recipe, flags = read_command(
        arguments,
        FinetuneRecipe,
        _FLAGS,
        load_finetuning,
        quicktest,
        "finetune",
        named="the folder of the run",
    )
    is_quicktest = "--quicktest" in flags
    for name in _MISSING:
        if not is_quicktest and not getattr(recipe, name):
            raise UsageError(
                f"{name}= is missing. Give {name}={_MISSING[name]}; `bert-keras finetune --help "
                f"{name}` explains it."
            )
    if "--dry-run" in flags:
        if is_quicktest:
            raise UsageError(
                "--dry-run and --quicktest exclude each other: a dry run reads the recipe's own "
                "files, and a quick test makes up examples. Leave one of them out."
            )
        from bert_keras.training.finetune_dry_run import print_plan

        check_folder(recipe)
        print_plan(recipe)
        return 0

    def body(folder: FinetuneFolder) -> None:
        """Train in the folder of the run; a quick test makes its examples there first."""
        whole = _with_examples(recipe, folder) if is_quicktest else recipe
        _finetune(whole, folder, arguments)

    return train(recipe, body, is_quicktest=is_quicktest)


def _with_examples(recipe: FinetuneRecipe, folder: FinetuneFolder) -> FinetuneRecipe:
    """Return the recipe of a quick test, with made-up examples and models in its folder."""
    from bert_keras.training.finetune_data import quicktest_recipe
    from bert_keras.training.run_folder import QUICKTEST

    return quicktest_recipe(recipe, folder.given / QUICKTEST)


def _finetune(recipe: FinetuneRecipe, folder: FinetuneFolder, arguments: list[str]) -> None:
    """Train with every seed, then write report and best model into the folder of the run."""
    import keras

    from bert_keras.training.finetune_data import Data, unknown_note
    from bert_keras.training.finetune_report import finish
    from bert_keras.training.finetune_seed import run_seed, tokenizer_of
    from bert_keras.training.tasks import task_of

    folder.claim(recipe, keras.backend.backend(), machine.versions())
    finetuning = task_of(recipe)
    data = Data.read(recipe, finetuning)
    tokenizer = tokenizer_of(recipe)
    if note := unknown_note(recipe, finetuning, data, tokenizer):
        print(note, file=sys.stderr)
    seeds = range(recipe.seed, recipe.seed + recipe.seeds)
    results = [
        run_seed(recipe, finetuning, data, tokenizer, seed, folder.of_seed(seed)) for seed in seeds
    ]
    command = shlex.join(["bert-keras", "finetune", *arguments])
    finish(recipe, finetuning, data, tokenizer, results, folder, command)
    if all("failed" in result for result in results):
        raise NumericError(f"The training failed with every seed. Received: {results[0]['failed']}")


if __name__ == "__main__":
    run(main, describe=describe)
