"""What a checkpoint of any format can do: tell its config, make the model, fill it."""

from __future__ import annotations

import abc
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.format import Entry, Names, begins
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
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

    def config(self, allow_missing: tuple[str, ...], load_weights: bool) -> BertConfig:
        """The config. If weights will be loaded, no memory is taken for sizes they have not."""
        with self.source() as source:
            config = self.read_config(source.shapes, allow_missing)
            if not load_weights:
                return config
            names = self.names(BertEncoder.__name__, config, source.shapes)
            wanted = [
                entry
                for entry in names.entries([m for m in _sizes(config) if names.knows(m.path)])
                if not begins(entry.path, allow_missing)
            ]
            expected = {entry.tensor: entry.shape for entry in wanted}
            found = {name: source.shapes[name] for name in expected if name in source.shapes}
            tensors.check(source.path, found, expected)
        return config

    def build(
        self,
        model_class: type,
        config: BertConfig,
        options: dict[str, Any],
        make: Callable[[dict[str, Any]], Any],
    ) -> Any:
        """Makes a model of this class, with the options that the checkpoint tells."""
        with self.source() as source:
            saved, path = self.saved_options(model_class.__name__, config, source.shapes)
        if not saved:
            return make(options)
        try:
            return make(saved | options)
        except (TypeError, ValueError) as error:
            raise ArtifactError(
                f"{path}: the options do not fit a {model_class.__name__}: {error} "
                f"Received: {saved}" + (f" and {options}" if options else "")
            ) from error

    def load_weights(
        self,
        model: BertEncoder | Task,
        config: BertConfig,
        allow_missing: tuple[str, ...],
        allow_unused: tuple[str, ...],
    ) -> None:
        """Assigns every tensor to its variable.

        Raises:
            ArtifactError: the tensors are not those of the model; all of them are listed.
        """
        with self.source(verify=True) as source:
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
            for entry in entries:
                if entry.tensor in source.shapes:
                    entry.variable.assign(entry.leaf.ours(source.read(entry.tensor)))

    def _entries(
        self, variables: Iterable[Any], names: Names, allow_missing: tuple[str, ...]
    ) -> list[Entry]:
        known = [v for v in variables if names.knows(v.path)]
        strangers = [v.path for v in variables if not names.knows(v.path)]
        if refused := [path for path in strangers if not begins(path, allow_missing)]:
            raise ArtifactError(
                f"{self.directory}: this kind of checkpoint has nothing for {', '.join(refused)}. "
                "If these may keep their new weights, say so: allow_missing=(…)."
            )
        return names.entries(known)


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
