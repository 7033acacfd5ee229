"""Checks of the data that feeds a model: names of inputs, arrays and sources of batches."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import Any

import keras

from bert_keras import features
from bert_keras.data.columns import is_text
from bert_keras.models.value_checks import Limit, ValueChecks

_OF_PACKED_ROWS = (features.EXAMPLE_IDS, features.POSITION_IDS, features.FIRST_POSITIONS)
_LAST_AXES = {features.MASK_POSITIONS: "predictions", features.FIRST_POSITIONS: "examples"}


class InputKeys:
    """The names and ranks of the inputs of one model.

    Keras flattens a dictionary in the order of its sorted keys and pairs values and inputs by
    place. An additional key would shift all later inputs, so it must not reach Keras.

    Args:
        ranks: number of axes of each input, by name: 2 for [batch, length].
        model: the model's name, for messages.
        apart: whether an input may be a tuple of arrays, one for each text of an example.
    """

    def __init__(self, ranks: Mapping[str, int], model: str, *, apart: bool = False):
        self._ranks, self._model, self._apart = dict(ranks), model, apart

    def select(self, batch: Any) -> dict[str, Any]:
        """Return the inputs of the model from a batch, under the model's names.

        Args:
            batch: arrays, tensors or symbolic tensors by key: our names or those of
                `features.INPUT_ALIASES`. Keys of `features.IGNORED_KEYS` are dropped.

        Raises:
            ValueError: the batch is not a dictionary; an input is missing, is there under two
                names, or has another rank; or a key is neither an input nor known to be irrelevant.
        """
        if not isinstance(batch, Mapping):
            hint = (
                "Text goes into `fit`, `evaluate` and `predict` of a task as a list or a column, "
                "or in a tf.data.Dataset; a generator must yield batches of features. "
            )
            raise ValueError(
                f"Model {self._model!r} takes a dictionary with the keys {_listed(self._ranks)}. "
                f"{hint * is_text(batch)}Received: {_described(batch)}"
            )
        selected = dict(batch if batch.keys() == self._ranks.keys() else self._renamed(batch))
        for name, rank in self._ranks.items():
            value: Any = selected.get(name)
            if self._apart and isinstance(value, list):
                value = selected[name] = tuple(value)  # PyTorch's loaders make lists
            for part in value if self._apart and isinstance(value, tuple) else (value,):
                if not _has_rank(getattr(part, "shape", ()), rank):  # () for what has no shape
                    raise ValueError(self._explain(name, part, batch))
        return selected

    def find(self, batch: Any) -> dict[str, Any]:
        """Return the inputs of this model in a batch for another model, under this model's names.

        Inputs that the batch lacks are left out. A batch that is not a dictionary has none.
        """
        if not isinstance(batch, Mapping):
            return {}
        names = {key: features.INPUT_ALIASES.get(key, key) for key in batch}
        return {name: batch[key] for key, name in names.items() if name in self._ranks}

    def _renamed(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a batch under the model's names; refuse keys that are unknown."""
        key_of: dict[str, str] = {}
        unknown = []
        for key, value in batch.items():
            name = key if key in self._ranks else features.INPUT_ALIASES.get(key, key)
            if name in self._ranks:
                if value is None:
                    continue
                if name in key_of:
                    raise ValueError(
                        f"Model {self._model!r} received its input {name!r} twice, under the keys "
                        f"{key_of[name]!r} and {key!r}. Remove one of them."
                    )
                key_of[name] = key
            elif name not in features.IGNORED_KEYS:
                unknown.append(key)
        if unknown:
            is_packed = any(key in _OF_PACKED_ROWS for key in unknown)
            hint = "For rows of several examples use its `packed()` view. " if is_packed else ""
            raise ValueError(
                f"Model {self._model!r} has no input {_listed(unknown)}. {hint}Remove the key. "
                f"The inputs are {_listed(self._ranks)}; other libraries' names of them, and "
                "labels, are also accepted."
            )
        return {name: batch[key_of[name]] for name in self._ranks if name in key_of}

    def _explain(self, name: str, value: Any, batch: Mapping[str, Any]) -> str:
        """Return the message about an input that is missing (None) or has another rank."""
        if value is None:
            aliases = [key for key, ours in features.INPUT_ALIASES.items() if ours == name]
            also = f" (other libraries' names: {_listed(aliases)})" if aliases else ""
            return (
                f"The input {name!r} of model {self._model!r} is missing{also}. "
                f"Received the keys: {_listed(batch)}. Add the missing one."
            )
        last = _LAST_AXES.get(name, "length")
        axes = f"batch, {last}" if self._ranks[name] == 2 else f"batch, texts, {last}"
        return (
            f"The input {name!r} of model {self._model!r} must be an array or tensor of the shape "
            f"[{axes}]. Received: {_described(value)}"
        )


def _has_rank(shape: Any, rank: int) -> bool:
    """Return whether a shape has `rank` axes, or one more of one element, which Keras removes."""
    if getattr(shape, "rank", 0) is None:
        return True  # a TensorFlow tensor of unknown rank, which Keras checks
    return len(shape) == rank or (len(shape) == rank + 1 and shape[-1] == 1)


