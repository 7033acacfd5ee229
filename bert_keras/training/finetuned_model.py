"""Fine-tuned models, opened from a run or from any checkpoint of a task."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.data import (
    CutTexts,
)
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.loading import load_checkpoint
from bert_keras.models import Task
from bert_keras.predictor import (
    Predictor,
    checked_device,
    device_scope,
    read_predictor_config,
)
from bert_keras.task_names import FINETUNED
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import progress
from bert_keras.training.finetune_data import READING
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.recipe_files import parse_overrides, require_no_flags
from bert_keras.training.run_folder import FinetuneFolder, recipe_of
from bert_keras.training.tasks import FinetuningTask, task_of
from bert_keras.training.tasks.question_answering import values_of

# Values of a recipe that are also used without training.
_VALUES = (
    *READING,
    *("positive", "max_score", "language", "precision"),
    *("max_length", "long_texts", "stride", "max_question", "max_answer", "no_answer"),
)
# How weights are read; `load_checkpoint` describes the arguments.
_WEIGHTS: dict[str, Any] = {"allow_pickle": False, "trust": False, "variant": "", "averages": False}
_LONG = ("long_texts", "stride")
_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model and the values to use it with.

    Attributes:
        recipe: the values that it is used with.
        finetuning: task of the recipe.
        predictor: predictor of the model.
        labels: names of the labels; None for a model without labels.
        program_values: values of the command line that are keys of the program, not of the recipe.
    """

    recipe: FinetuneRecipe
    finetuning: FinetuningTask
    predictor: Predictor
    labels: list[str] | None
    program_values: Mapping[str, Any]

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress of the predictor."""
        with cut_texts_told(self.predictor), progress.task("answering") as show:
            self.predictor.progress = lambda done, total: show(done, total, "")
            yield


@contextmanager
def cut_texts_told(predictor: Predictor) -> Iterator[None]:
    """Print on stderr how many texts were cut, when the block ends; no warnings are shown."""
    total: CutTexts | None = None

    def add(cut: CutTexts) -> None:
        """Add the texts of a call of the predictor."""
        nonlocal total
        total = cut + total

    predictor.on_cut = add
    yield
    if total and predictor.options.get("long_texts") != "truncate":
        print(total, file=sys.stderr)


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
        UsageError: an unknown or missing key, a bad value, or a run that has not ended.
        ArtifactError: no such model, a damaged one, or a model that is not a task.
    """
    flags = [argument for argument in arguments if argument.startswith("-")]
    require_no_flags(flags, (*needed, "out", "device", *_WEIGHTS, *_VALUES))
    if not arguments or "=" in arguments[0]:
        raise UsageError(
            f"The model is missing. Write: bert-keras {program} RUN_OR_MODEL key=value …. "
            f"Received: {' '.join(arguments) or 'no arguments'}"
        )
    program_values = dict.fromkeys((*needed, "out", "device"), "") | _WEIGHTS
    # An unknown key is refused here, before the model is opened.
    _values(arguments[1:], program_values, FinetuneRecipe(task="text_classification"))
    folder = file_io.expanded(arguments[0])
    recipe = recipe_of(folder)
    if recipe is not None and not (folder / "metrics.json").is_file():
        if (folder.parent / "grid.json").is_file():
            raise ArtifactError(file_io.missing_file(folder / "model.safetensors"))
        is_begun = FinetuneFolder(recipe, str(folder)).is_begun()
        if not is_begun and not any(folder.glob("try-*/seed-*")):
            raise UsageError(
                f"{folder}: the run has not begun: no step is trained. Correct what its command "
                "reported, and repeat the command."
            )
        raise UsageError(
            f"{folder}: the run has not ended: it has no metrics.json. Repeat the command that "
            "began it, which resumes the training."
        )
    default = recipe.precision if recipe else "float32"
    pairs = (argument.partition("=") for argument in arguments)
    precision = next((value for key, _, value in pairs if key == "precision"), default)
    try:
        device = checked_device(program_values["device"] or None)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with device_scope(device):
        reading: dict[str, Any] = {name: program_values[name] for name in _WEIGHTS}
        reading["variant"] = reading["variant"] or None
        task = load_checkpoint(arguments[0], dtype=precision, **reading)
    measured = _measured(folder)
    if recipe is None:
        recipe, measured = _recipe_for(task, arguments[0])
    recipe = dataclasses.replace(recipe, **_values(arguments[1:], program_values, recipe))
    for name in needed:
        if not program_values[name]:
            raise UsageError(
                f"{name}= is missing. Give {name}=FILE; `bert-keras {program} --help` explains it."
            )
    assert isinstance(task, Task)
    finetuning = task_of(recipe, measured, measures=measures)
    try:
        tokenizer = Tokenizer.from_preset(arguments[0])
        predictor = finetuning.predictor(task, tokenizer)
        predictor.device = device
    except (ArtifactError, DataError):
        raise
    except ValueError as error:
        raise UsageError(f"{arguments[0]}: {error}") from error
    options: dict[str, Any] = task.options
    labels = None if finetuning.predicts_numbers else options.get("labels")
    return Finetuned(recipe, finetuning, predictor, labels, program_values)


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


def _values(
    words: Sequence[str], program_values: dict[str, Any], recipe: FinetuneRecipe
) -> dict[str, Any]:
    """Update `program_values` from the words; return the recipe's values, changed by the words."""
    defaults = recipe.values()
    values = parse_overrides(words, program_values | {name: defaults[name] for name in _VALUES})
    program_values |= {name: values.pop(name) for name in program_values}
    return values


def _recipe_for(task: Any, name: str) -> tuple[FinetuneRecipe, dict[str, Any]]:
    """Return a recipe for a model that is not of a run, and the metrics measured with it."""
    task_name = task.task_name
    if task_name not in FINETUNED:
        raise ArtifactError(
            f"{name}: the model is a {type(task).__name__}, which is not fine-tuned for any task. "
            f"Fine-tune it first: bert-keras finetune RECIPE encoder={name}"
        )
    is_qa = task_name == "question_answering"
    stored = read_predictor_config(name)
    default_length = 384 if is_qa else _LENGTH
    length = min(stored.max_length or default_length, task.encoder.config.max_positions)
    if not is_qa:
        reading = {name: stored.options[name] for name in _LONG if name in stored.options}
        return FinetuneRecipe(task=task_name, max_length=length, **reading), {}
    values, measured = values_of(stored.options)
    values = {"max_question": min(64, length - 5), **values}
    return FinetuneRecipe(task=task_name, max_length=length, **values), measured


def _measured(folder: Path) -> dict[str, Any]:
    """Return the metrics in the metrics.json of a run; {} without one."""
    path = folder / "metrics.json"
    metrics = file_io.read_object(path).get("metrics") if path.is_file() else {}
    return metrics if isinstance(metrics, dict) else {}
