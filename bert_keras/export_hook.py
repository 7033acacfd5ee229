"""Hook of `export`, Keras's method: `models` calls it, and `import bert_keras` sets it.

The writers of files are a floor above the models, and a module imports floors below it only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Writer = Callable[..., bool]
_writers: list[Writer] = []  # one at most


def set_writer(writer: Writer) -> None:
    """Set the function that `is_written` calls.

    Args:
        writer: takes the arguments of `is_written` and returns what it returns.
    """
    _writers[:] = [writer]


def is_written(
    model: Any,
    filepath: Any,
    format: str,  # noqa: A002
    options: Mapping[str, Any],
    *,
    verbose: bool | None = None,
) -> bool:
    """Write a model's file with the writer that is set; see `export.keras_export.is_written`.

    Returns:
        True where the file is written. False where the caller calls Keras's own `export`: for a
        SavedModel on TensorFlow, for formats that no writer knows, and where no writer is set.
    """
    return any(writer(model, filepath, format, options, verbose=verbose) for writer in _writers)
