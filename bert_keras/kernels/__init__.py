"""Operations that a backend may have a faster kernel for; this module chooses the kernel.

Keras composes a layer normalisation or a cross-entropy of many operations. JAX's compiler fuses
most of them. PyTorch has kernels of its own. TensorFlow on a CPU walks through memory once for
each operation. Outputs and gradients equal those of Keras's operations within rounding
(tests/kernels/test_kernels.py), with three exceptions: dropout draws other numbers on each backend;
`is_highest` counts equal logits differently on JAX; for a row that is all padding, cuDNN on JAX
gives zeros, where the other kernels give an average.

A backend's own kernels are in `tensorflow_kernels`, `jax_kernels` and `torch_kernels`. Only the
module of the active backend is imported.
"""

# pyright: reportAttributeAccessIssue=true

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from bert_keras.kernels import onnx_friendly, query_blocks
from bert_keras.kernels.row_parts import is_recomputed, marked

BACKEND = keras.backend.backend()

if TYPE_CHECKING:
    from bert_keras.kernels import jax_kernels, jax_recomputation, tensorflow_kernels, torch_kernels
elif BACKEND == "tensorflow":
    from bert_keras.kernels import tensorflow_kernels
elif BACKEND == "jax":
    from bert_keras.kernels import jax_kernels, jax_recomputation
elif BACKEND == "torch":
    from bert_keras.kernels import torch_kernels


def is_ready_tensor(x: Any, dtype: str) -> bool:
    """Return whether Keras would pass a value to a layer of this dtype as it is.

    A tensor of the backend is passed as it is if it has this dtype, or is not of floats. Arrays
    of NumPy, symbolic tensors and tensors with a Keras mask are not ready.

    Args:
        x: any value.
        dtype: the layer's `compute_dtype`.
    """
    if BACKEND == "torch":
        return torch_kernels.is_ready_tensor(x, dtype)
    if not ops.is_tensor(x) or getattr(x, "_keras_mask", None) is not None:
        return False
    x_dtype = keras.backend.standardize_dtype(x.dtype)
    return x_dtype == dtype or not keras.backend.is_float_dtype(x_dtype)


# === Training ===


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """Set a random share of `x` to zero and scale up the rest (dropout; Srivastava et al., 2014).

    The kernels draw fewer random bits than a float has. The rate is rounded to one of 65,536 on
    TensorFlow and PyTorch.

    Args:
        x: floats of any shape.
        rate: the share, in (0, 1).
        seed: a seed as `SeedGenerator.next` returns it. The same seed drops the same numbers.
    """
    if BACKEND == "torch":
        return torch_kernels.dropped(x, rate, seed)
    if BACKEND == "tensorflow":
        return tensorflow_kernels.dropped(x, rate, seed)
    if BACKEND == "jax":
        return jax_kernels.dropped(x, rate, seed)
    what_to_do = "Set KERAS_BACKEND to tensorflow, jax or torch."
    raise NotImplementedError(f"The backend {BACKEND} cannot train. {what_to_do}")


def recomputed(function: Callable[..., Any], *, part_of_block: bool = False) -> Callable[..., Any]:
    """Return a function that is computed again for its gradient (Chen et al., 2016).

    Args:
        function: from tensors to one tensor, or to a list. Variables that it reads have gradients.
            Other tensors that it uses have none.
        part_of_block: return `function` itself where computing only a part again saves no memory.
    """
    if is_recomputed.get() or (part_of_block and not _parts_save_memory()):
        return function
    function = marked(function)
    if BACKEND == "tensorflow":
        return tensorflow_kernels.recomputed(function)
    return jax_recomputation.recomputed(function) if BACKEND == "jax" else keras.remat(function)


def after_recomputed(inner: Callable[..., Any], outer: Callable[[Any], Any], *inputs: Any) -> Any:
    """Return outer(inner(*inputs)). If it saves memory, the gradient computes `inner` again.

    Args:
        inner: a quick function from tensors to one tensor.
        outer: dense layers with one input, which are not computed again; to a tensor or a list.
        inputs: tensors.
    """
    if BACKEND == "torch" and not is_recomputed.get() and _parts_save_memory():
        return torch_kernels.after_recomputed(recomputed(inner), outer, *inputs)
    # Compilers leave out what no gradient reads, which is the output of `outer`.
    return recomputed(lambda *again: outer(inner(*again)), part_of_block=True)(*inputs)


def _parts_save_memory() -> bool:
    """Return whether training needs less memory if part of a block is computed again.

    PyTorch's compiler does it by itself. With JAX it was measured on one CPU alone.
    """
    if BACKEND == "jax":
        return jax_recomputation.is_single_cpu()
    return torch_kernels.keeps_tensors() if BACKEND == "torch" else True


