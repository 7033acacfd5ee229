"""What a backend computes quicker than Keras's composition of it: same outputs, same gradients.

Keras composes a layer normalisation or a cross-entropy of many operations. JAX's compiler fuses
them; PyTorch has kernels; TensorFlow on a processor walks through memory once for each. What is
here answers within rounding as Keras does (tests/layers/test_kernels.py), so a model is the same
model on every backend.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


def _own() -> Any:
    """The backend's own kernels; None on JAX, whose compiler makes them."""
    if keras.backend.backend() == "tensorflow":
        from bert_keras.layers import tensorflow_kernels

        return tensorflow_kernels
    if keras.backend.backend() == "torch":
        from bert_keras.layers import torch_kernels

        return torch_kernels
    return None


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """`x` without a random share, the rest scaled up: dropout (Srivastava et al., 2014).

    Half as many random bits as for a float of each number: the rate is one of 65,536 on TensorFlow
    and of 32,768 on PyTorch.

    Args:
        x: floats of any shape.
        rate: in (0, 1).
        seed: what `SeedGenerator.next` gives; the same seed drops the same.
    """
    if (own := _own()) is not None:
        return own.dropped(x, rate, seed)
    return keras.random.dropout(x, rate, seed=seed)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float, training: bool) -> Any:
    """Normalised over the last axis, in float32, then scaled and shifted (Ba et al., 2016).

    Where TensorFlow does not train it has the operations of Keras, which runtimes know.

    Args:
        x: [..., width].
        gamma: [width].
        beta: [width].
        epsilon: added to the variance.
        training: whether gradients are wanted.
    """
    own = _own()
    is_known = keras.backend.backend() == "tensorflow" and not training
    if own is None or is_known or keras.backend.standardize_dtype(x.dtype) == "float64":
        return ops.layer_normalization(x, gamma, beta, axis=-1, epsilon=epsilon)
    return own.layer_norm(x, gamma, beta, epsilon)


def gelu_to_train(x: Any) -> Any:
    """The exact GELU where gradients are wanted; see `feedforward.gelu`."""
    from bert_keras.layers import tensorflow_kernels

    return tensorflow_kernels.gelu(x)


def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """The products of vectors with all rows of a table, plus a bias, in float32.

    Args:
        x: [..., width].
        table: [classes, width].
        bias: float32 [classes].

    Returns:
        float32 [..., classes].
    """
    x, table = (ops.cast(each, "float32") for each in (x, table))
    if (own := _own()) is not None:
        return own.tied_logits(x, table, bias)
    return ops.matmul(x, ops.transpose(table)) + bias


def token_losses(labels: Any, logits: Any) -> Any:
    """The negative log-likelihood of each label, in nats.

    Args:
        labels: whole numbers [...], in [0, classes).
        logits: float32 [..., classes].

    Returns:
        float32 [...].
    """
    if (own := _own()) is not None:
        return own.token_losses(labels, logits)
    # Compared, not looked up: so the gradient is fused too, where a look-up's would be a scatter.
    is_label = ops.arange(logits.shape[-1]) == labels[..., None]
    return ops.logsumexp(logits, axis=-1) - ops.sum(ops.where(is_label, logits, 0.0), axis=-1)


def highest(logits: Any) -> Any:
    """The index of the highest number of the last axis, the first of several: int [...]."""
    if keras.backend.backend() == "tensorflow":
        from bert_keras.layers import tensorflow_kernels

        # Keras tells -0.0 from 0.0 before, in several passes.
        return tensorflow_kernels.highest(logits)
    return ops.argmax(logits, axis=-1)


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
    if keras.backend.backend() == "torch":
        from bert_keras.layers import torch_kernels

        return torch_kernels.attention(query, key, value, bias, mask)
    return ops.dot_product_attention(query, key, value, bias=bias, mask=mask)


def attention_kernel() -> str:
    """Which kernel `fused_attention` is on this machine, and why where it is a slow one."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return "TensorFlow's own operations, all probabilities in memory: it has no kernel of them"
    if backend == "torch":
        from bert_keras.layers import torch_kernels

        return torch_kernels.attention_kernel()
    if any(device.startswith("gpu") for device in keras.distribution.list_devices()):
        return "cuDNN's flash attention in half precision, XLA's operations in float32"
    return "XLA's operations, all probabilities in memory: cuDNN's kernel needs a GPU"
