"""Hooks: code around imports, a filter of TensorFlow's first messages, the writer of `export`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def find_spec(name: str, path: Any, target: Any) -> ModuleSpec | None:
    """Search a module as the import system does."""
    for finder in tuple(sys.meta_path):
        search = getattr(finder, "find_spec", None)
        spec = search and search(name, path, target)
        if spec is not None:
            return spec
    return None


class WatchedLoader:
    """The loader of a module, which executes the module inside a context manager.

    Args:
        loader: the module's own loader.
        around: called with the module; returns the context manager.
    """

    def __init__(self, loader: Any, around: Callable[[ModuleType], AbstractContextManager[None]]):
        self._loader, self._around = loader, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # sources, resources and all else a loader is asked for

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that the loader makes."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module as its loader does. The module keeps its own loader."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:  # pyright: ignore[reportUnnecessaryComparison]
            spec.loader = module.__loader__ = self._loader
        with self._around(module):
            self._loader.exec_module(module)


# === Hook of `export` ===
# The writers of files are a floor above the models, and a module imports floors below it only.


Writer = Callable[..., bool]
_writers: list[Writer] = []  # one at most


def set_export_writer(writer: Writer) -> None:
    """Set the function that `is_written` calls.

    Args:
        writer: takes the arguments of `is_written` and returns what it returns.
    """
    _writers[:] = [writer]


def is_exported(
    model: Any,
    filepath: Any,
    format: str,  # noqa: A002
    options: Mapping[str, Any],
    *,
    verbose: bool | None = None,
) -> bool:
    """Write a model's file with the writer that is set; see `export.runtime_model.is_written`.

    Returns:
        True where the file is written. False where the caller calls Keras's own `export`: for a
        SavedModel on TensorFlow, for formats that no writer knows, and where no writer is set.
    """
    return any(writer(model, filepath, format, options, verbose=verbose) for writer in _writers)


# === Filter of stderr ===
# TensorFlow writes about oneDNN and CUDA before its logging is set up, so `TF_CPP_MIN_LOG_LEVEL`
# does not hold there. While it is imported, file descriptor 2 is a pipe to a small process, which
# drops the known lines and passes on everything else at once. It is a process because it must
# outlive a crash of this one: what a program writes before `abort()` or `os._exit()` still arrives.
# It is no fork, which is unsafe beside the threads of JAX and PyTorch.


_MODULE = "tensorflow"
_READY = b"r"
_SECONDS = 2.0  # to wait for the last lines; only a process that outlives the import takes so long
# A line of absl or of TensorFlow's older logging: severity, time, source file.
_HEAD = rb"^(?:[IWE]\d{4} [\d:. ]+|\d{4}-\d\d-\d\d [\d:.]+: [IWE] )\S*"
_KNOWN = re.compile(
    rb"^WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|" + _HEAD + rb"\bport\.cc:\d+\] oneDNN custom operations are on\."
    rb"|" + _HEAD + rb"\bcudart_stub\.cc:\d+\] Could not find cuda drivers on your machine"
    rb"|" + _HEAD + rb"\bcuda_(?:fft|dnn|blas)\.cc:\d+\] Unable to register cu\w+ factory: "
    rb"|" + _HEAD + rb"\bcomputation_placer\.cc:\d+\] computation placer already registered\."
    rb"|" + _HEAD + rb"\bcpu_feature_guard\.cc:\d+\] This TensorFlow binary is optimized to use "
    rb"|^To enable the following instructions: .*rebuild TensorFlow with the appropriate compiler "
    rb"|" + _HEAD + rb"\bpy_utils\.cc:\d+\] TF-TRT Warning: Could not find TensorRT"
)


def is_known(line: bytes) -> bool:
    """Return whether a line is one that TensorFlow's import writes everywhere."""
    return _KNOWN.match(line) is not None


def install() -> None:
    """Filter stderr while TensorFlow is imported, whenever and by whomever that is."""
    if _MODULE not in sys.modules and not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """A finder that wraps the loader of TensorFlow."""

    def __init__(self) -> None:
        self._is_searching = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Return the spec that the other finders have for TensorFlow, else None."""
        if name != _MODULE or self._is_searching:
            return None

        self._is_searching = True
        try:
            spec: Any = find_spec(name, path, target)
        finally:
            self._is_searching = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = WatchedLoader(spec.loader, lambda _: filtered())
        return spec


@contextmanager
def filtered() -> Generator[None]:
    """Filter what any code of this process writes to file descriptor 2; do nothing without one."""
    process = _start()
    if process is None:
        yield
        return
    original = os.dup(2)
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    try:
        yield
    finally:
        _flush()
        os.dup2(original, 2)  # closes the pipe, so that the process ends
        os.close(original)
        _wait(process)


def _start() -> Any:
    """Return the process of the filter when it reads; None where there cannot be one."""
    import subprocess

    try:
        os.fstat(2)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends the program; the filter ends after it
        )
    except (OSError, ValueError):
        return None
    assert process.stdout is not None
    with process.stdout:
        if process.stdout.read(1) == _READY:
            return process
    process.kill()
    process.communicate()
    return None


def _flush() -> None:
    with suppress(OSError, ValueError, AttributeError):  # a stderr that is closed, or None
        sys.stderr.flush()


def _wait(process: Any) -> None:
    """Wait until the last lines are written: what comes next on stderr comes after them."""
    import subprocess

    with suppress(subprocess.TimeoutExpired):  # a process that was started meanwhile has the pipe
        process.wait(_SECONDS)


def _main() -> None:
    """Pass standard input on to stderr, without the known lines, until it ends."""
    os.write(1, _READY)
    os.close(1)
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        _write(b"".join(line + b"\n" for line in lines if not is_known(line)))
    if not is_known(rest):
        _write(rest)


def _write(data: bytes) -> None:
    """Write all bytes; what nobody can read any more is dropped, as the program would drop it."""
    with suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


if __name__ == "__main__":
    _main()
