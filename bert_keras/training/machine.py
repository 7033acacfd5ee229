"""Facts of the machine, and memory of the process. Names of hosts and users are left out."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

# Options of glibc's mallopt, by their numbers in malloc.h: no memory is mapped separately, none is
# returned to the system, and threads share one heap. Heaps of threads are too small for tensors.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 256 << 20, _ARENA_MAX: 1}

# XLA ends the process at an unknown flag. jaxlib 0.6 to 0.12 know this one.
_CONCURRENT_SCHEDULER = "--xla_cpu_enable_concurrency_optimized_scheduler"
_FIRST_UNTESTED_JAXLIB = (0, 13)

_UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # matrix instructions

# Packages whose versions a run depends on.
_PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "numpy", "tokenizers")

RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of what getrusage counts in


def peak_memory_bytes() -> int | None:
    """Return the peak memory of this process in bytes; None if the system does not report it."""
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
    return {
        "processor": _processor(),
        "cpus": cpus,
        "memory_bytes": memory,
        "platform": system,
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that a run depends on, as far as installed."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def gibibytes(size: object) -> str:
    """Return a number of bytes as text in GiB, or in MiB if it is small; "unknown" for None."""
    if not isinstance(size, int):
        return "unknown"
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:.1f} MiB"


def described(facts: Mapping[str, object]) -> str:
    """Return the result of `facts` as a line."""
    cores = f"{facts.get('cpus')} CPU cores of {facts.get('processor') or 'an unknown processor'}"
    return f"{cores}, {gibibytes(facts.get('memory_bytes'))} memory, {facts.get('platform')}"


def _processor() -> str | None:
    """Return the name of the processor with its matrix instructions; None if it is unknown.

    Rented processors may share a name.
    """
    values: dict[str, str] = {}
    with contextlib.suppress(OSError):  # Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            values[key.strip()] = value.strip()
    units = [unit for unit in _UNITS if unit in values.get("flags", "").split()]
    name = values.get("model name") or platform.processor() or None
    return f"{name} ({', '.join(units)})" if name and units else name


def keep_freed_memory() -> None:
    """Let the C library keep the memory that a training step frees for the next one; glibc only.

    By default it returns hundreds of megabytes to the system and gets them again as pages of zeros,
    in every step (measured in docs/decisions.md). Call it before a backend is imported, because
    threads of the backend may get heaps of their own.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            set_option = ctypes.CDLL(None).mallopt
            for option, value in _KEPT.items():
                set_option(option, value)


def order_for_memory() -> None:
    """Add the option that saves memory on a CPU to XLA_FLAGS, if KERAS_BACKEND is "jax".

    The option is `--xla_cpu_enable_concurrency_optimized_scheduler=false`. Call this before JAX's
    first computation. On GPUs the option has no effect.

    Without the option, XLA orders operations for concurrency. On few cores a training step is then
    slower and takes more memory (figures: benchmarks/results/NOTES.md).

    A value that the user has set for the option stays. Nothing changes from jaxlib 0.13 on, which
    is not tested: XLA ends a process for an option that it does not know.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if os.environ.get("KERAS_BACKEND") != "jax" or _CONCURRENT_SCHEDULER in flags:
        return
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        first, second = importlib.metadata.version("jaxlib").split(".")[:2]
        if (int(first), int(second)) < _FIRST_UNTESTED_JAXLIB:
            os.environ["XLA_FLAGS"] = f"{flags} {_CONCURRENT_SCHEDULER}=false".strip()