def _listed(names: Any) -> str:
    """Return names for a message: 'a', 'b'."""
    return ", ".join(repr(name) for name in names) or "none"


def _described(value: Any) -> str:
    """Return the class and shape of a value for a message."""
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    return f"a {kind} of shape {tuple(shape)}" if shape is not None else f"a {kind}"


# === Arrays and sources of batches ===
# The checks run on the host where a batch is made, never in the compiled step.


Select = Callable[[Any], dict[str, Any]]


class DataChecks:
    """Checks of the data of one call of `fit`, `evaluate` or `predict`.

    Args:
        select: returns the inputs of a model from a batch, by the model's names.
        values: the ranges of ids, lengths and labels that the model can read.
        keeps_keys: True to return each batch with its own keys, for a model with more inputs.

    Attributes:
        error: the first error of a batch; None before. TensorFlow reads batches in threads, and
            raises an error of its own in place of this one.
    """

    def __init__(self, select: Select, values: ValueChecks, *, keeps_keys: bool = False):
        self._select, self._values, self._keeps_keys = select, values, keeps_keys
        self.error: Exception | None = None

    def arguments(self, arguments: dict[str, Any]) -> None:
        """Check arrays among the arguments of a method of Keras, and wrap sources of batches.

        `x` and `validation_data` are replaced in the dictionary.
        """
        x, y = arguments.get("x"), arguments.get("y")
        if x is not None:
            arguments["x"] = self.data(x, y)
        validation_data = arguments.get("validation_data")
        if isinstance(validation_data, tuple | list):
            arguments["validation_data"] = self.batch(tuple(validation_data))
        elif validation_data is not None:
            arguments["validation_data"] = self.data(validation_data)

    def data(self, x: Any, y: Any = None) -> Any:
        """Return checked inputs by the model's names, or a source that checks each batch.

        Args:
            x: a dictionary of arrays or tensors, a `tf.data.Dataset`, `keras.utils.PyDataset`,
                generator, PyTorch `DataLoader` or dataset of Grain. Anything else stays as it is.
            y: labels, where `x` is a dictionary.
        """
        if isinstance(x, keras.utils.PyDataset):
            return MappedDataset(x, self.batch)
        if isinstance(x, GeneratorType):
            return (self.batch(batch) for batch in x)
        if is_a("tensorflow", "data.Dataset", x):
            return self._mapped(x)
        if is_a("torch.utils.data", "DataLoader", x):
            return mapped_loader(x, self.batch)
        if is_a("grain", "MapDataset", x) or is_a("grain", "IterDataset", x):
            return x.map(self.batch)
        if is_a("grain", "DataLoader", x):
            return self._grain_loader(x)
        if hasattr(x, "shape") or isinstance(x, Mapping | list | tuple):
            return self._checked(x, y)
        return x

    def batch(self, batch: Any) -> Any:
        """Return a checked batch, inputs alone or (x, y, sample_weight), by the model's names."""
        if isinstance(batch, tuple | list):
            x, *rest = batch
            return type(batch)((self._checked(x, rest[0] if rest else None), *rest))
        return self._checked(batch)

    def _checked(self, x: Any, y: Any = None) -> Any:
        """Return the inputs of one batch after the checks, and keep an error in `error`."""
        try:
            selected = self._select(x)
            self._values.check(selected, y)
        except ValueError as error:
            self.error = error
            raise
        return x if self._keeps_keys else selected

    def _grain_loader(self, loader: Any) -> Any:
        """Return a `grain.DataLoader` with the check as its last operation."""
        import grain

        check = self.batch

        class Check(grain.transforms.Map):
            def map(self, element: Any) -> Any:
                return check(element)

        options = loader._multiprocessing_options
        return grain.DataLoader(
            data_source=loader._data_source,
            sampler=loader._sampler,
            operations=[*loader._operations, Check()],
            worker_count=options.num_workers,
            worker_buffer_size=options.per_worker_buffer_size,
            shard_options=loader._shard_options,
            read_options=loader._read_options,
            enable_profiling=options.enable_profiling,
        )

    def _mapped(self, dataset: Any) -> Any:
        """Return a `tf.data.Dataset` that checks each batch.

        The check is part of the dataset's graph. Python runs for a bad batch alone, to raise.
        """
        import tensorflow as tf

        def same(value: Any) -> Any:
            """Return a value; a tensor of TensorFlow as another one, which waits for the check."""
            return tf.identity(value) if isinstance(value, tf.Tensor) else value

        def check(*elements: Any) -> Any:
            """Return the elements of a batch, with the check in their graph."""
            x, *rest = elements[0] if isinstance(elements[0], tuple) else elements  # ((x, y),)
            y = rest[0] if rest else None
            selected = self._select(x)
            limits = self._values.limits(selected, y, _dynamic_size)
            failures = [_fails(limit) for limit in limits if _is_dense_number(limit.values)]
            x = x if self._keeps_keys else selected
            if failures:
                is_bad, passed = tf.reduce_any(tf.stack(failures)), tf.constant(True)
                is_valid = tf.cond(is_bad, lambda: self._raised_in_python(x, y), lambda: passed)
                with tf.control_dependencies([is_valid]):
                    x = tf.nest.map_structure(same, x)
            return (x, *rest) if rest else x

        return dataset.map(tf.autograph.experimental.do_not_convert(check))

    def _raised_in_python(self, x: dict[str, Any], y: Any) -> Any:
        """Return a boolean TensorFlow operation that runs `_checked` in Python, which raises."""
        import tensorflow as tf

        leaves = tf.nest.flatten((x, y))
        tensors = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]

        def check(*arrays: Any) -> bool:
            """Check one batch of NumPy arrays; return True."""
            values = iter(arrays)
            filled = [next(values) if isinstance(leaf, tf.Tensor) else None for leaf in leaves]
            self._checked(*tf.nest.pack_sequence_as((x, y), filled))
            return True

        return tf.numpy_function(check, tensors, tf.bool)


