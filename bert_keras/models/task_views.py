"""Views of a task that share its weights: packed rows, and losses computed in chunks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from bert_keras import features
from bert_keras.earlier_names import METHODS_OF_TASKS, EarlierNames
from bert_keras.layers import MaskedLMHead
from bert_keras.layers.heads import MaskedVectors, token_losses_in_chunks
from bert_keras.layers.sharing import described, rebuilt
from bert_keras.models.base import WithoutUnused
from bert_keras.models.compiling import ChecksLosses
from bert_keras.models.encoder_layers import encoder_inputs, packed_inputs
from bert_keras.models.value_checks import label_classes

if TYPE_CHECKING:
    from bert_keras.models.task import Task


class TaskView(EarlierNames, ChecksLosses, WithoutUnused):
    """A view of a task: a model over the same layers, and so with the same weights.

    Train the view, and save `task` for use. A saved view rebuilds its task too.

    Attributes:
        task: the task itself.
    """

    earlier_names = METHODS_OF_TASKS

    def __init__(self, task: Task, inputs: dict, outputs: dict, name: str):
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.task = task
        # `compile` scales the loss by this policy (mixed_float16).
        self.dtype_policy = task.dtype_policy

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """Return a layer of the view; under the name "encoder" the encoder of the task."""
        if name in (self.task.encoder.name, "encoder") and index is None:
            return self.task.encoder
        return super().get_layer(name, index)

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the name and the task."""
        return {"name": self.name, "task": keras.saving.serialize_keras_object(self.task)}

    @classmethod
    @rebuilt
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Rebuild the view and its task, with new weights."""
        values = dict(config)
        name = values.pop("name")
        for key, value in values.items():
            if isinstance(value, dict) and "class_name" in value:
                values[key] = keras.saving.deserialize_keras_object(value, custom_objects)
        view: Any = cls(**values)
        view.name = name
        return view

    @property
    def not_logits(self) -> Sequence[str]:
        """Names of the task's outputs that are no logits; see `ChecksLosses`."""
        return self.task.not_logits

    @property
    def unused_variables(self) -> Sequence[Any]:
        """Variables of the task that no output depends on."""
        return self.task.unused_variables


# === Packed tasks ===


# Outputs with one label for each token of a row. The others have one label for each example.
_OF_TOKENS = (features.MLM, features.TAGS)


