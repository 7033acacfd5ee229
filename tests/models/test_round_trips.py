"""What was trained is what is loaded: every class, every change, every way of saving.

The tests build one table, class x change x way, and print it when a cell is wrong. Classes are
discovered: a new task must pass, or fails here.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, models, optimizer
from bert_keras.checkpoints import load_checkpoint
from bert_keras.models.encoder_inputs import encoder_inputs
from tests import contracts
from tests.contracts import TINY, numpy

# Sizes that suit every task: a pooler, two segments, and a generator of a quarter of the width.
CONFIG = TINY.replace(hidden_size=16, embedding_size=8, num_heads=4, dropout=0.0)
CONFIG = CONFIG.replace(attention_dropout=0.0)


def task_classes() -> dict[str, type[models.Task]]:
    """Return every task class by name."""
    found, waiting = {}, [models.Task]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {each.__name__: each for each in below if not inspect.isabstract(each)}
    return dict(sorted(found.items()))


def _users_model(encoder: BertEncoder) -> keras.Model:
    """Return a functional model of the user's own over an encoder."""
    inputs = encoder_inputs(encoder.config)
    vectors = encoder(inputs)["sequence_output"]
    return keras.Model(inputs, keras.layers.Dense(2, name="own_head")(vectors), name="own")


def _made(name: str) -> Any:
    """Return a new model of a class, with the weights of a trained one."""
    encoder = BertEncoder(CONFIG)
    if name == "BertEncoder":
        return contracts.as_trained(encoder)
    if name == "own functional model":
        return contracts.as_trained(_users_model(encoder))
    task_class: Any = task_classes()[name]
    number = inspect.signature(task_class).parameters.get("num_classes")
    needs_number = number is not None and number.default is inspect.Parameter.empty
    return contracts.as_trained(task_class(encoder, **({"num_classes": 3} if needs_number else {})))


NAMES = ["BertEncoder", "own functional model", *task_classes()]


def _encoder_of(model: Any) -> BertEncoder:
    if isinstance(model, BertEncoder):
        return model
    return model.encoder if isinstance(model, models.Task) else model.get_layer("encoder")


# === Changes ===


def _nothing(model: Any) -> None:
    del model


def _freeze_encoder(model: Any) -> None:
    _encoder_of(model).trainable = False


def _freeze_block(model: Any) -> None:
    encoder = _encoder_of(model)
    encoder.embeddings.trainable = False
    encoder.blocks[0].trainable = False


def _freeze_parts(model: Any) -> None:
    """One part, one variable, one part of a frozen layer that trains, and the last layer."""
    encoder = _encoder_of(model)
    encoder.blocks[0].feedforward.trainable = False
    encoder.blocks[1].attention.trainable = False
    encoder.blocks[1].attention.query.trainable = True
    encoder.embeddings.layer_norm.gamma.trainable = False
    assert encoder.pooler is not None
    encoder.pooler.trainable = False
    if model is not encoder:
        heads = [layer for layer in model.layers if layer.weights and not _is_of_encoder(layer)]
        if heads:
            heads[-1].trainable = False


def _is_of_encoder(layer: Any) -> bool:
    return isinstance(layer, keras.Model)


def _freeze_from_outside(model: Any) -> None:
    """Freeze every layer but the last one, as many tutorials do."""
    for layer in model.layers[:-1]:
        layer.trainable = False


def _adapt(model: Any) -> None:
    encoder = _encoder_of(model)
    encoder.blocks[0].attention.value.bias.trainable = False  # before: `merge_lora` leaves it
    encoder.enable_lora(2, alpha=6.0, layers=("query", "value", "output"))
    assert encoder.pooler is not None
    encoder.pooler.trainable = True
    for weight in encoder.weights:
        if weight.name.startswith("lora_"):
            weight.assign(np.random.default_rng(1).normal(0.0, 0.3, weight.shape))


def _quantise(model: Any) -> None:
    with warnings.catch_warnings():  # Keras names every layer that it leaves as it is
        warnings.simplefilter("ignore")
        model.quantize("int8")


def _quantise_and_adapt(model: Any) -> None:
    _quantise(model)
    _adapt(model)


def _checkpoint_gradients(model: Any) -> None:
    _encoder_of(model).blocks[1].checkpoints_gradients = True


CHANGES: dict[str, Callable[[Any], None]] = {
    "nothing": _nothing,
    "frozen encoder": _freeze_encoder,
    "frozen block": _freeze_block,
    "frozen parts": _freeze_parts,
    "frozen from outside": _freeze_from_outside,
    "LoRA": _adapt,
    "int8": _quantise,
    "int8 and LoRA": _quantise_and_adapt,
    "checkpointed gradients": _checkpoint_gradients,
}


# === Ways of saving ===


