"""Exporting with another backend than this one: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bert_keras.errors import ResourceError
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor

_ROOT = str(Path(__file__).resolve().parents[2])  # where this package was found


def with_backend(backend: str, predictor: Predictor, path: Path, *flags: str) -> None:
    """Save a model for `export_preset`, a process that opens it with another backend.

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
        program = "bert_keras.export.export_preset"
        command = [sys.executable, "-m", program, preset, str(path.absolute())]
        policy = f"--dtype={predictor.encoder.dtype_policy.name}"  # a later flag counts
        command += [policy, *_outputs(predictor.task), *filter(None, flags)]
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


def _outputs(model: Task | BertEncoder) -> list[str]:
    """Return flags for an encoder's optional outputs, which no checkpoint folder records."""
    if not isinstance(model, BertEncoder):
        return []
    return [f"--output={name}" for name, is_given in model.options.items() if is_given]
