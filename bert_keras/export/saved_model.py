"""SavedModels that take strings, and need nothing of this package to run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import keras

from bert_keras import features
from bert_keras.atomic import new_folder
from bert_keras.checkpoints import transfer
from bert_keras.checks import check_top_k, checked_length, encoder_of
from bert_keras.errors import ResourceError, UsageError
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer

_REQUIRED = ("tensorflow", "tensorflow_text")
_ROOT = str(Path(__file__).resolve().parents[2])  # where this package was found


def saved_model(
    task_or_encoder: Task | BertEncoder,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    max_length: int | None = None,
    top_k: int = 5,
) -> Path:
    """Exports a model with its tokenizer as a TensorFlow SavedModel.

    Three signatures, described in `saved_models/README.md`: `serving_default` takes strings, `ids`
    what `Tokenizer` returns, and `training` the same with dropout active. From the JAX and PyTorch
    backends a second process exports with TensorFlow.

    Args:
        task_or_encoder: a `MaskedLM`, a `Pretrainer` or a `BertEncoder`.
        tokenizer: the one the model was trained with.
        path: the new folder. For TensorFlow Serving end it with a version number, as in
            `saved_models/demo/1`.
        max_length: `serving_default` cuts longer texts, [CLS] and [SEP] counted; None for as many
            tokens as the model has positions.
        top_k: how many tokens `serving_default` returns for each mask.

    Returns:
        The folder, which appears whole or not at all.

    Raises:
        UsageError: the folder exists.
        TypeError: another task.
        ImportError: TensorFlow or tensorflow-text is not installed.
        NumericError: a weight is not finite.
        ResourceError: the disk is full, or the second process failed.
    """
    path = Path(path)
    if path.exists():
        raise UsageError(
            f"{path}: exists already and is not written over. Give another version or remove it."
        )
    encoder = encoder_of(task_or_encoder, tokenizer)
    if not isinstance(task_or_encoder, BertEncoder) and features.MLM not in task_or_encoder.output:
        raise TypeError(
            "Expected a MaskedLM, a Pretrainer or a BertEncoder. Received: a "
            f"{type(task_or_encoder).__name__}. Its encoder can be exported: task.encoder."
        )
    max_length = checked_length(max_length, encoder)
    check_top_k(top_k, tokenizer)
    for variable in task_or_encoder.weights:
        transfer.finite(variable)
    if missing := [name for name in _REQUIRED if importlib.util.find_spec(name) is None]:
        raise ImportError(
            f"A SavedModel needs {' and '.join(missing)}. "
            'Install with: pip install "bert-keras[tensorflow]"'
        )
    if keras.backend.backend() != "tensorflow":
        _in_second_process(task_or_encoder, tokenizer, path, max_length, top_k)
        return path
    from bert_keras.export import serving

    with new_folder(path) as folder:
        serving.write(task_or_encoder, tokenizer, folder, max_length=max_length, top_k=top_k)
    return path


def _in_second_process(
    task: Task | BertEncoder, tokenizer: Tokenizer, path: Path, max_length: int, top_k: int
) -> None:
    """Saves the model for `python -m bert_keras.export`, which opens it with TensorFlow."""
    with tempfile.TemporaryDirectory(prefix="bert_keras_") as preset:
        task.save_to_preset(preset)
        tokenizer.save_to_preset(preset)
        command = [sys.executable, "-m", "bert_keras.export", preset, str(path.absolute())]
        command += [f"--max-length={max_length}", f"--top-k={top_k}"]
        command += [f"--dtype={encoder_of(task, tokenizer).dtype_policy.name}"]
        environment = os.environ | {
            "KERAS_BACKEND": "tensorflow",
            # The accelerator is in use here, and exporting computes nothing.
            "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONPATH": os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    if result.returncode:
        raise ResourceError(
            f"{path}: exporting with TensorFlow in a second process failed "
            f"(exit code {result.returncode}):\n{result.stderr[-4000:]}"
        )
