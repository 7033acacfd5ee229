"""Folder of an exported model: checks before the export, versions, labels and a model card."""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bert_keras import features, file_io
from bert_keras.checkpoints import streaming
from bert_keras.checkpoints.model_card import description
from bert_keras.errors import ResourceError, UsageError, exit_code_of
from bert_keras.escaping import markdown, require_utf8
from bert_keras.file_io import new_folder, one_writer
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer


def next_version(folder: str | Path) -> Path:
    """Return the path of the next version of a model, numbered from 1. It is not created.

    Args:
        folder: folder of the model with its versions, which need not exist.
    """
    folder = Path(folder)
    taken = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(taken, default=0) + 1)


# === Checks ===


def checked_predictor(
    task_or_encoder: Task | BertEncoder, tokenizer: Tokenizer, path: Path, **arguments: Any
) -> Predictor:
    """Check that a model can be exported to a folder, and return its predictor.

    Args:
        task_or_encoder: model to export.
        tokenizer: tokenizer of the model.
        path: folder to write.
        arguments: further arguments of `Predictor`.

    Raises:
        UsageError: if the folder exists.
        TypeError: if the model is neither a task nor an encoder.
        ValueError: if an argument is out of range.
        NumericError: if a weight is not finite.
    """
    require_new(path)
    predictor = Predictor(task_or_encoder, tokenizer, **arguments)
    for variable in task_or_encoder.weights:
        streaming.finite(variable)
    return predictor


_TRIED = 1 << 20  # bytes of a trial file


@contextmanager
def new_export(path: Path, file: str = "") -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends without an error.

    Args:
        path: the folder.
        file: name of its main file, for the message if a converter has removed what it wrote.

    Raises:
        UsageError: if another process has written `path` in the meantime.
        ResourceError: if another process is writing it, or the disk is full.
        RuntimeError: if a converter failed. Errors of the user were raised before.
    """
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with one_writer(path):
            require_new(path)
            with new_folder(path) as folder, _named(path, folder, file):
                yield folder
    except BaseException:
        for folder in made:
            with suppress(OSError):  # another process has written there
                folder.rmdir()
        raise


@contextmanager
def _named(path: Path, folder: Path, file: str) -> Iterator[None]:
    """Raise errors of converters again, with `path` in the place of the temporary folder."""
    try:
        yield
    except ResourceError as error:
        raise ResourceError(str(error).replace(str(folder), str(path))) from error
    except Exception as error:
        if hasattr(error, "exit_code"):
            raise
        if refusal := _refusal(error, folder, path, file):
            raise ResourceError(refusal) from error
        if not isinstance(error, TypeError | ValueError):
            raise
        raise RuntimeError(f"{path}: could not be converted: {error}") from error


def _refusal(error: Exception, folder: Path, path: Path, main: str) -> str:
    """Return the message about a disk that refuses to be written; "" if that is not the reason.

    Converters report a full disk in their own words or without a file name. So a small file is
    written as a trial, in the folder and in the temporary folder.
    """
    # The file that was written last, if the error has no name.
    newest = max(folder.rglob("*"), key=lambda file: file.stat().st_mtime_ns, default=folder / main)
    file = str(path / newest.relative_to(folder))
    if isinstance(error, OSError) and exit_code_of(error):
        file = str(error.filename or file).replace(str(folder), str(path))
        return f"{file}: could not be written: {error.strerror}."
    for place, name in ((folder, file), (Path(tempfile.gettempdir()), "")):
        try:
            with tempfile.TemporaryFile(dir=place) as trial:
                trial.write(bytes(_TRIED))
                trial.flush()
                os.fsync(trial.fileno())
        except OSError as refusal:
            return f"{name or place}: could not be written: {refusal.strerror}."
    return ""


def require_new(path: Path) -> None:
    """Raise `UsageError` if a path exists, or its name is not UTF-8, which converters need."""
    require_utf8(path, "The folder")
    if path.exists():
        raise UsageError(
            f"{path}: exists already and is not overwritten. Choose another version, or remove it."
        )


def require_tensorflow(*, text: bool) -> None:
    """Raise `ImportError` if TensorFlow or, with `text`, tensorflow-text is not installed."""
    needed = ("tensorflow", "tensorflow_text") if text else ("tensorflow",)
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise ImportError(
            f"A SavedModel needs {' and '.join(missing)}. "
            'Install with: pip install "bert-keras[tensorflow]"'
        )


def require_pairs(predictor: Predictor, *, of_vectors: bool = True) -> None:
    """Refuse `pairs=True` for a model that does not take pairs.

    Args:
        predictor: predictor of the model, with its `pairs`.
        of_vectors: whether the export can compare a pair by two sentence vectors.

    Raises:
        ValueError: if `predictor.pairs` is True and the model does not take pairs.
    """
    has_vectors = features.SENTENCE_VECTOR in predictor.task.output
    takes_pairs = predictor.task.takes_pairs and (of_vectors or not has_vectors)
    if predictor.pairs and not takes_pairs:
        raise ValueError(
            "`pairs` is for models that take one text or two. "
            f"Received: a {type(predictor.task).__name__}. Leave `pairs` out."
        )


# === Labels and card ===


LABELS, CARD = "labels.txt", "model_card.md"
_LINE_BREAK = re.compile(r"[\r\n]+")

# Name of an exported function -> names of its inputs, names of its outputs.
Functions = Mapping[str, tuple[Iterable[str], Iterable[str]]]


def model_name(path: Path) -> str:
    """Return the name of a model in <name>/<version>, or in <name> without a version."""
    return path.absolute().parent.name if path.name.isdecimal() else path.name


def write_card(
    predictor: Predictor, folder: Path, path: Path, functions: Functions, *, by: str = ""
) -> None:
    """Write labels.txt, if the model has labels, and model_card.md.

    Args:
        predictor: predictor of the model.
        folder: folder to write into.
        path: final path of the folder, which gives the model's name.
        functions: exported functions.
        by: sentence about another program that wrote the export; "" for none.
    """
    options: Mapping[str, Any] = predictor.task.options
    if labels := options.get("labels"):
        lines = "".join(f"{_LINE_BREAK.sub(' ', label)}\n" for label in labels)
        file_io.write_text(folder / LABELS, lines)
    lines = _card(predictor, model_name(path), functions)
    written = [*lines, "", f"{by} Written by bert_keras.".lstrip(), ""]
    file_io.write_text(folder / CARD, "\n".join(written))


def _card(predictor: Predictor, name: str, functions: Functions) -> Iterator[str]:
    """Yield the lines of the model card, which describes the model to whoever opens the folder."""
    task = predictor.task
    yield from (f"# {markdown(name)}", "")
    yield from description(task, predictor.max_length, predictor.tokenizer, predictor.options)
    yield from ("", "| function | takes | gives |", "| --- | --- | --- |")
    for key, names in functions.items():
        inputs, outputs = (", ".join(f"`{name}`" for name in part) for part in names)
        yield f"| `{key}` | {inputs} | {outputs} |"
