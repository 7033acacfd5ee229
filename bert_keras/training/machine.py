"""Facts of the machine, and memory of the process. Never names of hosts or users."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

# glibc's mallopt: numbers of malloc.h. Nothing comes from the system apart, nothing goes back, and
# threads share one heap: those of their own are too small for large tensors.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 256 << 20, _ARENA_MAX: 1}

# XLA ends a process that gives it a flag which it does not know: jaxlib 0.6 to 0.12 know this one.
_FOR_MEMORY = "--xla_cpu_enable_concurrency_optimized_scheduler"
_KNOWN_BEFORE = (0, 13)

_UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # that multiply matrices

# Packages whose versions a run depends on.
_PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "numpy", "tokenizers")

RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of what getrusage counts in


def peak_memory_bytes() -> int | None:
    """The most memory this process has had at once; None where the system does not tell."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    with contextlib.suppress(ImportError):
        import resource  # not on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT
    return None


def facts() -> dict[str, str | int | None]:
    """Return processor, platform, and the cpus and memory_bytes that may be used."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux
    cpus = len(allowed(0)) if allowed else os.cpu_count()
    memory = None
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on Windows
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(ValueError, OSError):  # the limit of a container; "max": none
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8"))
        memory = min(limit, memory or limit)
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    found = {"cpus": cpus, "memory_bytes": memory, "platform": system}
    return {"processor": _processor(), **found}


def versions() -> dict[str, str]:
    """Return the versions of the packages that a run depends on, as far as installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def gibibytes(size: object) -> str:
    """A number of bytes, for people; "unknown" where there is none."""
    return f"{size / 2**30:.1f} GiB" if isinstance(size, int) else "unknown"


def described(facts: Mapping[str, object]) -> str:
    """Return the result of `facts` as a line."""
    cores = f"{facts.get('cpus')} CPU cores of {facts.get('processor') or 'an unknown processor'}"
    return f"{cores}, {gibibytes(facts.get('memory_bytes'))} memory, {facts.get('platform')}"


def _processor() -> str | None:
    """Its name, and what it multiplies matrices with: rented ones are not always called apart."""
    values: dict[str, str] = {}
    with contextlib.suppress(OSError):  # Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            values[key.strip()] = value.strip()
    units = [unit for unit in _UNITS if unit in values.get("flags", "").split()]
    name = values.get("model name") or platform.processor() or None
    return f"{name} ({', '.join(units)})" if name and units else name


def keep_freed_memory() -> None:
    """Has the C library keep what a training step frees for the next one; glibc only.

    It would give hundreds of megabytes back to the system and get them again as pages of zeros, in
    every step (measured in docs/decisions.md). Best before a backend is imported, whose threads may
    have heaps of their own by then.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            set_option = ctypes.CDLL(None).mallopt
            for option, value in _KEPT.items():
                set_option(option, value)


def order_for_memory() -> None:
    """Has XLA order a processor's operations for little memory, where JAX is Keras's backend.

    It orders them for concurrency by itself, by which a training step on few cores is slower, and
    what gradient checkpointing computes again is computed early and kept (figures:
    benchmarks/results/NOTES.md). Before JAX computes anything; what XLA_FLAGS says of it already
    stays, and GPUs do not mind.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if os.environ.get("KERAS_BACKEND") != "jax" or _FOR_MEMORY in flags:
        return
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        first, second = importlib.metadata.version("jaxlib").split(".")[:2]
        if (int(first), int(second)) < _KNOWN_BEFORE:
            os.environ["XLA_FLAGS"] = f"{flags} {_FOR_MEMORY}=false".strip()
