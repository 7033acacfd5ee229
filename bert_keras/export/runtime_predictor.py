"""`Predictor` of an export in ONNX Runtime, OpenVINO, LiteRT or PyTorch, with the same answers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_keras import features
from bert_keras.errors import ArtifactError
from bert_keras.export.clients import RuntimeClient, model_class_of
from bert_keras.export.runtimes.formats import FILE, Manifest
from bert_keras.inference.text_classification import REGRESSION
from bert_keras.models.with_tokenizer import AnswersTexts
from bert_keras.predictor import Predictor


class _Tensor(NamedTuple):
    """Name and shape of an input or output, under the attribute names of a Keras tensor."""

    name: str
    shape: tuple[int | None, ...]


class _Config(NamedTuple):
    """The values of an encoder's config that predictions read."""

    hidden_size: int


class RuntimeTask(AnswersTexts):
    """An exported model in the place of its Keras task.

    It has the attributes of the task that `Predictor` reads.

    Args:
        client: the exported model.

    Raises:
        ArtifactError: if its export.json does not describe the task.
    """

    def __init__(self, client: RuntimeClient):
        manifest = client.manifest
        self._client, model_class = client, model_class_of(manifest.task)
        for name in inspect.get_annotations(AnswersTexts):
            setattr(self, name, getattr(model_class, name))
        self.answer_inputs = model_class.answer_inputs
        self.task_name = manifest.task_name
        self.options: dict[str, Any] = manifest.task_options
        self.inputs = [_Tensor(name, _shape(axes)) for name, axes in manifest.inputs.items()]
        self.output = {name: _Tensor(name, _shape(axes)) for name, axes in manifest.outputs.items()}
        sequence = self.output.get(features.SEQUENCE_OUTPUT)
        self.config = _Config(sequence.shape[-1] or 0) if sequence is not None else None

    def answer_method(self, is_paired: bool = False) -> str:
        """Return the name of the method of `Predictor` that answers texts; see `AnswersTexts`."""
        if features.LABEL in self.output:
            is_number = self.options.get("problem") == REGRESSION
            return "predict_scores" if is_number else "predict_labels"
        return super().answer_method(is_paired)

    def predict_on_batch(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs of the model: name -> array [batch, ...]."""
        return self._client.run(inputs)

    def vector_model(self) -> RuntimeTask:
        """Return this model, whose vectors `Predictor.encode` reads.

        Raises:
            ValueError: if the model has no vectors of texts or tokens.
        """
        if not {features.SENTENCE_VECTOR, features.SEQUENCE_OUTPUT} & self.output.keys():
            raise ValueError(
                f"This export has no vectors: its outputs are {', '.join(self.output)}. Export "
                "the encoder: bert-keras export --task encoder"
            )
        return self


def _shape(axes: list[int | str]) -> tuple[int | None, ...]:
    """Return the axes of an export.json as a shape. A named axis has a variable size, None."""
    return tuple(axis if isinstance(axis, int) else None for axis in axes)


class RuntimePredictor(Predictor):
    """A `Predictor` whose model runs in another runtime than Keras.

    Args:
        folder: a folder that `runtime_model` wrote.
        batch_size: number of texts in a batch.

    Raises:
        ArtifactError: if the folder is damaged, or an earlier version of bert_keras wrote it.
        ImportError: if the runtime of the export is not installed.
    """

    def __init__(self, folder: str | Path, *, batch_size: int = 32):
        manifest = Manifest.read(Path(folder))
        if not manifest.task_name:
            raise ArtifactError(
                f"{Path(folder) / FILE}: an earlier version of bert_keras wrote it, without the "
                "options of the task. Export the model again."
            )
        client = RuntimeClient(Path(folder))
        self.manifest = manifest
        self._fill(RuntimeTask(client), client.tokenizer, batch_size)

    def _fill(self, task: Any, tokenizer: Any, batch_size: int) -> None:
        """Set the attributes of `Predictor`, without a Keras model."""
        self.task, self.tokenizer, self.batch_size = task, tokenizer, batch_size
        self.encoder = task
        self.max_length, self.pairs = self.manifest.max_length, self.manifest.pairs
        self.options, self.progress = dict(self.manifest.options), None
        self.device = None  # the runtime chooses
        self.on_cut = None
        self._check_options()

    def save_to_preset(self, directory: str | Path) -> None:
        """Raise `TypeError`, because an export cannot become a checkpoint."""
        raise TypeError(
            "An export cannot be saved as a checkpoint. Save the model that it was exported from. "
            f"Received: directory={str(directory)!r}"
        )
