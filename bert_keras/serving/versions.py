"""Served models by name, with their versions: opening, hot swap, labels and states."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.export.runtime_predictor import RuntimePredictor
from bert_keras.export.runtimes import formats
from bert_keras.predictor import Predictor
from bert_keras.serving.batching import Batcher
from bert_keras.serving.loaded_model import LoadedModel, PredictorModel
from bert_keras.serving.saved_model import SavedModel
from bert_keras.serving.signatures import DEFAULT

logger = logging.getLogger("bert_keras.serving")

_NAME = re.compile(r"[\w.-]+")
_SAVED_MODEL = "saved_model.pb"
_MOST_DIGITS = 18  # of a version number, which has 64 bits in TensorFlow Serving
# States of a version, as TensorFlow Serving names them.
AVAILABLE, LOADING, FAILED = "AVAILABLE", "LOADING", "END"


class NotFoundError(LookupError):
    """There is no model, version or label of this name."""


@dataclass(frozen=True)
class Options:
    """Options with which models are opened and run.

    Attributes:
        trust: True to serve SavedModels of other programs.
        dtype: Keras dtype policy of checkpoints; None for the global one.
        device: Keras device of checkpoints, such as "gpu:0"; None for the default.
        max_batch: largest number of rows of a batch.
        max_wait: longest time that a row waits for other rows, in seconds.
        max_queue: largest number of rows that wait for a model.
        report: function that is called after every batch with (name, version, rows, seconds).
    """

    trust: bool = False
    dtype: str | None = None
    device: str | None = None
    max_batch: int = 32
    max_wait: float = 0.002
    max_queue: int = 2048
    report: Callable[[str, int, int, float], None] | None = None


class Version:
    """A loaded version of a model, with its queue.

    Attributes:
        name: name of the model.
        number: number of the version.
        model: the loaded model.
        batcher: its queue.
    """

    def __init__(self, name: str, number: int, model: LoadedModel, options: Options):
        self.name, self.number, self.model = name, number, model
        self._report = options.report
        self.batcher = Batcher(
            name,
            max_batch=options.max_batch,
            max_wait=options.max_wait,
            max_queue=options.max_queue,
            pad_id=model.pad_id,
            report=self._report_batch,
        )

    def _report_batch(self, rows: int, seconds: float) -> None:
        """Pass the size and time of a batch on."""
        if self._report is not None:
            self._report(self.name, self.number, rows, seconds)

    def warm_up(self) -> None:
        """Run a few texts, so that the first request is not slow, and check the outputs.

        Raises:
            ArtifactError: if the model fails, or a number is not finite.
        """
        signature = self.model.signatures.get(DEFAULT)
        if signature is None or not signature.has_text_rows:
            return
        text = f"{self.model.mask_token or ''} a text".strip()
        for rows in (1, 2, 8):
            columns = {
                name: [[text, text]] * rows if name == "options" else [text] * rows
                for name in signature.inputs
            }
            try:
                outputs = self.batcher.submit(signature, columns, rows).future.result()
            except Exception as error:
                raise ArtifactError(f"{self.name}: does not answer ({error}).") from error
            for name, values in outputs.items():
                if values.dtype.kind == "f" and not np.isfinite(values).all():
                    raise ArtifactError(f"{self.name}: {name} has numbers that are not finite.")


class ServedModel:
    """A model with the versions that are loaded.

    Args:
        name: name in the paths of requests.
        source: folder of a checkpoint or of one version, preset or `hf://` handle; or a folder of
            numbered versions, which is watched.
        labels: label -> version number, which stays loaded beside the newest one.
        options: how versions are opened and run.

    Attributes:
        created: seconds since 1970 at which the first version was loaded.

    Raises:
        UsageError: if a label names a version that does not exist, or the model cannot be served.
        ArtifactError: if the model is damaged.
    """

    def __init__(
        self, name: str, source: str, labels: Mapping[str, int] | None = None, *, options: Options
    ):
        self.name, self.source, self.labels = name, source, dict(labels or {})
        self._options = options
        self._lock = threading.Lock()  # one load at a time
        self._versions: dict[int, Version] = {}
        # Version number -> (files that failed to load, message); tried again when the files change.
        self._failures: dict[int, tuple[Any, str]] = {}
        self._loading: int | None = None
        # A version whose files are still being copied is not loaded. It is settled when two looks
        # find the same files.
        self._settled: set[int] = set()
        self._seen_files: dict[int, Any] = {}
        self.created = int(time.time())
        self.is_watched = _is_base_folder(Path(source))
        self._open()

    def _open(self) -> None:
        """Load the first versions."""
        if self.is_watched:
            present = _versions_in(Path(self.source))
            self._settled = set(present)
            if missing := sorted(set(self.labels.values()) - set(present)):
                raise UsageError(
                    f"{self.source}: there is no version {missing[0]}, which --label names. "
                    f"Versions: {', '.join(map(str, sorted(present)))}"
                )
            errors = [error for n in self._wanted() if (error := self._try(n)) is not None]
            while not self._versions and (wanted := self._wanted()):
                errors += [error for n in wanted if (error := self._try(n)) is not None]
            if not self._versions or self._failures.keys() & set(self.labels.values()):
                raise errors[0]
            return
        if self.labels:
            raise UsageError(
                f"--label is for folders with numbered versions, such as saved_models/{self.name}. "
                f"Received: {self.source}"
            )
        number = int(Path(self.source).name) if _is_version(Path(self.source)) else 1
        self._versions[number] = self._load(number)

    @property
    def newest(self) -> Version:
        """The newest version that is loaded."""
        versions = self._versions
        return versions[max(versions)]

    @property
    def loaded(self) -> list[Version]:
        """All versions that are loaded, newest first."""
        return [version for _, version in sorted(self._versions.items(), reverse=True)]

    def version(self, number: int | None = None, label: str | None = None) -> Version:
        """Return a version: the newest, or that of a number or label.

        Raises:
            NotFoundError: if there is no such label, or the version is not loaded.
        """
        if label is not None:
            if label not in self.labels:
                raise NotFoundError(f"the model {self.name} has no version label {label!r:.80}")
            number = self.labels[label]
        if number is None:
            return self.newest
        version = self._versions.get(number)
        if version is None:
            raise NotFoundError(
                f"version {number} of the model {self.name} is not loaded; loaded: "
                f"{', '.join(str(version.number) for version in self.loaded)}"
            )
        return version

    def states(self) -> list[tuple[int, str, str]]:
        """Return (number, state, message) of all known versions, newest first."""
        found: dict[int, tuple[str, str]] = dict.fromkeys(self._versions, (AVAILABLE, ""))
        found |= {
            number: (FAILED, "The version does not load. The log of the server has the reason.")
            for number in self._failures
            if number not in found
        }
        if self._loading is not None:
            found[self._loading] = (LOADING, "")
        return [(number, *found[number]) for number in sorted(found, reverse=True)]

    def refresh(self) -> None:
        """Look for new and removed versions, and swap. Errors are logged, and nothing is lost.

        A new version is loaded by the second call that finds the same files.
        """
        if not self.is_watched:
            return
        with self._lock:
            self._settle()
            while missing := [n for n in self._wanted() if n not in self._versions]:
                self._try(missing[0])  # a version that fails is not wanted any more
            if wanted := self._wanted():
                self._unload(set(self._versions) - set(wanted))
            # Otherwise all folders were removed or are broken: what is loaded stays.

    def _settle(self) -> None:
        """Note which folders of versions have not changed since the last look."""
        present = set(_versions_in(Path(self.source)))
        self._settled &= present
        for gone in self._failures.keys() - present:
            del self._failures[gone]
        for number in present - self._settled:
            files = _fingerprint(Path(self.source, str(number)))
            if self._seen_files.get(number) == files:
                self._settled.add(number)
            self._seen_files[number] = files

    def close(self, timeout: float | None = None) -> None:
        """Answer the waiting requests, and unload all versions.

        Args:
            timeout: longest time to wait for each version, in seconds; None for any time.
        """
        for version in self.loaded:
            version.batcher.close(timeout)

    # === Loading ===

    def _wanted(self) -> list[int]:
        """Return the numbers of the versions to be loaded: the newest that loads, and labels."""
        present = _versions_in(Path(self.source))
        usable = [
            n
            for n in present
            if n in self._versions or (n in self._settled and not self._has_failed(n))
        ]
        wanted = {max(usable)} if usable else set()
        return sorted({*wanted, *(n for n in self.labels.values() if n in usable)}, reverse=True)

    def _has_failed(self, number: int) -> bool:
        """Return whether a version failed to load, and its files are the same as then."""
        failure = self._failures.get(number)
        return failure is not None and failure[0] == _fingerprint(Path(self.source, str(number)))

    def _try(self, number: int) -> Exception | None:
        """Load a version. If that fails, log the error and return it."""
        folder = Path(self.source, str(number))
        fingerprint = _fingerprint(folder)
        self._loading = number
        try:
            version = self._load(number)
            if _fingerprint(folder) != fingerprint:
                version.batcher.close()
                raise ArtifactError(f"{folder}: changed while it was loaded.")
        except Exception as error:
            self._settled.discard(number)
            self._failures[number] = (fingerprint, str(error))
            logger.error("%s version %d does not load: %s", self.name, number, error)
            return error
        finally:
            self._loading = None
        self._failures.pop(number, None)
        self._versions = {**self._versions, number: version}
        logger.info("%s version %d is loaded", self.name, number)
        return None

    def _load(self, number: int) -> Version:
        """Open and warm up a version."""
        path = str(Path(self.source, str(number))) if self.is_watched else self.source
        version = Version(self.name, number, open_model(path, self._options), self._options)
        try:
            version.warm_up()
        except BaseException:
            version.batcher.close()
            raise
        return version

    def _unload(self, numbers: Iterable[int]) -> None:
        """Unload versions after their waiting requests are answered."""
        numbers = set(numbers)
        old = [version for number, version in self._versions.items() if number in numbers]
        self._versions = {n: version for n, version in self._versions.items() if n not in numbers}
        for version in old:
            version.batcher.close()
            logger.info("%s version %d is unloaded", self.name, version.number)


def open_model(path: str, options: Options) -> LoadedModel:
    """Open a SavedModel, an export of another runtime, or a checkpoint.

    Raises:
        UsageError: if it cannot be served, or is a SavedModel of another program without trust.
        ArtifactError: if it is damaged.
        ImportError: if its runtime is not installed.
    """
    folder = Path(path)
    if (folder / _SAVED_MODEL).is_file():
        return SavedModel(folder, trust=options.trust)
    if (folder / formats.FILE).is_file():
        runtime = RuntimePredictor(folder, batch_size=options.max_batch)
        name = runtime.manifest.format
        dtype = runtime.manifest.quantization or "float32"
        return PredictorModel(runtime, format=name, backend=name, dtype=dtype)
    predictor = Predictor.from_preset(
        path, batch_size=options.max_batch, dtype=options.dtype, device=options.device
    )
    dtype = predictor.encoder.compute_dtype
    return PredictorModel(predictor, backend=keras.backend.backend(), dtype=dtype)


def model_argument(text: str) -> tuple[str, str]:
    """Return name and source of a model of the command line, PATH or NAME=PATH.

    Raises:
        UsageError: if the name cannot be a part of a path in a request.
    """
    name, equals, source = text.partition("=")
    if not equals or "/" in name:
        source = text
        path = Path(source.split("@")[0] if source.startswith("hf://") else source)
        path = path if source.startswith("hf://") else path.resolve()
        name = path.parent.name if _is_version(path) else path.name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"The name of a model may have letters, digits, _, - and . only. Name it: "
            f"NAME={source}. Received: {name!r}"
        )
    return name, source


def _is_export(folder: Path) -> bool:
    """Return whether a folder is a SavedModel or an export of another runtime."""
    return (folder / _SAVED_MODEL).is_file() or (folder / formats.FILE).is_file()


def _is_version(folder: Path) -> bool:
    """Return whether a folder is a numbered version of an export."""
    name = folder.name
    return name.isdecimal() and len(name) <= _MOST_DIGITS and _is_export(folder)


def _is_base_folder(folder: Path) -> bool:
    """Return whether a folder has numbered versions."""
    return folder.is_dir() and not _is_export(folder) and bool(_versions_in(folder))


def _versions_in(folder: Path) -> list[int]:
    """Return the numbers of the versions in a folder."""
    if not folder.is_dir():
        return []
    names = [path.name for path in folder.iterdir() if _is_version(path)]
    return [int(name) for name in names if str(int(name)) == name]


def _fingerprint(folder: Path) -> Any:
    """Return names, sizes and times of the files of a folder, which tell whether it changed."""
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(OSError):  # it was removed meanwhile, or is a link to nothing
                status = path.stat()
                found.append((str(path), status.st_size, status.st_mtime_ns))
    return sorted(found)
