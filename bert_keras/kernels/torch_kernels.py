"""Kernels of the PyTorch backend.

`torch.nn.functional.linear` calls MKL on a CPU. On Intel's processors MKL is up to twice as fast as
oneDNN. On others it is slower, above all for the few rows of one text. `linear` calls oneDNN there,
as PyTorch's own compiler does.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import torch
from keras import ops
from torch.nn import attention as attention_backends
from torch.nn import functional

from bert_keras.kernels.mask_values import beside_scores

# By PyTorch's dtypes, the names of floating-point dtypes.
_FLOATS = {
    getattr(torch, name): name
    for name in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
}


def _has_fast_mkl() -> bool:
    """Return whether PyTorch has MKL, and the processor is one of Intel's."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            processor = file.read(1024)  # has the vendor of the first core
    except OSError:
        processor = platform.processor()
    return torch.backends.mkl.is_available() and "GenuineIntel" in processor


# oneDNN's product; None where `functional.linear` is faster, or in a build without oneDNN.
_ONEDNN = None if _has_fast_mkl() else getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def is_ready_tensor(x: Any, dtype: str) -> bool:
    """See `kernels.is_ready_tensor`."""
    return (
        isinstance(x, torch.Tensor)
        and _FLOATS.get(x.dtype, dtype) == dtype
        and getattr(x, "_keras_mask", None) is None
    )


def linear(x: Any, weight: Any, bias: Any = None, *, gelu: bool = False) -> Any:
    """Return `functional.linear` of the arguments, or the exact GELU of it.

    Args:
        x: [..., inputs].
        weight: [outputs, inputs]; a transposed view is as fast.
        bias: [outputs], or None.
        gelu: whether to apply GELU.

    Returns:
        [..., outputs].
    """
    if x.dim() < 2 or not is_plain(x, weight):
        return _of_pytorch(x, weight, bias, gelu=gelu)
    if torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (x, weight, bias)
    ):
        outputs = _Linear.apply(x, weight, bias)
        return functional.gelu(outputs) if gelu else outputs
    return _product(x, weight, bias, gelu=gelu)


def _of_pytorch(x: Any, weight: Any, bias: Any, *, gelu: bool) -> Any:
    """Return `linear` by PyTorch's own functions."""
    outputs = functional.linear(x, weight, bias)
    return functional.gelu(outputs) if gelu else outputs


def _product(x: Any, weight: Any, bias: Any, *, gelu: bool = False) -> Any:
    """Return `linear` of plain tensors, without a gradient: float32 [..., outputs]."""
    if _ONEDNN is None:
        return _of_pytorch(x, weight, bias, gelu=gelu)
    activation = ("gelu", [], "none") if gelu else ("none", [], "")
    return _ONEDNN(x, weight, bias, *activation)


