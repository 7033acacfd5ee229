"""Compiling of a task by its first `fit`: loss, class weights, optimizer."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import GeneratorType
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_keras import escaping, features
from bert_keras.models.input_data import MappedDataset, is_a, mapped_loader
from bert_keras.models.text_targets import weights_by_name
from bert_keras.optimization import WarmupDecay, optimizer
from bert_keras.task_names import FINETUNING

# Outputs that are logits, except in models that name them in `not_logits`: "label" of a regression
# is a number, and "tags" with a conditional random field are potentials.
_LOGITS = frozenset(
    {
        *(features.LABEL, features.TAGS, features.CHOICE, features.START, features.END),
        *(features.MLM, features.NSP, features.SOP, features.RTD),
    }
)
# Losses of Keras that take probabilities unless they have `from_logits=True`.
_OF_PROBABILITIES = frozenset(
    {
        *("binary_crossentropy", "bce", "categorical_crossentropy"),
        *("sparse_categorical_crossentropy", "binary_focal_crossentropy"),
        *("categorical_focal_crossentropy", "kl_divergence", "kld"),
        *("dice", "tversky"),
    }
)
# Losses of probabilities that have no `from_logits`, so that none of them can take logits.
_NEVER_OF_LOGITS = (
    keras.losses.KLDivergence,
    keras.losses.CategoricalGeneralizedCrossEntropy,
    keras.losses.Dice,
    keras.losses.Tversky,
)


class ChecksLosses:
    """Mixin of models of logits: `compile` refuses a loss that expects probabilities.

    A saved model with such a loss can still be opened, to predict. Its training is refused.
    """

    # Keras's names.
    built: bool
    loss: Any
    optimizer: Any
    output: Any
    trainable_variables: list[Any]

    @property
    def not_logits(self) -> Sequence[str]:
        """Names of outputs in `_LOGITS` that are no logits in this model."""
        return ()

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, *args: Any, **kwargs: Any):
        """Keras: set optimizer, loss and metrics; a loss that expects probabilities is refused."""
        check_losses(loss, list(self.output), self.not_logits)
        super().compile(optimizer, loss, *args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Keras: compile a model as it was saved, without the check of its loss."""
        values: Any = keras.saving.deserialize_keras_object(config)
        super().compile(**values)  # pyright: ignore[reportAttributeAccessIssue]
        if self.built and self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Keras: one update; a loss that expects probabilities is refused."""
        self.check_loss()
        return super().train_on_batch(*args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]

    def check_loss(self) -> None:
        """Raise `ValueError` where the compiled loss expects probabilities."""
        check_losses(self.loss, list(self.output), self.not_logits)


def check_losses(loss: Any, outputs: Collection[str], not_logits: Collection[str] = ()) -> None:
    """Refuse a loss that expects probabilities for an output that is logits.

    Such a loss clips logits to [0, 1]. The model then learns nothing and prints no error: its loss
    stays near that of chance.

    Args:
        loss: as for `compile`: a name, function or object of Keras, a dictionary or list of these.
        outputs: names of the model's outputs, in order.
        not_logits: outputs of this model that are no logits.

    Raises:
        ValueError: the loss expects probabilities; the message names the output and the loss.
    """
    if isinstance(loss, Mapping):
        named = loss.items()
    elif isinstance(loss, list | tuple):
        named = zip(outputs, loss, strict=False)
    else:
        named = [(name, loss) for name in outputs]
    for name, output_loss in named:
        if name in _LOGITS and name not in not_logits and _takes_probabilities(output_loss):
            raise ValueError(
                f"The output {name!r} is logits, and the loss {_name(output_loss)} expects "
                "probabilities: the model would learn nothing. Pass `**task.loss_and_metrics()` to "
                f"`compile`, or a loss with from_logits=True. Received: loss={loss!r:.200}"
            )


def _takes_probabilities(loss: Any) -> bool:
    """Return True for a loss of Keras that expects probabilities; False for those of others.

    The loss may be a name, a function, a `functools.partial`, an object, or a list of these.
    """
    if isinstance(loss, list | tuple):
        return any(_takes_probabilities(element) for element in loss)
    if isinstance(loss, functools.partial):
        return not loss.keywords.get("from_logits") and _takes_probabilities(loss.func)
    if isinstance(loss, str):
        is_class = any(loss == loss_class.__name__ for loss_class in _NEVER_OF_LOGITS)
        return is_class or _snake_case(loss) in _OF_PROBABILITIES
    if isinstance(loss, keras.losses.Loss):
        if type(loss).__module__.partition(".")[0] != "keras":
            return False
        from_logits = getattr(loss, "from_logits", None)
        return from_logits is False or isinstance(loss, _NEVER_OF_LOGITS)
    module = getattr(loss, "__module__", None) or ""
    name = getattr(loss, "__name__", "")
    return module.partition(".")[0] == "keras" and name in _OF_PROBABILITIES


def _snake_case(name: str) -> str:
    """Return a loss's function name: "BinaryCrossentropy" gives "binary_crossentropy"."""
    if not any(letter.isupper() for letter in name):
        return name
    if name in ("KLDivergence", "KLD"):
        return "kl_divergence"
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.lstrip("_")


