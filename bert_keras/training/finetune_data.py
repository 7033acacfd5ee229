"""The examples of a fine-tuning run: read, drawn, encoded."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bert_keras.data import Draws, PackedExamples, Stream, SupervisedExamples, length_multiple
from bert_keras.errors import DataError, UsageError
from bert_keras.features import SEGMENT_IDS
from bert_keras.models import Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.kinds import Kind


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
    def read(cls, recipe: FinetuneRecipe, kind: Kind) -> Data:
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


def read(kind: Kind, path: str, *, labelled: bool = True) -> Any:
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
    recipe: FinetuneRecipe, kind: Kind, data: Data, tokenizer: Tokenizer, task: Task, seed: int
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
