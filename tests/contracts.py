"""Checks that every layer, encoder, task and checkpoint format must pass."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertConfig, BertEncoder, features, load_checkpoint, save_checkpoint
from bert_keras.models import Task

# Mark of tests whose texts are cut on purpose: the warning about it is no error.
MAY_CUT = pytest.mark.filterwarnings("ignore:.* longer than .* tokens; the rest of:UserWarning")

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
LENGTHS = (7, 5)

TINY = BertConfig(
    vocab_size=50,
    hidden_size=8,
    num_layers=2,
    num_heads=2,
    intermediate_size=16,
    max_positions=12,
)

# One config for each branch that a config value selects in the encoder.
FAMILIES = {
    "bert": TINY,
    "gelu_tanh": TINY.replace(activation="gelu_tanh"),
    "shared_blocks": TINY.replace(num_layers=3, num_unique_layers=2),
    "projected": TINY.replace(embedding_size=4),
    "no_segments": TINY.replace(num_segments=0),
    "one_segment": TINY.replace(num_segments=1, position_offset=2),
    "no_pooler": TINY.replace(pooler=False),
    "pruned": TINY.replace(pruned_heads=((1,), ())),
    "sinusoidal": TINY.replace(position_embedding="sinusoidal"),
    "relative_key": TINY.replace(position_embedding="relative_key"),
    "relative_key_query": TINY.replace(position_embedding="relative_key_query"),
}
# One config for each value of an encoder beyond those families, and for values that are combined.
VALUES = {
    "rotary": TINY.replace(attention_positions="rotary", position_embedding="none"),
    "rotary_interleaved": TINY.replace(
        attention_positions="rotary_interleaved",
        position_embedding="none",
        rotary_base=500.0,
        rotary_values=True,
    ),
    "rotary_scaled": TINY.replace(
        attention_positions="rotary", position_embedding="none", rotary_scale=8.0
    ),
    "alibi": TINY.replace(attention_positions="alibi", position_embedding="none"),
    "buckets": TINY.replace(attention_positions="buckets", position_buckets=8, max_distance=6),
    "disentangled": TINY.replace(
        attention_positions="disentangled", max_distance=4, key_bias=False
    ),
    "disentangled_shared": TINY.replace(
        attention_positions="disentangled_shared",
        position_embedding="none",
        position_buckets=4,
        max_distance=10,
        position_norm=True,
    ),
    "window": TINY.replace(window=1, global_every=2, global_offset=1, num_layers=3),
    "task_table": TINY.replace(num_tasks=3),
    "gated": TINY.replace(
        gated=True, intermediate_bias=False, output_bias=False, intermediate_dropout=0.1
    ),
    "pre_norm": TINY.replace(block="pre_norm", embedding_norm=False),
    "grouped_heads": TINY.replace(num_key_value_heads=1, attention_bias=False),
    "rms": TINY.replace(norm="rms"),
    "like_modernbert": TINY.replace(
        block="pre_norm",
        num_layers=3,
        norm_bias=False,
        first_norm=False,
        attention_positions="rotary",
        position_embedding="none",
        rotary_base=160_000.0,
        local_rotary_base=10_000.0,
        window=2,
        global_every=3,
        gated=True,
        attention_bias=False,
        intermediate_bias=False,
        output_bias=False,
        num_segments=0,
        pooler=False,
    ),
    "like_eurobert": TINY.replace(
        block="pre_norm",
        norm="rms",
        embedding_norm=False,
        attention_positions="rotary",
        position_embedding="none",
        num_key_value_heads=1,
        gated=True,
        activation="silu",
        num_segments=0,
        pooler=False,
    ),
}


def batch(
    config: BertConfig, length: int = LENGTHS[0], *, rows: int = 3, predictions: int = 0
) -> dict[str, np.ndarray]:
    """Return inputs of an encoder; row i has i padding tokens.

    With `predictions`, the inputs contain so many mask positions a row.
    """
    generator = np.random.default_rng(length)
    x = {
        features.TOKEN_IDS: generator.integers(5, config.vocab_size, (rows, length)),
        features.PADDING_MASK: np.arange(length) < length - np.arange(rows)[:, None],
    }
    if config.num_segments > 1:
        x[features.SEGMENT_IDS] = np.tile(np.arange(length) > length // 2, (rows, 1))
    if predictions:
        positions = [generator.permutation(length - rows)[:predictions] for _ in range(rows)]
        x[features.MASK_POSITIONS] = np.stack(positions)
    return {name: values.astype("int32") for name, values in x.items()}


def inputs_of(model: BertEncoder | Task, length: int = LENGTHS[0]) -> dict[str, np.ndarray]:
    """Return a batch with every input of this model, including mask positions and choices."""
    config = model.encoder.config if isinstance(model, Task) else model.config
    wanted = {tensor.name: len(tensor.shape) for tensor in model.inputs}
    x = batch(config, length, predictions=2 if features.MASK_POSITIONS in wanted else 0)
    if wanted[features.TOKEN_IDS] == 3:
        return {name: np.stack([values, values[::-1]], axis=1) for name, values in x.items()}
    return x


def numpy(values: Any) -> Any:
    """Return a structure of backend tensors as the same structure of NumPy arrays."""
    return keras.tree.map_structure(keras.ops.convert_to_numpy, values)


def weights(model: keras.Layer) -> dict[str, np.ndarray]:
    """Return the values of all weights, by the path of the weight."""
    return {weight.path: numpy(weight) for weight in model.weights}


def as_built(layer: Any, *arrays: np.ndarray) -> Any:
    """Build a layer for these arguments, and give it the weights of `as_trained`."""
    layer(*_symbols(arrays))
    return as_trained(layer)


def as_trained(model: Any, seed: int = 0) -> Any:
    """Set random weights as after a training, equal on every backend; return the model.

    New models have biases of 0 and scales of 1. An error in their use would not be seen.
    """
    generator = np.random.default_rng(seed)
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        mean = 1.0 if weight.name == "gamma" else 0.0
        # Embedding tables keep their small initial scale. With larger values, the epsilon of layer
        # normalization would have no effect.
        deviation = 0.02 if weight.name == "embeddings" else 0.3
        weight.assign(generator.normal(mean, deviation, weight.shape))
    return model


def learn(
    task: keras.Model,
    x: dict[str, np.ndarray],
    y: dict[str, np.ndarray],
    counted: dict[str, np.ndarray] | None = None,
    *,
    steps: int,
) -> tuple[float, float]:
    """Train for `steps` steps on all rows at once; return the loss before and after.

    All steps are one epoch, because starting an epoch takes ten times as long as so small a step.
    """
    rows = len(x[features.TOKEN_IDS])

    def loss() -> float:
        found: Any = task.evaluate(
            x, y, sample_weight=counted, batch_size=rows, verbose=0, return_dict=True
        )
        return found["loss"]

    before = loss()
    many = [
        part and {name: np.concatenate([values] * steps) for name, values in part.items()}
        for part in (x, y, counted)
    ]
    task.fit(*many[:2], sample_weight=many[2], batch_size=rows, shuffle=False, verbose=0)
    return before, loss()


def assert_close(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Assert equal structures and shapes, and finite values that differ by at most `tolerance`."""
    keras.tree.assert_same_structure(found, expected)
    for left, right in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        assert np.isfinite(np.asarray(left, "float32")).all()
        np.testing.assert_allclose(left, right, rtol=0.0, atol=tolerance, strict=True)


