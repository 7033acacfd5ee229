"""Shared weights that stay shared, and parts that stay frozen, in saved and cloned models.

Some layers compute with the weights of another layer: the masked language model's head with the
token table, a view with the blocks of its encoder. Keras saves a shared layer as one only where it
is in the list of layers of one model. Here the *parts* of layers stay shared: layers without
layers of their own, such as a `Dense`, and the variables of the other layers.

- In a `.keras` file each config lists a number for each part. Parts of one number become one again.
- `keras.models.clone_model` rebuilds the layers one by one, and a layer gets no reference to the
  others. So a rebuilt layer knows its original. When it is called on symbolic tensors, it takes the
  parts which its original shares with the originals of other layers of the same graph.

The JSON of `keras.Model.to_json` has neither, so its weights are not shared.

Each config also has the state of the layer (see `layers.state`), which is set once it is built.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import keras

from bert_keras.layers.state import get_state, set_state, track_parameters

NUMBERS, STATE = "shared_parts", "state"  # keys of a config


class Sharing:
    """Mixin of layers and models that are rebuilt in their state, with the weights they shared.

    A class decorates its `get_config` with `described` and its `from_config` with `rebuilt`.
    """

    _rebuilt: _Rebuilt | None = None
    _saved_state: dict[str, Any] | None = None  # of a rebuilt layer until it is built
    freezes_parts: ClassVar[bool] = False  # whether the constructor freezes some of its parts

    def take_attachments(self, original: Any) -> None:
        """Copy the state beside the weights, such as a tokenizer, from the original of a clone."""

    if TYPE_CHECKING:  # the constructor is Keras's

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Keras: build a layer that was loaded."""
        super().build_from_config(config)  # pyright: ignore[reportAttributeAccessIssue]
        _take_numbered_parts(self)
        _set_saved_state(self)

    def load_own_variables(self, store: Any) -> None:
        """Keras: load the variables; a file has them once, for the first layer that shares them."""
        if self._rebuilt is None or not self._rebuilt.has_taken or len(store.keys()):
            super().load_own_variables(store)  # pyright: ignore[reportAttributeAccessIssue]

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """Keras: compute the symbolic outputs of a built layer."""
        if self._rebuilt is not None and not self._rebuilt.is_called:
            self._rebuilt.is_called = True
            _take_numbered_parts(self)
            _take_parts_of_clones(self, (args, kwargs))
        if self._saved_state is not None:
            _set_saved_state(self)
        return super().symbolic_call(*args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]


# === Configs ===


class _Name(str):
    """The name in a config, which leads from the config to the layer that it describes.

    Equal to the plain name, and a plain name in JSON.
    """

    original: Callable[[], Any]

    def __deepcopy__(self, memo: Any) -> _Name:
        return self


class _Rebuilt:
    """References from a rebuilt layer to its original and to the parts that it shares.

    Attributes:
        original: returns the layer that the config described, or None if it was deleted.
        numbers: numbers of the parts in the file; None after the parts were set.
        by_number: parts of the model that is loaded, by number.
        has_taken: True if some parts are those of layers that were loaded before.
        is_called: True after the layer was called on symbolic tensors.
    """

    def __init__(self, original: Callable[[], Any], numbers: Any, by_number: Any):
        self.original = original
        self.numbers: list[int] | None = numbers
        self.by_number: dict[str, Any] | None = by_number
        self.has_taken = self.is_called = False


