"""Kernels that a backend computes faster than Keras's operations, with equal outputs and gradients.

Keras composes a layer normalisation or a cross-entropy of many operations. JAX's compiler fuses
most of them; PyTorch has kernels; TensorFlow on a processor walks through memory
once for each. Each kernel equals Keras's operations within rounding
(tests/kernels/test_kernels.py), so a model is the same model on every backend.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_keras.kernels import onnx_friendly

_MODULES = {name: f"bert_keras.kernels.{name}_kernels" for name in ("tensorflow", "jax", "torch")}


@functools.cache
def _own(name: str) -> Any:
    """The backend's own kernel of that name; None where Keras's operations are as quick."""
    if (module := _MODULES.get(keras.backend.backend())) is None:
        return None
    return getattr(importlib.import_module(module), name, None)


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """`x` without a random share, the rest scaled up: dropout (Srivastava et al., 2014).

    By fewer random bits than a float of each number takes: the rate is one of 65,536 on TensorFlow
    and PyTorch; on JAX by bits that cost less.

    Args:
        x: floats of any shape.
        rate: in (0, 1).
        seed: what `SeedGenerator.next` gives; the same seed drops the same.
    """
    if (own := _own("dropped")) is not None:
        return own(x, rate, seed)
    return keras.random.dropout(x, rate, seed=seed)


def recomputed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is computed again for its gradient (Chen et al., 2016).

    Args:
        function: from tensors to one tensor; what else it uses has no gradient, but variables have.
    """
    return (_own("recomputed") or keras.remat)(function)


def affine(x: Any, kernel: Any, bias: Any, activation: Callable[[Any], Any]) -> Any:
    """Return activation(x @ kernel + bias) in as few operations as the backend offers.

    Args:
        x: [..., inputs].
        kernel: [inputs, outputs].
        bias: [outputs].
        activation: a function of the product and sum.
    """
    if onnx_friendly.is_asked():
        product = _own("product") or ops.matmul
        return activation(product(x, ops.convert_to_tensor(kernel)) + bias)
    if activation is gelu and (own := _own("affine_gelu")) is not None:
        return own(x, kernel, bias)
    if (own := _own("affine")) is not None:
        return activation(own(x, kernel, bias))
    # As TensorFlow's optimizer knows it: for the CPU it makes one operation of these.
    return activation(ops.add(ops.matmul(x, kernel), bias))


def rows(table: Any, ids: Any) -> Any:
    """The rows of a table, as they are written out: whole numbers [...] -> [..., width]."""
    table = ops.convert_to_tensor(table)
    if (own := _own("rows")) is not None:
        return own(table, ids)
    return ops.take(table, ids, axis=0)


def gelu(x: Any) -> Any:
    """The exact Gaussian error linear unit (Hendrycks & Gimpel, 2016).

    PyTorch has a kernel of it; TensorFlow's and JAX's own form uses erfc, for which ONNX has no
    operator, so there it is written with erf.
    """
    if keras.backend.backend() == "torch" and not onnx_friendly.is_asked():
        return ops.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def gelu_to_train(x: Any) -> Any:
    """The same where gradients are wanted."""
    if (own := _own("gelu")) is not None:
        return own(x)
    return gelu(x)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float, training: bool) -> Any:
    """Normalised over the last axis, in float32, then scaled and shifted (Ba et al., 2016).

    Where TensorFlow and JAX do not train, Keras's operations are as quick.

    Args:
        x: [..., width].
        gamma: [width]; None for ones.
        beta: [width]; None for zeros.
        epsilon: added to the variance.
        training: whether gradients are wanted.
    """
    # What PyTorch calls a layer normalisation is one operation of ONNX.
    if onnx_friendly.is_asked() and keras.backend.backend() != "torch":
        return onnx_friendly.layer_norm(x, gamma, beta, epsilon)
    own = _own("layer_norm")
    is_as_quick = keras.backend.backend() != "torch" and not training
    is_whole = gamma is not None and beta is not None
    if not is_whole or own is None or is_as_quick or _is_double(x):
        return ops.layer_normalization(x, gamma, beta, axis=-1, epsilon=epsilon)
    return own(x, gamma, beta, epsilon)


