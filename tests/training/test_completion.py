"""Shell completion, called as a shell calls it: by variables of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bert_keras.training import finetune_recipe, recipe, recipe_files
from bert_keras.training.completion import complete_words

_MASKING = ("token", "whole_word", "span")
_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys
from bert_keras import cli
sys.argv = ["bert-keras"]
try:
    cli.main()
finally:
    print(sorted({"keras", "tensorflow", "torch", "jax"} & set(sys.modules)), file=sys.stderr)
"""


def _run(**variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": str(_ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "[]\n"  # nothing that takes seconds to import
    return done.stdout


def test_bash() -> None:
    words = "bert-keras finetune ss"
    shown = _run(COMP_WORDS=words, COMP_CWORD="2", _BERT_KERAS_COMPLETE="complete_bash")
    assert shown.split() == ["sst2", "sst2_distilled"]
    words = "bert-keras pretrain demo masking = "  # as bash splits masking=
    shown = _run(COMP_WORDS=words, COMP_CWORD="5", _BERT_KERAS_COMPLETE="complete_bash")
    assert shown.split() == ["token", "whole_word", "span"]


def test_zsh() -> None:
    words = "bert-keras pretrain demo learning_r"
    shown = _run(_TYPER_COMPLETE_ARGS=words, _BERT_KERAS_COMPLETE="complete_zsh")
    assert shown.startswith("_arguments")
    assert '"learning_rate="' in shown


def _completed(command: str, *words: str) -> list[str]:
    return [word for word, _ in complete_words(command, list(words[:-1]), words[-1])]


def test_names_of_recipes() -> None:
    pretraining = recipe_files.known(recipe.FOLDER)
    finetuning = recipe_files.known(finetune_recipe.FOLDER)
    assert _completed("pretrain", "") == pretraining
    assert _completed("finetune", "--dry-run", "") == finetuning
    assert _completed("recipes", "") == pretraining + finetuning
    assert _completed("recipes", "demo", "") == []
    assert _completed("predict", "") == []


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("demo", "learn"), ["learning_rate=", "learning_rate=0.005"]),
        (("demo", "masking"), ["masking=token", "masking=whole_word", "masking=span"]),
        (("demo", "masking=sp"), ["masking=span"]),
        (("demo", "masking", "=", "wh"), ["whole_word"]),
        (("demo", "lowercase", "=", ""), ["true", "false"]),
        (("demo", "masking", ""), ["token", "whole_word", "span"]),  # masking= before the cursor
        (("demo", "mask_rate", "=", "0.2", "mask"), [f"masking={v}" for v in _MASKING]),
        (("demo", "mask_rate=0.2", "mask_"), []),
        (("demo", "vocab=x", "ou"), ["output_bias=", "out="]),
        (("demo", "corpus=x"), []),
        (("demo", "nonsense=x"), []),
        (("--help", "masking"), ["masking"]),
    ],
)
def test_keys_and_values(words: tuple[str, ...], completed: list[str]) -> None:
    assert _completed("pretrain", *words) == completed


def test_a_recipe_has_the_keys_of_its_task() -> None:
    assert "max_question=" in _completed("finetune", "squad", "")
    assert "max_question=" not in _completed("finetune", "sst2", "")
    assert "max_question=" in _completed("finetune", "mine.py", "max_")  # of any task
