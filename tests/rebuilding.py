"""Checks of the operations that rebuild a model from its config."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests import contracts
from tests.contracts import numpy


def _by_config(model: Any, folder: Path) -> Any:
    del folder
    rebuilt = type(model).from_config(model.get_config())
    assert rebuilt.get_config() == model.get_config()
    rebuilt.set_weights(model.get_weights())
    return rebuilt


def by_file(model: Any, folder: Path) -> Any:
    """Save a model as a `.keras` file, and load it."""
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def _by_clone(model: Any, folder: Path) -> Any:
    del folder
    clone: Any = keras.models.clone_model(model)
    assert len(clone.weights) == len(model.weights)
    clone.set_weights(model.get_weights())
    return clone


def _by_copy(model: Any, folder: Path) -> Any:
    del folder
    return copy.deepcopy(model)


OPERATIONS: dict[str, Callable[[Any, Path], Any]] = {
    "get_config, from_config": _by_config,
    "save, load_model": by_file,
    "clone_model": _by_clone,
    "copy.deepcopy": _by_copy,
}


def sharing(model: Any) -> dict[str, list[int]]:
    """Return, for each layer name, the indices of its weights; shared weights have one index."""
    numbers = {id(weight): number for number, weight in enumerate(model.weights)}
    return {layer.name: [numbers[id(weight)] for weight in layer.weights] for layer in model.layers}


def _difference(model: Any, operation: str, x: Any, folder: Path) -> str:
    """Return a description of the first difference after an operation, or "" if none is found."""
    expected, shared = numpy(model(x)), sharing(model)
    try:
        rebuilt = OPERATIONS[operation](model, folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    if operation != "clone_model" and type(rebuilt) is not type(model):
        return f"class {type(rebuilt).__name__}"
    if len(rebuilt.weights) != len(model.weights):
        return f"{len(rebuilt.weights)} weights instead of {len(model.weights)}"
    if {id(weight) for weight in rebuilt.weights} & {id(weight) for weight in model.weights}:
        return "weights of the original"
    if operation != "get_config, from_config" and sharing(rebuilt) != shared:
        return f"sharing {sharing(rebuilt)} instead of {shared}"
    if [type(each) for each in rebuilt.layers] != [type(each) for each in model.layers]:
        return f"layers {[type(each).__name__ for each in rebuilt.layers]}"
    found = numpy(rebuilt(x))
    # Leaves are compared, because JSON turns tuples into lists.
    pairs = zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True)
    different = max(np.abs(np.subtract(*map(_as_float, pair))).max() for pair in pairs)
    return "" if different <= 1e-6 else f"outputs, by {different}"


def _as_float(values: Any) -> np.ndarray:
    return np.asarray(values, "float32")


def check_operations(
    name: str, makers: dict[str, Callable[[], tuple[Any, Any]]], folder: Path
) -> None:
    """Assert that no operation changes a model; print a table of the differences.

    Args:
        name: the name of the class or model in the table.
        makers: functions that return a model and its inputs, by name.
        folder: the folder of the files.
    """
    table: dict[tuple[str, str], str] = {}
    for part, make in makers.items():
        model, x = make()
        contracts.as_trained(model)
        for operation in OPERATIONS:
            table[part, operation] = _difference(model, operation, x, folder)
    lines = [
        f"{name:24} {part:24} {operation:24} {wrong or 'equal'}"
        for (part, operation), wrong in table.items()
    ]
    assert not any(table.values()), f"{keras.backend.backend()}\n" + "\n".join(lines)
