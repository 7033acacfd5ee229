"""A learned mixture of layers."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class ScalarMix(SerializableLayer):
    """A weighted sum of some layers' outputs (ELMo; Peters et al., 2018, equation 1).

    The weights are a softmax of scores, equal at first, times a scale, 1 at first.
    """

    def build(self, states_shape):
        self.scores = self.add_weight((len(states_shape),), "zeros", name="scores")
        self.scale = self.add_weight((1,), "ones", name="scale")
        self.built = True

    def call(self, states):
        """A list of [batch, length, hidden_size] -> one of that shape."""
        weights = ops.softmax(ops.cast(self.scores, "float32")) * ops.cast(self.scale, "float32")
        mixed = sum(weights[i] * ops.cast(state, "float32") for i, state in enumerate(states))
        return ops.cast(mixed, self.compute_dtype)

    def compute_output_spec(self, states):
        return keras.KerasTensor(states[0].shape, dtype=self.compute_dtype)
