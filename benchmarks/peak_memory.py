"""Peak memory of a contender, beyond the memory of its process before the model was built.

On a processor it is the resident memory that Linux reports, without the code and data of the
imported libraries. On an accelerator it is the peak that the library's allocator reports.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contest import Contender, machine
from benchmarks.train_steppers import Round

# Libraries to import before the model is built, by the function that builds it.
_LIBRARIES = {
    "ours": ("bert_keras.models", "bert_keras.optimization"),
    "keras_hub": ("keras_hub",),
    "transformers": ("torch", "transformers.models.bert.modeling_bert"),
}


def with_memory(contender: Contender) -> Contender:
    """Return the contender with rounds that also report peak memory.

    Args:
        contender: a contender with a function of `train_steppers` or `mean_vectors`.
    """
    arguments = {"function": contender.function, "arguments": dict(contender.arguments)}
    return replace(contender, function=f"{__name__}:measured", arguments=arguments)


def measured(function: str, arguments: dict[str, Any]) -> Round:
    """Prepare a contender whose rounds also report peak memory.

    Args:
        function: "module:function", the function that prepares the contender.
        arguments: keyword arguments of the function.

    Returns:
        A function that runs one round. It returns the contender's own figures and two more, in
        GiB beyond the process before the model was built. "beyond" is the peak of steps after
        the warm-up. "prepared" is the peak while the model is built and compiled and runs its
        first steps. On an accelerator both are the peak since the process started, because some
        libraries cannot reset it.
    """
    module, _, name = function.partition(":")
    for library in _LIBRARIES[name]:
        importlib.import_module(library)
    prepare = getattr(importlib.import_module(module), name)
    release_memory()
    before = resident_bytes()
    run = prepare(**arguments)
    prepared = _peak() - before
    release_memory()

    def round_() -> dict[str, float]:
        figures = run()
        device_peak = _device_peak()
        beyond = _peak() - before if device_peak is None else device_peak
        first = prepared if device_peak is None else device_peak
        return {**figures, "beyond": beyond / 2**30, "prepared": first / 2**30}

    return round_


def release_memory() -> None:
    """Return free memory to the system and reset the peak, on Linux with glibc."""
    gc.collect()
    with suppress(OSError, AttributeError):
        # Memory that the C library keeps for later would count as used.
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def _peak() -> int:
    peak = machine.peak_memory_bytes()
    assert peak is not None  # `resident_bytes` has read the same file before
    return peak


def _device_peak() -> int | None:
    """Return the peak bytes on the accelerator that the contender uses; None on a processor."""
    library = "torch"
    if "keras" in sys.modules:
        import keras

        library = keras.backend.backend()
    if library == "jax":
        import jax

        statistics = jax.local_devices()[0].memory_stats() or {}
        return statistics.get("peak_bytes_in_use")
    if library == "tensorflow":
        import tensorflow as tf

        if not tf.config.list_physical_devices("GPU"):
            return None
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
