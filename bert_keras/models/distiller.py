"""Knowledge distillation: a small model, the student, learns the outputs of a large one."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_keras import features
from bert_keras.layers import HiddenDistance, MergeChoices
from bert_keras.layers.serialization import SerializableLayer
from bert_keras.layers.sharing import described
from bert_keras.losses import InBatchLoss, RankingLoss
from bert_keras.models.encoder import EncoderView
from bert_keras.models.task import Task
from bert_keras.models.task_views import TaskView
from bert_keras.models.token_classification import TagLoss
from bert_keras.models.value_checks import label_classes

_STATE = "last_state"
# Losses whose outputs are numbers, or logits of labels each on its own. For all other losses the
# last axis has the logits of classes, of which one is right.
_LINEAR = (keras.losses.MeanSquaredError,)
_BINARY = (keras.losses.BinaryCrossentropy,)


@keras.saving.register_keras_serializable(package="bert_keras")
class Distiller(TaskView):
    """Trains a student on the outputs of a teacher (Hinton et al., 2015; Sanh et al., 2019).

    Save `task`, the student, for use. A saved distiller rebuilds student and teacher. The teacher
    runs on every batch, without dropout, and is frozen: to train it later, set
    `teacher.trainable = True`.

    Inputs: the student's.
    Outputs: those of the student with one more axis, float32 [..., 2]: index 0 is the student's
    output, index 1 the teacher's.

    Args:
        student: the task to train.
        teacher: a task with the same outputs and labels, over the same vocabulary.
        temperature: T, by which the logits of both are divided before they are compared. The
            teacher's part of the loss is multiplied by T * T, because its gradients shrink by that.
        alpha: weight of the teacher's part of the loss; the labels' part has 1 - alpha.
        hidden: weight of one minus the cosine of both encoders' last hidden states; 0 for none.

    Raises:
        ValueError: the tasks have different outputs or widths, or a value is out of range.
    """

    freezes_parts = True

    def __init__(
        self,
        student: Task,
        teacher: Task,
        *,
        temperature: float = 2.0,
        alpha: float = 0.5,
        hidden: float = 0.0,
    ):
        _check(student, teacher, temperature, alpha, hidden)
        teacher.trainable = False
        names = ("student", "teacher")
        views = [
            _view(task, name, hidden) for task, name in zip((student, teacher), names, strict=True)
        ]
        # === Functional model ===
        inputs = dict(student.input)
        learned = views[0](inputs)
        wanted = _Fixed(views[1], name="fixed_teacher")(inputs)
        outputs = {
            name: ops.stack([learned[name], wanted[name]], axis=-1) for name in student.output
        }
        if hidden:
            name = next(iter(outputs))
            outputs[name] = HiddenDistance(hidden, name="distance")(
                outputs[name], learned[_STATE], wanted[_STATE], inputs[features.PADDING_MASK]
            )
        super().__init__(student, inputs, outputs, name="distiller")
        self.teacher = teacher
        self.temperature, self.alpha, self._hidden = temperature, alpha, hidden

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: student, teacher, options."""
        return {
            "name": self.name,
            "student": keras.saving.serialize_keras_object(self.student),
            "teacher": keras.saving.serialize_keras_object(self.teacher),
            "temperature": self.temperature,
            "alpha": self.alpha,
            "hidden": self._hidden,
        }

    @property
    def student(self) -> Task:
        """The task that learns."""
        return self.task

    @property
    def fixed_variables(self) -> list[Any]:
        """The variables of the teacher: they never change, so training checkpoints omit them."""
        return self.teacher.variables

    def trained_model(self) -> Task:
        """Return the model to keep after training: the student, or the part of it to keep."""
        return self.task.trained_model()

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the student's losses, each within a `DistillationLoss`; there are no metrics.

        The labels are those of the student's own `loss_and_metrics`.
        """
        options = self.student.loss_and_metrics()
        losses = {
            name: DistillationLoss(loss, temperature=self.temperature, alpha=self.alpha)
            for name, loss in options["loss"].items()
        }
        weights = {"loss_weights": options["loss_weights"]} if "loss_weights" in options else {}
        return {"loss": losses, **weights}


@keras.saving.register_keras_serializable(package="bert_keras")
class _Fixed(SerializableLayer):
    """Layer that always runs its model in inference mode, without dropout.

    Keras does not keep `training=False` of a functional model that is called within another one.

    Args:
        model: a functional model with inputs and outputs by name.
    """

    def __init__(self, model: keras.Model, **kwargs):
        kwargs.setdefault("dtype", model.dtype_policy)
        super().__init__(**kwargs)
        self.model = model
        self.built = True

    @property
    def layers(self) -> list[Any]:
        """The model in a list, as code that searches a model's layers expects it."""
        return [self.model]

    def call(self, inputs):
        """Return the model's outputs by name, in inference mode, for its inputs by name."""
        return self.model(inputs, training=False)

    def compute_output_spec(self, inputs):
        del inputs
        return keras.tree.map_structure(
            lambda tensor: keras.KerasTensor(tensor.shape, tensor.dtype), self.model.output
        )


