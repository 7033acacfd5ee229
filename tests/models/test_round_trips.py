"""A loaded model equals the saved one, for every class, every change and every way of saving.

The tests build one table of class, change and way, and print it when a cell is wrong. Task classes
are discovered, so a new task is tested at once. A new view must be added to `VIEWS`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, load_checkpoint, models, optimizer, save_checkpoint
from bert_keras.errors import UsageError
from bert_keras.layers import TransformerBlock
from bert_keras.models.encoder import VIEWS as ENCODER_VIEWS
from bert_keras.models.encoder import EncoderView
from bert_keras.models.encoder_layers import encoder_inputs
from tests import contracts
from tests.contracts import TINY, numpy
from tests.models import every_model

# Sizes that suit every task: a pooler, two segments, and a generator of a quarter of the width.
CONFIG = TINY.replace(hidden_size=16, embedding_size=8, num_heads=4, dropout=0.0)
CONFIG = CONFIG.replace(attention_dropout=0.0)
# One block is enough for views.
VIEW_CONFIG = CONFIG.replace(num_layers=1)


def task_classes() -> dict[str, type[models.Task]]:
    """Return every task class by name."""
    return every_model.classes_below(models.Task)


def _over_encoder(encoder: BertEncoder) -> keras.Model:
    """Return a user's functional model over an encoder."""
    inputs = encoder_inputs(encoder.config)
    vectors = encoder(inputs)["sequence_output"]
    return keras.Model(inputs, keras.layers.Dense(2, name="own_head")(vectors), name="own")


def _over_block(encoder: BertEncoder) -> keras.Model:
    """Return a user's functional model over the layers of an encoder."""
    vectors = encoder.get_layer("block_1").output
    return keras.Model(encoder.input, keras.layers.Dense(2, name="own_head")(vectors), name="own")


OWN = {"own model over an encoder": _over_encoder, "own model over a block": _over_block}
NAMES = ["BertEncoder", *OWN, *task_classes()]


def _distiller(encoder: BertEncoder) -> models.Distiller:
    """Return a distiller whose student is over an encoder."""
    tasks = [models.SequenceClassifier(each, 3) for each in (encoder, BertEncoder(VIEW_CONFIG))]
    return models.Distiller(*tasks, hidden=0.5)


# Class -> makers of its models over an encoder, each under the name of its variant.
VIEWS: dict[str, dict[str, Callable[[BertEncoder], Any]]] = {
    "ChunkedTask": {
        "rows": lambda encoder: models.MaskedLM(encoder).loss_chunks(2),
        "packed rows": lambda encoder: models.Pretrainer(encoder).packed().loss_chunks(2),
    },
    "Distiller": {"": _distiller},
    "EncoderView": {
        "with_outputs": lambda encoder: encoder.with_outputs(hidden_states=True, attentions=True),
        "first_token": lambda encoder: encoder.first_token(),
        "at_positions": lambda encoder: encoder.at_positions(pooled=True),
        "packed": lambda encoder: encoder.packed(hidden_states=True),
    },
    "PackedTask": {
        "masked tokens": lambda encoder: models.Pretrainer(encoder).packed(),
        "labels": lambda encoder: models.SequenceClassifier(encoder, 3).packed(),
    },
}
VIEW_NAMES = [f"{name} {part}".strip() for name, parts in VIEWS.items() for part in parts]


def _made(name: str) -> tuple[Any, BertEncoder]:
    """Return a new model of a class, with the weights of a trained one, and its encoder."""
    encoder = BertEncoder(VIEW_CONFIG if name in VIEW_NAMES else CONFIG)
    if name == "BertEncoder":
        return contracts.as_trained(encoder), encoder
    if name in OWN:
        return contracts.as_trained(OWN[name](encoder)), encoder
    if name in VIEW_NAMES:
        class_name, _, part = name.partition(" ")
        return contracts.as_trained(VIEWS[class_name][part](encoder)), encoder
    task_class: Any = task_classes()[name]
    needs_number = name in ("SequenceClassifier", "TokenClassifier")
    task = task_class(encoder, **({"num_classes": 3} if needs_number else {}))
    return contracts.as_trained(task), encoder


# === Changes ===


def _nothing(model: Any, encoder: BertEncoder) -> None:
    del model, encoder


