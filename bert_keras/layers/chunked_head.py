"""The loss over a vocabulary in parts, so that there are never the logits of all of it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_keras.layers import kernels
from bert_keras.layers.heads import MaskedLMHead
from bert_keras.layers.serialization import SerializableLayer, build_once


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedVectors(SerializableLayer):
    """A view of a `MaskedLMHead`: the vectors that its logits are products of."""

    def __init__(self, head: MaskedLMHead, **kwargs):
        kwargs.setdefault("dtype", head.dtype_policy)
        super().__init__(**kwargs)
        self.head = head

    def build(self, x_shape):
        build_once(self.head, x_shape)
        self.built = True

    def call(self, x):
        """[batch, predictions, hidden_size] -> [batch, predictions, width of the table]."""
        return self.head.vectors(x)

    def compute_output_spec(self, x):
        shape = (*x.shape[:-1], self.head.token_embedding.output_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def token_losses_in_chunks(
    labels: Any, x: Any, table: Any, bias: Any, *, chunks: int
) -> tuple[Any, Any]:
    """The negative log-likelihoods of labels in nats, and whether they had the highest logits.

    What `kernels.token_losses` makes of `kernels.tied_logits`, part of the table by part; gradients
    compute the logits of each part again.

    Args:
        labels: whole numbers [...], in [0, classes).
        x: [..., width].
        table: [classes, width].
        bias: [classes].
        chunks: in how many parts.

    Returns:
        float32 [...], and bool [...].
    """
    x, table, bias = (ops.cast(each, "float32") for each in (x, table, bias))
    size = -(-table.shape[0] // chunks)
    starts = list(range(0, table.shape[0], size))
    tables, biases = [table], [bias]
    if len(starts) > 1:
        tables, biases = (ops.split(each, starts[1:]) for each in (table, bias))

    def figures_from(start: int) -> Any:
        def figures(x: Any, rows: Any, shifts: Any) -> Any:
            """The log of the sum, the label's logit or 0, the highest: [..., 3]."""
            logits = kernels.tied_logits(x, rows, shifts)
            is_label = ops.arange(start, start + rows.shape[0]) == labels[..., None]
            of_label = ops.sum(ops.where(is_label, logits, 0.0), axis=-1)
            highest = ops.stop_gradient(ops.max(logits, axis=-1))
            return ops.stack([ops.logsumexp(logits, axis=-1), of_label, highest], axis=-1)

        return keras.remat(figures)

    found = ops.stack(
        [
            figures_from(start)(x, rows, shifts)
            for start, rows, shifts in zip(starts, tables, biases, strict=True)
        ]
    )
    of_label = ops.sum(found[..., 1], axis=0)
    losses = ops.logsumexp(found[..., 0], axis=0) - of_label
    return losses, of_label >= ops.max(found[..., 2], axis=0)
