"""Versions of a served model: loading, hot swap, version labels and states."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.serving.batching import Batcher
from bert_keras.serving.loaded_model import LoadedModel
from bert_keras.serving.model_source import Options, open_model
from bert_keras.serving.signatures import DEFAULT
from bert_keras.serving.version_folders import (
    fingerprint_of,
    is_base_folder,
    is_version,
    versions_in,
)

logger = logging.getLogger("bert_keras.serving")

# States of a version, as TensorFlow Serving names them.
AVAILABLE, LOADING, FAILED = "AVAILABLE", "LOADING", "END"


class NotFoundError(LookupError):
    """There is no model, version or label of this name."""


class Version:
    """A loaded version of a model, with the queue of its requests.

    Attributes:
        name: name of the model.
        number: number of the version.
        model: the loaded model.
        batcher: queue of its requests, and the thread that runs them.
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
        """Report the rows and the seconds of a batch, with the name and the version."""
        if self._report is not None:
            self._report(self.name, self.number, rows, seconds)

    def warm_up(self) -> None:
        """Run test texts, so that the first request is not slow, and check the outputs.

        A signature that takes no texts is not run.

        Raises:
            ArtifactError: if the model fails, or an output has NaN or infinite values.
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
                raise ArtifactError(
                    f"{self.name} version {self.number}: fails on a test text ({error}). Export "
                    "the model again."
                ) from error
            for name, values in outputs.items():
                if values.dtype.kind == "f" and not np.isfinite(values).all():
                    raise ArtifactError(
                        f"{self.name} version {self.number}: the output {name} of a test text has "
                        "NaN or infinite values. Check the weights of the model."
                    )


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
        # Requests read these two dictionaries while another thread loads versions. That thread
        # makes new dictionaries, because a change during the reading would raise an error.
        self._versions: dict[int, Version] = {}
        # Version number -> fingerprint of the files that failed to load. The version is loaded
        # again when its files change.
        self._failures: dict[int, Any] = {}
        self._loading: int | None = None
        # A version whose files are still being copied is not loaded. It counts as fully copied when
        # two calls of `refresh` find the same files.
        self._fully_copied: set[int] = set()
        self._last_fingerprints: dict[int, Any] = {}
        self.created = int(time.time())
        self.is_watched = is_base_folder(Path(source))
        try:
            self._load_first_versions()
        except BaseException:
            self.close()
            raise

    def _load_first_versions(self) -> None:
        """Load the newest version that loads, and those of the labels; see the class for errors."""
        if not self.is_watched:
            self._load_only_version()
            return
        present = set(versions_in(Path(self.source)))
        self._fully_copied = present
        if missing := sorted(set(self.labels.values()) - present):
            raise UsageError(
                f"{self.source}: there is no version {missing[0]}, which --label names. "
                f"Versions: {', '.join(map(str, sorted(present)))}"
            )
        errors: dict[int, Exception] = {}
        while not self._versions and (wanted := self._wanted()):
            for number in wanted:
                if (error := self._try_to_load(number)) is not None:
                    errors[number] = error
        for number in self.labels.values():
            if number in errors:
                raise errors[number]
        if not self._versions:
            nothing = ArtifactError(f"{self.source}: has no version that loads.")
            raise next(iter(errors.values()), nothing)

    def _load_only_version(self) -> None:
        """Load the model of a folder without numbered versions; see the class for errors."""
        if self.labels:
            raise UsageError(
                f"--label is for folders with numbered versions, such as saved_models/{self.name}. "
                f"Received: {self.source}"
            )
        number = int(Path(self.source).name) if is_version(Path(self.source)) else 1
        self._versions = {number: self._load(number)}

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
        reason = "The version does not load. The log of the server has the reason."
        known: dict[int, tuple[str, str]] = dict.fromkeys(self._failures, (FAILED, reason))
        known |= dict.fromkeys(self._versions, (AVAILABLE, ""))
        loading = self._loading
        if loading is not None:
            known[loading] = (LOADING, "")
        return [(number, *known[number]) for number in sorted(known, reverse=True)]

    def refresh(self) -> None:
        """Load versions that are new, and unload those that a newer one replaces.

        A new version is loaded by the second call that finds the same files. An error is logged,
        and the loaded versions stay. They also stay if all folders are removed or broken.
        """
        if not self.is_watched:
            return
        with self._lock:
            self._note_copied_versions()
            while missing := [n for n in self._wanted() if n not in self._versions]:
                self._try_to_load(missing[0])  # a version that fails is not wanted any more
            if wanted := self._wanted():
                self._unload(set(self._versions) - set(wanted))

    def _note_copied_versions(self) -> None:
        """Note the versions whose files have not changed since the last call as fully copied."""
        present = set(versions_in(Path(self.source)))
        self._fully_copied &= present
        self._failures = {n: files for n, files in self._failures.items() if n in present}
        fingerprints = {
            number: fingerprint_of(Path(self.source, str(number)))
            for number in present - self._fully_copied
        }
        for number, fingerprint in fingerprints.items():
            if self._last_fingerprints.get(number) == fingerprint:
                self._fully_copied.add(number)
        self._last_fingerprints = fingerprints

    def close(self, timeout: float | None = None) -> None:
        """Answer the waiting requests, and unload all versions.

        Args:
            timeout: maximum time to wait, in seconds, for all versions together; None for no limit.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for version in self.loaded:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            version.batcher.close(left)

    # === Loading ===

    def _wanted(self) -> list[int]:
        """Return the numbers of the versions that should be loaded, newest first.

        These are the newest version that loads and the versions of the labels.
        """
        usable = {
            number
            for number in versions_in(Path(self.source))
            if number in self._versions
            or (number in self._fully_copied and not self._has_failed(number))
        }
        if not usable:
            return []
        return sorted({max(usable), *(usable & set(self.labels.values()))}, reverse=True)

    def _has_failed(self, number: int) -> bool:
        """Return whether a version failed to load, and its files are the same as then."""
        failed_files = self._failures.get(number)
        return failed_files is not None and failed_files == fingerprint_of(
            Path(self.source, str(number))
        )

    def _try_to_load(self, number: int) -> Exception | None:
        """Load a version and serve it. If it does not load, log the error and return it."""
        folder = Path(self.source, str(number))
        fingerprint = fingerprint_of(folder)
        self._loading = number
        try:
            version = self._load(number)
            if fingerprint_of(folder) != fingerprint:
                version.batcher.close()
                raise ArtifactError(
                    f"{folder}: its files changed during the load. They are loaded again when two "
                    "checks find the same files."
                )
        except Exception as error:
            self._fully_copied.discard(number)
            self._failures = {**self._failures, number: fingerprint}
            logger.error("%s version %d does not load: %s", self.name, number, error)
            return error
        finally:
            self._loading = None
        self._failures = {n: files for n, files in self._failures.items() if n != number}
        self._versions = {**self._versions, number: version}
        logger.info("%s version %d is loaded", self.name, number)
        return None

    def _load(self, number: int) -> Version:
        """Return a version, opened and warmed up."""
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
        replaced = [version for number, version in self._versions.items() if number in numbers]
        self._versions = {n: version for n, version in self._versions.items() if n not in numbers}
        for version in replaced:
            version.batcher.close()
            logger.info("%s version %d is unloaded", self.name, version.number)
