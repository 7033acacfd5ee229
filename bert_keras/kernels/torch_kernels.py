"""Kernels of the PyTorch backend.

There `torch.nn.functional.linear` asks MKL, which takes longer, most of all for the few rows of one
text, and writes a bias first. PyTorch's own compiler calls oneDNN as it is called here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import torch
from keras import ops
from torch.nn import attention as attention_backends
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
    """Return whether all are plain float32 CPU tensors, outside tracing and autocast."""
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


# === Cross-entropy ===
# `torch.nn.functional.cross_entropy` writes the logarithms of all probabilities, as large as the
# logits, and reads them for its gradient. Here they are computed again, a few rows that a cache
# holds at a time, and only the gradient is written.


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


# === Operations ===


# Of PyTorch's kernels of attention those that keep no probabilities, in the order of its choice.
_FUSED = {
    attention_backends.SDPBackend.FLASH_ATTENTION: "flash",
    attention_backends.SDPBackend.EFFICIENT_ATTENTION: "the memory-efficient one",
    attention_backends.SDPBackend.CUDNN_ATTENTION: "cuDNN's",
}
_DRAWS = 2**16  # 16 bits for a number


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """By one draw for four numbers; a fresh generator holds the seed, as in Keras."""
    if x.device.type == "meta":  # Keras asks for the shape
        return x
    threshold = min(round(rate * _DRAWS), _DRAWS - 1)  # a rate next to 1 leaves something
    generator = torch.Generator(device=x.device)
    generator.manual_seed(int(seed[0] + seed[1]) & 0xFFFFFFFF)
    is_kept = (_drawn(x.numel(), generator) >= threshold - _DRAWS // 2).view(x.shape)
    return torch.where(is_kept, x, 0.0).mul_(_DRAWS / (_DRAWS - threshold))


def _drawn(count: int, generator: torch.Generator) -> Any:
    """So many int16, each as likely as any other."""
    device = generator.device
    if device.type not in ("cpu", "cuda"):  # Apple's has no draws of 64 bits
        draws = torch.empty(count, dtype=torch.int16, device=device)
        return draws.random_(-_DRAWS // 2, _DRAWS // 2, generator=generator)
    draws = torch.empty(-(-count // 4), dtype=torch.int64, device=device)
    return draws.random_(-(2**63), None, generator=generator).view(torch.int16)[:count]


def affine(x: Any, kernel: Any, bias: Any, *, gelu: bool = False) -> Any:
    """One operation, where Keras takes a product and a sum."""
    kernel, bias = _tensor(kernel), _tensor(bias)
    return linear(_tensor(x).to(kernel.dtype), kernel.t(), bias, gelu=gelu)


def affine_gelu(x: Any, kernel: Any, bias: Any) -> Any:
    """The exact GELU of `affine`, one operation where no gradient is wanted."""
    return affine(x, kernel, bias, gelu=True)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """In float32, as Keras has it."""
    wide = x.to(torch.float32)
    gamma, beta = (_tensor(each).to(torch.float32) for each in (gamma, beta))
    return functional.layer_norm(wide, gamma.shape, gamma, beta, epsilon)


def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """See `kernels.tied_logits`."""
    return linear(x, table, bias)


def token_losses(labels: Any, logits: Any) -> Any:
    """Without a row of zeros and a one for each label."""
    rows, labels_of_rows = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
    if is_plain(rows):
        losses = TokenLosses.apply(rows, labels_of_rows)
    else:
        losses = functional.cross_entropy(rows, labels_of_rows, reduction="none")
    return losses.reshape(logits.shape[:-1])


def split_heads(x: Any, num_heads: int, head_size: int) -> Any:
    """A view; see `kernels.split_heads`."""
    return x.unflatten(-1, (num_heads, head_size))


def merge_heads(x: Any) -> Any:
    """See `kernels.merge_heads`."""
    return x.flatten(-2)


def over_heads(mask: Any) -> Any:
    """See `kernels.over_heads`."""
    mask = _tensor(mask).bool()
    return mask[:, None, None] if mask.ndim == 2 else mask[:, None]


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """By views of the heads, which Keras copies."""
    if mask is not None:
        # Numbers: a row that may look nowhere averages, where a bool mask gives NaN.
        bias = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
        bias = bias.masked_fill(~mask, torch.finfo(query.dtype).min * 0.5)
    context = functional.scaled_dot_product_attention(
        *(each.transpose(1, 2) for each in (query, key, value)), attn_mask=bias
    )
    return context.transpose(1, 2)


def _tensor(x: Any) -> Any:
    """As `ops.convert_to_tensor`, with less to ask of what mostly comes."""
    if isinstance(x, torch.Tensor):
        return x
    return x.value if isinstance(x, keras.Variable) else ops.convert_to_tensor(x)


def attention_kernel(dtype: str, learns_bias: bool) -> str:
    """See `kernels.attention_kernel`: the first of PyTorch's that takes such numbers and a mask."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.zeros((1, 1, 8, 64), dtype=getattr(torch, dtype), device=device)
    mask = x[..., :8].clone().requires_grad_(learns_bias)
    for kernel, name in _FUSED.items():
        with attention_backends.sdpa_kernel(kernel), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of why it does not take one
            try:
                functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
            except RuntimeError:
                continue
        return f"PyTorch's scaled_dot_product_attention ({name})"
    return (
        "PyTorch's own operations, all probabilities in memory: no fused kernel takes "
        f"{'a learned bias' if learns_bias else 'a mask'} of {dtype} on {device} here"
    )