def _freeze_encoder(model: Any, encoder: BertEncoder) -> None:
    del model
    encoder.trainable = False


def _freeze_block(model: Any, encoder: BertEncoder) -> None:
    del model
    encoder.embeddings.trainable = False
    encoder.blocks[0].trainable = False


def _freeze_parts(model: Any, encoder: BertEncoder) -> None:
    """Freeze a layer, a variable and the head, and let one part of a frozen layer train.

    One block also checkpoints its gradients. This state is independent of the frozen parts.
    """
    _checkpoint_gradients(model, encoder)
    encoder.blocks[0].feedforward.trainable = False
    encoder.blocks[-1].attention.trainable = False
    encoder.blocks[-1].attention.query.trainable = True
    norm: Any = encoder.embeddings.layer_norm
    norm.gamma.trainable = False
    assert encoder.pooler is not None
    encoder.pooler.trainable = False
    if model is not encoder:
        of_encoder = set(map(id, encoder.weights))
        heads = [
            layer
            for layer in model.layers
            if layer.weights and not of_encoder & set(map(id, layer.weights))
        ]
        for head in heads[-1:]:
            head.trainable = False


def _freeze_from_outside(model: Any, encoder: BertEncoder) -> None:
    """Freeze every layer but the last one, as many tutorials do."""
    del encoder
    for layer in model.layers[:-1]:
        layer.trainable = False


def _adapt(model: Any, encoder: BertEncoder) -> None:
    del model
    # Set first, so that `merge_lora` keeps it.
    encoder.blocks[0].attention.value.bias.trainable = False
    encoder.enable_lora(2, alpha=6.0, layers=("query", "value", "output"))
    assert encoder.pooler is not None
    encoder.pooler.trainable = True
    for weight in encoder.weights:
        if weight.name.startswith("lora_"):
            weight.assign(np.random.default_rng(1).normal(0.0, 0.3, weight.shape))


def _quantise(model: Any, encoder: BertEncoder) -> None:
    del encoder
    with warnings.catch_warnings():  # Keras warns for each layer that it does not quantise
        warnings.simplefilter("ignore")
        model.quantize("int8")


def _quantise_and_adapt(model: Any, encoder: BertEncoder) -> None:
    _quantise(model, encoder)
    _adapt(model, encoder)


def _change_all(model: Any, encoder: BertEncoder) -> None:
    _freeze_parts(model, encoder)
    _quantise_and_adapt(model, encoder)


def _checkpoint_gradients(model: Any, encoder: BertEncoder) -> None:
    del model
    encoder.blocks[-1].checkpoints_gradients = True


