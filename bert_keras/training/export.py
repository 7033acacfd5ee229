"""The end of a run: a SavedModel, and the proof that it answers in a process of its own."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bert_keras import export, file_io
from bert_keras.errors import ResourceError
from bert_keras.models import Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.recipe import PretrainRecipe
from bert_keras.training.report import FilledMask

_SHOWN = 5


def export_model(
    task: Task,
    tokenizer: Tokenizer,
    recipe: PretrainRecipe,
    weights: Path,
    record: Path,
    folder: Path = Path("saved_models"),
) -> Path | None:
    """Writes <folder>/<name>/<next version>/; a model that was exported before, not again.

    Args:
        task: the trained model.
        tokenizer: its tokenizer.
        recipe: gives the name, and the length the model was trained for: no longer text is served.
        weights: the model's file, by whose bytes it is known; it may be missing.
        record: the file that says where the model was exported to.
        folder: of all models.

    Returns:
        The folder; None where TensorFlow is not installed, after saying so.
    """
    if importlib.util.find_spec("tensorflow_text") is None:
        print(
            "No SavedModel: it needs TensorFlow. Install bert-keras[tensorflow] and repeat the "
            "command; the training is not repeated."
        )
        return None
    digest = _digest(weights) if weights.is_file() else None
    path = _recorded(record, digest)
    if path is None:
        path = export.next_version(file_io.expanded(folder) / recipe.name)
        export.saved_model(task, tokenizer, path, max_length=recipe.sequence_length)
        if path.is_relative_to(record.parent):  # the folder of a run, which may be temporary
            named = path.relative_to(record.parent)
        else:
            named = folder / recipe.name / path.name
        file_io.write_json(record, {"saved_model": str(named), "sha256": digest})
    print(f"SavedModel: {path}/")
    return path


def ask(path: Path, examples: Sequence[FilledMask]) -> None:
    """Has a fresh process fill masks with a SavedModel.

    Args:
        path: its folder.
        examples: texts to ask; their first few are shown.

    Raises:
        ResourceError: the process failed.
    """
    texts = [example.text for example in examples[:_SHOWN]]
    if texts:
        print("A fresh process loads it and fills masks:", flush=True)
        _ask(path, texts)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _recorded(record: Path, digest: str | None) -> Path | None:
    """Return the folder of the exported model with this digest, if it is still there."""
    if digest is None or not record.is_file():
        return None
    card = file_io.read_object(record)
    if card.get("sha256") != digest:
        return None
    paths = record.parent / card["saved_model"], file_io.expanded(card["saved_model"])
    return next((path for path in paths if path.is_dir()), None)


def _ask(path: Path, texts: Sequence[str]) -> None:
    command = [sys.executable, "-m", "bert_keras", "fill-mask", str(path), *texts]
    # Whatever backend trained the model: the SavedModel's only needs are TensorFlow's. This
    # process may hold the accelerator's memory.
    environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(root), environment.get("PYTHONPATH", "")])
    )
    if code := subprocess.run(command, env=environment, check=False).returncode:
        raise ResourceError(f"{path}: the exported model could not be asked (exit code {code}).")
