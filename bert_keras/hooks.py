"""Hooks: code around imports, the writer of `export`, a filter of TensorFlow's first messages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT, as a shell reports it


@contextmanager
def ending_at_interrupt() -> Generator[None]:
    """End the process at a Ctrl-C within the block, which imports the modules of a program.

    A `KeyboardInterrupt` would show a traceback of imports, and a compiled module might hide it.
    Nothing is written yet that must be removed. A handler that is installed already stays.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(number: int, frame: object) -> None:
        """End the process without a traceback."""
        del number, frame
        with suppress(OSError):
            os.write(2, b"error: interrupted\n")
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def find_spec(name: str, path: Any, target: Any) -> ModuleSpec | None:
    """Return the spec of a module from the first finder on `sys.meta_path` that has one."""
    for finder in tuple(sys.meta_path):
        search = getattr(finder, "find_spec", None)
        spec = search and search(name, path, target)
        if spec is not None:
            return spec
    return None


class WatchedLoader:
    """Loader that executes a module inside a context manager.

    Args:
        loader: loader of the module.
        around: function from the module to the context manager.
    """

    def __init__(self, loader: Any, around: Callable[[ModuleType], AbstractContextManager[None]]):
        self._loader, self._around = loader, around

    def __getattr__(self, name: str) -> Any:
        """Return a further attribute of the module's loader, such as its method `get_source`."""
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with its own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module with its own loader, which the module also keeps as an attribute."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:  # pyright: ignore[reportUnnecessaryComparison]
            spec.loader = module.__loader__ = self._loader
        with self._around(module):
            self._loader.exec_module(module)


# === Hook of `export` ===
# `models` must not import `export`, which is a floor above it. So the writer is set from outside.


Writer = Callable[..., bool]
_writers: list[Writer] = []  # at most one


def set_export_writer(writer: Writer) -> None:
    """Set the function that `is_exported` calls.

    Args:
        writer: function with the arguments and the result of `is_exported`.
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
        True if the file was written. False if the caller has to call Keras's own `export`: for a
        SavedModel on TensorFlow, for unknown formats, or if no writer is set.
    """
    return any(writer(model, filepath, format, options, verbose=verbose) for writer in _writers)


# === Filter of stderr ===
# TensorFlow writes about oneDNN and CUDA before its logging is set up, so `TF_CPP_MIN_LOG_LEVEL`
# has no effect on these lines. During its import, file descriptor 2 is a pipe to a small process,
# which drops the known lines and passes on everything else at once. A separate process survives a
# crash of this one, so output before `abort()` or `os._exit()` still arrives. It is started anew
# and not forked, because a fork is unsafe beside the threads of JAX and PyTorch.


_MODULE = "tensorflow"
_READY = b"r"
_SECONDS = 2.0  # longest wait for the last lines, needed if another process holds the pipe
# Beginning of a line of absl or of TensorFlow's older logging: severity, time, source file.
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
    """Return whether a line of stderr is one of TensorFlow's usual lines, which are dropped."""
    return _KNOWN.match(line) is not None


def install() -> None:
    """Arrange that stderr is filtered during the import of TensorFlow by any code."""
    if _MODULE not in sys.modules and not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finder on `sys.meta_path` that wraps the loader of TensorFlow."""

    def __init__(self) -> None:
        self._is_searching = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Return the spec of TensorFlow with a wrapped loader; None for any other module."""
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
    """Filter everything that this process writes to file descriptor 2, if it is open."""
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
        os.dup2(original, 2)  # closes the pipe, which ends the process
        os.close(original)
        _wait(process)


def _start() -> Any:
    """Start the filter and wait until it reads; return None if it cannot be started."""
    import subprocess

    try:
        os.fstat(2)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must end the program, and not the filter first
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
    """Flush Python's buffer of stderr."""
    with suppress(OSError, ValueError, AttributeError):  # stderr may be closed or None
        sys.stderr.flush()


def _wait(process: Any) -> None:
    """Wait until the filter has written its last lines, so that later output follows them."""
    import subprocess

    with suppress(subprocess.TimeoutExpired):  # a process started meanwhile may hold the pipe
        process.wait(_SECONDS)


def _main() -> None:
    """Run the filter: copy standard input to stderr without the known lines."""
    os.write(1, _READY)
    os.close(1)
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        _write(b"".join(line + b"\n" for line in lines if not is_known(line)))
    if not is_known(rest):
        _write(rest)


def _write(data: bytes) -> None:
    """Write all bytes to stderr. If its reader has gone, they are dropped."""
    with suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


if __name__ == "__main__":
    _main()