@keras.saving.register_keras_serializable(package="bert_keras")
class DistillationLoss(keras.losses.Loss):
    """Weighted sum of a loss of labels and a loss of a teacher's logits (Hinton et al., 2015, §2).

    The class of `loss` decides how the outputs of student and teacher are compared:

    - squared error: the outputs are numbers, and are compared by squared error;
    - binary cross-entropy: each logit is a label on its own, compared as a probability;
    - `InBatchLoss`: the outputs are vectors of pairs, compared by the softmax over the batch;
    - all others: the logits are of classes, compared by the softmax over the last axis.

    The comparison of probabilities is the Kullback-Leibler divergence in nats, times T * T.

    Args:
        loss: the loss of the labels.
        temperature: T; see `Distiller`.
        alpha: see `Distiller`.

    Raises:
        ValueError: the loss is a `RankingLoss`, which compares documents with each other.
    """

    def __init__(self, loss: keras.losses.Loss, *, temperature: float = 2.0, alpha: float = 0.5):
        if isinstance(loss, RankingLoss):
            raise ValueError(
                "A ranker learns from a teacher by its targets: pass the scores of the teacher as "
                f"`y`, with loss='margin_mse'. Received: loss={type(loss).__name__}"
            )
        super().__init__(name="distillation", reduction=loss.reduction)
        self.loss, self.temperature, self.alpha = loss, temperature, alpha

    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`."""
        loss = keras.saving.serialize_keras_object(self.loss)
        return {"loss": loss, "temperature": self.temperature, "alpha": self.alpha}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DistillationLoss:
        """Rebuild the loss."""
        values = dict(config)
        loss: Any = keras.saving.deserialize_keras_object(values.pop("loss"))
        return cls(loss, **values)

    def label_classes(self, shape: tuple[int | None, ...]) -> Any:
        """Return the number of classes of the labels.

        Args:
            shape: shape of the output, [..., 2]: logits of the student and of the teacher.
        """
        return label_classes(self.loss, shape[:-1])

    def call(self, y_true, y_pred):
        """Return the loss of each example, or token, in the shape that `loss` gives.

        Args:
            y_true: labels, as the loss of labels takes them.
            y_pred: float [..., 2], logits of the student and of the teacher.
        """
        student, teacher = (ops.cast(y_pred[..., side], "float32") for side in (0, 1))
        labels = self.loss.call(y_true, student)
        return (1.0 - self.alpha) * labels + self.alpha * self._soft(student, teacher)

    def _soft(self, student, teacher):
        """Return the distance of the student's outputs from the teacher's.

        Args:
            student: float32 [..., classes], outputs of the student; for `InBatchLoss`
                [batch, 2, size].
            teacher: the teacher's, in the same shape.

        Returns:
            float32 [...], one number for each example or token; for `InBatchLoss` [batch].
        """
        if isinstance(self.loss, _LINEAR):
            return ops.mean(ops.square(student - teacher), axis=-1)
        if isinstance(self.loss, InBatchLoss):
            student, teacher = self.loss.logits(student), self.loss.logits(teacher)
        t = self.temperature
        if isinstance(self.loss, _BINARY):
            chances = ops.sigmoid(teacher / t)
            cross_entropy = ops.binary_crossentropy(chances, student / t, from_logits=True)
            entropy = ops.binary_crossentropy(chances, teacher / t, from_logits=True)
            return t * t * ops.mean(cross_entropy - entropy, axis=-1)
        wanted, learned = ops.log_softmax(teacher / t), ops.log_softmax(student / t)
        losses = t * t * ops.sum(ops.exp(wanted) * (wanted - learned), axis=-1)
        return self.loss.of_a_text(losses) if isinstance(self.loss, TagLoss) else losses


def _view(task: Task, name: str, hidden: float) -> keras.Model:
    """Return a task as a model of its own name, with its encoder's last hidden states if needed.

    Student and teacher may have the same name, and Keras refuses two layers of one name.

    Args:
        task: student or teacher.
        name: "student" or "teacher".
        hidden: weight of the hidden states in the loss; above 0 adds the output `_STATE`,
            [batch, length, hidden_size].

    Raises:
        ValueError: `hidden` is above 0 and the task does not compute the last hidden states.
    """
    if not hidden:
        return keras.Model(task.input, task.output, name=name)
    try:
        return keras.Model(task.input, {**task.output, _STATE: _last_state(task)}, name=name)
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"`hidden` compares the last hidden states of student and teacher, and the {name} does "
            "not compute them: its head reads other layers, or its encoder belongs to another task "
            f"too. Pass hidden=0.0. Received: a {type(task).__name__} with the options "
            f"{task.options}"
        ) from error


def _last_state(task: Task) -> Any:
    """Return the last hidden states of all tokens, in the graph of the task.

    A task that reads [CLS] alone does not compute those of the other tokens. Then the last block is
    added to the graph once more, for all tokens.

    Returns:
        A symbolic tensor [batch, length, hidden_size].

    Raises:
        ValueError: the task reads other outputs of the encoder.
        AttributeError: the encoder was called in another task too.
    """
    encoder = task.encoder
    for view in task.layers:
        if view is encoder:
            return _within_the_task(task, encoder)[features.SEQUENCE_OUTPUT]
        if isinstance(view, EncoderView) and features.BEFORE_LAST in view.output:
            before_last = _within_the_task(task, view)[features.BEFORE_LAST]
            mask = task.input[features.PADDING_MASK]
            if len(mask.shape) > 2:  # [batch, choices, length]: the encoder has a row per choice
                mask = MergeChoices(name="mask_of_choices")(mask)
            return encoder.last_block(before_last, mask)
    raise ValueError(
        f"The head of {task.name} does not read the output of the encoder's last layer. Use a task "
        "with representation='last'."
    )


def _within_the_task(task: Task, model: keras.Model) -> dict[str, Any]:
    """Return the outputs by name of the call of `model` in the graph of the task.

    `model.output` is of no use here: it belongs to the graph in which the model was made.
    """
    # Keras has no public way from a graph to the calls in it.
    by_depth: Any = task._nodes_by_depth
    nodes = {id(node) for level in by_depth.values() for node in level}
    node = next(node for node in model._inbound_nodes if id(node) in nodes)
    return keras.tree.pack_sequence_as(model.output, node.outputs)


def _check(student: Task, teacher: Task, temperature: float, alpha: float, hidden: float) -> None:
    """Raise `ValueError` where the arguments of a `Distiller` do not fit each other."""
    if not temperature > 0 or not 0 <= alpha <= 1 or not hidden >= 0:
        raise ValueError(
            "`temperature` must be above 0, `alpha` from 0 to 1, `hidden` at least 0. "
            f"Received: {temperature=}, {alpha=}, {hidden=}"
        )
    if type(student) is not type(teacher) or _shapes(student) != _shapes(teacher):
        raise ValueError(
            "Student and teacher must be tasks of one class and one shape of outputs. Received: "
            f"a student {type(student).__name__} with {_shapes(student)}, "
            f"a teacher {type(teacher).__name__} with {_shapes(teacher)}. "
            "Make the student with the teacher's class and labels."
        )
    for name in ("labels", "problem", "crf", "loss"):
        options = [task.options.get(name) for task in (student, teacher)]
        if options[0] != options[1]:
            raise ValueError(
                f"Student and teacher differ in {name}. Make the student with the teacher's "
                f"{name}. Received: {options[0]!r} of the student, {options[1]!r} of the teacher"
            )
    if student.options.get("crf"):
        raise ValueError(
            "A conditional random field has no probabilities of single tags to compare. Make "
            "student and teacher with crf=False. Received: crf=True"
        )
    configs = [task.encoder.config for task in (student, teacher)]
    # A table may be padded. Equal tokenizers, which fit both tables, show that it is.
    is_same = student.tokenizer is not None and student.tokenizer == teacher.tokenizer
    if configs[0].vocab_size != configs[1].vocab_size and not is_same:
        raise ValueError(
            "Student and teacher must read the same vocabulary. Give both the same tokenizer, or "
            "make the student with the teacher's vocab_size. Received: "
            f"vocab_size={configs[0].vocab_size} of the student, {configs[1].vocab_size} of the "
            "teacher"
        )
    if hidden and configs[0].hidden_size != configs[1].hidden_size:
        raise ValueError(
            "`hidden` compares hidden states of one width. Pass hidden=0.0, or make the student "
            f"with the teacher's hidden_size. Received: hidden_size={configs[0].hidden_size} of "
            f"the student, {configs[1].hidden_size} of the teacher"
        )


def _shapes(task: Task) -> dict[str, tuple[int | None, ...]]:
    """Return the shape of each output of a task, by name."""
    return {name: tuple(tensor.shape) for name, tensor in task.output.items()}