def _name(loss: Any) -> str:
    """Return the name of a loss for a message."""
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)


# === Class weights ===


def with_class_weights(
    x: Any, y: Any, sample_weight: Any, class_weight: Mapping[Any, float], labels: Sequence[str]
) -> tuple[Any, Any]:
    """Return the data of `fit` with class weights multiplied into the sample weights.

    Keras's own `class_weight` takes a single array of labels alone, and not {"label": array}.

    Args:
        x: arrays, a `tf.data.Dataset`, `PyDataset`, PyTorch `DataLoader` or generator of (x, y) or
            (x, y, sample_weight).
        y: labels of arrays: class indices, int [examples] or [examples, 1], or {"label": indices}.
        sample_weight: weights of arrays, float [examples], in the form of `y`; None for 1 each.
        class_weight: weight of each class, by name or index; 1 for the others.
        labels: names of the classes.

    Returns:
        `x` and `sample_weight` for `fit`. Where `x` yields batches, `sample_weight` is None and the
        batches are (x, y, sample_weight).

    Raises:
        ValueError: an unknown class, labels that are no indices, or another kind of data.
    """
    indices = {index: index for index in range(len(labels))}
    by_name = weights_by_name(class_weight, labels, indices) or {}
    table = np.array([by_name.get(name, 1.0) for name in labels], np.float32)
    arrays = _Weights(lambda indices: table[np.asarray(indices)], _as_array)
    if y is not None:
        return x, arrays.of(y, sample_weight)
    if isinstance(x, keras.utils.PyDataset):
        return MappedDataset(x, arrays.batch), None
    if isinstance(x, GeneratorType):
        return (arrays.batch(batch) for batch in x), None
    if is_a("torch.utils.data", "DataLoader", x):
        return mapped_loader(x, _LoaderWeights(table)), None
    if is_a("tensorflow", "data.Dataset", x):
        import tensorflow

        tensors = _Weights(
            lambda indices: tensorflow.gather(table, indices),
            lambda values: tensorflow.cast(values, "float32"),
        )
        return x.map(lambda *batch: tensors.batch(batch)), None
    raise ValueError(
        "`class_weight` needs `x` as arrays with `y`, or as a tf.data.Dataset, PyDataset, "
        "DataLoader or generator of batches. For other data leave it out, and yield sample "
        f"weights: (x, y, sample_weight). Received: x of {type(x).__name__}"
    )


def _as_array(values: Any) -> np.ndarray:
    """Return values as a float32 array of the same shape."""
    return np.asarray(values, np.float32)


class _LoaderWeights:
    """Adds sample weights to the batches of a `DataLoader`, by the class weights [classes].

    It is a class, and not a closure, because worker processes pickle it.
    """

    def __init__(self, table: np.ndarray):
        self._table = table

    def __call__(self, batch: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return (x, y, sample_weight) for a batch (x, y) or (x, y, sample_weight)."""
        import torch

        table = torch.from_numpy(self._table)
        weights = _Weights(
            lambda indices: table[torch.as_tensor(indices).long()],
            lambda values: torch.as_tensor(values, dtype=torch.float32),
        )
        return weights.batch(batch)


class _Weights(NamedTuple):
    """Class weights as sample weights, by the functions of NumPy, PyTorch or TensorFlow."""

    gather: Callable[[Any], Any]  # class indices, int [batch], to class weights, float32 [batch]
    cast: Callable[[Any], Any]  # any array or tensor of the library, to float32

    def batch(self, batch: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return (x, y, sample_weight) for a batch (x, y) or (x, y, sample_weight)."""
        x, y, *rest = batch
        return x, y, self.of(y, rest[0] if rest else None)

    def of(self, y: Any, sample_weight: Any) -> Any:
        """Return sample weights, float [batch], multiplied by the class weights of the labels.

        Labels are int [batch] or [batch, 1]. Where `y` is {"label": labels}, the result is
        {"label": weights}.
        """
        indices = y.get(features.LABEL) if isinstance(y, Mapping) else y
        if isinstance(indices, list | tuple):
            indices = np.asarray(indices)
        if indices is None or not _are_indices(indices):
            described = "no labels"
            if indices is not None:
                described = f"labels of the shape {indices.shape} and dtype {indices.dtype}"
            raise ValueError(
                "`class_weight` needs labels that are class indices, int [batch] or [batch, 1]. "
                f"For other labels pass `sample_weight` instead. Received: {described}"
            )
        if len(indices.shape) == 2:
            indices = indices[:, 0]
        is_named = isinstance(sample_weight, Mapping)
        own_weights = sample_weight.get(features.LABEL) if is_named else sample_weight
        weights = self.gather(indices)
        if own_weights is not None:
            weights = weights * self.cast(own_weights)
        if not isinstance(y, Mapping):
            return weights
        return {**(sample_weight if is_named else {}), features.LABEL: weights}


def _are_indices(values: Any) -> bool:
    """Return whether an array or tensor has integers and the shape [batch] or [batch, 1]."""
    shape = values.shape
    dtype = getattr(values.dtype, "name", values.dtype)
    return "int" in str(dtype) and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1))


