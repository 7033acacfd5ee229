"""Commands of `bert-keras` with `key=value` arguments: the programs of `bert_keras.training`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Annotated

import typer

TRAIN, USE = "Train", "Use a model"
# Command -> its module in bert_keras.training; its line and its group in `bert-keras --help`.
PROGRAMS = {
    "prepare": ("prepare", "Write a corpus: a vocabulary, and the tokens of a text.", TRAIN),
    "pretrain": ("pretrain", "Pretrain a model on text by a recipe.", TRAIN),
    "finetune": ("finetune", "Fine-tune a model on labelled examples by a recipe.", TRAIN),
    "recipes": ("recipe_list", "List the recipes: task, data, measured result.", TRAIN),
    "predict": ("predict", "Label, tag, answer or encode texts, tables and lines.", USE),
    "evaluate": ("evaluate", "Measure a fine-tuned model on labelled examples.", USE),
    "fill-mask": ("fill_mask", "Fill the masks of texts with an exported SavedModel.", USE),
}
_PASS_ON = {"ignore_unknown_options": True}


def _complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    from bert_keras.training.completion import complete_words

    words = context.params.get("words") or ()
    return complete_words(context.info_name or "", list(words), incomplete)


_Words = Annotated[list[str] | None, typer.Argument(autocompletion=_complete)]


def register(app: typer.Typer) -> None:
    """Add the commands to an app; the module of a command is imported when it is called."""
    for command, (module, summary, panel) in PROGRAMS.items():
        app.command(
            command,
            help=summary,
            rich_help_panel=panel,
            add_help_option=False,  # the program has a help of its own
            context_settings=_PASS_ON,
        )(_command(module))


def _command(name: str) -> Callable[..., None]:
    def run_program(words: _Words = None) -> None:
        arguments = list(words or ())
        program = importlib.import_module(f"bert_keras.training.{name}")
        if name == "fill_mask":  # a program of its own kind: users copy it
            sys.exit(program.main(arguments))
        from bert_keras.training.run import run

        run(program.main, arguments, describe=getattr(program, "describe", None))

    return run_program
