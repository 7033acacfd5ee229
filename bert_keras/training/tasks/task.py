"""Base of the tasks of fine-tuning: the steps between a file and a score."""

from __future__ import annotations

import abc
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import file_io
from bert_keras.checkpoints import new_head_options
from bert_keras.data import (
    CutTexts,
    SupervisedExamples,
    Texts,
    num_training_rows,
    read_table,
    validation_split,
)
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor, column_of
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe

_SHOWN = 20  # number of worst answers to keep


@dataclasses.dataclass(frozen=True)
class HardExample:
    """An example that a model answered wrongly.

    Attributes:
        score: size of the error, such as the model's confidence; a higher score is worse.
        text: the example, for people.
        right: the right answer.
        answered: the model's answer.
    """

    score: float
    text: str
    right: str
    answered: str


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on some examples, with its predictions.

    Attributes:
        metrics: values by name. The first one selects the best model if the recipe names none.
        predictions: one for each example, in the form that `FinetuningTask.write` takes.
        worst: wrong answers in any order; the worst of them are kept, the worst first.
        confusion: names of the labels, and counts [right label, answered label]; None for a task
            without such labels.
        confidences: probability of each answer, and whether it is right, arrays [answers]; None
            for a task whose answers have no probabilities.
    """

    metrics: Mapping[str, float]
    predictions: Sequence[Any]
    worst: Sequence[HardExample] = ()
    confusion: Any = None
    confidences: Any = None

    def __post_init__(self) -> None:
        """Sort the worst answers, and keep the first of them."""
        worst = sorted(self.worst, key=lambda example: -example.score)[:_SHOWN]
        object.__setattr__(self, "worst", worst)

    @property
    def is_constant(self) -> bool:
        """True if all answers are the same label, although the right labels differ."""
        if self.confusion is None:
            return False
        _, counts = self.confusion
        return bool(counts.any(axis=0).sum() == 1 < counts.any(axis=1).sum())

    @property
    def stored(self) -> dict[str, float | None]:
        """Metrics for JSON, which has no NaN: None for values that are not finite."""
        return {
            name: float(value) if math.isfinite(value) else None
            for name, value in self.metrics.items()
        }


class FinetuningTask(abc.ABC):
    """A task of fine-tuning, with the values of a recipe.

    Args:
        recipe: values of the run.
        measured: metrics of the model on the validation examples; None before it was measured.
            Options such as a threshold are taken from them.
    """

    extension: ClassVar[str] = "tsv"  # extension of the file of predictions
    packages: ClassVar[tuple[str, ...]] = ()  # further packages that compute the metrics

    def __init__(self, recipe: FinetuneRecipe, measured: Mapping[str, Any] | None = None):
        self.recipe, self.measured = recipe, measured or {}

    @property
    def answers_pairs(self) -> bool:
        """True if the model answers pairs of texts, and reads both texts in one row."""
        return False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the predictor's method besides the texts."""
        return {}

    @property
    def has_confusion(self) -> bool:
        """True if an evaluation has a confusion matrix: each text or token has one label."""
        return False

    @property
    def has_confidences(self) -> bool:
        """True if an evaluation has probabilities: each answer is one label of several."""
        return self.has_confusion

    @property
    def predicts_numbers(self) -> bool:
        """True if the model answers with numbers, so that it has no names of labels."""
        return False

    def predictor(self, task: Task, tokenizer: Tokenizer) -> Predictor:
        """Return the predictor of a model of this task."""
        length = self.recipe.max_length
        options = {"options": self.options, "pairs": self.answers_pairs}
        predictor = Predictor(task, tokenizer, max_length=length, **options)
        predictor.on_cut = lambda _: None  # a program tells it once
        return predictor

    def cut_texts(self, examples: SupervisedExamples, data: Any) -> CutTexts:
        """Return how many texts are cut.

        Args:
            examples: examples made from the data.
            data: the data, in the form that `read` returns.
        """
        del data
        count = examples.num_texts * (examples.group or 1)
        return CutTexts(examples.rows.num_cut, count, self.recipe.max_length)

    @abc.abstractmethod
    def read(self, path: str, *, labelled: bool = True) -> Any:
        """Return the examples of a file.

        Args:
            path: the file.
            labelled: whether the file has the labels or answers to learn. False to ignore them.

        Raises:
            DataError: a bad row; names file and line.
            ValueError: values of the recipe that do not fit the file.
        """

    def split(self, data: Any, share: float) -> tuple[Any, Any]:
        """Return the examples to train on, and the last `share` of them to measure on."""
        count = num_training_rows(len(data), share)
        return self.take(data, range(count)), self.take(data, range(count, len(data)))

    def trainable_examples(self, data: Any) -> Any:
        """Return the examples that the model can learn from."""
        return data

    def take(self, data: Any, numbers: Sequence[int]) -> Any:
        """Return the examples of these numbers; each field of the dataclass is a column."""
        columns = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
        taken = {
            name: [column[number] for number in numbers] if column else column
            for name, column in columns.items()
        }
        return dataclasses.replace(data, **taken)

    def row_lengths(self, tokenizer: Tokenizer, data: Any) -> np.ndarray | None:
        """Return how many tokens the rows of the examples have before any is cut off.

        Special tokens are counted too.

        Args:
            tokenizer: tokenizer of the model.
            data: examples, in the form that `read` returns.

        Returns:
            int64 [rows]; None for a task that does not count them.
        """
        del tokenizer, data
        return None

    def labels(self, data: Any) -> list[str] | None:
        """Return the names of the labels; None for a task without labels."""
        del data
        return None

    def check(self, data: Any, labels: list[str] | None) -> None:
        """Check that a model with these labels can be measured on the examples.

        Raises:
            DataError: an example cannot be measured; the message names file and line.
        """
        del data, labels

    @abc.abstractmethod
    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a new model with the head of this task over an encoder."""

    @abc.abstractmethod
    def examples(
        self, tokenizer: Tokenizer, data: Any, labels: list[str] | None, **options: Any
    ) -> SupervisedExamples:
        """Return the examples to train on; `options` are those of `SupervisedExamples`."""

    @abc.abstractmethod
    def evaluate(self, predictor: Predictor, data: Any) -> Evaluation:
        """Predict the examples, and compute the metrics of the predictions."""

    @abc.abstractmethod
    def predict(self, predictor: Predictor, data: Any) -> Sequence[Any]:
        """Return a prediction for each example, in the form that `write` takes.

        The labels or answers of the examples are not needed.
        """

    @abc.abstractmethod
    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write a few examples for a quick test.

        Args:
            folder: existing folder to write them into.

        Returns:
            Values of a recipe that reads the examples, such as "train".
        """

    @abc.abstractmethod
    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """Write predictions in the official format of the task."""