def token_losses(labels: Any, logits: Any) -> Any:
    """Return the negative log-likelihood of each label, in nats.

    Args:
        labels: integers [...], in [0, classes).
        logits: float32 [..., classes].

    Returns:
        float32 [...].
    """
    if BACKEND == "torch":
        return torch_kernels.token_losses(labels, logits)
    if BACKEND == "tensorflow":
        return tensorflow_kernels.token_losses(labels, logits)
    if BACKEND == "jax":
        return jax_kernels.token_losses(labels, logits)
    return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def is_highest(labels: Any, logits: Any) -> Any:
    """Return whether each label has the highest logit. Of equal ones the first counts, on JAX none.

    Args:
        labels: integers [...], in [0, classes).
        logits: [..., classes].

    Returns:
        bool [...].
    """
    if BACKEND == "tensorflow":
        return tensorflow_kernels.is_highest(labels, logits)
    if BACKEND == "jax":
        return jax_kernels.is_highest(labels, logits)
    return ops.equal(labels, ops.cast(ops.argmax(logits, axis=-1), labels.dtype))


# === Dense layers and tables ===


def affine(x: Any, kernel: Any, bias: Any, activation: Callable[[Any], Any]) -> Any:
    """Return activation(x @ kernel + bias), in as few operations as the backend offers.

    Args:
        x: [..., inputs].
        kernel: [inputs, outputs].
        bias: [outputs]; None for no bias.
        activation: a function of the sum.
    """
    if onnx_friendly.is_active():
        kernel = ops.convert_to_tensor(kernel)
        product = tensorflow_kernels.product if BACKEND == "tensorflow" else ops.matmul
        outputs = product(x, kernel)
        return activation(outputs if bias is None else outputs + bias)
    if BACKEND == "torch":
        if activation is gelu:
            return torch_kernels.affine_gelu(x, kernel, bias)
        return activation(torch_kernels.affine(x, kernel, bias))
    outputs = (jax_kernels.product if BACKEND == "jax" else ops.matmul)(x, kernel)
    # TensorFlow's optimizer makes one operation of these three on a CPU.
    return activation(outputs if bias is None else ops.add(outputs, bias))


def rows(table: Any, ids: Any) -> Any:
    """Return rows of a table, by the operation that other runtimes know.

    Args:
        table: [rows, width].
        ids: integers [...], in [0, rows).

    Returns:
        [..., width].
    """
    table = ops.convert_to_tensor(table)
    if BACKEND == "tensorflow":
        return tensorflow_kernels.rows(table, ids)
    return ops.take(table, ids, axis=0)


def gelu(x: Any) -> Any:
    """Return the exact Gaussian error linear unit of `x` (Hendrycks & Gimpel, 2016).

    PyTorch has a kernel of it. TensorFlow and JAX compute it with erfc, for which ONNX has no
    operator, so it is written with erf there.
    """
    if BACKEND == "torch" and not onnx_friendly.is_active():
        return ops.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def gelu_to_train(x: Any) -> Any:
    """Return `gelu` of `x`, with a gradient that reads memory less often."""
    if BACKEND == "tensorflow":
        return tensorflow_kernels.gelu(x)
    if BACKEND == "jax":
        return jax_kernels.gelu(x)
    return gelu(x)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float, training: bool) -> Any:
    """Normalise over the last axis in float32, then scale and shift (Ba et al., 2016).

    Args:
        x: [..., width].
        gamma: [width]; None for ones.
        beta: [width]; None for zeros.
        epsilon: added to the variance.
        training: whether gradients are wanted. Without them Keras's operations are as fast on
            TensorFlow and JAX.

    Returns:
        [..., width], in float32 or in the dtype of `x`. The caller casts it.
    """
    if gamma is not None and beta is None and BACKEND != "torch":
        beta = ops.zeros(gamma.shape, "float32")
    # PyTorch's layer normalisation becomes one operation of ONNX by itself.
    if onnx_friendly.is_active() and BACKEND != "torch":
        return onnx_friendly.layer_norm(x, gamma, beta, epsilon)
    if gamma is not None and keras.backend.standardize_dtype(x.dtype) != "float64":
        if BACKEND == "torch":
            return torch_kernels.layer_norm(x, gamma, beta, epsilon)
        if BACKEND == "tensorflow" and training:
            return tensorflow_kernels.layer_norm(x, gamma, beta, epsilon)
        if BACKEND == "jax" and training:
            return jax_kernels.layer_norm(x, gamma, beta, epsilon)
    return ops.layer_normalization(x, gamma, beta, axis=-1, epsilon=epsilon)


def rms_norm(x: Any, gamma: Any, epsilon: float) -> Any:
    """Divide by the root mean square over the last axis, then scale (Zhang & Sennrich, 2019).

    Args:
        x: [..., width].
        gamma: [width].
        epsilon: added to the mean square.

    Returns:
        float32 [..., width].
    """
    if BACKEND == "torch" and not onnx_friendly.is_active():
        return torch_kernels.rms_norm(x, gamma, epsilon)
    wide, gamma = ops.cast(x, "float32"), ops.cast(gamma, "float32")
    mean_square = ops.mean(wide * wide, axis=-1, keepdims=True)
    return wide * ops.rsqrt(mean_square + epsilon) * gamma