def is_plain(*tensors: Any) -> bool:
    """Return whether all are plain float32 CPU tensors, outside tracing and autocast."""
    first = tensors[0]
    return (
        type(first) is torch.Tensor
        and first.device.type == "cpu"
        and all(tensor.dtype == torch.float32 for tensor in tensors)
        and first.numel() > 0
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


class _Linear(torch.autograd.Function):
    """`_product` with its gradients, which can be differentiated again."""

    generate_vmap_rule = True  # for gradients of each example, by `torch.func.vmap`

    @staticmethod
    def forward(x: Any, weight: Any, bias: Any) -> Any:
        """Return x @ weight.T + bias: float32 [..., inputs] -> [..., outputs]."""
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Keep `x` and `weight` for the gradient."""
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of x, weight and bias, each of its shape; None where not needed."""
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        if needs_x:
            of_x = linear(gradient, weight.t())
        rows, gradient_rows = x.flatten(0, -2), gradient.flatten(0, -2)
        if needs_weight:
            # In the memory order of the weight, so that PyTorch need not copy it.
            if weight.is_contiguous():
                of_weight = gradient_rows.t() @ rows
            else:
                of_weight = (rows.t() @ gradient_rows).t()
        if needs_bias:
            of_bias = gradient_rows.sum(0)
        return of_x, of_weight, of_bias


# === Cross-entropy ===
# `torch.nn.functional.cross_entropy` writes the logarithms of all probabilities, as large as the
# logits, and reads them for its gradient. Here they are computed again for the gradient, in groups
# of rows that fit into a cache, and only the gradient is written.


_AT_ONCE = 2**20  # logits in a group of rows


class TokenLosses(torch.autograd.Function):
    """Negative log-likelihood of each row's label: [rows, classes], [rows] -> [rows].

    It equals `cross_entropy`, which ignores a label of -100. Forward-mode derivatives
    (`torch.func.jvp`) are not defined, as for `_Linear`.
    """

    generate_vmap_rule = True  # for gradients of each example, by `torch.func.vmap`

    @staticmethod
    def forward(logits: Any, labels: Any) -> Any:
        """Return the losses [rows], in the dtype of the logits; labels are int64 [rows]."""
        return torch.cat(
            [
                functional.cross_entropy(logits[rows], labels[rows], reduction="none")
                for rows in _row_chunks(logits)
            ]
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Keep logits and labels for the gradient."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, None]:
        """Return the gradient of the logits, [rows, classes], and None for the labels."""
        (of_losses,) = gradients
        logits, labels = ctx.saved_tensors
        of_losses = torch.where(labels >= 0, of_losses, 0.0)
        # An empty product of all three, so that it has the axes that `vmap` adds to any of them.
        empty = logits[:0] * of_losses[:0, None] * labels[:0, None]
        of_logits = empty.new_empty(logits.shape)
        for rows in _row_chunks(logits):
            of_logits[rows] = torch.softmax(logits[rows], -1) * of_losses[rows, None]
        columns = labels.clamp(min=0)[:, None]
        return of_logits.scatter_add_(1, columns, -of_losses[:, None]), None


def _row_chunks(logits: Any) -> Iterator[slice]:
    """Return slices of rows that fit into a cache."""
    count, classes = logits.shape
    size = max(1, _AT_ONCE // classes)
    return (slice(start, start + size) for start in range(0, count, size))


# === Operations ===


# PyTorch's kernels of attention that keep no probabilities, in the order in which it tries them.
_FUSED = {
    attention_backends.SDPBackend.FLASH_ATTENTION: "flash",
    attention_backends.SDPBackend.EFFICIENT_ATTENTION: "the memory-efficient one",
    attention_backends.SDPBackend.CUDNN_ATTENTION: "cuDNN's",
}
_DRAWS = 2**16  # 16 bits for a number


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """Draw 64 bits for four numbers; see `kernels.dropped`.

    A new generator has the seed, as in Keras.
    """
    if x.device.type == "meta":  # Keras computes the shape
        return x
    threshold = min(round(rate * _DRAWS), _DRAWS - 1)  # so that a rate near 1 keeps some numbers
    generator = torch.Generator(device=x.device)
    generator.manual_seed(int(seed[0] + seed[1]) & 0xFFFFFFFF)
    is_kept = (_drawn(x.numel(), generator) >= threshold - _DRAWS // 2).view(x.shape)
    return torch.where(is_kept, x, 0.0).mul_(_DRAWS / (_DRAWS - threshold))


def release_memory(device: Any) -> None:
    """Give memory that freed tensors on a processor had back to the system, with glibc.

    Small objects that live on, such as those of a graph, keep glibc from doing so by itself.
    """
    if device.type == "cpu" and sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _drawn(count: int, generator: torch.Generator) -> Any:
    """Return `count` uniformly distributed int16."""
    device = generator.device
    if device.type not in ("cpu", "cuda"):  # Apple's devices draw no 64 bits
        draws = torch.empty(count, dtype=torch.int16, device=device)
        return draws.random_(-_DRAWS // 2, _DRAWS // 2, generator=generator)
    draws = torch.empty(-(-count // 4), dtype=torch.int64, device=device)
    return draws.random_(-(2**63), None, generator=generator).view(torch.int16)[:count]


def keeps_tensors() -> bool:
    """Return whether tensors are kept for a gradient, in a way that can be changed.

    The compiler and `torch.func` decide it themselves.
    """
    return (
        torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()  # there is no public name
    )


def after_recomputed(inner: Any, outer: Any, *inputs: Any) -> Any:
    """Compute the input of `outer` again where its gradient needs it; see `kernels`."""
    x = inner(*inputs)
    # The graph keeps this function too, so that it must not refer to `x`.
    mark = x.data_ptr(), x.numel(), x.dtype

    def kept(tensor: Any) -> Any:
        """Return a shape in place of `x`, and other tensors as they are."""
        is_x = (tensor.data_ptr(), tensor.numel(), tensor.dtype) == mark
        return tensor.shape if is_x and tensor.numel() and tensor.is_contiguous() else tensor

    def again(value: Any) -> Any:
        """Return the tensor for which `kept` returned this value."""
        return inner(*inputs).view(value) if isinstance(value, torch.Size) else value

    with torch.autograd.graph.saved_tensors_hooks(kept, again):
        return outer(x)


def affine(x: Any, kernel: Any, bias: Any, *, gelu: bool = False) -> Any:
    """Return x @ kernel + bias by one operation; see `kernels.affine`."""
    kernel, bias = _tensor(kernel), None if bias is None else _tensor(bias)
    return linear(_tensor(x).to(kernel.dtype), kernel.t(), bias, gelu=gelu)


def affine_gelu(x: Any, kernel: Any, bias: Any) -> Any:
    """Return the exact GELU of `affine`, by one operation where no gradient is wanted."""
    return affine(x, kernel, bias, gelu=True)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalise over the last axis in float32, then scale and shift; see `kernels.layer_norm`.

    `keras.ops.layer_normalization` calls the same function of PyTorch, after more steps in Python.

    Args:
        x: tensor of PyTorch, [..., width].
        gamma: scale, [width].
        beta: shift, [width]; None for zeros.
        epsilon: added to the variance.

    Returns:
        float32 [..., width], for every dtype of `x`.
    """
    gamma = _tensor(gamma).to(torch.float32)
    beta = None if beta is None else _tensor(beta).to(torch.float32)
    return functional.layer_norm(x.to(torch.float32), gamma.shape, gamma, beta, epsilon)


def rms_norm(x: Any, gamma: Any, epsilon: float) -> Any:
    """Normalise in float32 by one operation; see `kernels.rms_norm`."""
    gamma = _tensor(gamma).to(torch.float32)
    return functional.rms_norm(x.to(torch.float32), gamma.shape, gamma, epsilon)


def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """See `kernels.tied_logits`."""
    return linear(x, table, bias)


def token_losses(labels: Any, logits: Any) -> Any:
    """Compute the losses without one-hot labels; see `kernels.token_losses`.

    `TokenLosses`, which is for float32 on a CPU, keeps no probabilities for the gradient. Other
    tensors go through PyTorch's `cross_entropy`.
    """
    rows, row_labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
    if is_plain(rows):
        losses = TokenLosses.apply(rows, row_labels)
    else:
        losses = functional.cross_entropy(rows, row_labels, reduction="none")
    return losses.reshape(logits.shape[:-1])


def split_heads(x: Any, num_heads: int, head_size: int) -> Any:
    """Split the last axis by one operation, without a question for the shape of `x`.

    On one short text such questions take a share of the time. See `kernels.split_heads`.
    """
    return x.unflatten(-1, (num_heads, head_size))


def merge_heads(x: Any) -> Any:
    """Join the last two axes by one operation; see `kernels.merge_heads`."""
    return x.flatten(-2)


def over_heads(mask: Any) -> Any:
    """Return bool [batch, 1, 1, key], or [batch, 1, query, key]; see `kernels.over_heads`."""
    mask = _tensor(mask).bool()
    return mask[:, None, None] if mask.ndim == 2 else mask[:, None]


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """Attend through views of the heads, which Keras would copy; see `kernels.fused_attention`."""
    if mask is not None:
        # Numbers, because with a bool mask a row that is all padding gives NaN.
        bias = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
        bias = bias.masked_fill(~mask, beside_scores(torch.finfo(query.dtype).min))
    context = functional.scaled_dot_product_attention(
        *(tensor.transpose(1, 2) for tensor in (query, key, value)), attn_mask=bias
    )
    return context.transpose(1, 2)


def gathered(scores: Any, rows: Any, axis: int) -> Any:
    """Gather without copies of the rows for each head; see `kernels.gathered`."""
    return scores.gather(axis, rows.long().expand(*scores.shape[:2], -1, -1))


def _tensor(x: Any) -> Any:
    """Return `ops.convert_to_tensor` of `x`, faster for tensors and variables."""
    if isinstance(x, torch.Tensor):
        return x
    return x.value if isinstance(x, keras.Variable) else ops.convert_to_tensor(x)


def attention_kernel(dtype: str, learns_bias: bool) -> str:
    """Return the first of PyTorch's kernels that takes this dtype and a mask.

    See `kernels.attention_kernel`.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.zeros((1, 1, 8, 64), dtype=getattr(torch, dtype), device=device)
    mask = x[..., :8].clone().requires_grad_(learns_bias)
    for kernel, name in _FUSED.items():
        with attention_backends.sdpa_kernel(kernel), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns with the reason of a refusal
            try:
                functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
            except RuntimeError:
                continue
        return f"PyTorch's scaled_dot_product_attention ({name})"
    return (
        "PyTorch's own operations, all probabilities in memory: no fused kernel takes "
        f"{'a learned bias' if learns_bias else 'a mask'} of {dtype} on {device} here"
    )
