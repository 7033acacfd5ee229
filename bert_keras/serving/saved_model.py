"""SavedModels as served models: their signatures, and the description in their export.json."""

from __future__ import annotations

import importlib
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import saved_model_loading
from bert_keras.errors import ArtifactError
from bert_keras.export.runtimes.formats import FILE, Manifest
from bert_keras.serving.loaded_model import LoadedModel
from bert_keras.serving.saved_model_check import EXTRA, require_own_program
from bert_keras.serving.signatures import (
    DEFAULT,
    IDS,
    PREDICT,
    STRING,
    Columns,
    Outputs,
    Signature,
    Spec,
    in_batches,
)
from bert_keras.tokenizers import Tokenizer

logger = logging.getLogger("bert_keras.serving")

_TRAINING = "training"
# Message of a check in the graph of an export, which names an input, and the values that it found.
_REFUSAL = re.compile(r"assertion failed: \[([^\n]*`\w+`[^\n]*:)\] ([^\n]*)")
_MOST_IDS_ROWS = 32  # maximum number of rows of token ids in a batch


class SavedModel(LoadedModel):
    """A SavedModel, which TensorFlow runs on every Keras backend.

    Args:
        folder: folder of one version.
        trust: True to load a SavedModel that another program wrote.

    Raises:
        UsageError: if another program wrote the SavedModel and `trust` is False.
        ArtifactError: if the SavedModel does not load, or has no signatures.
    """

    def __init__(self, folder: Path, *, trust: bool = False):
        super().__init__(format="saved_model", backend="tensorflow", dtype="float32")
        if not trust:
            require_own_program(folder)
        try:
            self._model = saved_model_loading.load(folder, trust=True)
        except ImportError:
            raise
        except Exception as error:
            raise ArtifactError(
                f"{folder}: does not load ({error}). Export the model again."
            ) from error
        methods = {
            name: signature.method_name
            for meta in saved_model_loading.read_program(folder).meta_graphs
            for name, signature in meta.signature_def.items()
        }
        manifest = folder / EXTRA / FILE
        self._is_own = manifest.is_file()
        self.signatures = {
            name: self._signature(name, function, methods.get(name, PREDICT))
            for name, function in sorted(
                self._model.signatures.items(), key=lambda item: item[0] != DEFAULT
            )
        }
        if not self.signatures:
            raise ArtifactError(f"{folder}: has no signatures. Export the model again.")
        self.why_not["attention"] = (
            "A SavedModel has no attention outputs. Serve the checkpoint folder to see the "
            "attention."
        )
        if self._is_own:
            self._describe(Manifest.read(folder / EXTRA), folder)
        else:
            self.why_not |= {
                "answer": "Another program wrote this SavedModel: its answers have no known form.",
                "tokens": "Another program wrote this SavedModel: its tokenizer is not known.",
            }

    def _describe(self, manifest: Manifest, folder: Path) -> None:
        """Set the attributes that export.json describes: task, tokenizer, labels and lengths."""
        self.task = manifest.task_name
        self.max_length, self.pad_id = manifest.max_length, manifest.pad_id
        self.prompt = manifest.prompt
        self.long_texts = manifest.options.get("long_texts")
        self.take_options(manifest.task_options)
        self.takes_pairs = "pairs" in self.signatures or "texts" in self.signatures
        self.tokenizer = Tokenizer.from_preset(folder / EXTRA)
        if self.task in ("fill_mask", "pretraining"):
            self.mask_token = self.tokenizer.id_to_token(self.tokenizer.mask_id)

    def _signature(self, name: str, function: Any, method: str) -> Signature:
        """Return a signature of the SavedModel.

        Args:
            name: name of the signature.
            function: its concrete function.
            method: its method name of TensorFlow Serving.
        """
        inputs = {key: _spec(spec) for key, spec in function.structured_input_signature[1].items()}
        outputs = {key: _spec(spec) for key, spec in function.structured_outputs.items()}
        has_texts = all(spec.dtype == STRING for spec in inputs.values())
        is_batched = self._is_own and has_texts and name not in (IDS, _TRAINING)
        strings = [key for key, spec in outputs.items() if spec.dtype == STRING]

        def run(columns: Columns) -> Outputs:
            tensors = {key: _tensor(columns[key], spec) for key, spec in inputs.items()}
            results = {key: value.numpy() for key, value in _called(function, tensors).items()}
            for key in strings if self._is_own else ():
                results[key] = _decoded(results[key])
            return results

        is_ids = self._is_own and name == IDS
        return Signature(
            in_batches(run, _MOST_IDS_ROWS) if is_ids else run,
            inputs,
            outputs,
            has_text_rows=is_batched,
            method=method,
        )


def _spec(spec: Any) -> Spec:
    """Return the type and shape of a TensorFlow spec."""
    shape = None if spec.shape.rank is None else tuple(spec.shape)
    return Spec(spec.dtype.name, shape)


def _tensor(values: Any, spec: Spec) -> Any:
    """Return the values of an input as a tensor of its type."""
    tf = importlib.import_module("tensorflow")
    return tf.constant(values, tf.as_dtype(spec.dtype))


def _called(function: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs of a concrete function, output name -> tensor.

    Raises:
        ValueError: if the function refuses the values. The message has the reason if a check of
            an export names it. TensorFlow's own message goes to the log only, because it names
            source files of the export.
    """
    errors = importlib.import_module("tensorflow").errors
    try:
        return function(**tensors)
    except (errors.InvalidArgumentError, errors.OutOfRangeError) as error:
        logger.warning("A signature of a SavedModel refuses its inputs: %s", error)
        if refusal := _REFUSAL.search(str(error)):
            raise ValueError(
                f"The SavedModel refuses these values. {refusal[1]} {refusal[2]}"
            ) from error
        raise ValueError(
            "The SavedModel refuses these values, such as ids outside its vocabulary or inputs "
            "of different sizes."
        ) from error


def _decoded(values: np.ndarray) -> np.ndarray:
    """Return an array of bytes as an array of str, of the same shape."""
    decoded = [value.decode("utf-8", "replace") for value in values.ravel()]
    result = np.empty(len(decoded), object)
    result[:] = decoded
    return result.reshape(values.shape)