def lengths_of(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None
) -> np.ndarray:
    """Return the number of tokens of each text or pair, special tokens included: int64 [texts]."""
    _, lengths = tokenizer.ragged_ids(texts)
    if pairs is None:
        return lengths + tokenizer.scheme.num_added(1)
    return lengths + tokenizer.ragged_ids(pairs)[1] + tokenizer.scheme.num_added(2)


def text_head(
    task: type[Task], encoder: BertEncoder, representation: str = "last"
) -> dict[str, Any]:
    """Return the options of a new head over [CLS].

    The head is that of the encoder's family, so that other libraries open the model. It gets a
    hidden layer if it needs a pooler that the encoder lacks, or if it reads another representation
    than the last layer.
    """
    if representation != "last":
        return {"hidden_activation": "tanh"}
    return new_head_options(task.__name__, encoder.config)


# === Examples for a quick test ===


GOOD, BAD = ("good", "fine", "great"), ("bad", "poor", "awful")


def write_rows(folder: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write examples as lines of JSON; return the name of the file."""
    path = folder / "train.jsonl"
    file_io.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def scored_pairs(folder: Path) -> dict[str, str]:
    """Write pairs of texts with a number each; return the values of a recipe that reads them."""
    rows = [
        {"text": f"the film was {a}", "pair": f"the film is {b}", "label": float(a in GOOD)}
        for a in (*GOOD, *BAD)
        for b in GOOD
    ]
    columns = {"text": "text", "pair": "pair", "label": "label"}
    return {"train": write_rows(folder, rows), **columns}


# === Tables of texts ===


_BREAK = re.compile(r"[\t\r\n]+")


class TextTask(FinetuningTask):
    """Base of the tasks that read tables of texts."""

    problem = "single_label"
    reads_apart = False  # True where the two texts of a pair are rows of their own
    packages: ClassVar[tuple[str, ...]] = ("scipy", "sklearn")

    @property
    def predicts_numbers(self) -> bool:
        """True for a regression."""
        return self.problem == "regression"

    def read(self, path: str, *, labelled: bool = True) -> Texts:
        """Read a table of texts, with the columns and format that the recipe names."""
        recipe = self.recipe
        return read_table(
            path,
            text=column_of(recipe.text),
            pair=column_of(recipe.pair) if recipe.pair else None,
            label=column_of(recipe.label) if recipe.label and labelled else None,
            problem=self.problem,
            label_separator=recipe.label_separator,
            **table_options(recipe),
        )

    def row_lengths(self, tokenizer: Tokenizer, data: Texts) -> np.ndarray:
        """Return the number of tokens of each row: a text, or a pair in one row."""
        if self.reads_apart:
            return lengths_of(tokenizer, [*data.texts, *(data.pairs or ())])
        return lengths_of(tokenizer, data.texts, data.pairs)

    def split(self, data: Texts, share: float) -> tuple[Texts, Texts]:
        """Draw the share to measure on at random, by `data_seed`.

        The last rows would not do, because tables may be sorted by label. Pairs with the same first
        text stay together: otherwise the model would be measured on texts that it has learned.
        """
        firsts = None if data.pairs is None else data.texts
        learned, measured = validation_split(
            len(data), share, seed=self.recipe.data_seed, firsts=firsts
        )
        return self.take(data, learned), self.take(data, measured)


def table_options(values: Any) -> dict[str, Any]:
    """Return the options of a table's format from the values of a recipe, or values so named."""
    return {
        "format": values.format or None,
        "header": values.header,
        "quoting": {"auto": None, "true": True, "false": False}[values.quoting],
        "separator": values.separator or None,
        "encoding": values.encoding,
    }


def require_two_rows(data: Texts) -> None:
    """Check that there are two rows or more, which a correlation needs.

    Raises:
        DataError: fewer than two rows.
    """
    if len(data) < 2:
        raise DataError(
            f"A correlation needs at least two rows to measure on. Received: {len(data)}. Name a "
            "larger file, or a larger validation_split="
        )


def write_glue(path: Path, predictions: Sequence[str]) -> None:
    """Write a table of index and prediction as the GLUE benchmark takes it, without quotes.

    Tabs and line ends within a label become spaces.
    """
    plain = (_BREAK.sub(" ", prediction) for prediction in predictions)
    lines = ["index\tprediction", *(f"{index}\t{text}" for index, text in enumerate(plain))]
    file_io.write_text(path, "\n".join([*lines, ""]))


def shown(data: Texts, index: int) -> str:
    """Return a row as one text, for people."""
    return data.texts[index] if data.pairs is None else f"{data.texts[index]} / {data.pairs[index]}"
