"""Report on a training that stopped because a number is not finite: `nan-report.json`."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras import file_io
from bert_keras.data import Batch
from bert_keras.errors import NumericError

NAME = "nan-report.json"
_LISTED = 10  # names of variables, or numbers of rows, that the report lists


class NanReport(keras.callbacks.Callback):
    """Callback that keeps the metrics of each step of an interval, and writes the report.

    The metrics of a step are means since the beginning of its interval. So the first step whose
    mean is not finite is the first one whose value is not. They are kept as the backend's values,
    and read only for the report: reading makes an accelerator wait.

    Args:
        path: path of the report.
        log_every: steps of a logging interval.
        batch_of: returns (epoch, position, batch) of the batch of a step, counted from 1.
        checkpoint: returns the path of the last checkpoint; None without one.
    """

    def __init__(
        self,
        path: Path,
        *,
        log_every: int,
        batch_of: Callable[[int], tuple[int, int, Batch]],
        checkpoint: Callable[[], Path | None],
    ):
        super().__init__()
        self._path, self._log_every = path, log_every
        self._batch_of, self._checkpoint = batch_of, checkpoint
        self._first_step = 0
        self._rate: float | None = None
        self._logs: list[tuple[int, dict[str, Any]]] = []  # step and metrics

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Note first step and learning rate of an interval."""
        self._logs.clear()
        self._first_step = epoch * self._log_every + 1
        self._rate = _number(_inner(self.model.optimizer).learning_rate)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the metrics after a step, without reading them."""
        self._logs.append((self._first_step + batch, dict(logs or {})))

    @contextlib.contextmanager
    def written(self) -> Generator[None]:
        """Write the report if a `NumericError` ends the block, and name it in the message.

        The report of an earlier attempt is removed.
        """
        self._path.unlink(missing_ok=True)
        try:
            yield
        except NumericError as error:
            with contextlib.suppress(OSError):  # a full disk must not hide the reason
                path = self.write(error)
                raise NumericError(f"{error} {path} names the step and the batch.") from error
            raise

    def write(self, error: Exception) -> Path:
        """Write the report about the interval that ended with an error; return its path."""
        step, metrics = self._first_bad()
        good = self._checkpoint()
        values = {
            "error": str(error),
            "steps": [self._first_step, self._logs[-1][0] if self._logs else self._first_step],
            "first_step_not_finite": step,
            "metrics_not_finite": metrics,
            "batch": None if step is None else _described(*self._batch_of(step)),
            "variables_not_finite": self._bad_variables(),
            "learning_rate": self._rate,
            "loss_scale": self._loss_scale(),
            "last_good_checkpoint": None if good is None else good.name,
        }
        file_io.write_json(self._path, values)
        return self._path

    def _first_bad(self) -> tuple[int | None, dict[str, str]]:
        """Return the first step with a metric that is not finite, and those metrics as text."""
        for step, logs in self._logs:
            values = {name: _number(value) for name, value in logs.items()}
            bad = {n: str(v) for n, v in values.items() if v is not None and not math.isfinite(v)}
            if bad:
                return step, bad
        return None, {}

    def _bad_variables(self) -> dict[str, Any]:
        """Return the variables that are not finite when the training stops.

        The result has, for weights and optimizer, the number of all variables and of those that
        are not finite, and the first of these in the order of the model.
        """
        if hasattr(self.model, "jax_state_sync"):
            # During `fit` on JAX the trainer holds the values. An error may have ended it.
            with contextlib.suppress(Exception):
                self.model.jax_state_sync()
        optimizer = getattr(self.model, "optimizer", None)
        groups: dict[str, Iterable[Any]] = {
            "weights": self.model.weights,
            "optimizer": optimizer.variables if optimizer is not None else [],
        }
        described = {}
        for group, variables in groups.items():
            paths = [variable.path for variable in variables]
            bad = [variable.path for variable in variables if not _is_finite(variable)]
            described[group] = {"of": len(paths), "count": len(bad), "first": bad[:_LISTED]}
        return described

    def _loss_scale(self) -> float | None:
        """Return the loss scale of mixed_float16; None without one."""
        return _number(getattr(self.model.optimizer, "dynamic_scale", None))


def _described(epoch: int, position: int, batch: Batch) -> dict[str, Any]:
    """Return place, size and digest of a batch, and its rows with a number that is not finite."""
    digest = hashlib.sha256()
    arrays: dict[str, np.ndarray] = {}
    for group, values in zip(("inputs", "labels", "weights"), batch, strict=True):
        arrays |= {f"{group}/{name}": np.asarray(value) for name, value in _named(values)}
    bad = {}
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
        if array.dtype.kind == "f" and array.ndim:
            rows = np.nonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0]
            if len(rows):
                bad[name] = rows[:_LISTED].tolist()
    return {
        "epoch": epoch,
        "position": position,
        "rows": max((len(array) for array in arrays.values() if array.ndim), default=0),
        "sha256": digest.hexdigest(),
        "shapes": {name: list(array.shape) for name, array in sorted(arrays.items())},
        "rows_not_finite": bad,
    }


def _named(values: Any) -> list[tuple[str, Any]]:
    """Return the arrays of a part of a batch by name."""
    if isinstance(values, Mapping):
        return list(values.items())
    return [] if values is None else [("", values)]


def _inner(optimizer: Any) -> Any:
    """Return the optimizer without the wrapper that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _number(value: Any) -> float | None:
    """Return a scalar of a backend as a float; None for anything else."""
    try:
        return float(keras.ops.convert_to_numpy(getattr(value, "value", value)))
    except (TypeError, ValueError):
        return None


def _is_finite(variable: Any) -> bool:
    """Return whether all numbers of a variable are finite."""
    array = keras.ops.convert_to_numpy(variable.value)
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float32)).all())
