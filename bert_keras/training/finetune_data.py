"""Examples of a fine-tuning run: read, drawn and encoded, and those made up for a quick test."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras import file_io
from bert_keras.config import BertConfig
from bert_keras.data import Draws, PackedExamples, Stream, SupervisedExamples, length_multiple
from bert_keras.errors import DataError, UsageError
from bert_keras.features import SEGMENT_IDS
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import READING, FinetuneRecipe, usual_values
from bert_keras.training.tasks import BAD, GOOD, TASKS, FinetuningTask, task_of


@dataclasses.dataclass(frozen=True)
class Data:
    """Examples to train on and to measure on.

    Attributes:
        train: in the form of its kind,
        dev: likewise.
        labels: their names; None where there are none.
    """

    train: Any
    dev: Any
    labels: list[str] | None

    @classmethod
    def read(cls, recipe: FinetuneRecipe, kind: FinetuningTask) -> Data:
        """Reads the files of a recipe.

        Raises:
            UsageError: values of the recipe that do not fit the files.
            DataError: a bad row; names file and line.
        """
        whole = train = read(kind, recipe.train)
        if recipe.dev:
            dev = read(kind, recipe.dev)
        else:
            share = recipe.validation_split
            train, dev = kind.split(train, share) if len(train) > 1 else ([], train)
        train = kind.learned(train) if len(train) else train
        if not len(train):
            raise DataError(
                f"{recipe.train}: too little to keep a part of it for measuring: name dev=FILE."
            )
        try:
            labels = kind.labels(whole)  # a rare one may be held out
        except DataError as error:
            raise DataError(f"{recipe.train}: {error}") from error
        if 0 < recipe.rows < len(train):
            order = np.arange(len(train))
            if recipe.draw:
                keys = Draws(recipe.data_seed, epoch=0).keys(Stream.PLAN, len(train))
                order = np.argsort(keys, kind="stable")
            train = kind.take(train, np.sort(order[: recipe.rows]).tolist())
        if 0 < recipe.dev_rows < len(dev):
            dev = kind.take(dev, range(recipe.dev_rows))
        kind.check(dev, labels)
        return cls(train, dev, labels)


def read(kind: FinetuningTask, path: str, *, labelled: bool = True) -> Any:
    """The examples of a file; see `Kind.read`.

    Raises:
        UsageError: values that do not fit the file.
        DataError: a bad row; names file and line.
    """
    try:
        return kind.read(path, labelled=labelled)
    except (DataError, UsageError):
        raise
    except (ValueError, ImportError) as error:  # of arguments, which are the recipe's
        raise UsageError(str(error)) from error


def training_examples(
    recipe: FinetuneRecipe,
    kind: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    task: Task,
    seed: int,
) -> SupervisedExamples | PackedExamples:
    """The batches that a task, or with `packing` its packed view, learns from."""
    examples = kind.examples(
        tokenizer,
        data.train,
        data.labels,
        segments=SEGMENT_IDS in {tensor.name for tensor in task.inputs},
        batch_size=recipe.batch_size,
        multiple_of=length_multiple(),
        seed=seed,
    )
    if not recipe.packing:
        return examples
    length = recipe.max_length
    rows = round(recipe.batch_size * float(examples.lengths.mean()) / length)
    return PackedExamples(examples, sequence_length=length, batch_size=max(1, rows))


# === Examples of a quick test ===


_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = (*GOOD, *BAD, "the", "film", "was", "is", "in", "Ada", "Rome", "who", "where", "?")


def quicktest_recipe(recipe: FinetuneRecipe, folder: Path) -> FinetuneRecipe:
    """The recipe with made-up files, which are written into a folder.

    Files and weights are the same every time, so that a run that was interrupted can go on. The
    recipe names them by the folder as it was given, for it is written to `run.json`.
    """
    given, folder = folder, file_io.expanded(folder)
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = dict.fromkeys(
        (*_SPECIAL, *(w.lower() for w in _WORDS), *letters, *(f"##{c}" for c in letters))
    )
    tokenizer = Tokenizer(list(pieces))
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_layers=1,
        num_heads=2,
        intermediate_size=32,
        max_positions=64,
    )
    keras.utils.set_random_seed(0)
    BertEncoder(config).save_to_preset(folder / "encoder")
    tokenizer.save_to_preset(folder / "encoder")
    values = {
        name: value.replace(str(folder), str(given), 1) if value.startswith(str(folder)) else value
        for name, value in TASKS[recipe.task](recipe).quicktest_data(folder).items()
    }
    usual = usual_values()
    reading: dict[str, Any] = {name: usual[name] for name in (*READING, "labels", "positive")}
    recipe = dataclasses.replace(
        recipe,
        **{**reading, **values},
        encoder=str(given / "encoder"),
        dev=values["train"],
    )
    if recipe.of_a_teacher and not recipe.teacher:
        recipe = dataclasses.replace(recipe, teacher=str(given / "teacher"))
        kind = task_of(recipe)
        labels = Data.read(recipe, kind).labels
        kind.build(BertEncoder(config), labels).save_to_preset(folder / "teacher")
        tokenizer.save_to_preset(folder / "teacher")
    return recipe
