"""The training checkpoint: model, optimizer, seeds and data position as one atomic unit."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import keras
from safetensors import SafetensorError

from bert_keras import atomic, strict_json
from bert_keras.errors import ArtifactError, ResourceError
from bert_keras.resume import manifest, variables

_STATE = "state.json"
_MARGIN = 1 << 16  # bytes for headers, names and the manifest


class TrainingCheckpoints:
    """The checkpoints of one run: `directory/step-00001200/` and the like.

    A checkpoint holds model.safetensors, optimizer.safetensors and seeds.safetensors, their order
    in variables.json, state.json, and MANIFEST.json with size and sha256 of each. It is complete
    or it is not there. Training that restores one goes on as if it had never stopped: on a CPU bit
    for bit on the same backend, provided that every random layer has an explicit seed; on an
    accelerator as exactly as its kernels repeat themselves.

    Args:
        directory: made at the first save. Only the holder of the run (see `RunLock`) may call.
        keep: how many checkpoints stay.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: int = 2):
        if keep < 1:
            raise ValueError(f"`keep` must be at least 1. Received: keep={keep}")
        self._directory = Path(directory)
        self._keep = keep
        self._damaged: set[Path] = set()

    def save(self, model: keras.Model, state: Mapping[str, Any]) -> Path:
        """Writes the checkpoint of `state["step"]`, then removes those that are too old.

        Args:
            model: built; if compiled, its optimizer is part of the checkpoint.
            state: JSON values, given back by `restore`: step, data position, log offset.

        Raises:
            ResourceError: no space or no permission. The old checkpoints stay.
            NumericError: a weight or an optimizer variable is not finite. Nothing is written.
            ValueError: a later checkpoint, not known to be damaged, exists.
        """
        step = state.get("step")
        if not isinstance(step, Integral) or isinstance(step, bool) or step < 0:
            raise ValueError(f'state["step"] must be an int >= 0. Received: {step!r}')
        step = int(step)
        text = json.dumps({**state, "step": step}, allow_nan=False, indent=1, sort_keys=True) + "\n"
        arrays = variables.collect(model, self.last_step)
        folder = self._directory / f"step-{step:08d}"
        needed = sum(array.nbytes for group in arrays.values() for array in group.values())
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            atomic.sweep(self._directory)
            self._refuse_if_later(step)
            self._require_space(folder, needed + len(text) + _MARGIN)
            with atomic.new_folder(folder) as temporary:
                atomic.write_text(temporary / _STATE, text)
                variables.write(temporary, arrays)
                manifest.seal(temporary)
        except (OSError, SafetensorError) as error:
            raise ResourceError(
                f"{folder}: not saved: {error}. {needed} bytes needed, {_free(self._directory)} "
                "free. The checkpoints before it are untouched; the same command resumes."
            ) from error
        self._prune(folder)
        return folder

    def restore(self, model: keras.Model) -> dict[str, Any] | None:
        """Puts the newest checkpoint that verifies into `model` and its optimizer.

        Args:
            model: built and compiled as the saved one was; names may have other counters.

        Returns:
            The state given to `save`; None if there is no checkpoint at all.

        Raises:
            ArtifactError: all are damaged, or the model is not the one that was saved.
        """
        if not self._directory.is_dir():
            return None
        atomic.sweep(self._directory)
        faults: dict[Path, str] = {}
        for folder in reversed(self._folders()):
            try:
                manifest.verify(folder)
            except ArtifactError as error:
                faults[folder] = str(error)
                continue
            state = strict_json.read(folder / _STATE)
            backend = variables.read_into(model, folder)
            break
        else:
            if not faults:
                return None
            listed = "\n".join(faults.values())
            raise ArtifactError(
                f"{self._directory}: no checkpoint is whole:\n{listed}\n"
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
        """The step of the newest checkpoint; None where there is none."""
        return _step(folders[-1]) if (folders := self._folders()) else None

    def _folders(self) -> list[Path]:
        """All checkpoints, oldest first."""
        found = self._directory.glob("step-*") if self._directory.is_dir() else ()
        named = [path for path in found if re.fullmatch(r"step-\d{8,}", path.name)]
        return sorted(named, key=_step)

    def _refuse_if_later(self, step: int) -> None:
        for folder in self._folders():
            if _step(folder) > step and folder not in self._damaged:
                raise ValueError(
                    f"{folder} is later than step {step}: restore it before training goes on, or "
                    "use another directory."
                )

    def _require_space(self, folder: Path, needed: int) -> None:
        free = _free(self._directory)
        if free < needed:
            raise ResourceError(
                f"{folder}: not saved: {needed} bytes needed, {free} free. Make room and run the "
                "same command again; the checkpoints before it are untouched."
            )

    def _prune(self, newest: Path) -> None:
        damaged = self._damaged - {newest}
        whole = [folder for folder in self._folders() if folder not in damaged]
        for folder in [*whole[: -self._keep], *damaged]:
            try:
                atomic.remove_folder(folder)
            except OSError as error:
                raise ResourceError(f"{folder}: too old, but cannot be removed: {error}") from error
        self._damaged = set()


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _free(directory: Path) -> int:
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free
