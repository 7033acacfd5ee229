"""Changes made to layers after they were built, for their configs: frozen parts, adapters, int8.

A Keras config holds the arguments of a layer. Later calls decide which variables exist and which of
them train: `trainable` of a part, `enable_lora`, `quantize`, `checkpoint_gradients`. The config
must hold these too, because Keras compiles a loaded model, and makes the variables of its
optimizer, before it reads any weights.

A state is a JSON object, `{}` for a layer as it was built, with the optional keys

- "trainable": layer -> `trainable`, where it differs from that of the layer above;
- "trainable_variables": variable -> `trainable`, where it differs from that of its layer;
- "adapters": adapter -> layer -> `{"rank": …, "alpha": …}`;
- "frozen_before_adapters": layer -> variables that were frozen when its adapters were added;
- "quantization": layer -> Keras's config of its quantization;
- "checkpointed_gradients": layers.

A layer is named by the names on the way to it ("block_0/attention/query", "" for the layer whose
state it is), a variable by its layer and its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from bert_keras.errors import UsageError
from bert_keras.layers.core import ADAPTER

KEYS = (
    *("trainable", "trainable_variables", "adapters", "frozen_before_adapters"),
    *("quantization", "checkpointed_gradients"),
)


def get_state(layer: keras.layers.Layer) -> dict[str, Any]:
    """Describe what was changed in a built layer or model, and in the layers within it."""
    layers = layers_by_name(layer)
    state: dict[str, Any] = {key: {} for key in KEYS}
    state["checkpointed_gradients"] = []
    expected = dict.fromkeys(map(id, layers.values()), True)
    for name, part in layers.items():
        if part.trainable != expected[id(part)]:
            state["trainable"][name] = part.trainable
            for below in part._flatten_layers():
                expected[id(below)] = part.trainable
        if (quantization := getattr(part, "quantization_config", None)) is not None:
            state["quantization"][name] = keras.saving.serialize_keras_object(quantization)
        if getattr(part, "lora_enabled", False):
            adapter = {"rank": part.lora_rank, "alpha": part.lora_alpha}
            state["adapters"].setdefault(ADAPTER, {})[name] = adapter
        if (frozen := getattr(part, "frozen_before_adapters", None)) is not None:
            state["frozen_before_adapters"][name] = list(frozen)
        if getattr(part, "checkpoints_gradients", False):
            state["checkpointed_gradients"].append(name)
    for name, part in layers.items():
        for variable in _own_variables(part):
            if variable.trainable != expected[id(part)]:
                state["trainable_variables"][_join(name, variable.name)] = variable.trainable
    return {key: value for key, value in state.items() if value}


def set_state(layer: keras.layers.Layer, state: Mapping[str, Any]) -> None:
    """Change a built layer or model as another one was changed when `get_state` described it.

    A layer that is quantised already, or has its adapter already, is not given another one.

    Args:
        layer: a layer or model of the same structure as the described one.
        state: the value of `get_state`.

    Raises:
        ValueError: the state has another form, or names a layer or variable that does not exist.
    """
    check_state(state)
    layers = layers_by_name(layer)
    for name, config in state.get("quantization", {}).items():
        part = _find(layers, name)
        if part.quantization_mode is None:
            quantization: Any = keras.saving.deserialize_keras_object(config)
            part.quantize(quantization.mode, config=quantization)
    for adapter in state.get("adapters", {}).values():
        for name, values in adapter.items():
            part = _find(layers, name)
            if not part.lora_enabled:
                part.enable_lora(values["rank"], lora_alpha=values["alpha"])
    for name, frozen in state.get("frozen_before_adapters", {}).items():
        _find(layers, name).frozen_before_adapters = tuple(frozen)
    checkpointed = state.get("checkpointed_gradients", ())
    for name, part in layers.items():
        if hasattr(part, "checkpoints_gradients"):
            part.checkpoints_gradients = name in checkpointed
    # Setting a layer sets all layers within it: so the outer layers come first.
    _set_trainable(layer, True)
    for name, trainable in state.get("trainable", {}).items():
        _set_trainable(_find(layers, name), trainable)
    variables = variables_by_name(layer)
    for name, trainable in state.get("trainable_variables", {}).items():
        _find(variables, name).trainable = trainable
    track_parameters(layer)


def _set_trainable(layer: keras.layers.Layer, trainable: bool) -> None:
    """Set `trainable` of a layer, of all layers within it, and of their variables."""
    # TensorFlow skips an assignment that changes nothing, so that a variable which was frozen by
    # itself within the layer would stay frozen.
    layer.trainable = not trainable
    layer.trainable = trainable


def check_state(state: Mapping[str, Any]) -> None:
    """Check the keys and types of a state, which may come from an untrusted file.

    Raises:
        ValueError: the state has another form than the states of `get_state`.
    """
    flags = ("trainable", "trainable_variables")
    is_good = isinstance(state, dict) and not set(state) - set(KEYS)
    is_good = is_good and all(
        _is_table(state.get(key, {}), lambda value: isinstance(value, bool)) for key in flags
    )
    is_good = is_good and _is_table(
        state.get("adapters", {}), lambda layers: _is_table(layers, _is_adapter)
    )
    is_good = is_good and _is_table(state.get("frozen_before_adapters", {}), _are_names)
    is_good = is_good and _is_table(state.get("quantization", {}), _is_quantization)
    if not is_good or not _are_names(state.get("checkpointed_gradients", [])):
        raise ValueError(
            f"This is not the state of a layer, a dictionary with some of the keys "
            f"{', '.join(KEYS)}. Take the file as it was written. Received: {state!r:.300}"
        )


def _is_table(values: Any, is_value: Any) -> bool:
    """Return whether values are a dictionary with str keys, and `is_value` holds for each value."""
    return isinstance(values, dict) and all(
        isinstance(name, str) and is_value(value) for name, value in values.items()
    )


def _is_adapter(values: Any) -> bool:
    """Return whether values are {"rank": int above 0, "alpha": number above 0}."""
    if not isinstance(values, dict) or set(values) != {"rank", "alpha"}:
        return False
    rank, alpha = values["rank"], values["alpha"]
    return type(rank) is int and rank > 0 and type(alpha) in (int, float) and alpha > 0


def _is_quantization(config: Any) -> bool:
    """Return whether a config is of a Keras quantizer and names no other class at any depth."""
    if not isinstance(config, dict) or config.get("module") != "keras.quantizers":
        return False
    options = config.get("config")
    values = options.values() if isinstance(options, dict) else ()
    return all(_is_quantization(value) for value in values if isinstance(value, dict))


def _are_names(values: Any) -> bool:
    """Return whether values are a list or tuple of str."""
    return isinstance(values, list | tuple) and all(isinstance(name, str) for name in values)


def layers_by_name(layer: keras.layers.Layer) -> dict[str, keras.layers.Layer]:
    """Return a layer and all layers within it by name, each layer after those it is part of.

    Layers of one name side by side, as a student and its teacher, are numbered in their order.
    """
    # The name of an encoder is the user's: a task calls it "encoder", and so its views.
    encoder_name = getattr(getattr(layer, "encoder", None), "name", None)
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    after: list[keras.layers.Layer] = []

    def visit(part: keras.layers.Layer, name: str) -> None:
        """Name a layer and all layers within it that have no name yet."""
        number = numbers[name] = numbers.get(name, 0) + 1
        if number > 1:  # as teacher and student, in a `Distiller`
            name = f"{name}#{number}"
        names[id(part)] = name
        # Attributes come last and are visited first, so that a part is named by what it belongs
        # to, and not by a view.
        for below in reversed(part._flatten_layers(include_self=False, recursive=False)):
            if id(below) not in names:
                short = below.name
                is_encoder = short == encoder_name or short.startswith(f"{encoder_name}_")
                if encoder_name and part is layer and is_encoder:
                    short = "encoder" + short.removeprefix(encoder_name)
                visit(below, _join(name, short))
        after.append(part)

    visit(layer, "")
    return {names[id(part)]: part for part in reversed(after)}


def variables_by_name(layer: keras.layers.Layer) -> dict[str, Any]:
    """Return the weights of a layer and of all layers within it by name, frozen ones included.

    A name joins the name of the layer in `layers_by_name` and the name of the variable by "/":
    "block_0/attention/query/kernel". Variables that were created as not trainable, such as seeds,
    are left out.
    """
    return {
        _join(name, variable.name): variable
        for name, part in layers_by_name(layer).items()
        for variable in _own_variables(part)
    }


def track_parameters(layer: keras.layers.Layer) -> None:
    """Update the parameter lists of PyTorch's modules, after variables were added or removed.

    With the PyTorch backend, each Keras layer is a `torch.nn.Module`. When it is built, it lists
    its own variables and those of the layers within it. Keras later updates only the list of the
    layer that changes. The lists of the layers around it would keep removed variables in memory.
    Other backends have no such lists.

    Args:
        layer: layer or model. All built layers within it are updated too.
    """
    if keras.backend.backend() == "torch":
        for part in layer._flatten_layers():
            if part.built:
                part._track_variables()  # as `keras.Model.quantize` does


def _own_variables(layer: keras.layers.Layer) -> list[Any]:
    """Return the variables of a layer itself that were made as trainable, also if frozen since."""
    return layer._trainable_variables


def _join(name: str, last: str) -> str:
    """Return the name of a part within the layer `name`; "" is the outermost layer."""
    return f"{name}/{last}" if name else last


def _find(values: Mapping[str, Any], name: str) -> Any:
    """Return the layer or variable of a name; raise `ValueError` where there is none."""
    if name not in values:
        raise ValueError(
            f"The saved state names {name!r}, and this model has no layer or variable of this "
            "name. The state and the config must come from one saved model."
        )
    return values[name]


# === Weights without adapters and quantization ===


def adapted(model: keras.Layer) -> list[Any]:
    """Return the dense layers that have an adapter, anywhere in a model.

    Raises:
        UsageError: a layer that is no `Dense` has an adapter, which `enable_lora` does not give it.
    """
    layers = [layer for layer in model._flatten_layers() if getattr(layer, "lora_enabled", False)]
    for layer in layers:
        if not isinstance(layer, keras.layers.Dense):
            raise UsageError(
                f"{layer.path}: a {type(layer).__name__} with an adapter can be neither merged "
                "nor written. Adapt dense layers only, as encoder.enable_lora(rank) does."
            )
    return layers


class PlainWeight:
    """A kernel or table as floats, with its adapter added, with the attributes of a variable.

    The value is computed at each access, so that a model is never in memory twice.

    Attributes:
        path: path of the variable.
        name: name of the variable.
        shape: shape of the variable.
        dtype: dtype of the variable before it was quantised.
    """

    def __init__(self, layer: Any):
        self._layer = layer
        weight = main_weight(layer)
        self.path, self.name, self.shape = weight.path, weight.name, weight.shape
        self.dtype = layer.variable_dtype

    @property
    def value(self) -> Any:
        """Return the kernel that the layer computes with: a NumPy array."""
        layer = self._layer
        weight = _array(main_weight(layer)).astype("float32")
        if layer.quantization_mode is not None:
            scale = _array(getattr(layer, f"{self.name}_scale"))
            # A kernel has one scale for each column, a table one for each row.
            weight /= scale if self.name == "kernel" else scale[:, None]
        if layer.lora_enabled:
            # By NumPy: `layer.kernel` has the precision of the compute dtype, and an accelerator
            # may multiply with fewer bits.
            product = _array(layer.lora_kernel_a) @ _array(layer.lora_kernel_b)
            weight += layer.lora_alpha / layer.lora_rank * product
        return weight.astype(self.dtype)


def plain_weights(model: keras.Model) -> list[Any]:
    """Return the weights as they are without adapters and without quantization.

    Args:
        model: an encoder or a task.

    Returns:
        `model.weights` under the usual paths, with a `PlainWeight` for each kernel or table that
        has an adapter or is quantised.

    Raises:
        UsageError: a layer other than a `Dense` has an adapter, or one is quantised to another type
            than int8.
    """
    plain, left_out = {}, set()
    for layer in adapted(model):
        left_out |= {id(layer.lora_kernel_a), id(layer.lora_kernel_b)}
        plain[id(main_weight(layer))] = PlainWeight(layer)
    for layer in quantised(model):
        if layer.quantization_mode != "int8":
            raise UsageError(
                f"{layer.path}: only int8 weights can be written as floats. Save the model before "
                f"it is quantised. Received: {layer.quantization_mode}"
            )
        weight = main_weight(layer)
        left_out.add(id(getattr(layer, f"{weight.name}_scale")))
        plain[id(weight)] = PlainWeight(layer)
    return [plain.get(id(weight), weight) for weight in model.weights if id(weight) not in left_out]


def adapter_scales(model: keras.Layer) -> dict[str, float]:
    """Return the factor of the product A @ B of each adapter, by the path of its kernel.

    Raises:
        UsageError: a layer other than a `Dense` has an adapter.
    """
    return {main_weight(layer).path: layer.lora_alpha / layer.lora_rank for layer in adapted(model)}


def quantised_weights(model: keras.Layer) -> dict[str, str]:
    """Return the types of the quantised weights, by path."""
    return {main_weight(layer).path: layer.quantization_mode for layer in quantised(model)}


def quantised(model: keras.Layer) -> list[Any]:
    """Return the layers whose weights are quantised, anywhere in a model."""
    return [layer for layer in model._flatten_layers() if layer.quantization_mode is not None]


def main_weight(layer: Any) -> Any:
    """Return the variable itself; `layer.kernel` is a tensor with the adapter in it."""
    return next(weight for weight in layer.weights if weight.name in ("kernel", "embeddings"))


def assign_copy(variable: Any, values: Any) -> None:
    """Assign values to a variable, in memory of its own.

    On JAX, `assign` keeps the array itself. A model in which two variables have one array cannot be
    trained, because a training step reuses the memory of each variable.
    """
    is_kept = keras.backend.backend() == "jax"
    variable.assign(keras.ops.copy(values) if is_kept else values)


def _array(variable: Any) -> Any:
    """Return the value of a variable as a NumPy array."""
    return keras.ops.convert_to_numpy(variable)
