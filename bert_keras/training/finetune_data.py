"""Examples of a fine-tuning run or of its quick test."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import file_io
from bert_keras.config import BertConfig
from bert_keras.data import (
    Draws,
    PackedExamples,
    Stream,
    SupervisedExamples,
    length_multiple,
    split_folder,
)
from bert_keras.errors import DataError, UsageError
from bert_keras.features import SEGMENT_IDS
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Coverage, Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe, usual_values
from bert_keras.training.setup import set_seed_and_devices
from bert_keras.training.tasks import BAD, GOOD, TASKS, FinetuningTask, task_of

# Values that say how files are read.
READING = (
    *("format", "header", "quoting", "separator", "encoding"),
    *("text", "pair", "label", "label_separator", "prompt", "options", "lead", "answer"),
    *("word_column", "tag_column", "numbered_characters", "scheme", "repair", "misaligned"),
)


@dataclasses.dataclass(frozen=True)
class Data:
    """Examples to train on and to measure on.

    Attributes:
        train: training examples, in the form that the task reads.
        validation: examples to measure on, in the same form.
        labels: their names; None where there are none.
    """

    train: Any
    validation: Any
    labels: list[str] | None

    @classmethod
    def read(cls, recipe: FinetuneRecipe, finetuning: FinetuningTask) -> Data:
        """Read the files of a recipe.

        Raises:
            UsageError: values of the recipe that do not fit the files.
            DataError: a bad row; names file and line.
        """
        whole = train = read(finetuning, _split_of(recipe.train, "train"))
        if recipe.dev:
            validation = read(finetuning, _split_of(recipe.dev, *_DEV_SPLITS))
        else:
            share = recipe.validation_split
            train, validation = finetuning.split(train, share) if len(train) > 1 else ([], train)
        train = finetuning.trainable_examples(train) if len(train) else train
        if not len(train):
            if recipe.dev or not len(whole):
                raise DataError(
                    f"{recipe.train}: no examples to train on. Received: {len(whole):,} examples, "
                    "none that the task can learn from. Name another file with train=FILE."
                )
            raise DataError(
                f"{recipe.train}: no examples remain to train on, with validation_split="
                f"{recipe.validation_split:g}. Received: {len(whole)} examples. Name dev=FILE to "
                "measure on, or give more examples."
            )
        try:
            labels = finetuning.labels(whole)  # a rare one may be in the validation split alone
        except DataError as error:
            if recipe.train in f"{error}":  # which names file and line
                raise
            raise DataError(f"{recipe.train}: {error}") from error
        if 0 < recipe.rows < len(train):
            order = np.arange(len(train))
            if recipe.draw:
                keys = Draws(recipe.data_seed, epoch=0).keys(Stream.PLAN, len(train))
                order = np.argsort(keys, kind="stable")
            train = finetuning.take(train, np.sort(order[: recipe.rows]).tolist())
        if 0 < recipe.dev_rows < len(validation):
            validation = finetuning.take(validation, range(recipe.dev_rows))
        finetuning.check(validation, labels)
        return cls(train, validation, labels)


_DEV_SPLITS = ("validation", "dev", "valid", "val")  # usual names


def _split_of(path: str, *usual: str) -> str:
    """Return the folder of a split in the folder of a `DatasetDict`; another path as it is.

    Print which split is read.

    Raises:
        UsageError: the folder has several splits, but none of the usual names.
    """
    folder = file_io.expanded(path)
    chosen = split_folder(folder, *usual)
    if chosen == folder:
        return path
    print(f"{path}: the split {chosen.name} is read")
    return str(Path(path) / chosen.name)


def read(finetuning: FinetuningTask, path: str, *, labelled: bool = True) -> Any:
    """Read the examples of a file; see `FinetuningTask.read`.

    Raises:
        UsageError: values that do not fit the file.
        DataError: a bad row; names file and line.
    """
    try:
        return finetuning.read(path, labelled=labelled)
    except (DataError, UsageError):
        raise
    except (ValueError, ImportError) as error:  # of arguments, which are the recipe's
        raise UsageError(str(error)) from error


def training_examples(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    task: Task,
    seed: int,
) -> SupervisedExamples | PackedExamples:
    """Return the training batches of a task, or with `packing` of its packed view.

    With the first seed it prints how many texts are cut, unless the recipe has long_texts=truncate.
    """
    examples = finetuning.examples(
        tokenizer,
        data.train,
        data.labels,
        segments=SEGMENT_IDS in {tensor.name for tensor in task.inputs},
        batch_size=recipe.batch_size,
        multiple_of=length_multiple(),
        seed=seed,
    )
    cut = finetuning.cut_texts(examples, data.train)
    if cut and seed == recipe.seed and recipe.long_texts != "truncate":
        print(f"{recipe.train}: {cut}")
    if not recipe.packing:
        return examples
    length = recipe.max_length
    rows = round(recipe.batch_size * float(examples.lengths.mean()) / length)
    return PackedExamples(examples, sequence_length=length, batch_size=max(1, rows))


_SAMPLE = 2_000  # examples whose words are counted


class _CountingTokenizer:
    """A tokenizer that adds up the coverage of the texts that it encodes."""

    def __init__(self, tokenizer: Tokenizer):
        self.scheme, self._tokenizer, self.coverage = tokenizer.scheme, tokenizer, Coverage()

    def ragged_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of texts; see `Tokenizer.ragged_ids`."""
        encoded = self._tokenizer.ragged_ids(texts)
        self.coverage += self._tokenizer.coverage(texts, encoded)
        return encoded


