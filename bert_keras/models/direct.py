"""Functional models that run without Keras's preparations of every layer."""

from __future__ import annotations

import functools
from typing import Any

import keras

from bert_keras.layers.inner import inner
from bert_keras.layers.sharing import Sharing

# PyTorch is asked anew each time; the other backends compile what they predict.
_IS_EAGER = keras.backend.backend() == "torch"
# Keras's own business: where it no longer has them, all is as it has it.
_RUN, _STANDARDIZE = "_run_through_graph", "_standardize_inputs"


class DirectModel(Sharing, keras.Model):
    """A functional model, on PyTorch quicker at inference, most of all with one text.

    Layers of the model's own policy are called as its parts are (`layers.inner`): their inputs come
    from each other. Keras prepares the model itself, and layers of another policy.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any):
        """Keras: the outputs for inputs."""
        run, standardize = (getattr(self, name, None) for name in (_RUN, _STANDARDIZE))
        is_masked = mask is not None and any(each is not None for each in keras.tree.flatten(mask))
        if not _IS_EAGER or training or is_masked or run is None or standardize is None:
            return super().call(inputs, training, mask, **kwargs)
        return run(standardize(inputs), operation_fn=self._step)

    def _step(self, operation: Any) -> Any:
        is_layer = isinstance(operation, keras.layers.Layer)
        if is_layer and operation.dtype_policy == self.dtype_policy:
            return functools.partial(inner, operation)
        return operation
