"""Base of layers whose config is the arguments of their constructor."""

from __future__ import annotations

import inspect
from numbers import Integral, Real
from typing import Any

import keras

from bert_keras.layers.core import FastCall
from bert_keras.layers.sharing import Sharing, describe, rebuild

_OWN_KEYS = ("name", "dtype", "trainable")  # of the config of every Keras layer


class SerializableLayer(Sharing, FastCall):
    """Base of layers whose config is the arguments of their constructor.

    An argument may be a number, a text, None, a layer, or a list of layers. A layer or a list of
    layers must also be the attribute of that name.
    """

    opens_scope = keras.backend.backend() != "torch"  # PyTorch's operations have no names
    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Keep the arguments for `get_config`."""
        layer = super().__new__(cls, *args, **kwargs)
        bound = inspect.signature(cls.__init__).bind(layer, *args, **kwargs)
        bound.apply_defaults()
        values = dict(list(bound.arguments.items())[1:])  # without `self`
        values |= values.pop("kwargs", {})
        kept = {name: _kept(value) for name, value in values.items() if name not in _OWN_KEYS}
        # Keras's `__setattr__` would track the values.
        object.__setattr__(layer, "_arguments", kept)
        return layer

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        arguments = {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            if value is _IN_ATTRIBUTE
            else value
            for name, value in self._arguments.items()
        }
        return describe(self, {**super().get_config(), **arguments})

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Rebuild the layer, with new weights."""
        return rebuild(cls._from_arguments, config)

    @classmethod
    def _from_arguments(cls, config: dict[str, Any]) -> Any:
        """Make a layer from a config whose layers are still dictionaries."""
        values = {
            name: value if name in _OWN_KEYS else _deserialized(value)
            for name, value in config.items()
        }
        # Set afterwards, because Keras's constructor does not freeze the layers within.
        is_trainable = values.pop("trainable", True)
        layer = super().from_config(values)
        if not is_trainable:
            layer.trainable = False
        return layer


_IN_ATTRIBUTE = object()  # stands for an argument that is read from the attribute of its name


def _kept(value: Any) -> Any:
    """Return an argument as JSON can hold it, or `_IN_ATTRIBUTE` for a layer or list of layers."""
    items = value if isinstance(value, list | tuple) and value else [value]
    return _IN_ATTRIBUTE if isinstance(items[0], keras.layers.Layer) else _plain(value)


def _plain(value: Any) -> Any:
    """Return a value with NumPy's numbers in it replaced by Python's, which JSON can hold."""
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
    if type(value) is dict:
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Integral) and not isinstance(value, int):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, int):
        return float(value)
    return value


def _deserialized(value: Any) -> Any:
    """Return a layer or list of layers from its config; other values as they are."""
    items = value if isinstance(value, list) and value else [value]
    is_object = isinstance(items[0], dict) and "class_name" in items[0]
    return keras.saving.deserialize_keras_object(value) if is_object else value


def build_once(layer: keras.layers.Layer, shape: Any) -> None:
    """Build a layer, unless another layer that shares it has built it."""
    if not layer.built:
        layer.build(shape)
