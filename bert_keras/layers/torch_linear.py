"""Products with weights on PyTorch, on a processor by oneDNN.

There `torch.nn.functional.linear` asks MKL, which takes longer, most of all for the few rows of one
text, and writes a bias first. PyTorch's own compiler calls oneDNN as it is called here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

# None in a build of PyTorch without oneDNN.
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def linear(x: Any, weight: Any, bias: Any = None, *, gelu: bool = False) -> Any:
    """`functional.linear`, and the exact GELU of that.

    Args:
        x: [..., inputs].
        weight: [outputs, inputs]; a transposed matrix is as good.
        bias: [outputs], or None.
        gelu: whether it is wanted.
    """
    if _ONEDNN is None or x.dim() < 2 or not is_plain(x, weight):
        found = functional.linear(x, weight, bias)
        return functional.gelu(found) if gelu else found
    if torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (x, weight, bias)
    ):
        found = _Linear.apply(x, weight, bias)
        return functional.gelu(found) if gelu else found
    return _product(x, weight, bias, gelu=gelu)


def _product(x: Any, weight: Any, bias: Any, *, gelu: bool = False) -> Any:
    assert _ONEDNN is not None
    activation = ("gelu", [], "none") if gelu else ("none", [], "")
    return _ONEDNN(x, weight, bias, *activation)


def is_plain(*tensors: Any) -> bool:
    """Whether they are float32 numbers in memory, and no tracer or cast of PyTorch's is at work."""
    first = tensors[0]
    return (
        type(first) is torch.Tensor
        and first.device.type == "cpu"
        and all(each.dtype == torch.float32 for each in tensors)
        and first.numel() > 0
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


class _Linear(torch.autograd.Function):
    """oneDNN's product with its gradients, which have gradients in turn."""

    generate_vmap_rule = True  # for gradients of each example, by `torch.func.vmap`

    @staticmethod
    def forward(x: Any, weight: Any, bias: Any) -> Any:
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, Any, Any]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        if needs_x:
            of_x = linear(gradient, weight.t())
        rows, along = x.flatten(0, -2), gradient.flatten(0, -2)
        if needs_weight:
            # In the order in which the weight lies, so that PyTorch takes it as it is.
            is_transposed = not weight.is_contiguous()
            of_weight = (rows.t() @ along).t() if is_transposed else along.t() @ rows
        if needs_bias:
            of_bias = along.sum(0)
        return of_x, of_weight, of_bias
