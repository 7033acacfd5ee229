"""Exporting with another backend than this one: a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bert_keras.errors import ResourceError, UsageError
from bert_keras.predictor import Predictor

_ROOT = str(Path(__file__).resolve().parents[2])  # where this package was found


def require_new(path: Path) -> None:
    """Raises `UsageError` where something is already."""
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


def with_backend(backend: str, predictor: Predictor, path: Path, *flags: str) -> None:
    """Saves a model for `python -m bert_keras.export`, which opens it with another backend.

    Args:
        backend: that of Keras.
        predictor: the model, its tokenizer, and how it is asked.
        path: what is written.
        flags: of that program; "" for none.

    Raises:
        ResourceError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="bert_keras_") as preset:
        predictor.save_to_preset(preset)
        command = [sys.executable, "-m", "bert_keras.export", preset, str(path.absolute())]
        policy = f"--dtype={predictor.encoder.dtype_policy.name}"  # a later flag counts
        command += [policy, *filter(None, flags)]
        environment = os.environ | {
            "KERAS_BACKEND": backend,
            # The accelerator is in use here, and exporting computes nothing.
            "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONPATH": os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    if result.returncode:
        raise ResourceError(
            f"{path}: exporting on the {backend} backend in a second process failed "
            f"(exit code {result.returncode}):\n{result.stderr[-4000:]}"
        )