def unknown_note(
    recipe: FinetuneRecipe, finetuning: FinetuningTask, data: Data, tokenizer: Tokenizer
) -> str:
    """Return a note on the share of the training texts that is [UNK]; "" if it is negligible."""
    counting: Any = _CountingTokenizer(tokenizer)
    numbers = np.linspace(0, len(data.train) - 1, min(len(data.train), _SAMPLE)).astype(int)
    finetuning.row_lengths(counting, finetuning.take(data.train, numbers.tolist()))
    message = counting.coverage.message()
    return f"note: {recipe.train}: {message}" if message else ""


# === Examples of a quick test ===


_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = (*GOOD, *BAD, "the", "film", "was", "is", "in", "Ada", "Rome", "who", "where", "?")


def quicktest_recipe(recipe: FinetuneRecipe, folder: Path) -> FinetuneRecipe:
    """Write made-up files into a folder, and return the recipe that names them.

    Files and weights are the same every time, so that a run that was interrupted can go on. The
    recipe names them by the folder as it was given, for it is written to `run.json`.
    """
    unexpanded, folder = folder, file_io.expanded(folder)
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
    set_seed_and_devices(0)
    BertEncoder(config).save_to_preset(folder / "encoder")
    tokenizer.save_to_preset(folder / "encoder")
    values = {
        name: value.replace(str(folder), str(unexpanded), 1)
        if value.startswith(str(folder))
        else value
        for name, value in TASKS[recipe.task](recipe).quicktest_data(folder).items()
    }
    usual = usual_values()
    reading: dict[str, Any] = {name: usual[name] for name in (*READING, "labels", "positive")}
    recipe = dataclasses.replace(
        recipe,
        **{**reading, **values},
        encoder=str(unexpanded / "encoder"),
        dev=values["train"],
    )
    if recipe.first_distillation_key and not recipe.teacher:
        recipe = dataclasses.replace(recipe, teacher=str(unexpanded / "teacher"))
        finetuning = task_of(recipe)
        labels = Data.read(recipe, finetuning).labels
        finetuning.build(BertEncoder(config), labels).save_to_preset(folder / "teacher")
        tokenizer.save_to_preset(folder / "teacher")
    return recipe