def _by_keras_file(model: Any, folder: Path) -> Any:
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


def _by_weights_file(model: Any, folder: Path) -> Any:
    model.save_weights(folder / "model.weights.h5")
    loaded = type(model).from_config(model.get_config())
    if model.compiled:
        loaded.compile_from_config(model.get_compile_config())
    # With the optimizer, as Keras does it.
    loaded.load_weights(folder / "model.weights.h5")
    return loaded


def _by_copy(model: Any, folder: Path) -> Any:
    del folder
    return copy.deepcopy(model)


def _by_preset(model: Any, folder: Path) -> Any:
    model.save_to_preset(folder / "preset")
    return load_checkpoint(folder / "preset")


PRESET = "save_to_preset, load_checkpoint"
WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "save, load_model": _by_keras_file,
    PRESET: _by_preset,
    "copy.deepcopy": _by_copy,
    "save_weights, load_weights": _by_weights_file,
}
# The last two ways use the same configs and the same files of weights as the first: for them the
# changes that are hardest to keep.
HARDEST = ("frozen parts", "int8 and LoRA")


# === What must be equal ===


class _State(NamedTuple):
    """What a model is, in values that can be compared."""

    weights: dict[str, bytes]
    trainable: dict[str, bool]
    trainable_variables: list[str]
    sharing: list[list[int]]
    checkpointed: list[bool]
    optimizer: list[bytes] | None


def _state(model: Any) -> _State:
    numbers = {id(weight): number for number, weight in enumerate(model.weights)}
    layers = model._flatten_layers()
    return _State(
        weights={w.path: numpy(w).tobytes() for w in model.weights},
        # Keras forgets the flag of its own input layers, which have nothing to train.
        trainable={
            f"{number} {layer.name}": layer.trainable
            for number, layer in enumerate(layers)
            if not isinstance(layer, keras.layers.InputLayer)
        },
        trainable_variables=[weight.path for weight in model.trainable_variables],
        sharing=[[numbers[id(weight)] for weight in layer.weights] for layer in layers],
        checkpointed=[block.checkpoints_gradients for block in _encoder_of(model).blocks],
        optimizer=_optimizer_state(model),
    )


def _optimizer_state(model: Any) -> list[bytes] | None:
    own = getattr(model, "optimizer", None)
    return own and [np.asarray(numpy(variable)).tobytes() for variable in own.variables]


def _with_optimizer(model: Any) -> Any:
    """Compile it and take two steps, by gradients made up: compiling a step would take long."""
    loss = model.objective() if isinstance(model, models.Task) else {"loss": "mse"}
    model.compile(optimizer(1e-3, total_steps=10), **loss)
    variables = model.trainable_variables
    model.optimizer.build(variables)
    generator = np.random.default_rng(0)
    for _ in range(2):
        gradients = [generator.normal(size=v.shape).astype("float32") for v in variables]
        model.optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients])
    return model


def _differences(name: str, change: str, way: str, folder: Path) -> list[str]:
    """Return what is not equal after the round trip, for a cell of the table."""
    keras.utils.set_random_seed(0)
    model = _made(name)
    CHANGES[change](model)
    if way != PRESET and model.trainable_variables:
        _with_optimizer(model)
    x = contracts.inputs_of(model if isinstance(model, models.Task) else _encoder_of(model))
    before, expected = _state(model), numpy(model(x))
    loaded = WAYS[way](model, folder)
    after, found = _state(loaded), numpy(loaded(x))
    if type(loaded) is not type(model):
        return [f"class {type(loaded).__name__}"]
    wrong = [key for key in _State._fields if getattr(after, key) != getattr(before, key)]
    if any(not np.array_equal(found[key], values) for key, values in _named(expected)):
        wrong.append("outputs")
    return wrong


def _named(outputs: Any) -> list[tuple[Any, Any]]:
    return list(outputs.items()) if isinstance(outputs, dict) else [(slice(None), outputs)]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_trained_is_what_is_loaded(name: str, tmp_path: Path) -> None:
    table: dict[tuple[str, str], list[str]] = {}
    for change in CHANGES:
        for number, way in enumerate(WAYS):
            if way == PRESET and name == "own functional model":
                continue
            if number > 1 and change not in HARDEST:
                continue
            folder = tmp_path / f"{change} {number}".replace(" ", "_")
            folder.mkdir()
            try:
                table[change, way] = _differences(name, change, way, folder)
            except Exception as error:
                table[change, way] = [f"{type(error).__name__}: {error}"[:200]]
    lines = [
        f"{name:24} {change:24} {way:32} {', '.join(wrong) or 'equal'}"
        for (change, way), wrong in table.items()
    ]
    assert not any(table.values()), f"{keras.backend.backend()}\n" + "\n".join(lines)
