"""Layer normalisation by the backend's quickest kernel (Ba et al., 2016)."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers import kernels


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """Keras's layer of the last axis, of which a model in training keeps less and waits less."""

    def call(self, inputs, training=None):
        """[..., width] -> [..., width]."""
        outputs = kernels.layer_norm(inputs, self.gamma, self.beta, self.epsilon, bool(training))
        return ops.cast(outputs, self.compute_dtype)
