"""Losses that expect probabilities are refused on logits."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import keras

from bert_keras import features

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
        super().compile(optimizer, loss, *args, **kwargs)  # pyright: ignore

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Keras: compile a model as it was saved, without the check of its loss."""
        values: Any = keras.saving.deserialize_keras_object(config)
        super().compile(**values)  # pyright: ignore
        if self.built and self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Keras: one update; a loss that expects probabilities is refused."""
        self.check_loss()
        return super().train_on_batch(*args, **kwargs)  # pyright: ignore

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