def _is_double(x: Any) -> bool:
    return keras.backend.standardize_dtype(x.dtype) == "float64"


def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """The products of vectors with all rows of a table, plus a bias, in float32.

    Args:
        x: [..., width].
        table: [classes, width].
        bias: [classes].

    Returns:
        float32 [..., classes].
    """
    x, table, bias = (ops.cast(each, "float32") for each in (x, table, bias))
    if (own := _own("tied_logits")) is not None:
        return own(x, table, bias)
    return ops.matmul(x, ops.transpose(table)) + bias


def token_losses(labels: Any, logits: Any) -> Any:
    """The negative log-likelihood of each label, in nats.

    Args:
        labels: whole numbers [...], in [0, classes).
        logits: float32 [..., classes].

    Returns:
        float32 [...].
    """
    if (own := _own("token_losses")) is not None:
        return own(labels, logits)
    return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def is_highest(labels: Any, logits: Any) -> Any:
    """Return whether each label has the highest logit. Of equal ones the first counts, on JAX none.

    Args:
        labels: whole numbers [...], in [0, classes).
        logits: [..., classes].

    Returns:
        bool [...].
    """
    if (own := _own("is_highest")) is not None:
        return own(labels, logits)
    return ops.equal(labels, ops.cast(ops.argmax(logits, axis=-1), labels.dtype))


def split_heads(x: Any, num_heads: int, head_size: int) -> Any:
    """[batch, length, num_heads * head_size] -> [batch, length, num_heads, head_size]."""
    if (own := _own("split_heads")) is not None:
        return own(x, num_heads, head_size)
    batch, length, _ = ops.shape(x)
    return ops.reshape(x, (batch, length, num_heads, head_size))


def merge_heads(x: Any) -> Any:
    """[batch, length, num_heads, head_size] -> [batch, length, num_heads * head_size]."""
    if (own := _own("merge_heads")) is not None:
        return own(x)
    batch, length, num_heads, head_size = ops.shape(x)
    return ops.reshape(x, (batch, length, num_heads * head_size))


def over_heads(mask: Any) -> Any:
    """A mask of numbers, [batch, key] or [batch, query, key], as `fused_attention` takes it."""
    if (own := _own("over_heads")) is not None:
        return own(mask)
    axes = (1, 2) if len(mask.shape) == 2 else 1
    # Numbers, and no slice: LiteRT has neither for bools.
    return ops.cast(ops.expand_dims(mask, axes), "bool")


def fused_attention(query: Any, key: Any, value: Any, *, bias: Any = None, mask: Any = None) -> Any:
    """The backend's kernel of softmax(query key / sqrt(K)) value; axes as in `SelfAttention`.

    Args:
        query: BTNK.
        key: BSNK.
        value: BSNK.
        bias: BNTS, added to the scaled scores; not beside a mask.
        mask: B1TS or B11S bool, True where a token may look.

    Returns:
        BTNK.
    """
    if onnx_friendly.is_asked():
        return onnx_friendly.attention(query, key, value, bias, mask)
    if (own := _own("attention")) is not None:
        return own(query, key, value, bias, mask)
    return ops.dot_product_attention(query, key, value, bias=bias, mask=mask)


def has_attention(dtype: str) -> bool:
    """Return whether `fused_attention` takes queries of this dtype; JAX has no float16 on CPUs."""
    if dtype != "float16" or keras.backend.backend() != "jax":
        return True
    return not all(device.startswith("cpu") for device in keras.distribution.list_devices())


def attention_kernel(dtype: str, *, learns_bias: bool = False) -> str:
    """Return a description of the kernel behind `fused_attention`, and the reason for a slow one.

    Args:
        dtype: of the queries.
        learns_bias: whether a gradient of the bias is wanted.
    """
    slow = "all probabilities in memory"
    if not has_attention(dtype):
        return f"the backend's own operations, {slow}: JAX has no kernel of {dtype} on a processor"
    if (own := _own("attention_kernel")) is not None:
        return own(dtype, learns_bias)
    name = keras.backend.backend().replace("tensorflow", "TensorFlow")
    return f"{name}'s own operations, {slow}: it has no kernel of them"