def assert_same_weights(found: keras.Layer, expected: keras.Layer) -> None:
    """Assert that two models have the same weight paths and bit-identical values."""
    left, right = weights(found), weights(expected)
    assert left.keys() == right.keys()
    for path, values in right.items():
        assert left[path].dtype == values.dtype, path
        assert left[path].tobytes() == values.tobytes(), path


def check_layer(
    make: Callable[..., keras.Layer],
    arguments: Callable[[int], tuple[np.ndarray, ...]],
    *,
    num_weights: int,
    directory: Path | None = None,
) -> None:
    """Check a layer: eager and symbolic calls, two lengths, dtype policies, config, `.keras` file.

    Args:
        make: the constructor, with all arguments but `dtype`.
        arguments: a function from a length to the arguments of `call`: integer arrays, or float
            arrays whose last axis holds features.
        num_weights: the number of weights.
        directory: the folder of the `.keras` file; None for a layer without a config.
    """
    layer, arrays = as_built(make(), *arguments(LENGTHS[0])), arguments(LENGTHS[0])
    assert len({weight.path for weight in layer.weights}) == len(layer.weights) == num_weights
    expected = numpy(layer(*arrays))
    _check_symbol(layer(*_symbols(arrays)), expected)
    model = _model_of(layer, arrays)
    assert_close(model.predict(list(arrays), verbose=0), expected, 1e-5)
    other = model.predict(list(arguments(LENGTHS[1])), verbose=0)
    assert np.isfinite(other).all()
    for policy in POLICIES[1:]:
        layer = make(dtype=policy)
        outputs = _model_of(layer, arrays).predict(list(arrays), verbose=0)
        _check_symbol(layer(*_symbols(arrays)), outputs)
        assert np.isfinite(outputs.astype("float32")).all(), policy
    if directory is not None:
        rebuilt = type(layer).from_config(layer.get_config())
        assert rebuilt.get_config() == layer.get_config()
        model.save(directory / "layer.keras")
        loaded: Any = keras.saving.load_model(directory / "layer.keras")
        assert len(loaded.weights) == num_weights
        assert_close(numpy(loaded(list(arrays))), expected)


