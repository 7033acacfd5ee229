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

from bert_keras import file_io
from bert_keras.checkpoints import family_head
from bert_keras.data import SupervisedExamples, Texts, read_table, rows_to_learn, validation_split
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor, column_of
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe

_SHOWN = 20  # of the worst answers


@dataclasses.dataclass(frozen=True)
class HardExample:
    """An example that a model got wrong: how sure it was (the higher, the worse), and what."""

    score: float
    text: str
    right: str
    answered: str


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on some examples, with its predictions.

    Attributes:
        metrics: by name; the first is the one that counts where a recipe names none.
        predictions: one for each example, in the form that `Kind.write` takes.
        worst: what it got wrong, in any order; the worst of them are kept, worst first.
        confusion: how often each label (row) was taken for each (column); None where that says
            nothing.
    """

    metrics: Mapping[str, float]
    predictions: Sequence[Any]
    worst: Sequence[HardExample] = ()
    confusion: Any = None

    def __post_init__(self) -> None:
        worst = sorted(self.worst, key=lambda each: -each.score)[:_SHOWN]
        object.__setattr__(self, "worst", worst)

    @property
    def is_constant(self) -> bool:
        """True where every example has the same answer, though not every one should."""
        if self.confusion is None:
            return False
        _, counts = self.confusion
        return bool(counts.any(axis=0).sum() == 1 < counts.any(axis=1).sum())

    @property
    def stored(self) -> dict[str, float | None]:
        """The metrics for JSON, which has no NaN."""
        return {
            name: float(value) if math.isfinite(value) else None
            for name, value in self.metrics.items()
        }


class FinetuningTask(abc.ABC):
    """A kind of fine-tuning, with a recipe's values.

    Args:
        recipe: its values.
        measured: the model's metrics on dev, for what is chosen by them; None before it has any.
    """

    extension: ClassVar[str] = "tsv"  # of the file of predictions
    packages: ClassVar[tuple[str, ...]] = ()  # that the metrics need, beside the library's own

    def __init__(self, recipe: FinetuneRecipe, measured: Mapping[str, Any] | None = None):
        self.recipe, self.measured = recipe, measured or {}

    @property
    def answers_pairs(self) -> bool:
        """True where the model answers pairs of texts, and reads both in one row."""
        return False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the predictor's method besides the texts."""
        return {}

    @property
    def has_confusion(self) -> bool:
        """True where an evaluation has a confusion matrix: of one label for a text or token."""
        return False

    def predictor(self, task: Task, tokenizer: Tokenizer) -> Predictor:
        """Return the predictor of a model of this kind."""
        length = self.recipe.max_length
        options = {"options": self.options, "pairs": self.answers_pairs}
        return Predictor(task, tokenizer, max_length=length, **options)

    @abc.abstractmethod
    def read(self, path: str, *, labelled: bool = True) -> Any:
        """The examples of a file.

        Args:
            path: the file.
            labelled: whether they have what is to be learned; else that is not looked for.

        Raises:
            DataError: a bad row; names file and line.
            ValueError: values of the recipe that do not fit the file.
        """

    def split(self, data: Any, share: float) -> tuple[Any, Any]:
        """The examples without the last share of them, and these: neighbours stay together."""
        count = rows_to_learn(len(data), share)
        return self.take(data, range(count)), self.take(data, range(count, len(data)))

    def learned(self, data: Any) -> Any:
        """The examples that can be learned from."""
        return data

    def take(self, data: Any, numbers: Sequence[int]) -> Any:
        """Some of the examples, whose columns are the fields of a dataclass."""
        columns = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
        taken = {
            name: [column[number] for number in numbers] if column else column
            for name, column in columns.items()
        }
        return dataclasses.replace(data, **taken)

    def labels(self, data: Any) -> list[str] | None:
        """The names of the labels; None where there are none."""
        del data
        return None

    def check(self, data: Any, labels: list[str] | None) -> None:
        """Looks whether examples can be measured with a model that knows these labels.

        Raises:
            DataError: not so; names file and line.
        """
        del data, labels

    @abc.abstractmethod
    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """A new task over an encoder."""

    @abc.abstractmethod
    def examples(
        self, tokenizer: Tokenizer, data: Any, labels: list[str] | None, **options: Any
    ) -> SupervisedExamples:
        """Return the examples to train on; `options` are those of `SupervisedExamples`."""

    @abc.abstractmethod
    def evaluate(self, predictor: Predictor, data: Any) -> Evaluation:
        """Predicts and measures."""

    @abc.abstractmethod
    def predict(self, predictor: Predictor, data: Any) -> Sequence[Any]:
        """Predicts for examples whose labels are not known.

        Returns:
            One prediction for each, in the form that `write` takes.
        """

    @abc.abstractmethod
    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write a few examples for a quick test.

        Args:
            folder: existing.

        Returns:
            The values of a recipe that reads them, "train" among them.
        """

    @abc.abstractmethod
    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """Writes predictions in the form that is official for such tasks."""


def text_head(
    task: type[Task], encoder: BertEncoder, representation: str = "last"
) -> dict[str, Any]:
    """Return the options of a new head over [CLS].

    As such heads of the encoder's family, so that other libraries open it; a layer of its own where
    there is no pooler, or another representation than the last layer is read.
    """
    if representation != "last":
        return {"hidden_activation": "tanh"}
    options = family_head(task.__name__, encoder.config)
    if options["hidden_activation"] is None and not encoder.config.pooler:
        options["hidden_activation"] = "tanh"
    return options


# === Examples of a quick test ===


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
    """Base of the kinds that read tables of texts."""

    problem = "single_label"
    packages: ClassVar[tuple[str, ...]] = ("scipy", "sklearn")

    def read(self, path: str, *, labelled: bool = True) -> Texts:
        """A table."""
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

    def split(self, data: Texts, share: float) -> tuple[Texts, Texts]:
        """Drawn by `data_seed`: tables may be sorted, by their labels too.

        Pairs of one first text stay together: who has seen it knows half of the others.
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


def require_two(data: Texts) -> None:
    """Looks whether there can be a correlation.

    Raises:
        DataError: of one row there is none.
    """
    if len(data) < 2:
        raise DataError(
            f"A correlation needs at least two rows to measure on. Received: {len(data)}. Name a "
            "larger file, or hold more of train out: validation_split="
        )


def write_glue(path: Path, predictions: Sequence[str]) -> None:
    """A table of two columns, as the GLUE benchmark takes it: without quotes.

    Tabs and line ends within a label become blanks.
    """
    plain = (_BREAK.sub(" ", prediction) for prediction in predictions)
    lines = ["index\tprediction", *(f"{index}\t{text}" for index, text in enumerate(plain))]
    file_io.write_text(path, "\n".join([*lines, ""]))


def shown(data: Texts, index: int) -> str:
    """A row, for people."""
    return data.texts[index] if data.pairs is None else f"{data.texts[index]} / {data.pairs[index]}"
