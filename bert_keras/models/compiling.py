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
from bert_keras.models.text_columns import weights_by_name
from bert_keras.optimization import WarmupDecay, optimizer
from bert_keras.task_names import FINETUNING

# Outputs that are logits wherever they are; "label" also may be numbers, "tags" potentials.
_LOGITS = frozenset(
    {
        *(features.LABEL, features.TAGS, features.CHOICE, features.START, features.END),
        *(features.MLM, features.NSP, features.SOP, features.RTD),
    }
)
# Losses of Keras that take probabilities unless they are told `from_logits=True`.
_OF_PROBABILITIES = frozenset(
    {
        *("binary_crossentropy", "bce", "categorical_crossentropy"),
        *("sparse_categorical_crossentropy", "binary_focal_crossentropy"),
        *("categorical_focal_crossentropy", "kl_divergence", "kld"),
        *("dice", "tversky"),
    }
)
# Those of them that have no `from_logits`: logits are never right for them.
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
        """Names of outputs that other models have as logits, and this one has not."""
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

    Such a loss clips logits to [0, 1]. The model then learns nothing, without a word: its loss
    stays near that of chance.

    Args:
        loss: as for `compile`: a name, function or object of Keras, a dictionary or list of
            them.
        outputs: names of the model's outputs, in order.
        not_logits: outputs of this model that are no logits.

    Raises:
        ValueError: such a loss; names the output and the loss.
    """
    if isinstance(loss, Mapping):
        named = loss.items()
    elif isinstance(loss, list | tuple):
        named = zip(outputs, loss, strict=False)
    else:
        named = [(name, loss) for name in outputs]
    for name, each in named:
        if name in _LOGITS and name not in not_logits and _takes_probabilities(each):
            raise ValueError(
                f"The output {name!r} is logits, and the loss {_name(each)} expects probabilities: "
                "the model would learn nothing. Pass `**task.loss_and_metrics()` to `compile`, or "
                "a loss with from_logits=True. "
                f"Received: loss={loss!r:.200}"
            )


def _takes_probabilities(loss: Any) -> bool:
    if isinstance(loss, list | tuple):
        return any(_takes_probabilities(each) for each in loss)
    if isinstance(loss, functools.partial):
        return not loss.keywords.get("from_logits") and _takes_probabilities(loss.func)
    if isinstance(loss, str):
        is_class = any(loss == each.__name__ for each in _NEVER_OF_LOGITS)
        return is_class or _snake_case(loss) in _OF_PROBABILITIES
    if isinstance(loss, keras.losses.Loss):
        if type(loss).__module__.partition(".")[0] != "keras":
            return False
        told = getattr(loss, "from_logits", None)
        return told is False or isinstance(loss, _NEVER_OF_LOGITS)
    module = getattr(loss, "__module__", None) or ""
    name = getattr(loss, "__name__", "")
    return module.partition(".")[0] == "keras" and name in _OF_PROBABILITIES


def _snake_case(name: str) -> str:
    """Return a name of Keras's in its other form: "BinaryCrossentropy" is "binary_crossentropy"."""
    if not any(letter.isupper() for letter in name):
        return name
    if name in ("KLDivergence", "KLD"):
        return "kl_divergence"
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.lstrip("_")


def _name(loss: Any) -> str:
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)


# === Class weights ===


def with_class_weights(
    x: Any, y: Any, sample_weight: Any, class_weight: Mapping[Any, float], labels: Sequence[str]
) -> tuple[Any, Any]:
    """Return data of `fit` whose sample weights are those of the classes as well.

    Args:
        x: arrays, a `tf.data.Dataset`, `PyDataset`, PyTorch `DataLoader` or generator of (x, y) or
            (x, y, sample_weight).
        y: labels of arrays: class indices, or {"label": class indices}.
        sample_weight: weights of arrays, in the form of `y`; None for 1.
        class_weight: weight of each class, by name or index; 1 for the others.
        labels: names of the classes.

    Returns:
        `x` and `sample_weight` for `fit`.

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
    return np.asarray(values, np.float32)


class _LoaderWeights:
    """The weights of a PyTorch batch; workers of a `DataLoader` copy it."""

    def __init__(self, table: np.ndarray):
        self._table = table

    def __call__(self, batch: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return a batch with the weights of its classes."""
        import torch

        table = torch.from_numpy(self._table)
        weights = _Weights(
            lambda indices: table[torch.as_tensor(indices).long()],
            lambda values: torch.as_tensor(values, dtype=torch.float32),
        )
        return weights.batch(batch)


class _Weights(NamedTuple):
    """Sample weights of batches, by the functions of a library."""

    gather: Callable[[Any], Any]  # weights of class indices
    cast: Callable[[Any], Any]  # to float32

    def batch(self, batch: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return a batch with the weights of its classes."""
        x, y, *rest = batch
        return x, y, self.of(y, rest[0] if rest else None)

    def of(self, y: Any, sample_weight: Any) -> Any:
        """Return the sample weights of labels, in the form of the labels."""
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
        given = sample_weight.get(features.LABEL) if is_named else sample_weight
        product = self.gather(indices)
        if given is not None:
            product = product * self.cast(given)
        if not isinstance(y, Mapping):
            return product
        return {**(sample_weight if is_named else {}), features.LABEL: product}


def _are_indices(values: Any) -> bool:
    shape = values.shape
    dtype = getattr(values.dtype, "name", values.dtype)
    return "int" in str(dtype) and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1))


# === Compiling ===


# Name of the optimizer that `fit` makes: a saved model keeps it, so that the next `fit` makes a new
# one, with a new schedule.
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
        steps: batches of an epoch; None where they are not known.
        epochs: of this `fit`.
        callbacks: of this `fit`; one of them may set the learning rate.
        verbose: of this `fit`; 0 prints nothing.
        learning_rate: highest rate; None for the default of the task and its encoder.

    Raises:
        ValueError: a rate for a task that the caller compiled.
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
    setters = [each for each in _listed(callbacks) if isinstance(each, _SETS_THE_RATE)]
    if setters:
        rule = optimizer(rate, **common)
        told = f"a constant rate of {rate:g} until {type(setters[0]).__name__} sets another"
    elif steps is None:
        rule = optimizer(
            rate,
            total_steps=_WARMUP_STEPS,
            warmup_steps=_WARMUP_STEPS,
            schedule="constant",
            **common,
        )
        told = (
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
        told = f"a rate of {rate:g} with warm-up and {values.schedule} decay over {total:,} steps"
    rule.name = _OWN_OPTIMIZER
    task.compile(rule, **task.loss_and_metrics())
    if verbose != 0:
        escaping.print_line(f"{type(task).__name__}: compiled with AdamW, {told}.")


def _warn_of_an_ended_schedule(rule: Any) -> None:
    """Warn where every step of a `fit` would have the rate 0."""
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
    """Return the batches of an epoch of features; None where they are not known."""
    leaves = [each for each in keras.tree.flatten(x) if getattr(each, "shape", None)]
    if isinstance(x, Mapping | np.ndarray) and leaves:
        count = int(leaves[0].shape[0] * (1 - validation_split))
        return -(-count // (batch_size or 32))
    try:
        return len(x)
    except TypeError:
        return None


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    inner = getattr(callbacks, "callbacks", callbacks)
    return list(inner) if isinstance(inner, list | tuple) else [inner]
