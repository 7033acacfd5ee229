"""Base class of checkpoint folders: it reads the config, builds the model and fills its weights."""

from __future__ import annotations

import abc
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from bert_keras import escaping
from bert_keras.checkpoints import (
    hugging_face,
    hugging_face_tensors,
    new_heads,
    streaming,
    tensors,
    unusual_values,
)
from bert_keras.checkpoints.name_mapping import NameMap, TensorSpec, begins
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.layers import to_be_filled
from bert_keras.task_names import ENCODER

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

Shapes = Mapping[str, tuple[int, ...]]
_MOST_NAMES = 5  # tensor names that a warning lists


def encoder_of(model: BertEncoder | Task) -> BertEncoder:
    """Return the encoder of a task. An encoder is returned as it is."""
    encoder: Any = getattr(model, "encoder", model)
    return encoder


def is_task(model: BertEncoder | Task) -> TypeGuard[Task]:
    """Return True for a task (an encoder with a head), False for a bare encoder."""
    return encoder_of(model) is not model


class Checkpoint(abc.ABC):
    """A folder that holds the weights of a model, in one file format.

    A subclass describes one format: where its config, its options and its tensor names are. The
    method `load` is the same for all formats.

    Attributes:
        directory: path of the folder.
    """

    directory: Path

    @property
    @abc.abstractmethod
    def class_name(self) -> str:
        """Name of the `bert_keras` class that this checkpoint holds, such as "MaskedLM".

        Raises:
            ArtifactError: if `bert_keras` has no class for this model.
        """

    @abc.abstractmethod
    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the tensors for reading.

        Args:
            verify: compare the file with the digest that was written beside it, if there is one.

        Raises:
            ArtifactError: if a file is missing, damaged, or not the one that was written.
        """

    @abc.abstractmethod
    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """Read the config of the encoder.

        Args:
            shapes: shape of each tensor, by name. Some formats state sizes only there.
            allow_missing: variable paths that may be missing. With "pooler" among them the config
                has a pooler, although the tensors have none.

        Raises:
            ArtifactError: if a value is missing or not supported.
        """

    @abc.abstractmethod
    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Return saved constructor options of a class (such as `labels`) and the file of them."""

    def unusual(self, config: BertConfig) -> list[str]:
        """Describe what the published models of the family do not have.

        Args:
            config: config that `read_config` returned.
        """
        return unusual_values.of_config(config)

    @abc.abstractmethod
    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """Return the map from variable paths of a class to tensor names of this checkpoint."""

    def has_head(self, class_name: str, head: tuple[str, ...], shapes: Shapes) -> bool:
        """Return whether the tensors hold a task's head, whose path prefixes are `head`."""
        names = self.names(class_name, self.read_config(shapes, ()), shapes)
        owners = [path for tensor in shapes for path in names.owners(tensor)]
        return any(begins(path, head) for path in owners)

    def head_class(self, class_name: str) -> str | None:
        """Return the name of the task class whose head the checkpoint states.

        Args:
            class_name: the preferred answer, if the checkpoint names several classes.

        Returns:
            Name of the class; None if the checkpoint states no class that is known.
        """
        del class_name
        return None

    def unused_heads(self, model_class: type[BertEncoder] | type[Task]) -> tuple[str, ...]:
        """Return path prefixes of heads whose tensors a model of this class may leave unused."""
        del model_class
        return ()

    @property
    def needs_tensor_shapes(self) -> bool:
        """True if the config can be read only with the shapes of the tensors."""
        return True

    def load(
        self,
        model_class: type[BertEncoder] | type[Task],
        make: Callable[..., Any],
        options: dict[str, Any],
        *,
        load_weights: bool,
        allow_missing: str | Sequence[str],
        allow_unused: str | Sequence[str],
        new_head: bool = False,
        plain: bool = False,
    ) -> Any:
        """Build a model of this class and fill its weights. The tensors are opened once.

        Args:
            model_class: class of the model.
            make: function that builds the model, called as `make(config, is_filled, **options)`.
                `is_filled` is True if all weights of the encoder will be filled.
            options: options of the caller. They take precedence over those of the checkpoint.
            load_weights: False to use only the config and leave the weights random.
            allow_missing: variable paths or prefixes that keep new weights if missing.
            allow_unused: variable paths or prefixes whose tensors may stay unused.
            new_head: start with a new head, even if the checkpoint has one. The head is also new
                if `options` describe labels and the checkpoint has no head of this class. With a
                new head, all heads of the checkpoint stay unused.
            plain: make all weights plain floats and trainable: do not restore frozen, adapted or
                quantised layers.

        Raises:
            ArtifactError: if the checkpoint cannot be read, or its tensors do not fit the model.
        """
        allow_missing = _names(allow_missing)
        allow_unused = (*_names(allow_unused), *self.unused_heads(model_class))
        class_name = model_class.__name__
        needed = load_weights or self.needs_tensor_shapes
        with self.source(verify=load_weights) if needed else nullcontext() as source:
            shapes = source.shapes if source else {}
            head: tuple[str, ...] = model_class.head_layers
            is_described = new_heads.is_described(options)
            is_new = new_head or (is_described and not self.has_head(class_name, head, shapes))
            config = self.read_config(shapes, allow_missing)
            new: tuple[str, ...] = ()
            if is_new:
                new = head
                if hugging_face.needs_pooler(class_name, config):
                    new = (*new, "pooler")
                    config = self.read_config(shapes, (*allow_missing, *new))
                allow_missing = (*allow_missing, *new)
                allow_unused = (*allow_unused, *hugging_face_tensors.HEADS)
            if source:
                self.check_sizes(config, source, allow_missing, only_there=not load_weights)
            # Random initial weights cost time, so they are drawn only if some of them may stay.
            with to_be_filled() if load_weights and not allow_missing else nullcontext():
                saved, path = self.saved_options(class_name, config, shapes)
                if is_new:
                    kept = new_heads.options_of(saved, options)
                    if hugging_face.needs_pooler(class_name, config):
                        kept.pop("hidden_activation", None)  # the new head has a layer of its own
                    saved = hugging_face.new_head_options(class_name, config) | kept
                head = model_class.head_layers_for(saved | options)
                if new_head:
                    new_heads.check_is_any(class_name, head)
                if source and load_weights and not is_new:
                    names = self.names(class_name, config, shapes)
                    written = self.head_class(class_name)
                    new_heads.check_task(
                        class_name, head, written, names, shapes, source.path, allow_missing
                    )
                    count = new_heads.count_labels(head, names, shapes)
                    new_heads.check_labels(class_name, saved, count, options, path)
                if not saved:
                    new_heads.check_is_described(model_class, options, self.directory)
                new_heads.check_classes(saved, path, source if load_weights else None)
                new_heads.check_dense(saved, path, config, source if load_weights else None)
                is_filled = load_weights and not set(allow_missing) - set(head)
                build = partial(make, config, is_filled)
                model = _make(model_class, build, options, saved, path)
            if source and load_weights:
                self._fill(model, config, source, allow_missing, allow_unused, new)
                if not plain:
                    self.set_state(model, is_new=is_new)
                for note in source.notes:
                    escaping.print_line(note, stderr=True)
        if is_new and load_weights:
            line = new_heads.new_head_message(class_name, self.directory, is_asked_for=new_head)
            escaping.print_line(line)
        return model

    def set_state(self, model: BertEncoder | Task, *, is_new: bool = False) -> None:  # noqa: B027
        """Restore frozen layers, adapters and quantisation of a filled model.

        Only folders of `bert_keras` store this state; other formats leave the model as it is.

        Args:
            model: the filled model.
            is_new: True if its head is new, so that it is not the model that was saved.

        Raises:
            ArtifactError: if the stored state does not fit the model.
        """

    def check_sizes(
        self,
        config: BertConfig,
        source: tensors.Tensors,
        allow_missing: tuple[str, ...],
        *,
        only_there: bool = False,
    ) -> None:
        """Compare the sizes in the config with the shapes of the tensors.

        This runs before the model is built, so that a wrong size in a config allocates no memory.

        Args:
            config: config that the folder states.
            source: opened tensors.
            allow_missing: variable paths (or path prefixes) that may be missing.
            only_there: compare only tensors that the checkpoint has.

        Raises:
            ArtifactError: if a tensor is missing or has another shape.
        """
        names = self.names(ENCODER, config, source.shapes)
        matrices = [matrix for matrix in _sizes(config) if names.knows(matrix.path)]
        expected = {
            spec.tensor: spec.shape
            for spec in names.tensor_specs(matrices)
            if not begins(spec.path, allow_missing)
        }
        found = {name: source.shapes[name] for name in expected if name in source.shapes}
        if only_there:
            expected = {name: expected[name] for name in found}
        tensors.check(source.path, found, expected, names=source.shapes)

    def _fill(
        self,
        model: BertEncoder | Task,
        config: BertConfig,
        source: tensors.Tensors,
        allow_missing: tuple[str, ...],
        allow_unused: tuple[str, ...],
        new_head: tuple[str, ...],
    ) -> None:
        """Assign every tensor to its variable, except for the variables of a new head.

        Warns if tensors hold NaN or infinity. The last three arguments are path prefixes.

        Raises:
            ArtifactError: if a tensor is missing, unused or of another shape.
        """
        names = self.names(type(model).__name__, config, source.shapes)
        specs = self._tensor_specs(model.weights, names, source.shapes, allow_missing)
        specs = [spec for spec in specs if not begins(spec.path, new_head)]
        missing = {spec.tensor for spec in specs if begins(spec.path, allow_missing)}
        unused = {
            name
            for name in source.shapes
            if not names.has_use(name)
            or any(begins(path, allow_unused) for path in names.owners(name))
        }
        expected = {spec.tensor: spec.shape for spec in specs}
        hint = new_heads.hint_of_heads(names, specs, source.shapes, expected, {*missing, *unused})
        tensors.check(source.path, source.shapes, expected, missing, unused, hint)
        names.set_zeros(model.weights)
        there = [spec for spec in specs if spec.tensor in source.shapes]
        not_finite = [
            spec.tensor
            for spec in streaming.with_progress(there, f"reading {source.path}")
            if not streaming.fill(spec, source)
        ]
        if not_finite:
            names_of_some = ", ".join(not_finite[:_MOST_NAMES])
            more = f" and {len(not_finite) - _MOST_NAMES} more" * (len(not_finite) > _MOST_NAMES)
            warnings.warn(
                f"{source.path}: {len(not_finite)} of {len(there)} tensors hold NaN or infinity: "
                f"{names_of_some}{more}. The model's answers are useless; take the folder from "
                "another source.",
                stacklevel=2,
            )

    def _tensor_specs(
        self,
        variables: Iterable[Any],
        names: NameMap,
        shapes: Shapes,
        allow_missing: tuple[str, ...],
    ) -> list[TensorSpec]:
        """Return each variable with its tensor.

        Raises:
            ArtifactError: if this format has no tensor for a variable that may not be missing.
        """
        known = [v for v in variables if names.knows(v.path)]
        unknown = [v.path for v in variables if not names.knows(v.path)]
        refused = [path for path in unknown if not begins(path, (*allow_missing, *names.zeros))]
        if refused:
            is_head = all(begins(path, hugging_face_tensors.HEADS) for path in refused)
            layers = dict.fromkeys(path.partition("/")[0] for path in refused)
            lacking = ", ".join(tensors.with_closest(refused, shapes))
            raise ArtifactError(
                f"{self.directory}: this kind of checkpoint has nothing for {lacking}. "
                f"To start them with new weights pass allow_missing=({', '.join(map(repr, layers))}"
                + (",), or new_head=True for a whole new head." if is_head else ",).")
            )
        return names.tensor_specs(known)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple. A str alone would be read as a list of letters."""
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def _make(
    model_class: type,
    make: Callable[..., Any],
    options: dict[str, Any],
    saved: dict[str, Any],
    path: Path,
) -> Any:
    """Build the model from the `saved` options of the file `path` and those of the caller.

    Raises:
        ArtifactError: if the class refuses the saved options.
    """
    if not saved:
        return make(**options)
    try:
        return make(**(saved | options))
    except (TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path}: the options do not fit a {model_class.__name__}: {error} "
            f"Received: {saved!r:.500}" + (f" and {options!r:.200}" if options else "")
        ) from error


def _sizes(config: BertConfig) -> list[Any]:
    """Return a few weight matrices whose shapes together show every size of a config.

    Each has the attributes `path` and `shape` of a Keras variable, without its memory.
    """
    hidden, last = config.hidden_size, f"block_{config.unique_layers - 1}"
    rows = {
        "token": config.vocab_size,
        "position": config.position_rows,
        "segment": config.num_segments,
        "task": config.num_tasks,
    }
    shapes = {
        f"embeddings/{name}/embeddings": (n, config.table_size) for name, n in rows.items() if n
    }
    if config.attention_positions == "buckets":
        shapes["distance_bias/table/embeddings"] = (config.position_buckets, config.num_heads)
    if config.distance_span:
        shapes["distance_vectors/table/embeddings"] = (2 * config.distance_span, hidden)
    inner = config.heads_of(config.unique_layers - 1) * config.head_size
    shared = config.num_heads // config.key_value_heads
    # All parts of a fused tensor.
    for name, width in (("query", inner), ("key", inner // shared), ("value", inner // shared)):
        shapes[f"{last}/attention/{name}/kernel"] = (hidden, width)
    for name in ("intermediate", "gate") if config.gated else ("intermediate",):
        shapes[f"{last}/feedforward/{name}/kernel"] = (hidden, config.intermediate_size)
    return [types.SimpleNamespace(path=path, shape=shape) for path, shape in shapes.items()]
