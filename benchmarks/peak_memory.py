"""The most memory a contender takes beyond what its process had before its model was made.

On a processor it is resident memory, as Linux counts it, the libraries' code and data left out; on
an accelerator it is what the library's allocator has handed out.
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

# What is imported before a model is made, by the function that makes it.
_LIBRARIES = {
    "ours": ("bert_keras.models", "bert_keras.optimization"),
    "keras_hub": ("keras_hub",),
    "transformers": ("torch", "transformers.models.bert.modeling_bert"),
}


def with_memory(contender: Contender) -> Contender:
    """The same one of `train_steppers` or `mean_vectors`, whose rounds tell peak memory too."""
    arguments = {"function": contender.function, "arguments": dict(contender.arguments)}
    return replace(contender, function=f"{__name__}:measured", arguments=arguments)


def measured(function: str, arguments: dict[str, Any]) -> Round:
    """A contender whose rounds tell peak memory too.

    Args:
        function: "module:function" that prepares it.
        arguments: of the function.

    Returns:
        Rounds with the figures of the function's, and in GiB: "beyond", the peak in steps that were
        warmed up, beyond the process before its model was made; "prepared", the peak of making,
        compiling and the first steps, likewise. On an accelerator, whose peak some libraries do not
        forget, both are the peak since the beginning.
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
        found = _device_peak()
        beyond = _peak() - before if found is None else found
        first = prepared if found is None else found
        return {**figures, "beyond": beyond / 2**30, "prepared": first / 2**30}

    return round_


def release_memory() -> None:
    """Gives back what is free, and begins a new peak; Linux with glibc."""
    gc.collect()
    with suppress(OSError, AttributeError):
        # What the C library keeps for later would count as taken.
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def resident_bytes() -> int:
    """Return the memory that this process has resident."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def _peak() -> int:
    peak = machine.peak_memory_bytes()
    assert peak is not None  # `resident_bytes` has read the same file
    return peak


def _device_peak() -> int | None:
    """Bytes on the accelerator that the contender computes with; None on a processor."""
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