def check_encoder(make: Callable[..., BertEncoder], directory: Path) -> None:
    """Check an encoder: calls, `predict`, dtype policies, config and `.keras` file.

    Args:
        make: the constructor, with all arguments but `dtype`.
        directory: the folder of the `.keras` file.
    """
    encoder = as_trained(make())
    x = batch(encoder.config)
    _check_calls(encoder, x, batch(encoder.config, LENGTHS[1]))
    _check_model_config(encoder, x, directory)
    for policy in POLICIES[1:]:
        encoder = make(dtype=policy)
        assert {weight.dtype for weight in encoder.weights} == {"float32"}
        for output in keras.tree.flatten(encoder.predict(x, verbose=0)):
            assert str(output.dtype) == encoder.compute_dtype
            assert np.isfinite(output.astype("float32")).all(), policy


def check_task(
    make: Callable[[BertEncoder], Task],
    config: BertConfig,
    directory: Path,
    label_axes: int = 1,
) -> Task:
    """Check a task as an encoder, and its float32 logits and mixed-precision training.

    Each task's own test file tests training in float32.

    Args:
        make: a function from an encoder to the task.
        config: the config of the encoder.
        directory: the folder of the `.keras` file.
        label_axes: the number of axes that the outputs have more than the labels.

    Returns:
        A task that `make` returned.
    """
    task = as_trained(make(BertEncoder(config)))
    x = inputs_of(task)
    _check_calls(task, x, inputs_of(task, LENGTHS[1]))
    _check_model_config(task, x, directory)
    for policy in POLICIES[1:]:
        task = make(BertEncoder(config, dtype=policy))
        assert task.dtype_policy.name == policy
        logits = numpy(task(x))
        assert {str(values.dtype) for values in logits.values()} == {"float32"}
        assert all(np.isfinite(values).all() for values in logits.values()), policy
        _check_training_step(task, x, logits, label_axes)
    return task