@keras.saving.register_keras_serializable(package="bert_keras")
class PackedTask(TaskView):
    """A view of a task for sequence packing: rows of several examples, with the same weights.

    Loss and gradients of a batch are those of its examples, each padded in a row of its own. Save
    `task` for use.

    Inputs: those of `BertEncoder.packed`, and for masked tokens `mask_positions`, int32 [rows,
    predictions], positions within the whole row.
    Outputs: the task's. An output for a text, [batch, ...], becomes one for each example of a row,
    [rows, examples, ...]; in unused slots it has no meaning.

    Args:
        task: a `MaskedLM`, `Pretrainer`, `SequenceClassifier`, or a `TokenClassifier` without a
            conditional random field.

    Raises:
        ValueError: sequence packing does not work with the task.
    """

    def __init__(self, task: Task):
        inputs = packed_inputs(task.encoder.config)
        outputs = task.packed_outputs(inputs)
        super().__init__(task, inputs, outputs, name=f"{task.name}_packed")

    def loss_chunks(self, chunks: int) -> ChunkedTask:
        """Return a view whose loss of masked tokens is computed in chunks; see `ChunkedTask`."""
        return ChunkedTask(self, chunks)

    def trained_model(self) -> Task:
        """Return the model to keep after training, as `Task.trained_model` of the task."""
        return self.task.trained_model()

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the task's losses and metrics, for batches with sample weights.

        `data.PackedExamples` makes the weights: 0 in unused slots and for padding. Weights of tags
        are also multiplied by rows / examples, because the mean of `TagLoss` is over the rows.
        """
        options = self.task.loss_and_metrics()
        losses = {
            name: loss if name in _OF_TOKENS else MeanOfExamples(loss)
            for name, loss in options["loss"].items()
        }
        return {**options, "loss": losses}


@keras.saving.register_keras_serializable(package="bert_keras")
class MeanOfExamples(keras.losses.Loss):
    """Mean loss of the examples in packed rows, whose slots, [rows, examples], may be unused.

    An example is a slot whose sample weight is not 0. The sum of the weighted losses is divided by
    the number of examples, and not by the sum of weights, as in a batch without packing.

    Args:
        loss: a Keras loss of one example.
        name: name of this loss.
    """

    def __init__(self, loss: keras.losses.Loss, name: str = "mean_of_examples", **kwargs):
        super().__init__(name=name, **kwargs)
        config = {**loss.get_config(), "reduction": "mean_with_sample_weight"}
        self.loss = type(loss).from_config(config)

    def label_classes(self, shape: tuple[int | None, ...]) -> Any:
        """Return the number of classes of the labels, from the shape of the output."""
        return label_classes(self.loss, shape)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Return the loss of a batch, a scalar.

        Args:
            y_true: labels [rows, examples, ...].
            y_pred: logits [rows, examples, classes].
            sample_weight: float [rows, examples], 0 in unused slots.

        Raises:
            ValueError: `sample_weight` is None, so that unused slots would count.
        """
        if sample_weight is None:
            raise ValueError(
                "A packed row may have fewer examples than slots, so this loss needs sample "
                "weights: 0 for an unused slot, as `data.PackedExamples` gives them. "
                "Received: sample_weight=None"
            )
        weights = ops.convert_to_tensor(sample_weight, dtype=self.dtype)
        count = ops.sum(ops.cast(weights != 0, self.dtype))
        mean_weight = ops.divide_no_nan(ops.sum(weights), count)
        return mean_weight * self.loss(y_true, y_pred, weights)

    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`."""
        return {"loss": keras.saving.serialize_keras_object(self.loss), "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MeanOfExamples:
        """Rebuild the loss."""
        loss: Any = keras.saving.deserialize_keras_object(config["loss"])
        return cls(loss, name=config["name"])


# === Loss in chunks ===


@keras.saving.register_keras_serializable(package="bert_keras")
class ChunkedTask(TaskView):
    """A view of a task, with the same weights, whose loss takes the vocabulary in chunks.

    Loss, metrics and gradients are the task's. The logits are the largest tensor of a small model.
    Here one chunk of them is in memory at a time, and each chunk is computed twice: in the forward
    pass and in the backward pass. Save `task` for use.

    Inputs: those of `whole`.
    Outputs: those of `whole`, but "mlm" has the vectors, [batch, predictions, width], whose
    products with the token table are the logits.

    Args:
        whole: a `MaskedLM` or a `Pretrainer`, or the `PackedTask` of one.
        chunks: number of chunks of the vocabulary.

    Raises:
        ValueError: another task, or fewer than one chunk.
    """

    def __init__(self, whole: Task | PackedTask, chunks: int):
        task = whole.task if isinstance(whole, PackedTask) else whole
        if not isinstance(chunks, Integral) or isinstance(chunks, bool) or chunks < 1:
            raise ValueError(
                f"`chunks` must be a whole number of at least 1. Received: chunks={chunks!r}"
            )
        if not task.fills_masks:
            raise ValueError(
                "A loss in chunks of the vocabulary needs a MaskedLM or a Pretrainer. Train other "
                f"tasks without `loss_chunks()`. Received: {type(task).__name__}"
            )
        packed = whole is not task
        inputs = (packed_inputs if packed else encoder_inputs)(task.encoder.config)
        vectors = MaskedVectors(task.mlm, name=f"{features.MLM}_vectors")
        outputs = task.outputs_by(vectors, inputs, packed=packed)
        super().__init__(task, inputs, outputs, name=f"{whole.name}_chunked")
        self._whole, self._chunks = Hidden(whole), int(chunks)
        self.mlm_accuracy = keras.metrics.Mean(name=f"{features.MLM}_accuracy")

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the name, `whole`, and the number of chunks."""
        whole = keras.saving.serialize_keras_object(self._whole.model)
        return {"name": self.name, "whole": whole, "chunks": self._chunks}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Keras: compile as the saved view was, with a loss that reads the weights of this view."""
        super().compile_from_config(config)
        for loss in keras.tree.flatten(self.loss):
            if isinstance(loss, ChunkedTokenLoss):
                loss.attach(self.task.mlm, self.mlm_accuracy)

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the losses and metrics of the task, with the loss of masked tokens in chunks.

        That loss also updates the accuracy of masked tokens, because no metric sees their logits.
        """
        options = self._whole.model.loss_and_metrics()
        loss = ChunkedTokenLoss(self.task.mlm, self._chunks, self.mlm_accuracy)
        metrics = {
            name: metric
            for name, metric in options["weighted_metrics"].items()
            if name != features.MLM
        }
        return {"loss": {**options["loss"], features.MLM: loss}, "weighted_metrics": metrics}


@dataclasses.dataclass(frozen=True)
class Hidden:
    """A holder that hides the model from Keras, which would make it a layer of the view."""

    model: Any


@keras.saving.register_keras_serializable(package="bert_keras")
class ChunkedTokenLoss(keras.losses.Loss):
    """`TokenLoss` that computes the logits itself, one chunk of the token table at a time.

    It reads the weights of one head, and works only with models that have this head. A loss that is
    loaded from a file has no head before `attach`.

    Args:
        head: the head with the token table, [vocab_size, width], and the bias, [vocab_size].
        chunks: number of chunks of the table.
        accuracy: metric of the share of labels with the highest logit. The loss updates it, because
            only the loss has the logits.
        name: name of the loss.
    """

    def __init__(
        self,
        head: MaskedLMHead | None,
        chunks: int,
        accuracy: keras.metrics.Mean | None,
        name: str = "chunked_token_loss",
    ):
        super().__init__(name=name, reduction="mean_with_sample_weight", dtype="float32")
        self._chunks = chunks
        self.attach(head, accuracy)

    def attach(self, head: MaskedLMHead | None, accuracy: keras.metrics.Mean | None) -> None:
        """Set the head whose weights are read, and the metric that is updated."""
        self._head: Any = head
        self._accuracy: Any = accuracy

    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`, without head and metric."""
        return {"chunks": self._chunks, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ChunkedTokenLoss:
        """Rebuild the loss without its head; `ChunkedTask` attaches its own."""
        return cls(None, config["chunks"], None, name=config["name"])

    def label_classes(self, shape: tuple[int | None, ...]) -> int:
        """Return the number of classes of the labels: rows of the token table."""
        del shape
        return self._head.token_embedding.input_dim

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Return the loss of a batch, a float32 scalar in nats.

        Args:
            y_true: original ids, int [batch, predictions].
            y_pred: vectors [batch, predictions, width].
            sample_weight: float [batch, predictions], 0 for unused predictions; None for 1 each.
        """
        labels = ops.cast(ops.convert_to_tensor(y_true), "int32")
        table, bias = self._head.table_and_bias()
        losses, is_right = token_losses_in_chunks(labels, y_pred, table, bias, chunks=self._chunks)
        weights = ops.ones_like(losses)
        if sample_weight is not None:
            weights = ops.convert_to_tensor(sample_weight, dtype="float32")
        self._accuracy.update_state(ops.cast(is_right, "float32"), sample_weight=weights)
        return ops.divide_no_nan(ops.sum(losses * weights), ops.sum(weights))
