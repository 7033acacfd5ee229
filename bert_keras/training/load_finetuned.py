"""Loading of fine-tuned models: from a run, or from any checkpoint of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.loading import load_checkpoint
from bert_keras.models import Task
from bert_keras.predictor import Predictor, read_predictor_config
from bert_keras.task_names import FINETUNED
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import progress
from bert_keras.training.finetune_recipe import READING, FinetuneRecipe
from bert_keras.training.recipe_files import parse_overrides, require_no_flags
from bert_keras.training.run_folder import recipe_of
from bert_keras.training.tasks import FinetuningTask, task_of
from bert_keras.training.tasks.question_answering import values_of

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
        raise UsageError(f"Name a run: bert-keras {program} RUN key=value …")
    own = dict.fromkeys((*needed, "out"), "")
    # Before anything is opened: keys that there are.
    _values(arguments[1:], own, FinetuneRecipe(task="text_classification"))
    folder = file_io.expanded(arguments[0])
    recipe = recipe_of(folder)
    if recipe is not None and not (folder / "metrics.json").is_file():
        raise UsageError(f"{folder}: the run has not ended; the command that began it goes on.")
    precision = recipe.precision if recipe else "float32"
    asked = [value for key, _, value in (a.partition("=") for a in arguments) if key == "precision"]
    task = load_checkpoint(arguments[0], dtype=(asked or [precision])[0])
    measured = _measured(folder)
    if recipe is None:
        recipe, measured = _recipe_for(task, arguments[0])
    recipe = dataclasses.replace(recipe, **_values(arguments[1:], own, recipe))
    for name in needed:
        if not own[name]:
            raise UsageError(f"{name}= is missing. See bert-keras {program} --help")
    assert isinstance(task, Task)
    kind = task_of(recipe, measured, measures=measures)
    try:
        tokenizer = Tokenizer.from_preset(arguments[0])
        predictor = kind.predictor(task, tokenizer)
    except ArtifactError:
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
        raise UsageError(f"{path} is what is read: choose another with out=")


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
        raise ArtifactError(f"{name}: holds a {what}, which is not fine-tuned for any task.")
    positions = task.encoder.config.max_positions
    asked = read_predictor_config(name)
    length = min(asked.max_length or (384 if known == "question_answering" else _LENGTH), positions)
    if known != "question_answering":
        return FinetuneRecipe(task=known, max_length=length), {}
    values, measured = values_of(asked.options)
    values = {"max_question": min(64, length - 5), **values}
    return FinetuneRecipe(task=known, max_length=length, **values), measured


def _measured(folder: Path) -> dict[str, Any]:
    path = folder / "metrics.json"
    metrics = file_io.read_object(path).get("metrics") if path.is_file() else {}
    return metrics if isinstance(metrics, dict) else {}