def check_format(model: BertEncoder | Task, x: dict[str, np.ndarray], directory: Path) -> None:
    """Check that a saved checkpoint loads as the same class with identical weights and outputs."""
    save_checkpoint(as_trained(model), directory)
    loaded = load_checkpoint(directory)
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert_same_weights(loaded, model)
    assert_close(numpy(loaded(x)), numpy(model(x)))


def _check_calls(model: Any, x: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """Check that eager and symbolic calls and `predict` on arrays and `tf.data` agree.

    `other` is a batch of another length.
    """
    expected = numpy(model(x))
    symbolic = model(
        {name: keras.Input([None] * (array.ndim - 1), dtype="int32") for name, array in x.items()}
    )
    keras.tree.assert_same_structure(symbolic, expected)
    for symbol, output in zip(
        keras.tree.flatten(symbolic), keras.tree.flatten(expected), strict=True
    ):
        _check_symbol(symbol, output)
    assert_close(model.predict(x, verbose=0), expected, 1e-5)
    for output in keras.tree.flatten(model.predict(other, verbose=0)):
        assert np.isfinite(output).all()
    if importlib.util.find_spec("tensorflow"):
        tf: Any = importlib.import_module("tensorflow")
        dataset = tf.data.Dataset.from_tensor_slices(x).batch(len(x[features.TOKEN_IDS]))
        assert_close(model.predict(dataset, verbose=0), expected, 1e-5)


def _check_model_config(model: Any, x: dict[str, np.ndarray], directory: Path) -> None:
    expected = numpy(model(x))
    rebuilt = type(model).from_config(model.get_config())
    assert rebuilt.get_config() == model.get_config()
    rebuilt.set_weights(model.get_weights())
    assert_same_weights(rebuilt, model)
    assert_close(numpy(rebuilt(x)), expected)

    model.save(directory / "model.keras")
    loaded: Any = keras.saving.load_model(directory / "model.keras")
    assert type(loaded) is type(model)
    assert len(loaded.weights) == len(model.weights)
    assert_same_weights(loaded, model)
    assert_close(numpy(loaded(x)), expected)


def _check_training_step(
    task: Task, x: dict[str, np.ndarray], logits: dict[str, np.ndarray], label_axes: int
) -> None:
    """Check that a training step gives finite values, and that only float16 scales the loss."""
    task.compile(keras.optimizers.SGD(1e-3), **task.loss_and_metrics())
    shapes = {name: values.shape[: values.ndim - label_axes] for name, values in logits.items()}
    y = {name: np.zeros(shape, "int32") for name, shape in shapes.items()}
    scaled = isinstance(task.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (task.dtype_policy.name == "mixed_float16")
    history = task.fit(x, y, batch_size=len(x[features.TOKEN_IDS]), verbose=0).history
    assert np.isfinite(history["loss"]).all()
    for path, values in weights(task).items():
        assert np.isfinite(values).all(), path


def _check_symbol(symbol: keras.KerasTensor, output: np.ndarray) -> None:
    """Check that the inferred dtype and shape agree with an output; sizes may be unknown."""
    assert symbol.dtype == str(output.dtype)
    assert len(symbol.shape) == output.ndim
    assert all(size in (None, real) for size, real in zip(symbol.shape, output.shape, strict=True))


def _symbols(arrays: tuple[np.ndarray, ...]) -> list[keras.KerasTensor]:
    """Return symbolic inputs for these arrays, with unknown batch size and length."""
    symbols = []
    for array in arrays:
        # The last axis of a float array is the feature axis, whose size is fixed.
        sizes = array.shape[-1:] if array.dtype.kind == "f" else ()
        free = array.ndim - len(sizes) - 1
        symbols.append(keras.Input((*[None] * free, *sizes), dtype=array.dtype))
    return symbols


def _model_of(layer: keras.Layer, arrays: tuple[np.ndarray, ...]) -> keras.Model:
    symbols = _symbols(arrays)
    return keras.Model(symbols, layer(*symbols))
