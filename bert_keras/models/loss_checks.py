"""Losses that expect probabilities are refused on logits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    }
)


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
                "the model would learn nothing. Pass `**task.objective()` to `compile`, or a loss "
                "with from_logits=True. "
                f"Received: loss={loss!r:.200}"
            )


def _takes_probabilities(loss: Any) -> bool:
    if isinstance(loss, str):
        return _snake_case(loss) in _OF_PROBABILITIES
    if isinstance(loss, keras.losses.Loss):
        if type(loss).__module__.partition(".")[0] != "keras":
            return False
        told = getattr(loss, "from_logits", None)
        return told is False or isinstance(loss, keras.losses.KLDivergence)
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
