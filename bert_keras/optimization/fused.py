"""Adam's step in one pass over the weights, where the backend has a kernel for it.

On a CPU, Keras's own step reads and writes the weights about ten times (measured in
docs/decisions.md), which for short rows costs as much as the model itself.
"""

from __future__ import annotations

from typing import Any

import keras


class FusedAdam:
    """A part of an optimizer with Adam's moments: TensorFlow's and PyTorch's kernels of its step.

    The formula is Keras's (Kingma & Ba, 2015, end of §2, with epsilon hat), the rounding is the
    kernel's. JAX's compiler fuses the step by itself. On PyTorch it is for a CPU alone: on a GPU
    the kernel's plain numbers would make the host wait at each step.
    """

    # Adam's, Keras's names.
    _momentums: list[Any]
    _velocities: list[Any]
    _powers: Any = None

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any):
        update: Any = super()._backend_update_step  # pyright: ignore
        backend = keras.backend.backend()
        if backend == "torch" and self._is_for_torch(trainable_variables):
            self._torch_step(grads, trainable_variables, learning_rate)
            return
        if backend == "tensorflow":
            self._powers = self._bias_powers()
        try:
            update(grads, trainable_variables, learning_rate)
        finally:
            self._powers = None

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Keras: updates one variable."""
        if self._powers is None or self.amsgrad or variable.dtype != "float32":
            super().update_step(gradient, variable, learning_rate)  # pyright: ignore
            return
        import tensorflow as tf

        index = self._get_variable_index(variable)
        power_1, power_2 = self._powers
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), tf.float32),
        )

    def _bias_powers(self) -> tuple[Any, Any]:
        """Of beta 1 and 2, by which the moments fall short."""
        updates = keras.ops.cast(self.iterations + 1, "float32")
        return keras.ops.power(self.beta_1, updates), keras.ops.power(self.beta_2, updates)

    def _is_for_torch(self, variables: Any) -> bool:
        """Whether the kernel takes these: it walks through memory, wherever strides may lead."""
        import torch

        values = [variable.value for variable in variables]
        return not (self.amsgrad or torch.compiler.is_compiling()) and all(
            value.device.type == "cpu" and value.dtype == torch.float32 and value.is_contiguous()
            for value in values
        )

    def _torch_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        import torch

        places = [self._get_variable_index(variable) for variable in variables]
        updates = int(self.iterations) + 1
        with torch.no_grad():
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                [variable.value for variable in variables],
                [grad.contiguous() for grad in grads],
                [self._momentums[place].value for place in places],
                [self._velocities[place].value for place in places],
                [],
                [torch.tensor(float(updates))] * len(places),
                lr=float(learning_rate),
                beta1=self.beta_1,
                beta2=self.beta_2,
                weight_decay=0.0,  # Keras has seen to it
                # PyTorch adds its epsilon to the corrected moment.
                eps=self.epsilon / (1 - self.beta_2**updates) ** 0.5,
                amsgrad=False,
                maximize=False,
            )

    def _clip_gradients(self, grads: Any) -> Any:
        """Keras: gradients within the bound of their norm, in fewer passes over them."""
        backend = keras.backend.backend()
        if backend == "jax" or self.clipnorm or not self.global_clipnorm:
            return super()._clip_gradients(grads)  # pyright: ignore
        clipped = _clipped_by_torch if backend == "torch" else _clipped_by_tensorflow
        return clipped(grads, self.global_clipnorm)


def _clipped_by_torch(grads: Any, most: float) -> Any:
    """Scaled in place."""
    import torch

    with torch.no_grad():
        norm = torch.nn.utils.get_total_norm(grads)
        scale = (most / norm).clamp(max=1.0)
        # As Keras has it, no gradient is finite where the norm is not.
        scale = torch.where(norm.isfinite(), scale, torch.nan)
        torch._foreach_mul_(grads, scale)  # pyright: ignore[reportPrivateImportUsage]
    return grads


def _clipped_by_tensorflow(grads: Any, most: float) -> Any:
    """Of tables, whose rows are mostly not read, the rows that are."""
    import tensorflow as tf

    grads = [_summed(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    parts = [getattr(grad, "values", grad) for grad in grads if grad is not None]
    norm = tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(part, tf.float32)) for part in parts]))
    scale = most / tf.maximum(norm, most)
    scale += norm - norm  # as Keras has it, no gradient is finite where the norm is not

    def scaled(grad: Any) -> Any:
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(scaled(grad.values), grad.indices, grad.dense_shape)
        return None if grad is None else grad * tf.cast(scale, grad.dtype)

    return [scaled(grad) for grad in grads]


def _summed(grad: Any) -> Any:
    """Each row once."""
    import tensorflow as tf

    rows, places = tf.unique(grad.indices)
    values = tf.math.unsorted_segment_sum(grad.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, grad.dense_shape)
