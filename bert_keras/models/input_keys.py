"""The keys of a batch, matched with the names of a model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_keras import features

_OF_PACKED_ROWS = (features.EXAMPLE_IDS, features.POSITION_IDS, features.FIRST_POSITIONS)
_LAST_AXES = {features.MASK_POSITIONS: "predictions", features.FIRST_POSITIONS: "examples"}


class InputKeys:
    """The inputs of one model.

    Keras flattens a dictionary in the order of its sorted keys and pairs the values with the
    inputs by place. One key more would shift all later inputs, so other keys must not reach Keras.

    Args:
        ranks: number of axes of each input by name.
        model: the model's name, for messages.
    """

    def __init__(self, ranks: Mapping[str, int], model: str):
        self._ranks, self._model = dict(ranks), model

    def select(self, batch: Any) -> dict[str, Any]:
        """Return the inputs of the model from a batch, under the model's names.

        Args:
            batch: arrays, tensors or symbolic tensors by key: our names or those of
                `features.INPUT_ALIASES`. Keys of `features.IGNORED_KEYS` are dropped.

        Raises:
            ValueError: the batch is not a dictionary; an input is missing, has two names or another
                rank than expected; or a key is neither an input nor known to be irrelevant.
        """
        if not isinstance(batch, Mapping):
            hint = (
                "Text goes into `fit`, `evaluate` and `predict` of a task as a list or a column, "
                "or in a tf.data.Dataset; a generator must yield batches of features. "
            )
            raise ValueError(
                f"Model {self._model!r} takes a dictionary with the keys {_listed(self._ranks)}. "
                f"{hint * isinstance(batch, str)}Received: {_described(batch)}"
            )
        selected = batch if batch.keys() == self._ranks.keys() else self._renamed(batch)
        for name, rank in self._ranks.items():
            value = selected.get(name)
            shape = getattr(value, "shape", None)
            if shape is None or not _has_rank(shape, rank):
                raise ValueError(self._explain(name, value, batch))
        return dict(selected)

    def find(self, batch: Any) -> dict[str, Any]:
        """Return the inputs that a batch of another model has, under this model's names."""
        if not isinstance(batch, Mapping):
            return {}
        names = {key: features.INPUT_ALIASES.get(key, key) for key in batch}
        return {name: batch[key] for key, name in names.items() if name in self._ranks}

    def _renamed(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that the model takes, by the model's names."""
        key_of: dict[str, str] = {}
        unknown = []
        for key, value in batch.items():
            name = key if key in self._ranks else features.INPUT_ALIASES.get(key, key)
            if name in self._ranks:
                if value is None:
                    continue
                if name in key_of:
                    raise ValueError(
                        f"Model {self._model!r} received its input {name!r} twice, under the keys "
                        f"{key_of[name]!r} and {key!r}. Remove one of them."
                    )
                key_of[name] = key
            elif name not in features.IGNORED_KEYS:
                unknown.append(key)
        if unknown:
            is_packed = any(key in _OF_PACKED_ROWS for key in unknown)
            hint = "For rows of several examples use its `packed()` view. " if is_packed else ""
            raise ValueError(
                f"Model {self._model!r} has no input {_listed(unknown)}. {hint}Remove the key. "
                f"The inputs are {_listed(self._ranks)}; other libraries' names of them, and "
                "labels, are also accepted."
            )
        return {name: batch[key_of[name]] for name in self._ranks if name in key_of}

    def _explain(self, name: str, value: Any, batch: Mapping[str, Any]) -> str:
        """Return the message for a value that is missing or has another rank."""
        if value is None:
            aliases = [key for key, ours in features.INPUT_ALIASES.items() if ours == name]
            also = f" (other libraries' names: {_listed(aliases)})" if aliases else ""
            return (
                f"The input {name!r} of model {self._model!r} is missing{also}. "
                f"Received the keys: {_listed(batch)}"
            )
        last = _LAST_AXES.get(name, "length")
        axes = f"batch, {last}" if self._ranks[name] == 2 else f"batch, texts, {last}"
        return (
            f"The input {name!r} of model {self._model!r} must be an array or tensor of the shape "
            f"[{axes}]. Received: {_described(value)}"
        )


def _has_rank(shape: Any, rank: int) -> bool:
    if getattr(shape, "rank", 0) is None:
        return True  # a TensorFlow tensor of unknown rank: Keras sees to it
    # Keras removes a last axis of one element.
    return len(shape) == rank or (len(shape) == rank + 1 and shape[-1] == 1)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    return f"a {kind} of shape {tuple(shape)}" if shape is not None else f"a {kind}"
