"""Examples of a fine-tuning run or of its quick test, and models that were fine-tuned."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras import file_io
from bert_keras.config import BertConfig
from bert_keras.data import Draws, PackedExamples, Stream, SupervisedExamples, length_multiple
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.features import SEGMENT_IDS
from bert_keras.loading import load_checkpoint
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor, read_predictor_config
from bert_keras.task_names import FINETUNED
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import progress
from bert_keras.training.finetune_recipe import READING, FinetuneRecipe, usual_values
from bert_keras.training.recipe_files import parse_overrides, require_no_flags
from bert_keras.training.run_folder import recipe_of
from bert_keras.training.tasks import BAD, GOOD, TASKS, FinetuningTask, task_of
from bert_keras.training.tasks.question_answering import values_of


@dataclasses.dataclass(frozen=True)
class Data:
    """Examples to train on and to measure on.

    Attributes:
        train: training examples, in the form that the task reads.
        dev: examples to measure on, in the same form.
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
                f"{recipe.train}: no examples remain to train on, with validation_split="
                f"{recipe.validation_split:g}. Received: {len(whole)} examples. Name dev=FILE to "
                "measure on, or give more examples."
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
    """Read the examples of a file; see `FinetuningTask.read`.

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
    """Return the training batches of a task, or with `packing` of its packed view."""
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
    """Write made-up files into a folder, and return the recipe that names them.

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


# === Fine-tuned models: of a run, or of any checkpoint of a task ===


# Values that are of use without training.
_VALUES = (
    *READING,
    *("positive", "max_score", "language", "precision"),
    *("max_length", "stride", "max_question", "max_answer", "no_answer"),
)
_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model and the values to use it with.

    Attributes:
        recipe: the values that it is used with.
        kind: of the recipe.
        predictor: of the model.
        labels: their names; None where there are none.
        own: the values of the command line that are the program's, not the recipe's.
    """

    recipe: FinetuneRecipe
    kind: FinetuningTask
    predictor: Predictor
    labels: list[str] | None
    own: Mapping[str, str]

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress of the predictor."""
        with progress.task("answering") as show:
            self.predictor.progress = lambda done, total: show(done, total, "")
            yield


def open_finetuned(
    arguments: Sequence[str], program: str, needed: Sequence[str], *, measures: bool = True
) -> Finetuned:
    """Open the model of a command line `RUN_OR_MODEL key=value …`.

    Args:
        arguments: the command line.
        program: its name, for messages.
        needed: the program's own keys that must have a value, besides "out".
        measures: whether metrics are needed.

    Raises:
        UsageError: what cannot be meant.
        ArtifactError: no such model, a damaged one, or one of another kind.
    """
    flags = [argument for argument in arguments if argument.startswith("-")]
    require_no_flags(flags, (*needed, "out", *_VALUES))
    if not arguments or "=" in arguments[0]:
        raise UsageError(
            f"The model is missing. Write: bert-keras {program} RUN_OR_MODEL key=value …. "
            f"Received: {' '.join(arguments) or 'no arguments'}"
        )
    own = dict.fromkeys((*needed, "out"), "")
    # Before anything is opened: keys that there are.
    _values(arguments[1:], own, FinetuneRecipe(task="text_classification"))
    folder = file_io.expanded(arguments[0])
    recipe = recipe_of(folder)
    if recipe is not None and not (folder / "metrics.json").is_file():
        raise UsageError(
            f"{folder}: the run has not ended: it has no metrics.json. Repeat the command that "
            "began it, which resumes the training."
        )
    precision = recipe.precision if recipe else "float32"
    asked = [value for key, _, value in (a.partition("=") for a in arguments) if key == "precision"]
    task = load_checkpoint(arguments[0], dtype=(asked or [precision])[0])
    measured = _measured(folder)
    if recipe is None:
        recipe, measured = _recipe_for(task, arguments[0])
    recipe = dataclasses.replace(recipe, **_values(arguments[1:], own, recipe))
    for name in needed:
        if not own[name]:
            raise UsageError(
                f"{name}= is missing. Give {name}=FILE; `bert-keras {program} --help` explains it."
            )
    assert isinstance(task, Task)
    kind = task_of(recipe, measured, measures=measures)
    try:
        tokenizer = Tokenizer.from_preset(arguments[0])
        predictor = kind.predictor(task, tokenizer)
    except (ArtifactError, DataError):
        raise
    except ValueError as error:
        raise UsageError(f"{arguments[0]}: {error}") from error
    options: dict[str, Any] = task.options
    labels = (
        None if recipe.task in ("text_regression", "sentence_similarity") else options.get("labels")
    )
    return Finetuned(recipe, kind, predictor, labels, own)


def require_apart(path: Path, inputs: Sequence[str]) -> None:
    """Check that an output is no input.

    Raises:
        UsageError: the path is one of the inputs.
    """
    if any(path.resolve() == file_io.expanded(name).resolve() for name in inputs):
        raise UsageError(
            f"out={path} is an input, which must not be overwritten. Choose another file with "
            "out=FILE."
        )


def _values(words: Sequence[str], own: dict[str, str], recipe: FinetuneRecipe) -> dict[str, Any]:
    """Update the program's own values; return the recipe's values with those of the words."""
    defaults = recipe.values()
    values = parse_overrides(words, own | {name: defaults[name] for name in _VALUES})
    own |= {name: values.pop(name) for name in own}
    return values


def _recipe_for(task: Any, name: str) -> tuple[FinetuneRecipe, dict[str, Any]]:
    """Return a recipe for a model that is not of a run, and the metrics measured with it."""
    known = task.task_name
    if known not in FINETUNED:
        what = type(task).__name__
        raise ArtifactError(
            f"{name}: the model is a {what}, which is not fine-tuned for any task. Fine-tune it "
            f"first: bert-keras finetune RECIPE encoder={name}"
        )
    positions = task.encoder.config.max_positions
    asked = read_predictor_config(name)
    length = min(asked.max_length or (384 if known == "question_answering" else _LENGTH), positions)
    if known != "question_answering":
        return FinetuneRecipe(task=known, max_length=length), {}
    values, measured = values_of(asked.options)
    values = {"max_question": min(64, length - 5), **values}
    return FinetuneRecipe(task=known, max_length=length, **values), measured


def _measured(folder: Path) -> dict[str, Any]:
    """Return the metrics in the metrics.json of a run; {} without one."""
    path = folder / "metrics.json"
    metrics = file_io.read_object(path).get("metrics") if path.is_file() else {}
    return metrics if isinstance(metrics, dict) else {}