class MappedDataset(keras.utils.PyDataset):
    """A `PyDataset` whose batches are the results of a function of another one's batches.

    Args:
        dataset: the other one; all other attributes are read from it.
        function: takes a batch and returns the new one.
    """

    def __init__(self, dataset: Any, function: Callable[[Any], Any]):
        super().__init__()
        self._dataset, self._function = dataset, function

    @property
    def workers(self) -> int:
        """Number of workers of the dataset, which may change while Keras reads, as the others."""
        return self._dataset.workers

    @property
    def use_multiprocessing(self) -> bool:
        """True if its workers are processes, False for threads."""
        return self._dataset.use_multiprocessing

    @property
    def max_queue_size(self) -> int:
        """Length of its queue."""
        return self._dataset.max_queue_size

    @property
    def num_batches(self) -> int | None:
        """Number of its batches; None for an endless one."""
        return self._dataset.num_batches

    def __getitem__(self, index: int) -> Any:
        return self._function(self._dataset[index])

    def on_epoch_begin(self) -> None:
        """Keras: begin an epoch."""
        self._dataset.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Keras: end an epoch."""
        self._dataset.on_epoch_end()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._dataset, name)


def mapped_loader(loader: Any, function: Callable[[Any], Any]) -> Any:
    """Return a copy of a PyTorch `DataLoader` whose batches go through a function."""
    mapped = copy.copy(loader)  # the user's own loader stays as it is
    mapped.collate_fn = _Collate(loader.collate_fn, function)
    if getattr(loader, "_iterator", None) is not None:  # persistent workers have the old function
        mapped._iterator = None
    return mapped


class _Collate:
    """The `collate_fn` of a `DataLoader`, followed by a check; worker processes pickle it."""

    def __init__(self, collate: Callable[[Any], Any], check: Callable[[Any], Any]):
        self._collate, self._check = collate, check

    def __call__(self, examples: Any) -> Any:
        return self._check(self._collate(examples))


def _dynamic_size(tensor: Any, axis: int) -> Any:
    """Return the size of an axis: an int where it is known, else a TensorFlow scalar."""
    import tensorflow as tf

    size = tensor.shape[axis]
    return tf.shape(tensor)[axis] if size is None else size


def _is_dense_number(values: Any) -> bool:
    """Return whether values are an int or a dense TensorFlow tensor of numbers."""
    import tensorflow as tf

    is_tensor = isinstance(values, tf.Tensor)
    return isinstance(values, int) or (
        is_tensor and (values.dtype.is_floating or values.dtype.is_integer)
    )


def _fails(limit: Limit) -> Any:
    """Return a boolean TensorFlow scalar: True if a number of the limit is out of its range."""
    import tensorflow as tf

    if isinstance(limit.values, int):  # a length that is known before a batch is read
        return tf.constant(limit.values >= limit.upper)
    values = tf.convert_to_tensor(limit.values)
    if limit.upper is None:
        return tf.reduce_any(values != values)  # NaN is not itself
    unsigned = {tf.int32: tf.uint32, tf.int64: tf.uint64}.get(values.dtype)
    if unsigned is not None and limit.ignored is None:
        # As an unsigned number, one below 0 is larger than any limit.
        if values.shape.rank != 0:
            values = tf.reduce_max(tf.bitcast(values, unsigned))
        return values >= tf.cast(limit.upper, values.dtype)
    within = (values >= 0) & (values < tf.cast(limit.upper, values.dtype))
    if limit.ignored is not None:
        within |= values == tf.cast(limit.ignored, values.dtype)
    return ~tf.reduce_all(within)


def is_a(module: str, name: str, value: Any) -> bool:
    """Return whether a value is an instance of a class of a library, without importing it.

    A library that was not imported has no instances: `is_a("tensorflow", "data.Dataset", x)`.
    """
    member: Any = sys.modules.get(module)
    for attribute in name.split("."):
        member = getattr(member, attribute, None)
    return isinstance(member, type) and isinstance(value, member)