# === Compiling ===


# Name of the optimizer that `fit` makes. A saved model keeps the name, so that the next `fit`
# recognises the optimizer and makes a new one, with a new schedule.
_OWN_OPTIMIZER = "adamw_of_fit"
_WARMUP_STEPS = 100  # where the number of steps is unknown
_SETS_THE_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


def compile_for(
    task: Any,
    steps: int | None,
    epochs: int,
    callbacks: Any,
    verbose: Any,
    learning_rate: float | None = None,
) -> None:
    """Compile a task that the caller did not compile, for one `fit`.

    A task that an earlier `fit` compiled gets a new optimizer, and so a new schedule.

    Args:
        task: a task.
        steps: number of batches in an epoch; None where it is not known.
        epochs: number of epochs of this `fit`.
        callbacks: those of this `fit`; one of them may set the learning rate.
        verbose: `verbose` of this `fit`; 0 prints nothing.
        learning_rate: highest rate; None for the default of the task and its encoder.

    Raises:
        ValueError: `learning_rate` for a task that the caller compiled.
    """
    is_own = task.compiled and task.optimizer.name == _OWN_OPTIMIZER
    if task.compiled and not is_own:
        if learning_rate is not None:
            raise ValueError(
                "The task is compiled with an optimizer of your own, which has its learning rate. "
                "Set the rate in the optimizer, or leave `compile` out. "
                f"Received: learning_rate={learning_rate}"
            )
        _warn_of_an_ended_schedule(task.optimizer)
        return
    values = FINETUNING
    rate = learning_rate
    if rate is None:
        width = task.encoder.config.hidden_size
        rate = values.learning_rate_of(task.task_name, width)
    common: dict[str, Any] = {"weight_decay": values.weight_decay, "clip_norm": values.clip_norm}
    setters = [callback for callback in _listed(callbacks) if isinstance(callback, _SETS_THE_RATE)]
    if setters:
        rule = optimizer(rate, **common)
        summary = f"a constant rate of {rate:g} until {type(setters[0]).__name__} sets another"
    elif steps is None:
        rule = optimizer(
            rate,
            total_steps=_WARMUP_STEPS,
            warmup_steps=_WARMUP_STEPS,
            schedule="constant",
            **common,
        )
        summary = (
            f"a rate of {rate:g} after {_WARMUP_STEPS} steps of warm-up, then "
            "constant, because the number of steps is not known"
        )
    else:
        total = max(1, steps * epochs)
        rule = optimizer(
            rate,
            total_steps=total,
            warmup_steps=round(values.warmup * total),
            schedule=values.schedule,
            **common,
        )
        decay = f"{values.schedule} decay over {total:,} steps"
        summary = f"a rate of {rate:g} with warm-up and {decay}"
    rule.name = _OWN_OPTIMIZER
    task.compile(rule, **task.loss_and_metrics())
    if verbose != 0:
        escaping.print_line(f"{type(task).__name__}: compiled with AdamW, {summary}.")


def _warn_of_an_ended_schedule(rule: Any) -> None:
    """Warn where the schedule of an optimizer has come to the rate 0, so that no step learns.

    Only an optimizer with a `WarmupDecay` is looked at.
    """
    schedule = getattr(rule, "_learning_rate", None)
    is_checked = isinstance(schedule, WarmupDecay) and schedule.learning_rate > 0
    updates = int(rule.iterations) if is_checked else 0
    if updates and not float(rule.learning_rate):
        warnings.warn(
            f"The learning rate is 0 after {updates:,} updates: the schedule of the compiled "
            "optimizer has ended, and this `fit` changes no weight. Call `compile` with a new "
            "optimizer.",
            stacklevel=4,
        )


def steps_of(x: Any, batch_size: int | None, validation_split: float) -> int | None:
    """Return the number of batches in an epoch of features; None where it is not known.

    Args:
        x: a dictionary of arrays, an array, or a source of batches with or without a length.
        batch_size: examples of a batch of arrays; None for Keras's 32.
        validation_split: share of arrays that `fit` does not train on.
    """
    leaves = [leaf for leaf in keras.tree.flatten(x) if getattr(leaf, "shape", None)]
    if isinstance(x, Mapping | np.ndarray) and leaves:
        count = int(leaves[0].shape[0] * (1 - validation_split))
        return -(-count // (batch_size or 32))
    try:
        return len(x)
    except TypeError:
        return None


def _listed(callbacks: Any) -> list[Any]:
    """Return a list of the callbacks in one callback, a list, or a `CallbackList`."""
    if callbacks is None:
        return []
    members = getattr(callbacks, "callbacks", callbacks)
    return list(members) if isinstance(members, list | tuple) else [members]
