"""Export with another Keras backend, in a second process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bert_keras import saved_model_loading
from bert_keras.errors import ResourceError
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor

_ROOT = str(Path(__file__).resolve().parents[2])  # folder from which this package was imported


def with_backend(backend: str, predictor: Predictor, path: Path, *flags: str) -> None:
    """Export a model by the program `export_preset` in a process with another backend.

    Args:
        backend: Keras backend of the process.
        predictor: predictor of the model.
        path: folder that the process writes.
        flags: further flags of the program; "" is ignored.

    Raises:
        ResourceError: if the process failed.
    """
    with tempfile.TemporaryDirectory(prefix="bert_keras_") as preset:
        predictor.save_to_preset(preset)
        program = "bert_keras.export.export_preset"
        command = [sys.executable, "-m", program, preset, str(path.absolute())]
        policy = f"--dtype={predictor.encoder.dtype_policy.name}"  # `flags` may replace it
        command += [policy, *_outputs(predictor.task), *filter(None, flags)]
        environment = os.environ | {
            "KERAS_BACKEND": backend,
            # This process uses the accelerator, and an export does not need one.
            "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONPATH": os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    if result.returncode:
        raise ResourceError(
            f"{path}: exporting on the {backend} backend in a second process failed "
            f"(exit code {result.returncode}):\n{_without_logs(result.stderr)[-4000:]}"
        )
    for folder in (path, *path.glob("*/")):  # a pair for TensorFlow Hub has two SavedModels
        saved_model_loading.remember(folder)


# Lines of TensorFlow's log, which it writes while it is imported.
_LOG = re.compile(r"([IW]\d{4,} |[\d-]+ [\d:.]+: I |WARNING: All log messages before absl)")


def _without_logs(text: str) -> str:
    """Return the messages of a process without the lines of TensorFlow's log."""
    return "\n".join(line for line in text.splitlines() if not _LOG.match(line)).strip()


def _outputs(model: Task | BertEncoder) -> list[str]:
    """Return flags for an encoder's optional outputs, which no checkpoint folder records."""
    if not isinstance(model, BertEncoder):
        return []
    return [f"--output={name}" for name, is_given in model.options.items() if is_given]
