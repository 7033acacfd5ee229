"""Everything that decides how training goes on, as named arrays, and back into a model.

A variable is known by its place in the list; shape, dtype and path must agree. Paths depend on the
process in two ways, which the comparison leaves out: automatic counters ("dense_1", "adam_w_1",
"seed_generator_3") tell what else it has built, and a prefix ("loss_scale_optimizer/adam_w") may
tell that Keras itself built the optimizer, at the first step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bert_keras import atomic, strict_json
from bert_keras.errors import ArtifactError, NumericError

_MODEL, _OPTIMIZER, _SEEDS = "model.safetensors", "optimizer.safetensors", "seeds.safetensors"
_INDEX = "variables.json"

Arrays = dict[str, dict[str, np.ndarray]]


def collect(model: keras.Model, last_step: int | None = None) -> Arrays:
    """Copy the state of a built model to NumPy: `{file: {path: array}}`, metrics excluded.

    Args:
        model: the model.
        last_step: the step of the last checkpoint, for messages; None where there is none.

    Raises:
        ValueError: two variables of one file have the same path.
        NumericError: names the first variable that is not finite.
    """
    arrays: Arrays = {}
    for file, variables in _variables(model).items():
        arrays[file] = {}
        for variable in variables:
            if variable.path in arrays[file]:
                raise ValueError(
                    f"Two variables have the path {variable.path!r}. Give each layer its own name."
                )
            array = np.asarray(keras.ops.convert_to_numpy(variable.value), order="C")
            # Of the standard kinds only floats can be non-finite; "V" are bfloat16 and its kin.
            if array.dtype.kind in "fV" and not np.isfinite(array).all():
                kept = "no checkpoint yet" if last_step is None else f"that of step {last_step}"
                raise NumericError(
                    f"{variable.path} is not finite: nothing was saved. The last good checkpoint: "
                    f"{kept}. Lower the learning rate or clip the gradients."
                )
            arrays[file][variable.path] = array
    return arrays


def write(folder: Path, arrays: Arrays) -> None:
    """Writes one safetensors file for each group, and the order of their variables."""
    order = {file: list(group) for file, group in arrays.items()}
    index = {"backend": keras.backend.backend(), "keras": keras.__version__, "order": order}
    path = folder / _INDEX
    atomic.write_text(path, json.dumps(index, indent=1) + "\n")
    for file, group in arrays.items():
        save_file(group, folder / file)
        # safetensors lets only the owner read; our files follow the user's umask.
        (folder / file).chmod(path.stat().st_mode)


def read_into(model: keras.Model, folder: Path) -> str:
    """Assigns what `write` wrote, all of it or nothing.

    Returns:
        The backend on which it was written.

    Raises:
        ArtifactError: names the first variable that the model has otherwise.
    """
    index = strict_json.read(folder / _INDEX)
    assignments = []
    for file, variables in _variables(model).items():
        names = index["order"][file]
        if len(names) != len(variables):
            raise ArtifactError(
                f"{folder / file}: {len(names)} variables in the file, {len(variables)} in the "
                "model. Resume with the configuration and the optimizer of the saved run."
            )
        stored = _read(folder / file, names)
        for variable, name, array in zip(variables, names, stored, strict=True):
            assignments.append((variable, _fit(variable, name, array, folder / file)))
    for variable, array in assignments:
        variable.assign(array)
    return index["backend"]


def _variables(model: keras.Model) -> dict[str, list[Any]]:
    if not model.built:
        raise ValueError("The model has no variables yet: build it before saving or restoring.")
    if hasattr(model, "jax_state_sync"):
        # Inside `fit` on JAX the values live in the trainer, which reads the variables again
        # after this call: so it also sees what is assigned to them.
        model.jax_state_sync()
    optimizer = getattr(model, "optimizer", None)  # absent before `compile`
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    # A seed generator shared by a layer and its sublayer is listed twice.
    unique = {id(variable): variable for variable in model.variables}
    for variable in getattr(model, "fixed_variables", ()):  # which a run never changes
        unique.pop(id(variable), None)
    seeds = [variable for variable in unique.values() if variable.name == "seed_generator_state"]
    weights = [variable for variable in unique.values() if variable.name != "seed_generator_state"]
    slots = optimizer.variables if optimizer is not None else []
    return {_MODEL: weights, _OPTIMIZER: slots, _SEEDS: seeds}


def _read(path: Path, names: list[str]) -> Iterator[np.ndarray]:
    try:
        with safe_open(path, framework="np") as file:
            for name in names:
                yield file.get_tensor(name)
    except SafetensorError as error:
        raise ArtifactError(f"{path}: {error}") from error


def _fit(variable: Any, name: str, array: np.ndarray, path: Path) -> np.ndarray:
    dtype = np.dtype(variable.dtype)
    # Backends count steps and seeds in different integers, equal modulo 2**32.
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        array = array.astype(dtype)
    same = array.shape == tuple(variable.shape) and array.dtype == dtype
    if not same or not _same_name(name, variable.path):
        raise ArtifactError(
            f"{path}: has {name} {array.shape} {array.dtype} where the model has {variable.path} "
            f"{tuple(variable.shape)} {dtype}. Resume with the configuration of the saved run."
        )
    return array


def _same_name(saved: str, received: str) -> bool:
    names = [re.sub(r"_\d+(?=[/_]|$)", "", f"/{path}") for path in (saved, received)]
    short, long = sorted(names, key=len)
    return long.endswith(short)