TOGETHER = "frozen parts, int8 and LoRA"
CHANGES: dict[str, Callable[[Any, BertEncoder], None]] = {
    "nothing": _nothing,
    "frozen encoder": _freeze_encoder,
    "frozen block": _freeze_block,
    "frozen parts": _freeze_parts,
    "frozen from outside": _freeze_from_outside,
    "LoRA": _adapt,
    "int8": _quantise,
    "int8 and LoRA": _quantise_and_adapt,
    "checkpointed gradients": _checkpoint_gradients,
    TOGETHER: _change_all,
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
    # Keras restores the optimizer in the same way.
    loaded.load_weights(folder / "model.weights.h5")
    return loaded


def _by_copy(model: Any, folder: Path) -> Any:
    del folder
    return copy.deepcopy(model)


def _by_clone(model: Any, folder: Path) -> Any:
    del folder
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    return clone


def _by_preset(model: Any, folder: Path) -> Any:
    model.save_to_preset(folder / "preset")
    return load_checkpoint(folder / "preset")


FILE = "save, load_model"
PRESET, CLONE = "save_to_preset, load_checkpoint", "clone_model, set_weights"
WAYS: dict[str, Callable[[Any, Path], Any]] = {
    FILE: _by_keras_file,
    PRESET: _by_preset,
    "copy.deepcopy": _by_copy,
    "save_weights, load_weights": _by_weights_file,
    CLONE: _by_clone,
}
# Two ways use the same configs and weight files as the first one. They are tested only with the
# changes that are hardest to keep.
ALIKE, HARDEST = ("copy.deepcopy", "save_weights, load_weights"), ("frozen parts", "int8 and LoRA")
# Changes of the encoder alone are tested with the encoder and with the users' models.
OF_AN_ENCODER = ("nothing", "frozen block", "int8", "checkpointed gradients")


# === What must be equal ===


class _State(NamedTuple):
    """State of a model as values that can be compared."""

    weights: list[bytes]
    trainable_weights: list[bool]
    trainable_variables: list[bool]
    checkpointed: set[tuple[tuple[int, ...], bool]]
    sharing: list[list[int]]
    made_from: list[list[int]]
    paths: list[str]
    trainable_layers: dict[str, bool]
    optimizer: list[bytes] | None


def _state(model: Any) -> _State:
    numbers = {id(weight): number for number, weight in enumerate(model.weights)}
    trainable = set(map(id, model.trainable_weights))
    layers = model._flatten_layers()
    return _State(
        weights=[numpy(weight).tobytes() for weight in model.weights],
        trainable_weights=[model.trainable and weight.trainable for weight in model.weights],
        # A pooler that a task does not use is left out here.
        trainable_variables=[id(weight) in trainable for weight in model.weights],
        # A clone may have one more layer with the weights of a block.
        checkpointed={
            (tuple(numbers[id(weight)] for weight in layer.weights), layer.checkpoints_gradients)
            for layer in layers
            if isinstance(layer, TransformerBlock)
        },
        sharing=[[numbers[id(weight)] for weight in layer.weights] for layer in layers],
        made_from=[
            [numbers.get(id(weight), -1) for weight in each.weights] for each in _made_from(model)
        ],
        paths=[weight.path for weight in model.weights],
        # Keras loses the flag of its own input layers, which have no weights.
        trainable_layers={
            f"{number} {layer.name}": layer.trainable
            for number, layer in enumerate(layers)
            if not isinstance(layer, keras.layers.InputLayer)
        },
        optimizer=_optimizer_state(model),
    )


def _made_from(model: Any) -> list[Any]:
    """Return the models whose layers a view uses."""
    if isinstance(model, EncoderView) and model._origin is not None:
        return [model._origin.encoder]
    named = [getattr(model, name, None) for name in ("task", "teacher", "encoder")]
    return [each for each in named if each is not None]


# `clone_model` returns a plain `Functional` of copied layers, with a new optimizer.
OF_A_CLONE = ("weights", "trainable_weights", "checkpointed")


def _optimizer_state(model: Any) -> list[bytes] | None:
    own = getattr(model, "optimizer", None)
    return own and [np.asarray(numpy(variable)).tobytes() for variable in own.variables]


def _with_optimizer(model: Any) -> Any:
    """Compile the model and apply two steps of random gradients. A real step compiles slowly."""
    loss = model.loss_and_metrics() if hasattr(model, "loss_and_metrics") else {"loss": "mse"}
    model.compile(optimizer(1e-3, total_steps=10), **loss)
    variables = model.trainable_variables
    model.optimizer.build(variables)
    generator = np.random.default_rng(0)
    for _ in range(2):
        gradients = [generator.normal(size=v.shape).astype("float32") for v in variables]
        model.optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients])
    return model


class _Saved(NamedTuple):
    """Changed model with the values that must be equal after each round trip."""

    model: Any
    inputs: Any
    outputs: Any
    state: _State


def _changed(name: str, change: str) -> _Saved:
    keras.utils.set_random_seed(0)
    model, encoder = _made(name)
    CHANGES[change](model, encoder)
    if model.trainable_variables:
        _with_optimizer(model)
    x = every_model.inputs(model) if name in VIEW_NAMES else _inputs(model, encoder)
    return _Saved(model, x, numpy(model(x)), _state(model))


def _inputs(model: Any, encoder: BertEncoder) -> dict[str, np.ndarray]:
    return contracts.inputs_of(model if isinstance(model, models.Task) else encoder)


def _differences(saved: _Saved, way: str, folder: Path) -> list[str]:
    """Return the names of all values that differ after the round trip of one cell."""
    loaded = WAYS[way](saved.model, folder)
    after, found = _state(loaded), numpy(loaded(saved.inputs))
    left_out = {PRESET: ("optimizer",)}.get(way, ())
    keys = OF_A_CLONE if way == CLONE else [key for key in _State._fields if key not in left_out]
    wrong = [key for key in keys if getattr(after, key) != getattr(saved.state, key)]
    if way != CLONE and type(loaded) is not type(saved.model):
        wrong.append(f"class {type(loaded).__name__}")
    if any(not np.array_equal(found[key], values) for key, values in _named(saved.outputs)):
        wrong.append("outputs")
    return wrong


