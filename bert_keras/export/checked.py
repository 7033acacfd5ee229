"""What must hold before a model is exported, said before anything is written."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bert_keras.atomic import new_folder
from bert_keras.checkpoints import transfer
from bert_keras.errors import ResourceError, UsageError
from bert_keras.escaping import require_utf8
from bert_keras.models import BertEncoder, Task
from bert_keras.one_writer import one_writer
from bert_keras.predictor import Predictor
from bert_keras.programs import exit_code_of
from bert_keras.tokenizers import Tokenizer


def checked_predictor(
    task_or_encoder: Task | BertEncoder, tokenizer: Tokenizer, path: Path, **asked: Any
) -> Predictor:
    """A model as it is going to be asked, which may be exported to a folder.

    Args:
        task_or_encoder: the model.
        tokenizer: its own.
        path: the folder.
        asked: arguments of `Predictor`.

    Raises:
        UsageError: the folder exists.
        TypeError: neither a task nor an encoder.
        ValueError: an argument is out of range.
        NumericError: a weight is not finite.
    """
    require_new(path)
    predictor = Predictor(task_or_encoder, tokenizer, **asked)
    for variable in task_or_encoder.weights:
        transfer.finite(variable)
    return predictor


_TRIED = 1 << 20  # bytes of the file that is tried


@contextmanager
def new_export(path: Path) -> Iterator[Path]:
    """Yields a folder to fill, which becomes `path` when the block ends without error.

    Raises:
        UsageError: another process has written that folder in the meantime.
        ResourceError: another process is writing it, or the machine refuses: a full disk.
        RuntimeError: a converter failed. What the user can mend was said before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_writer(path):
        require_new(path)
        with new_folder(path) as folder:
            try:
                yield folder
            except Exception as error:
                if hasattr(error, "exit_code"):
                    raise
                if refusal := _refusal(error, folder, path):
                    raise ResourceError(refusal) from error
                if not isinstance(error, TypeError | ValueError):
                    raise
                raise RuntimeError(f"{path}: could not be converted: {error}") from error


def _refusal(error: Exception, folder: Path, path: Path) -> str:
    """Return the message about a disk that takes no more; "" where that is not the reason.

    Converters tell a full disk in their own words, or name no file: so a small file is tried.
    """
    if isinstance(error, OSError) and exit_code_of(error):
        file = str(error.filename or path).replace(str(folder), str(path))
        return f"{file}: could not be written: {error.strerror}."
    for place, name in ((folder, str(path)), (Path(tempfile.gettempdir()), "")):
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(bytes(_TRIED))
                file.flush()
                os.fsync(file.fileno())
        except OSError as refusal:
            return f"{name or place}: could not be written: {refusal.strerror}."
    return ""


def require_new(path: Path) -> None:
    """Raises `UsageError` where something is already, or no name that converters can open."""
    require_utf8(path, "The folder")
    if path.exists():
        raise UsageError(
            f"{path}: exists already and is not written over. Give another version or remove it."
        )


def require_tensorflow(*, text: bool) -> None:
    """Raises `ImportError` where TensorFlow, or with `text` tensorflow-text, is not installed."""
    needed = ("tensorflow", "tensorflow_text") if text else ("tensorflow",)
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise ImportError(
            f"A SavedModel needs {' and '.join(missing)}. "
            'Install with: pip install "bert-keras[tensorflow]"'
        )


def require_pairs(predictor: Predictor, kinds: tuple[type, ...]) -> None:
    """Raises `ValueError` where pairs are asked of a model that is none of these."""
    if predictor.pairs and not isinstance(predictor.task, kinds):
        raise ValueError(
            "`pairs` is for models that take one text or two. "
            f"Received: a {type(predictor.task).__name__}"
        )
