"""Models of the command line: their names, and how a folder or handle is opened."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras

from bert_keras.checkpoints.manifest import CONFIG
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.export.runtime_predictor import RuntimePredictor
from bert_keras.export.runtimes import formats
from bert_keras.predictor import Predictor
from bert_keras.serving.loaded_model import LoadedModel, PredictorModel
from bert_keras.serving.saved_model import SavedModel
from bert_keras.serving.version_folders import SAVED_MODEL, is_base_folder, is_export, is_version

logger = logging.getLogger("bert_keras.serving")

_NAME = re.compile(r"[\w.-]+")
_LIBRARIES = {"onnx": "onnxruntime", "torch": "torch.export"}  # format -> library that runs it


@dataclass(frozen=True)
class Options:
    """Options with which models are opened and run.

    Attributes:
        trust: True to serve SavedModels of other programs.
        allow_pickle: True to read a `pytorch_model.bin` of a checkpoint.
        variant: variant of the weights of checkpoints, such as "fp16"; None for the plain files.
        averages: True to read the moving averages in TensorFlow checkpoints.
        dtype: Keras dtype policy of checkpoints; None for the global one.
        device: Keras device of checkpoints, such as "gpu:0"; None for the default.
        max_batch: maximum number of rows in a batch.
        max_wait: maximum time in seconds that a row waits for other rows.
        max_queue: maximum number of rows that wait for one version.
        report: function that is called after every batch with (name, version, rows, seconds).
    """

    trust: bool = False
    allow_pickle: bool = False
    variant: str | None = None
    averages: bool = False
    dtype: str | None = None
    device: str | None = None
    max_batch: int = 32
    max_wait: float = 0.002
    max_queue: int = 2048
    report: Callable[[str, int, int, float], None] | None = None


def open_model(path: str, options: Options) -> LoadedModel:
    """Open a SavedModel, an export of another runtime, or a checkpoint.

    Raises:
        UsageError: if the task cannot be served, the dtype or device does not exist, or another
            program wrote the SavedModel and `options.trust` is False.
        ArtifactError: if the model is damaged.
        ImportError: if the runtime of the export is not installed.
    """
    folder = Path(path)
    if is_export(folder) and (options.dtype or options.device):
        logger.warning("%s: an export has its own dtype; --dtype and --device do not apply", folder)
    if (folder / SAVED_MODEL).is_file():
        return SavedModel(folder, trust=options.trust)
    if (folder / formats.FILE).is_file():
        runtime = RuntimePredictor(folder, batch_size=options.max_batch)
        name = runtime.manifest.format
        dtype = runtime.manifest.quantization or "float32"
        library = _LIBRARIES.get(name, name)
        return PredictorModel(runtime, format=name, backend=library, dtype=dtype)
    try:
        predictor = Predictor.from_preset(
            path,
            batch_size=options.max_batch,
            allow_pickle=options.allow_pickle,
            variant=options.variant,
            averages=options.averages,
            dtype=options.dtype,
            device=options.device,
        )
    except (ArtifactError, DataError, UsageError) as error:
        models = [] if (folder / CONFIG).is_file() else _models_in(folder)
        if models:
            raise UsageError(
                f"{folder}: no model, but a folder of models: {', '.join(models[:5])}. Name one: "
                f"bert-keras serve {folder / models[0]}"
            ) from error
        raise
    except ValueError as error:  # such as those of `dtype` and `device`
        raise UsageError(str(error)) from error
    dtype = predictor.encoder.compute_dtype
    return PredictorModel(predictor, backend=keras.backend.backend(), dtype=dtype)


def _models_in(folder: Path) -> list[str]:
    """Return the names of the exports in a folder, with or without numbered versions."""
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if is_base_folder(p) or is_export(p))


def model_argument(text: str) -> tuple[str, str]:
    """Return the name and the source of a model from PATH or NAME=PATH.

    The name is that of the folder without NAME=, or of its parent for a numbered version.

    Raises:
        UsageError: if the name has other characters than letters, digits, "_", "-" and ".".
    """
    name, equals, source = text.partition("=")
    if not equals or "/" in name:
        source = text
        is_handle = source.startswith("hf://")
        path = Path(source.split("@")[0]) if is_handle else Path(source).resolve()
        name = path.parent.name if is_version(path) else path.name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"The name of a model may only have letters, digits, _, - and . Pass a name: "
            f"NAME={source}. Received: {name!r}"
        )
    return name, source
