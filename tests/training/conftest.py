"""Fixtures for the training tests: a text, recipes, and calls of programs in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bert_keras.data import EncodedTexts, SupervisedExamples
from bert_keras.training import run

_TINY = """
from bert_keras.training import PretrainRecipe

recipe = PretrainRecipe(
    corpus={corpus!r}, layout="sentences", validation_split=0.2, vocab_size=300,
    config="bert_tiny_uncased", max_positions=32, dropout=0.1, attention_dropout=0.1,
    sequence_length=32, batch_size=4, steps=12, learning_rate=1e-3, warmup_steps=2,
    log_every=2, evaluate_every=2, eval_examples=8, checkpoint_every=1, workers=1,
    export=False,
)
"""


class Done(NamedTuple):
    """The result of a program: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


def sentences(documents: int = 20, each: int = 16, seed: int = 0) -> str:
    """Return documents of random words: a sentence in each line, a blank line between documents."""
    rng = np.random.default_rng(seed)
    syllables = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    words = sorted({"".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(300)})

    def sentence() -> str:
        return " ".join(rng.choice(words, rng.integers(4, 12))).capitalize() + ".\n"

    return "\n".join("".join(sentence() for _ in range(each)) for _ in range(documents))


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a text with 20 documents of 16 sentences."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(sentences(), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny(text_file: Path) -> str:
    """Return the path of a recipe that trains in a second, with dropout and without export."""
    path = text_file.with_name("tiny.py")
    path.write_text(_TINY.format(corpus=str(text_file)), encoding="utf-8")
    return str(path)


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Return a function that runs a program's `main`: `call(program, *arguments)`.

    The working directory is `tmp_path`.
    """
    monkeypatch.chdir(tmp_path)

    def run_program(program: Callable[[list[str]], int | None], *arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["program", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            run.run(program)
        assert isinstance(end.value.code, int)
        printed = capfd.readouterr()
        return Done(end.value.code, printed.out, printed.err)

    return run_program


@pytest.fixture
def examples() -> SupervisedExamples:
    """Return examples with five batches in each epoch."""
    rows = EncodedTexts.of([np.arange(5, 9)] * 10, [np.zeros(4)] * 10, pad_id=0)
    return SupervisedExamples(rows, {"label": np.arange(10)}, batch_size=2, seed=0)


@pytest.fixture(scope="session")
def finetuning(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return a function that writes a recipe of a task and returns its path."""
    folder = tmp_path_factory.mktemp("finetuning")

    def write(task: str) -> str:
        path = folder / f"{task}.py"
        path.write_text(
            "from bert_keras.training import FinetuneRecipe\n\n"
            f"recipe = FinetuneRecipe(task={task!r}, workers=1)\n",
            encoding="utf-8",
        )
        return str(path)

    return write


@pytest.fixture(scope="session")
def finetuned(
    finetuning: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return a function from a task to the folder of its `--quicktest` run.

    The run of "text_classification" has two seeds. Tests share the folder and must not change it.
    """
    from bert_keras.training.finetune import main

    made: dict[str, Path] = {}

    def run_of(task: str) -> Path:
        if task not in made:
            folder = tmp_path_factory.mktemp("finetuned") / task
            seeds = 2 if task == "text_classification" else 1
            command = [finetuning(task), "--quicktest", f"seeds={seeds}", f"out={folder}"]
            assert main(command) == 0
            made[task] = folder
        return made[task]

    return run_of
