"""Cross-entropy of many classes on PyTorch, on a processor: a few rows at a time.

`torch.nn.functional.cross_entropy` writes the logarithms of all probabilities, as large as the
logits, and reads them for its gradient. Here they are computed again, a few rows that a cache holds
at a time, and only the gradient is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

_AT_ONCE = 2**20  # logits


class TokenLosses(torch.autograd.Function):
    """The negative log-likelihood of each row's label: [rows, classes], [rows] -> [rows].

    As `cross_entropy`, to which a label of -100 counts for nothing; but without forward-mode
    derivatives (`torch.func.jvp`), which the products have not either.
    """

    generate_vmap_rule = True  # for gradients of each example, by `torch.func.vmap`

    @staticmethod
    def forward(logits: Any, labels: Any) -> Any:
        return torch.cat(
            [
                functional.cross_entropy(logits[rows], labels[rows], reduction="none")
                for rows in _parts(logits)
            ]
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, None]:
        (of_losses,) = gradients
        logits, labels = ctx.saved_tensors
        of_losses = torch.where(labels >= 0, of_losses, 0.0)
        # Where any of them has an axis that `vmap` adds, so has this.
        nothing = logits[:0] * of_losses[:0, None] * labels[:0, None]
        found = nothing.new_empty(logits.shape)
        for rows in _parts(logits):
            found[rows] = torch.softmax(logits[rows], -1) * of_losses[rows, None]
        places = labels.clamp(min=0)[:, None]
        return found.scatter_add_(1, places, -of_losses[:, None]), None


def _parts(logits: Any) -> Iterator[slice]:
    count, classes = logits.shape
    size = max(1, _AT_ONCE // classes)
    return (slice(start, start + size) for start in range(0, count, size))
