"""What a checkpoint of any format can do: tell its config, make the model, fill it."""

from __future__ import annotations

import abc
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from bert_keras.checkpoints import tensors, transfer
from bert_keras.checkpoints.format import Entry, Names, begins
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.layers import to_be_filled
from bert_keras.models import BertEncoder, Task

Shapes = Mapping[str, tuple[int, ...]]


class Checkpoint(abc.ABC):
    """A folder with a model's weights.

    Attributes:
        directory: where it is.
    """

    directory: Path

    @property
    @abc.abstractmethod
    def class_name(self) -> str:
        """The class of ours that it holds.

        Raises:
            ArtifactError: one that we have not.
        """

    @abc.abstractmethod
    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Opens the tensors; with `verify`, only if they are those that were written."""

    @abc.abstractmethod
    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """The config, from a file, and from the shapes of the tensors where that says too little.

        Raises:
            ArtifactError: it is not one of an encoder.
        """

    @abc.abstractmethod
    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """The options of this class that the checkpoint tells, and the file that does."""

    @abc.abstractmethod
    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> Names:
        """What this checkpoint calls the variables of a model of this class."""

    @property
    def is_told_by_tensors(self) -> bool:
        """Whether the config cannot be read without the tensors."""
        return True

    def load(
        self,
        model_class: type,
        make: Callable[..., Any],
        options: dict[str, Any],
        *,
        load_weights: bool,
        allow_missing: tuple[str, ...],
        allow_unused: tuple[str, ...],
        plain: bool = False,
    ) -> Any:
        """Makes a model of this class and fills it; the tensors are opened once.

        Args:
            model_class: of the model.
            make: called with the config and options; makes the model.
            options: of the caller, which come before those that the checkpoint tells.
            load_weights: False to take only the config.
            allow_missing: variable paths (or their beginnings) that keep new weights if missing.
            allow_unused: paths of ours whose tensors the model does without.
            plain: keep the weights as other libraries read them, and let all of them train.

        Raises:
            ArtifactError: the checkpoint cannot be read, or its tensors are not the model's.
        """
        needed = load_weights or self.is_told_by_tensors
        with self.source(verify=load_weights) if needed else nullcontext() as source:
            shapes = source.shapes if source else {}
            config = self.read_config(shapes, allow_missing)
            if source and load_weights:
                self._check_sizes(config, source, allow_missing)
            # Random weights are made only if some of them may stay.
            with to_be_filled() if load_weights and not allow_missing else nullcontext():
                saved = self.saved_options(model_class.__name__, config, shapes)
                if source and load_weights:
                    _check_classes(*saved, source)
                model = _make(model_class, partial(make, config), options, *saved)
            if source and load_weights:
                self._fill(model, config, source, allow_missing, allow_unused)
                if not plain:
                    self.set_state(model)
        return model

    def set_state(self, model: BertEncoder | Task) -> None:  # noqa: B027
        """Freeze, adapt and quantise a filled model as it was saved, where the checkpoint says.

        Raises:
            ArtifactError: it says so of another model.
        """

    def _check_sizes(
        self, config: BertConfig, source: tensors.Tensors, allow_missing: tuple[str, ...]
    ) -> None:
        """Compares the config with the tensors, before memory is taken on its word."""
        names = self.names(BertEncoder.__name__, config, source.shapes)
        matrices = [matrix for matrix in _sizes(config) if names.knows(matrix.path)]
        expected = {
            entry.tensor: entry.shape
            for entry in names.entries(matrices)
            if not begins(entry.path, allow_missing)
        }
        found = {name: source.shapes[name] for name in expected if name in source.shapes}
        tensors.check(source.path, found, expected)

    def _fill(
        self,
        model: BertEncoder | Task,
        config: BertConfig,
        source: tensors.Tensors,
        allow_missing: tuple[str, ...],
        allow_unused: tuple[str, ...],
    ) -> None:
        """Assigns every tensor to its variable."""
        names = self.names(type(model).__name__, config, source.shapes)
        entries = self._entries(model.weights, names, allow_missing)
        missing = {entry.tensor for entry in entries if begins(entry.path, allow_missing)}
        unused = {
            name
            for name in source.shapes
            if name in names.redundant
            or any(begins(path, allow_unused) for path in names.owners(name))
        }
        expected = {entry.tensor: entry.shape for entry in entries}
        tensors.check(source.path, source.shapes, expected, missing, unused)
        names.clear(model.weights)
        there = [entry for entry in entries if entry.tensor in source.shapes]
        for entry in transfer.each(there, f"reading {source.path}"):
            transfer.fill(entry, source)

    def _entries(
        self, variables: Iterable[Any], names: Names, allow_missing: tuple[str, ...]
    ) -> list[Entry]:
        known = [v for v in variables if names.knows(v.path)]
        strangers = [v.path for v in variables if not names.knows(v.path)]
        refused = [path for path in strangers if not begins(path, (*allow_missing, *names.zeros))]
        if refused:
            raise ArtifactError(
                f"{self.directory}: this kind of checkpoint has nothing for {', '.join(refused)}. "
                "If these may keep their new weights, say so: allow_missing=(…)."
            )
        return names.entries(known)


def _check_classes(saved: dict[str, Any], path: Path, source: tensors.Tensors) -> None:
    """As `_check_sizes`, of the number that a head has of its own."""
    told = saved.get("num_classes")
    largest = max((size for shape in source.shapes.values() for size in shape), default=0)
    if isinstance(told, int) and told > largest:
        raise ArtifactError(f"{path}: {told} classes, of which {source.path} has no tensor.")


def _make(
    model_class: type,
    make: Callable[..., Any],
    options: dict[str, Any],
    saved: dict[str, Any],
    path: Path,
) -> Any:
    """Makes the model; `saved` are the options that the file at `path` tells."""
    if not saved:
        return make(**options)
    try:
        return make(**(saved | options))
    except (TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path}: the options do not fit a {model_class.__name__}: {error} "
            f"Received: {saved}" + (f" and {options}" if options else "")
        ) from error


def _sizes(config: BertConfig) -> list[Any]:
    """The matrices that show every size of a config: path and shape, as a variable has them."""
    hidden, last = config.hidden_size, f"block_{config.unique_layers - 1}"
    rows = {
        "token": config.vocab_size,
        "position": config.position_rows,
        "segment": config.num_segments,
    }
    shapes = {
        f"embeddings/{name}/embeddings": (n, config.table_size) for name, n in rows.items() if n
    }
    inner = config.heads_of(config.unique_layers - 1) * config.head_size
    shapes[f"{last}/attention/query/kernel"] = (hidden, inner)
    shapes[f"{last}/feedforward/intermediate/kernel"] = (hidden, config.intermediate_size)
    return [types.SimpleNamespace(path=path, shape=shape) for path, shape in shapes.items()]
