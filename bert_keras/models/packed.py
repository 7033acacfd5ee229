"""Tasks on rows of several examples: no padding (Krell et al., 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from bert_keras import features
from bert_keras.models.encoder_inputs import packed_inputs
from bert_keras.models.task import Task
from bert_keras.models.value_checks import label_classes
from bert_keras.models.view import TaskView

if TYPE_CHECKING:
    from bert_keras.models.chunked import ChunkedTask

_OF_TOKENS = (features.MLM, features.TAGS)  # whose labels lie in the rows as the tokens do


@keras.saving.register_keras_serializable(package="bert_keras")
class PackedTask(TaskView):
    """A view of a task: its layers, so its weights, on rows of several examples.

    Loss and gradients of a batch are those of its examples, each padded in a row of its own. Save
    `task` for use.

    Inputs: those of `BertEncoder.packed`, and for masked tokens `mask_positions`, int32 [rows,
    predictions], within the whole row.
    Outputs: the task's; one for a text becomes one for each example: [rows, examples, ...]. In
    unused slots they mean nothing.

    Args:
        task: a `MaskedLM`, `Pretrainer`, `SequenceClassifier`, or a `TokenClassifier` without a
            conditional random field.

    Raises:
        ValueError: another task.
    """

    def __init__(self, task: Task):
        inputs = packed_inputs(task.encoder.config)
        outputs = task.packed_outputs(inputs)
        super().__init__(task, inputs, outputs, name=f"{task.name}_packed")

    def loss_chunks(self, chunks: int) -> ChunkedTask:
        """As `Task.loss_chunks`."""
        from bert_keras.models.chunked import ChunkedTask

        return ChunkedTask(self, chunks)

    def loss_and_metrics(self) -> dict[str, Any]:
        """The task's own; sample weights must be given, as `data.PackedExamples` does.

        They are 0 in unused slots and for padding. Those of tags count rows / examples times: the
        mean of `TagLoss` is over the rows.
        """
        own = self.task.loss_and_metrics()
        losses = {
            name: loss if name in _OF_TOKENS else MeanOfExamples(loss)
            for name, loss in own["loss"].items()
        }
        return {**own, "loss": losses}


@keras.saving.register_keras_serializable(package="bert_keras")
class MeanOfExamples(keras.losses.Loss):
    """A loss of examples in slots, [rows, examples]: the mean of those that there are.

    There are those whose sample weight is not 0; as in a batch without slots, they are counted, and
    their weights are not.

    Args:
        loss: one of Keras's.
        name: of this one.
    """

    def __init__(self, loss: keras.losses.Loss, name: str = "mean_of_examples", **kwargs):
        super().__init__(name=name, **kwargs)
        config = {**loss.get_config(), "reduction": "mean_with_sample_weight"}
        self.loss = type(loss).from_config(config)

    def label_classes(self, shape: tuple[int | None, ...]) -> Any:
        """Return the number of classes of the labels, from the shape of the output."""
        return label_classes(self.loss, shape)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """The loss of a batch.

        Args:
            y_true: labels [rows, examples, ...].
            y_pred: logits [rows, examples, classes].
            sample_weight: [rows, examples], 0 in unused slots.

        Raises:
            ValueError: without weights nobody knows which slots are used.
        """
        if sample_weight is None:
            raise ValueError(
                "Slots of packed rows may be unused: give sample weights, 0 in such slots. "
                "Received: sample_weight=None"
            )
        weights = ops.convert_to_tensor(sample_weight, dtype=self.dtype)
        count = ops.sum(ops.cast(weights != 0, self.dtype))
        mean_weight = ops.divide_no_nan(ops.sum(weights), count)
        return mean_weight * self.loss(y_true, y_pred, weights)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of `from_config`."""
        return {"loss": keras.saving.serialize_keras_object(self.loss), "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MeanOfExamples:
        """Rebuilds the loss."""
        loss: Any = keras.saving.deserialize_keras_object(config["loss"])
        return cls(loss, name=config["name"])