def computed_once(x: Any) -> Any:
    """Return `x`, and keep the compiler from computing it again for each use.

    XLA on a CPU would add up the whole sum of the residual connections again in every layer of
    pre-norm blocks, so that a step took a time that grows with the square of the layers.
    """
    return jax_recomputation.computed_once(x) if BACKEND == "jax" else x


def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """Return the products of vectors with all rows of a table, plus a bias, in float32.

    Args:
        x: [..., width].
        table: [classes, width].
        bias: [classes].

    Returns:
        float32 [..., classes].
    """
    x, table, bias = (ops.cast(value, "float32") for value in (x, table, bias))
    if BACKEND == "torch":
        return torch_kernels.tied_logits(x, table, bias)
    if BACKEND == "tensorflow":
        return tensorflow_kernels.tied_logits(x, table, bias)
    if BACKEND == "jax":
        return jax_kernels.tied_logits(x, table, bias)
    return ops.matmul(x, ops.transpose(table)) + bias


# === Attention ===


def split_heads(x: Any, num_heads: int, head_size: int) -> Any:
    """Split the last axis into heads.

    [batch, length, num_heads * head_size] -> [batch, length, num_heads, head_size].
    """
    if BACKEND == "torch":
        return torch_kernels.split_heads(x, num_heads, head_size)
    return ops.reshape(x, (*ops.shape(x)[:2], num_heads, head_size))


def merge_heads(x: Any) -> Any:
    """Join the heads into one axis, the inverse of `split_heads`.

    [batch, length, num_heads, head_size] -> [batch, length, num_heads * head_size].
    """
    if BACKEND == "torch":
        return torch_kernels.merge_heads(x)
    batch, length, num_heads, head_size = ops.shape(x)
    return ops.reshape(x, (batch, length, num_heads * head_size))


def over_heads(mask: Any) -> Any:
    """Return a mask as `fused_attention` takes it: bool, with an axis for the heads.

    Args:
        mask: numbers, [batch, key] or [batch, query, key], 1 where a token attends to a key.
    """
    if BACKEND == "torch":
        return torch_kernels.over_heads(mask)
    axes = (1, 2) if len(mask.shape) == 2 else 1
    # The axes are added to numbers and not to bools, and not by a slice, for LiteRT.
    return ops.cast(ops.expand_dims(mask, axes), "bool")


def gathered(scores: Any, rows: Any, *, axis: int) -> Any:
    """Return the scores of chosen rows of a table, for each pair of a query and a key.

    Args:
        scores: BNTR, of each query with all rows (axis 3); or BNRS, of each key (axis 2).
        rows: int32 [B or 1, 1, T, S], the row of each pair.
        axis: axis of the rows in `scores`.

    Returns:
        BNTS.
    """
    if BACKEND == "torch":
        return torch_kernels.gathered(scores, rows, axis)
    if BACKEND == "tensorflow" and onnx_friendly.is_active():
        return tensorflow_kernels.gathered(scores, rows, axis)
    rows = ops.broadcast_to(rows, (*ops.shape(scores)[:2], *ops.shape(rows)[2:]))
    return ops.take_along_axis(scores, rows, axis=axis)


def fused_attention(query: Any, key: Any, value: Any, *, bias: Any = None, mask: Any = None) -> Any:
    """Return softmax(query key / sqrt(K) + bias) value; axes as in `SelfAttention`.

    Args:
        query: BTNK.
        key: BSNK.
        value: BSNK.
        bias: BNTS, added to the scaled scores. A mask or a bias may be given, not both.
        mask: B1TS or B11S bool, True where a token attends to a key.

    Returns:
        BTNK.
    """
    if onnx_friendly.is_active():
        return onnx_friendly.attention(query, key, value, bias, mask)
    if BACKEND == "torch":
        return torch_kernels.attention(query, key, value, bias, mask)
    if BACKEND == "jax":
        return jax_kernels.attention(query, key, value, bias, mask)
    return query_blocks.composed_attention(query, key, value, bias, mask)


def attention_kernel(dtype: str, *, learns_bias: bool = False) -> str:
    """Return a description of the kernel behind `fused_attention`, and the reason for a slow one.

    Args:
        dtype: of the queries.
        learns_bias: whether a gradient of the bias is wanted.
    """
    slow = "all probabilities in memory"
    if not query_blocks.has_fused_attention(dtype):
        why = f"JAX has no kernel of {dtype} on a CPU"
        return f"the backend's own operations, {slow}: {why}; {query_blocks.REMARK}"
    if BACKEND == "torch":
        return torch_kernels.attention_kernel(dtype, learns_bias)
    if BACKEND == "jax":
        return jax_kernels.attention_kernel(dtype, learns_bias)
    name = BACKEND.replace("tensorflow", "TensorFlow")
    return f"{name}'s own operations, {slow}: it has no kernel of them; {query_blocks.REMARK}"
