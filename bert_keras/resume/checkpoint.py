"""Training checkpoints: model, optimizer, random seeds and data position, saved atomically.

A manifest with the sha256 of every file detects damage, which the tensor files alone do not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bert_keras import file_io
from bert_keras.errors import ArtifactError, NumericError, ResourceError

NAME = "MANIFEST.json"
_FORMAT = "bert_keras training checkpoint 1"
_UNREADABLE = "{}: cannot be read ({}). Make it readable for the user of this process"


def seal_folder(folder: Path) -> None:
    """Write the manifest of all files in a folder. No file may be written there afterwards."""
    files = {path.name: _fingerprint(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"format": _FORMAT, "files": files}, indent=1, sort_keys=True) + "\n"
    file_io.write_text(folder / NAME, text)


def verify_folder(folder: Path) -> None:
    """Compare every file of a folder with its manifest.

    Raises:
        ArtifactError: if a file is damaged, missing or unreadable. The message names it.
    """
    path = folder / NAME
    try:
        path.open("rb").close()  # raises the precise reason, which `read_json` does not keep
        manifest = file_io.read_json(path)
    except FileNotFoundError:
        raise ArtifactError(f"{path}: the file is missing") from None
    except OSError as error:
        raise ArtifactError(_UNREADABLE.format(path, error.strerror)) from error
    except ArtifactError as error:
        raise ArtifactError(f"{path}: the file is damaged") from error
    values = manifest if isinstance(manifest, dict) else {}
    files = values.get("files")
    if values.get("format") != _FORMAT or not isinstance(files, dict):
        raise ArtifactError(f"{path}: the file is damaged, or of another version of bert_keras")
    for name, expected in files.items():
        path = folder / name
        try:
            received = _fingerprint(path)
        except FileNotFoundError:
            raise ArtifactError(f"{path}: the file is missing") from None
        except OSError as error:
            raise ArtifactError(_UNREADABLE.format(path, error.strerror)) from error
        if received != expected:
            fault = f"Expected {expected}. Received: {received}"
            raise ArtifactError(f"{path}: the file is damaged. {fault}")


def _fingerprint(path: Path) -> dict[str, str | int]:
    """Return sha256 and size in bytes of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"sha256": digest.hexdigest(), "size": file.tell()}


# === Variables of a training ===
# A stored variable is identified by its position in the list. Shape, dtype and path must also be
# equal. Paths depend on the process in two ways, which the comparison ignores. Automatic counters
# ("dense_1", "adam_w_1", "seed_generator_3") count what else the process has built. A prefix
# ("loss_scale_optimizer/adam_w") appears if Keras itself built the optimizer in the first step.


_MODEL, _OPTIMIZER, _SEEDS = "model.safetensors", "optimizer.safetensors", "seeds.safetensors"
_INDEX = "variables.json"

Arrays = dict[str, dict[str, np.ndarray]]


