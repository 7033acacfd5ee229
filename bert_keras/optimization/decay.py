"""Decay of weights when their gradient is known."""

from __future__ import annotations

from typing import Any

import keras


class DecayInStep:
    """A part of an optimizer: on TensorFlow each weight decays in its own step.

    Keras decays all weights first. TensorFlow runs what waits for nothing as soon as it can, and
    copies a variable that is written while its old value is still read: so every step held all
    weights twice. The numbers are the same: the rate of the step is that of the decay.
    """

    # Keras's names.
    weight_decay: float | None
    _use_weight_decay: Any

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Keras: updates one variable."""
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            gradient = tf.convert_to_tensor(gradient)
            if self.weight_decay is not None and self._use_weight_decay(variable):
                with tf.control_dependencies([gradient]):
                    share = tf.cast(self.weight_decay * learning_rate, variable.dtype)
                    variable.assign_sub(variable * share)
        super().update_step(gradient, variable, learning_rate)  # pyright: ignore

    def _apply_weight_decay(self, variables: Any) -> None:
        """Keras: all of them before the step; on PyTorch it fails where no weight decays."""
        is_before = keras.backend.backend() != "tensorflow"
        if is_before and any(self._use_weight_decay(variable) for variable in variables):
            super()._apply_weight_decay(variables)  # pyright: ignore