def described(get_config: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Decorate a `get_config` whose layer or model may share weights; see `describe`."""

    @functools.wraps(get_config)
    def wrapper(self: Any) -> dict[str, Any]:
        return describe(self, get_config(self))

    return wrapper


def rebuilt(from_config: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `from_config`, below `classmethod`; see `rebuild`."""

    @functools.wraps(from_config)
    def wrapper(cls: Any, config: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        return rebuild(lambda values: from_config(cls, values, *args, **kwargs), config)

    return wrapper


def describe(layer: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return the config of a layer with its state, and its part numbers or a link to the layer."""
    state = layer._saved_state or (get_state(layer) if layer.weights else {})
    if state or (layer.weights and layer.freezes_parts):
        config = {**config, STATE: state}
    if _table("id_to_config_map") is not None:
        numbers = [id(slot.part) for slot in slots(layer)]
        return {**config, NUMBERS: numbers} if numbers else config
    name = _Name(config["name"])
    name.original = weakref.ref(layer)
    return {**config, "name": name}


def rebuild(make: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """Make a layer or model of its config, in its state, and with the weights that it shared."""
    values = dict(config)
    numbers, state = values.pop(NUMBERS, None), values.pop(STATE, None)
    original = getattr(values.get("name"), "original", None)
    if original is not None:
        values["name"] = str(values["name"])
    layer = make(values)
    if original is not None and original() is not None:
        layer.take_attachments(original())
    by_number = _table("id_to_obj_map")
    if original is not None or (numbers and by_number is not None):
        layer._rebuilt = _Rebuilt(original or _no_original, numbers, by_number)
        if layer.built:
            _take_numbered_parts(layer)
    object.__setattr__(layer, "_saved_state", state)  # past Keras, which would track the values
    if layer.built:
        _set_saved_state(layer)
    elif state is not None:
        _set_saved_state_after_build(layer)
    return layer


def _set_saved_state_after_build(layer: Any) -> None:
    """Wrap `build` of a rebuilt layer once, because a state needs the variables."""
    build = layer.build

    @functools.wraps(build)
    def build_in_state(*args: Any, **kwargs: Any) -> None:
        """Build the layer, and set the saved state once all its parts are built."""
        layer.build = build
        build(*args, **kwargs)
        if all(part.built for part in layer._flatten_layers()):
            _set_saved_state(layer)

    layer.build = build_in_state


def _set_saved_state(layer: Any) -> None:
    """Set the saved state of a rebuilt layer, once: frozen parts, adapters and quantisation."""
    state = layer._saved_state
    if state is not None:
        # Not through Keras, which would track the dictionaries of the state.
        object.__setattr__(layer, "_saved_state", None)
        set_state(layer, state)


def _no_original() -> None:
    """Stand in for `_Name.original` of a layer that was loaded from a file."""


def _table(name: str) -> dict[Any, Any] | None:
    """Return Keras's table of shared objects in one call of `save` or `load_model`; None outside.

    It is private. Without it a file would have each layer by itself, as Keras alone writes it.
    """
    try:
        from keras.src.backend.common import global_state
    except ImportError:
        return None
    return global_state.get_global_attribute(f"shared_objects/{name}")


# === Parts ===


class Slot(NamedTuple):
    """A part, and the layers that have it as an attribute.

    Attributes:
        owners: the layers, each with the part in one attribute or more.
        part: a layer without layers of its own, or a variable.
    """

    owners: list[Any]
    part: Any

    def put(self, part: Any) -> None:
        """Make another part the attribute of the owners, in place of this one.

        Raises:
            ValueError: an owner has the part in a list or dictionary, not as an attribute.
        """
        for owner in self.owners:
            _replace(owner, self.part, part)


def slots(layer: keras.layers.Layer) -> list[Slot]:
    """Return the parts of a layer or model and of all layers within it, each part once.

    A layer in the list of layers of a model is not a part: Keras's graph of the model refers to it.
    """
    parts: dict[int, Slot] = {}
    seen: set[int] = set()

    def visit(owner: Any) -> None:
        """Add the variables and parts of a layer, and of all layers within it, to `parts`."""
        for variable in owner._trainable_variables + owner._non_trainable_variables:
            parts.setdefault(id(variable), Slot([], variable)).owners.append(owner)
        for below in owner._layers:
            if not below._layers and not isinstance(owner, keras.Model):
                parts.setdefault(id(below), Slot([], below)).owners.append(owner)
            elif id(below) not in seen:
                seen.add(id(below))
                visit(below)

    visit(layer)
    return list(parts.values())


def _replace(owner: Any, old: Any, new: Any) -> None:
    """Set the attributes of a layer that are `old` to `new`, in the same place of its weights."""
    attributes = {**vars(owner), **vars(owner).get("_modules", {})}
    names = [name for name, value in attributes.items() if value is old]
    if not names:
        raise ValueError(
            f"{owner.name} holds {old.name} in a list or dictionary, where shared weights cannot "
            f"be put back after a copy or a load. Make {old.name} an attribute of {owner.name}."
        )
    # Keras tracks parts in lists, whose order is that of the weights, and locks these after
    # `build`. Tracking has no public interface.
    tracker = owner._tracker
    (kind,) = (kind for kind, stored in tracker.stored_ids.items() if id(old) in stored)
    stored = tracker.config[kind][1]
    index = [id(part) for part in stored].index(id(old))
    is_locked = tracker.locked
    tracker.unlock()
    tracker.untrack(old)
    for name in names:
        setattr(owner, name, new)
    stored.insert(index, stored.pop())
    if is_locked:
        tracker.lock()


def _take_numbered_parts(layer: Any) -> None:
    """Set the parts of a built layer to those of the same number that were loaded before."""
    past = layer._rebuilt
    if past is None or past.numbers is None:
        return
    numbers, by_number = past.numbers, past.by_number
    past.numbers = past.by_number = None
    if by_number is None:
        return
    places = slots(layer)
    if len(places) != len(numbers):
        raise ValueError(
            f"{layer.name}: the file lists {len(numbers)} parts, the layer has {len(places)}: the "
            "file was written by another version of this layer. Open it with that version, and "
            "write it again."
        )
    changed = False
    for place, number in zip(places, numbers, strict=True):
        part = by_number.setdefault(f"{NUMBERS}/{number}", place.part)
        if part is not place.part:
            place.put(part)
            changed = True
    past.has_taken = changed
    if changed:
        track_parameters(layer)


def _take_parts_of_clones(layer: Any, arguments: Any) -> None:
    """Share with the rebuilt layers of this graph the parts that their originals share.

    The originals must be of one graph as well: layers that were copied one by one share nothing.

    Raises:
        ValueError: a part cannot be shared.
    """
    original = layer._rebuilt.original()
    if original is None:
        return
    leaves = keras.tree.flatten(arguments)
    tensors = [leaf for leaf in leaves if isinstance(leaf, keras.KerasTensor)]
    around = _layers_around([_operation_of(tensor) for tensor in tensors])
    place_of: dict[int, Slot] | None = None
    changed = False
    for other in around:
        past = getattr(other, "_rebuilt", None)
        source = None if past is None else past.original()
        if source is None or source is original or other is layer:
            continue
        if place_of is None:
            place_of = {id(slot.part): place for slot, place in _pairs(original, layer)}
        for slot, copy in _pairs(source, other):
            place = place_of.get(id(slot.part))
            if place is None or place.part is copy.part:
                continue
            if not _are_of_one_graph(original, source):
                break
            place.put(copy.part)
            place_of[id(slot.part)] = Slot(place.owners, copy.part)
            changed = True
    if changed:
        track_parameters(layer)


def _pairs(original: Any, layer: Any) -> Iterator[tuple[Slot, Slot]]:
    """Return pairs of a part of the original and the same part of its copy.

    Raises:
        ValueError: the copy has another number of parts.
    """
    before, after = slots(original), slots(layer)
    if len(before) != len(after):
        raise ValueError(
            f"{layer.name} cannot be cloned: its original has {len(before)} parts, the copy "
            f"{len(after)}, so that weights which were shared cannot be found again. "
            "copy.deepcopy(model) copies the model as it is."
        )
    return zip(before, after, strict=True)


def _are_of_one_graph(first: Any, second: Any) -> bool:
    """Return whether two layers belong to one graph of symbolic calls."""
    return any(layer is second for layer in _layers_around([first])) or any(
        layer is first for layer in _layers_around([second])
    )


# Keras's graph has no public interface. Where a release renames it, cloned layers share nothing.


def _operation_of(tensor: keras.KerasTensor) -> Any:
    """Return the layer or operation that made a symbolic tensor; None if it is unknown."""
    history = getattr(tensor, "_keras_history", None)
    return history[0] if history else None


def _layers_around(operations: list[Any]) -> list[Any]:
    """Return the layers of the graph that these operations belong to, and of the models in it."""
    waiting = list(operations)
    seen: dict[int, Any] = {}
    while waiting:
        operation = waiting.pop()
        if operation is None or id(operation) in seen:
            continue
        seen[id(operation)] = operation
        for node in getattr(operation, "_inbound_nodes", ()):
            waiting.extend(_operation_of(tensor) for tensor in node.input_tensors)
        waiting.extend(node.operation for node in getattr(operation, "_outbound_nodes", ()))
    layers: dict[int, Any] = {}
    waiting = [operation for operation in seen.values() if isinstance(operation, keras.Layer)]
    while waiting:
        layer = waiting.pop()
        if id(layer) not in layers:
            layers[id(layer)] = layer
            waiting.extend(layer.layers if isinstance(layer, keras.Model) else ())
    return list(layers.values())
