"""Dtype and device that a `Predictor` is opened with: their names, and the scope of a device."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

# Devices may be written with the words of any backend. Keras's own word for CUDA is "gpu".
_NAME = re.compile(r"(?:/?device:)?([a-z]+)(?::(\d+))?")
_SAME = {"cuda": "gpu"}
_DTYPES = ("float32", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16")


def checked_device(device: str | None) -> str | None:
    """Return the name of a device as Keras takes it on every backend, such as "cpu" or "gpu:1".

    Args:
        device: "cpu", or a device with or without its number, such as "gpu", "cuda:1" or "tpu:0";
            None for the backend's default.

    Raises:
        ValueError: if this backend has no such device here. The message lists those that it has.
    """
    if device is None:
        return None
    match = _NAME.fullmatch(device.lower()) if isinstance(device, str) else None
    known = _devices()
    if match is not None:
        kind, number = match.groups()
        name = f"{_SAME.get(kind, kind)}:{int(number or 0)}"
        if name in known:
            # PyTorch's tensors are on "cpu". Keras would copy each of them to "cpu:0".
            return "cpu" if name == "cpu:0" else name
    raise ValueError(
        f"`device` must be a device that {keras.backend.backend()} has here: {', '.join(known)}. "
        f"Received: device={device!r}"
    )


def device_scope(device: str | None) -> AbstractContextManager[Any]:
    """Return the scope in which Keras makes variables and computes on a device.

    It is the scope of one thread.

    Args:
        device: name of the device; None for the backend's default, without a scope.
    """
    return nullcontext() if device is None else keras.device(device)


def checked_dtype(dtype: Any) -> Any:
    """Return the Keras dtype policy of a model that computes in floats; None for the global one.

    Args:
        dtype: a policy or its name; None for the global one.

    Raises:
        ValueError: if it is not a policy, or not one of floats.
    """
    if dtype is None:
        return None
    try:
        policy = keras.dtype_policies.get(dtype)
        if "float" in policy.compute_dtype:
            return policy
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"`dtype` must be a Keras dtype policy of floats, such as {', '.join(_DTYPES)}. "
        f"Received: dtype={dtype!r}"
    )


def _devices() -> list[str]:
    """Return the names of all devices of the backend on this machine."""
    if keras.backend.backend() == "torch":  # for which Keras lists no devices
        import torch

        counts = {
            "cpu": 1,
            "gpu": torch.cuda.device_count(),
            "mps": int(torch.backends.mps.is_available()),
            "xpu": torch.xpu.device_count() if hasattr(torch, "xpu") else 0,
        }
        return [f"{kind}:{number}" for kind, count in counts.items() for number in range(count)]
    names: list[str] = []
    for kind in ("cpu", "gpu", "tpu"):
        try:
            names += keras.distribution.list_devices(kind)
        except RuntimeError:  # JAX has no devices of this kind
            continue
    return names