def collect_variables(model: keras.Model, last_step: int | None = None) -> Arrays:
    """Copy the variables of a built model and its optimizer to NumPy arrays, without metrics.

    Args:
        model: the model.
        last_step: step of the last checkpoint, for messages; None if there is none.

    Returns:
        File name -> path of a variable -> its values.

    Raises:
        ValueError: if two variables of one file have the same path.
        NumericError: if a variable is not finite. The message names it.
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
            # Only floats can be non-finite. NumPy gives bfloat16 and similar types the kind "V".
            if array.dtype.kind in "fV" and not np.isfinite(array).all():
                kept = "no checkpoint yet" if last_step is None else f"that of step {last_step}"
                raise NumericError(
                    f"{variable.path} is not finite: nothing was saved. The last good checkpoint: "
                    f"{kept}. Lower the learning rate or clip the gradients."
                )
            arrays[file][variable.path] = array
    return arrays


def write_variables(folder: Path, arrays: Arrays) -> None:
    """Write one safetensors file for each group of arrays, and variables.json with their order."""
    order = {file: list(group) for file, group in arrays.items()}
    index = {"backend": keras.backend.backend(), "keras": keras.__version__, "order": order}
    path = folder / _INDEX
    file_io.write_text(path, json.dumps(index, indent=1) + "\n")
    for file, group in arrays.items():
        save_file(group, folder / file)
        # safetensors makes files that only the owner can read. Follow the user's umask instead.
        (folder / file).chmod(path.stat().st_mode)


def read_variables_into(model: keras.Model, folder: Path) -> str:
    """Assign the variables that `write_variables` wrote. On an error nothing is assigned.

    Returns:
        Name of the backend that wrote the checkpoint.

    Raises:
        ArtifactError: if a variable differs in path, shape or dtype. The message names it.
    """
    index = file_io.read_json(folder / _INDEX)
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
    """Build the optimizer, and return a model's variables by file: weights, optimizer, seeds.

    Raises:
        ValueError: if the model is not built.
    """
    if not model.built:
        raise ValueError("The model has no variables yet: build it before saving or restoring.")
    if hasattr(model, "jax_state_sync"):
        # During `fit` on JAX the trainer holds the current values. This call writes them into the
        # variables, and makes the trainer read the variables again, with all later changes.
        model.jax_state_sync()
    optimizer = getattr(model, "optimizer", None)  # absent before `compile`
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    # A seed generator shared by a layer and its sublayer is listed twice.
    unique = {id(variable): variable for variable in model.variables}
    for variable in getattr(model, "fixed_variables", ()):  # those of a Distiller's teacher
        unique.pop(id(variable), None)
    seeds = [variable for variable in unique.values() if variable.name == "seed_generator_state"]
    weights = [variable for variable in unique.values() if variable.name != "seed_generator_state"]
    of_optimizer = optimizer.variables if optimizer is not None else []
    return {_MODEL: weights, _OPTIMIZER: of_optimizer, _SEEDS: seeds}


def _read(path: Path, names: list[str]) -> Iterator[np.ndarray]:
    """Yield the tensors of these names from a safetensors file."""
    try:
        with safe_open(path, framework="np") as file:
            for name in names:
                yield file.get_tensor(name)
    except SafetensorError as error:
        raise ArtifactError(f"{path}: {error}. Remove the folder to go back one save.") from error


def _fit(variable: Any, name: str, array: np.ndarray, path: Path) -> np.ndarray:
    """Return stored values in the dtype of their variable.

    Raises:
        ArtifactError: if the path (`name`), shape or dtype differ from those of `variable`.
    """
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
    """Return whether two paths are equal except for counters and a prefix."""
    names = [re.sub(r"_\d+(?=[/_]|$)", "", f"/{path}") for path in (saved, received)]
    short, long = sorted(names, key=len)
    return long.endswith(short)


# === Training checkpoint ===


_STATE = "state.json"
_MARGIN = 1 << 16  # bytes for headers, names and the manifest


class TrainingCheckpoints:
    """The training checkpoints of one run, in folders such as `directory/step-00001200/`.

    A checkpoint consists of model.safetensors, optimizer.safetensors, seeds.safetensors,
    variables.json (the order of the variables), state.json, and MANIFEST.json with size and sha256
    of each file. It is written atomically: it is complete or does not exist.

    A restored training continues as if it had never stopped. On a CPU with the same backend it is
    equal bit for bit, if every random layer has an explicit seed. On an accelerator it is as exact
    as the accelerator's kernels are deterministic.

    Args:
        directory: folder of the checkpoints, created at the first save. Only the process that holds
            the run (see `RunLock`) may use it.
        keep: number of checkpoints to keep.

    Raises:
        ValueError: if `keep` is less than 1.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: int = 2):
        if keep < 1:
            raise ValueError(f"`keep` must be at least 1. Received: keep={keep}")
        self._directory, self._keep = Path(directory), keep
        self._damaged: set[Path] = set()

    def save(self, model: keras.Model, state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of `state["step"]`, then remove checkpoints that are too old.

        Args:
            model: built model. If it is compiled, the checkpoint includes its optimizer.
            state: JSON values that `restore` will return: "step", data position, log offset.

        Returns:
            Folder of the checkpoint.

        Raises:
            ResourceError: if there is no space or no permission. The old checkpoints stay.
            NumericError: if a weight or optimizer variable is not finite. Nothing is written.
            ValueError: if "step" is not valid, or there is a later checkpoint that is not damaged.
        """
        step = state.get("step")
        if not isinstance(step, Integral) or isinstance(step, bool) or step < 0:
            raise ValueError(f'state["step"] must be an int >= 0. Received: {step!r}')
        step = int(step)
        text = json.dumps({**state, "step": step}, allow_nan=False, indent=1) + "\n"
        arrays = collect_variables(model, self.last_step)
        folder = self._directory / f"step-{step:08d}"
        needed = sum(array.nbytes for group in arrays.values() for array in group.values())
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file_io.sweep(self._directory)
            self._refuse_if_later(step)
            self._require_space(folder, needed + len(text) + _MARGIN)
            with file_io.new_folder(folder) as temporary:
                file_io.write_text(temporary / _STATE, text)
                write_variables(temporary, arrays)
                seal_folder(temporary)
        except (OSError, SafetensorError) as error:
            raise ResourceError(
                f"{folder}: not saved: {error}. {needed} bytes needed, {_free(self._directory)} "
                "free. The checkpoints before it are untouched; the same command resumes."
            ) from error
        self._prune(folder)
        return folder

    def restore(self, model: keras.Model) -> dict[str, Any] | None:
        """Assign the newest undamaged checkpoint to a model and its optimizer.

        Warns if newer checkpoints are damaged, or another backend wrote the checkpoint.

        Args:
            model: model that is built and compiled like the saved one.

        Returns:
            The state that was passed to `save`; None if there is no checkpoint.

        Raises:
            ArtifactError: if all checkpoints are damaged, or the model is not the saved one.
        """
        if not self._directory.is_dir():
            return None
        file_io.sweep(self._directory)
        faults: dict[Path, str] = {}
        for folder in reversed(self._folders()):
            try:
                verify_folder(folder)
            except ArtifactError as error:
                faults[folder] = str(error)
                continue
            state = file_io.read_json(folder / _STATE)
            backend = read_variables_into(model, folder)
            break
        else:
            if not faults:
                return None
            listed = "\n".join(faults.values())
            raise ArtifactError(
                f"{self._directory}: all checkpoints are damaged:\n{listed}\n"
                "Put back an intact copy, or begin a new run."
            )
        self._damaged = set(faults)
        if faults:
            newest = next(iter(faults))
            warnings.warn(
                f"{'; '.join(faults.values())}. Going back from step {_step(newest)} to step "
                f"{_step(folder)}; steps to repeat: {_step(newest) - _step(folder)}.",
                stacklevel=2,
            )
        if backend != keras.backend.backend():
            warnings.warn(
                f"{folder}: saved on {backend}, resumed on {keras.backend.backend()}: the weights "
                "are the same, the rest of the run equals the uninterrupted one only roughly.",
                stacklevel=2,
            )
        return state

    @property
    def last_step(self) -> int | None:
        """Step of the newest checkpoint; None if there is none."""
        return _step(folders[-1]) if (folders := self._folders()) else None

    def _folders(self) -> list[Path]:
        """Return the folders of all checkpoints, oldest first."""
        candidates = self._directory.glob("step-*") if self._directory.is_dir() else ()
        named = [path for path in candidates if re.fullmatch(r"step-\d{8,}", path.name)]
        return sorted(named, key=_step)

    def _refuse_if_later(self, step: int) -> None:
        """Raise `ValueError` if an undamaged checkpoint of a later step exists."""
        for folder in self._folders():
            if _step(folder) > step and folder not in self._damaged:
                raise ValueError(
                    f"{folder} is later than step {step}: restore it before training goes on, or "
                    "use another directory."
                )

    def _require_space(self, folder: Path, needed: int) -> None:
        """Raise `ResourceError` if the disk has fewer than `needed` bytes free."""
        free = _free(self._directory)
        if free < needed:
            raise ResourceError(
                f"{folder}: not saved: {needed} bytes needed, {free} free. Make room and run the "
                "same command again; the checkpoints before it are untouched."
            )

    def _prune(self, newest: Path) -> None:
        """Remove damaged checkpoints and all but the last `keep` others."""
        damaged = self._damaged - {newest}
        whole = [folder for folder in self._folders() if folder not in damaged]
        for folder in [*whole[: -self._keep], *damaged]:
            try:
                file_io.remove_folder(folder)
            except OSError as error:
                text = f"{folder}: too old, but cannot be removed: {error}. Remove it by hand."
                raise ResourceError(text) from error
        self._damaged = set()


def _step(folder: Path) -> int:
    """Return the step of a checkpoint folder, by its name."""
    return int(folder.name.removeprefix("step-"))


def _free(directory: Path) -> int:
    """Return the free bytes of the disk on which a folder is, or will be."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free