def _named(outputs: Any) -> list[tuple[Any, Any]]:
    return list(outputs.items()) if isinstance(outputs, dict) else [(slice(None), outputs)]


def _check(name: str, cells: dict[str, list[str]], folder: Path) -> None:
    """Assert that a model is equal after every round trip.

    Args:
        name: Name of the model.
        cells: Change -> ways of saving.
        folder: Folder for the files.
    """
    table: dict[tuple[str, str], list[str]] = {}
    for change, ways in cells.items():
        saved = _changed(name, change)
        for way in ways:
            place = folder / f"{len(table)}"
            place.mkdir()
            try:
                table[change, way] = _differences(saved, way, place)
            except Exception as error:
                table[change, way] = [f"{type(error).__name__}: {error}"[:200]]
        assert _state(saved.model) == saved.state  # saving does not change the model
    lines = [
        f"{name:24} {change:24} {way:32} {', '.join(wrong) or 'equal'}"
        for (change, way), wrong in table.items()
    ]
    assert not any(table.values()), f"{keras.backend.backend()}\n" + "\n".join(lines)


# Keras transposes the scales of a quantised table, although they have one axis.
ignores_transposition = pytest.mark.filterwarnings(
    "ignore:The use of `x.T` on tensors of dimension other than 2"
)


@ignores_transposition
@pytest.mark.parametrize(
    "name", [*NAMES[:3], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[3:])]
)
def test_what_was_trained_is_what_is_loaded(name: str, tmp_path: Path) -> None:
    cells = {
        change: [
            way
            for way in WAYS
            if not (way == PRESET and name in OWN) and not (way in ALIKE and change not in HARDEST)
        ]
        for change in CHANGES
        if change != TOGETHER and (name in NAMES[:3] or change not in OF_AN_ENCODER)
    }
    _check(name, cells, tmp_path)


@ignores_transposition
@pytest.mark.parametrize("name", NAMES[3:])
def test_a_task_is_loaded_as_it_was_trained(name: str, tmp_path: Path) -> None:
    """A task with all changes at once is equal after loading.

    The slow cases above make them one by one.
    """
    _check(name, {TOGETHER: [FILE, PRESET, CLONE]}, tmp_path)


# === Views ===


def test_every_view_is_here() -> None:
    """A new class of models must be added to `VIEWS`."""
    classes = {each.__name__ for each in every_model.discovered()}
    # A clone of `FewShot` has no head, which is not in its graph; test_few_shot.py saves one.
    others = {"BertEncoder", "FewShot"}
    assert classes - task_classes().keys() - others == VIEWS.keys()
    assert list(VIEWS["EncoderView"]) == list(ENCODER_VIEWS)


@ignores_transposition
@pytest.mark.parametrize("name", VIEW_NAMES)
def test_a_view_is_loaded_as_it_was_trained(name: str, tmp_path: Path) -> None:
    """A view with all changes at once is equal after loading.

    The slow test makes them one by one.
    """
    _check(name, {TOGETHER: [FILE, CLONE]}, tmp_path)


@pytest.mark.slow
@ignores_transposition
@pytest.mark.parametrize("name", VIEW_NAMES)
def test_a_view_is_loaded_as_it_was_trained_in_every_way(name: str, tmp_path: Path) -> None:
    ways = [way for way in WAYS if way != PRESET]
    cells = {change: ways if change in HARDEST else [FILE] for change in CHANGES}
    _check(name, cells, tmp_path)


def test_a_view_is_refused_as_a_preset(tmp_path: Path) -> None:
    """A view is refused as a preset, and the message says to save its task or its encoder."""
    encoder = BertEncoder(VIEW_CONFIG)
    for parts in VIEWS.values():
        view = next(iter(parts.values()))(encoder)
        with pytest.raises(UsageError, match=f"view.task.* Received: {type(view).__name__}"):
            save_checkpoint(view, tmp_path / "preset")
        assert not (tmp_path / "preset").exists()
