"""Base of all models that are fitted: variables that no output depends on do not train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.models.direct import DirectModel


class WithoutUnread(DirectModel):
    """A model that trains all but its `unused_variables`.

    They would have no gradient: Keras warns of each, and on JAX, where it is zero, they would
    decay. `trainable` of a variable stays as it is, for another model may share and read it.
    """

    def make_train_function(self, force: bool = False):
        """Keras: compiles a step."""
        _build_optimizer(self)
        return super().make_train_function(force)

    @property
    def unused_variables(self) -> Sequence[Any]:
        """Variables that no output depends on."""
        return ()

    @property
    def trainable_variables(self) -> list[Any]:
        """Keras: all trainable state."""
        return _others(super().trainable_variables, self.unused_variables)

    @property
    def non_trainable_variables(self) -> list[Any]:
        """Keras: all other state."""
        return _others(self.variables, self.trainable_variables)

    @property
    def trainable_weights(self) -> list[Any]:
        """Keras: all trainable weights."""
        return _others(super().trainable_weights, self.unused_variables)

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Keras: all other weights."""
        return _others(self.weights, self.trainable_weights)


def _build_optimizer(model: keras.Model) -> None:
    """Makes the variables of a model's optimizer.

    TensorFlow traces a step twice that makes variables: half of the time before the first batch.
    """
    optimizer = model.optimizer
    if keras.backend.backend() == "tensorflow" and optimizer is not None and not optimizer.built:
        with model.distribute_strategy.scope():  # pyright: ignore
            optimizer.build(model.trainable_variables)


def _others(variables: Sequence[Any], left_out: Sequence[Any]) -> list[Any]:
    numbers = {id(variable) for variable in left_out}  # variables are compared by value
    return [variable for variable in variables if id(variable) not in numbers]
