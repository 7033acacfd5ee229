"""Saved variables, and the models that they fit."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from bert_keras.errors import ArtifactError, NumericError
from bert_keras.resume import checkpoint


class Kinds(keras.Layer):
    """Layer with one weight of each dtype."""

    def build(self, _):
        for dtype in ("float32", "bfloat16", "float16", "int32", "uint8", "bool"):
            self.add_weight(
                shape=(3,), dtype=dtype, name=dtype, trainable=False, initializer="ones"
            )

    def call(self, inputs):
        return inputs


def _write(tmp_path, model):
    """Write the variables of a model to a folder."""
    tmp_path.mkdir(exist_ok=True)
    checkpoint.write_variables(tmp_path, checkpoint.collect_variables(model))
    return tmp_path


def _change_index(folder, change):
    """Change variables.json by a function."""
    path = folder / "variables.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def test_dtypes_and_shapes_are_kept(tmp_path):
    def new():
        model = keras.Sequential([keras.Input((2,)), Kinds()])
        model.compile("sgd", "mse")
        return model

    model, other = new(), new()
    for position, variable in enumerate(model.variables):
        variable.assign(np.array([position % 2, 1, 0]))
    checkpoint.read_variables_into(other, _write(tmp_path, model))
    for saved, restored in zip(model.variables, other.variables, strict=True):
        left, right = (keras.ops.convert_to_numpy(v.value) for v in (saved, restored))
        assert left.dtype == right.dtype == np.dtype(saved.dtype)
        assert left.tobytes() == right.tobytes()


def test_metrics_are_not_state(tmp_path, build, train):
    model = build(run_eagerly=True)
    train(model, 0, 1)
    names = [name for group in checkpoint.collect_variables(model).values() for name in group]
    assert model.metrics_variables
    assert not {variable.path for variable in model.metrics_variables} & set(names)
    assert len(names) == len(model.variables) + len(model.optimizer.variables)


def test_counters_in_names_may_differ(tmp_path, build, train, snapshot):
    model = build(1, run_eagerly=True)
    train(model, 0, 1)
    build(2)
    other = build(3)
    folder = _write(tmp_path, model)
    assert {v.path for v in model.variables} != {v.path for v in other.variables}
    assert checkpoint.read_variables_into(other, folder) == keras.backend.backend()
    assert snapshot(other) == snapshot(model)


def test_an_optimizer_that_keras_built_is_the_same(tmp_path, build, train, snapshot):
    """An optimizer that Keras builds within the first step is saved and restored like any other.

    Keras may build it within a name scope.
    """
    scaled = [keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)) for _ in range(4)]
    models = [build(seed, optimizer) for seed, optimizer in enumerate(scaled)]
    train(models[0], 0, 1)
    checkpoint.read_variables_into(models[1], _write(tmp_path / "a", models[0]))
    assert snapshot(models[0]) == snapshot(models[1])
    train(models[2], 0, 1)
    checkpoint.read_variables_into(models[2], _write(tmp_path / "b", models[3]))
    assert snapshot(models[2]) == snapshot(models[3])


def test_a_shared_seed_generator_is_saved_once():
    class Noise(keras.Layer):
        def __init__(self, generator):
            super().__init__()
            self.generator = generator

        def call(self, inputs):
            return inputs + keras.random.normal((2,), seed=self.generator)

    class Noisy(keras.Model):
        def __init__(self):
            super().__init__()
            self.generator = keras.random.SeedGenerator(3)
            self.noise = Noise(self.generator)

        def call(self, inputs):
            return self.noise(inputs)

    model = Noisy()
    model(np.zeros((1, 2), "float32"))
    assert len(model.variables) == 2
    assert len(checkpoint.collect_variables(model)["seeds.safetensors"]) == 1


def test_the_same_path_twice_is_refused():
    class Twins(keras.Layer):
        def __init__(self):
            super().__init__()
            self.twins = [keras.layers.Dense(2, name="twin") for _ in range(2)]
            for twin in self.twins:
                twin.build((None, 2))

        def call(self, inputs):
            return self.twins[1](self.twins[0](inputs))

    model = keras.Sequential([keras.Input((2,)), Twins()])
    with pytest.raises(ValueError, match="path 'twin/kernel'"):
        checkpoint.collect_variables(model)


def test_the_first_variable_that_is_not_finite_is_named(build):
    model = build()
    kernel, bias = model.get_layer("head").variables
    bias.assign([np.inf, 0.0])
    with pytest.raises(NumericError, match="head/bias"):
        checkpoint.collect_variables(model)
    kernel.assign(kernel * np.nan)
    with pytest.raises(NumericError, match="head/kernel"):
        checkpoint.collect_variables(model)


def test_an_optimizer_variable_that_is_not_finite_is_refused(build, train):
    model = build(run_eagerly=True)
    train(model, 0, 1)
    model.optimizer.variables[-1].assign([np.nan, 0.0])
    with pytest.raises(NumericError, match="head_bias_velocity"):
        checkpoint.collect_variables(model)


def test_bfloat16_is_checked_too():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, dtype="bfloat16")])
    model.variables[1].assign([np.nan])
    with pytest.raises(NumericError, match="bias"):
        checkpoint.collect_variables(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda build: build(optimizer=keras.optimizers.SGD(0.1, momentum=0.9)), "optimizer"),
        (lambda build: build(optimizer=keras.optimizers.Adam(0.1)), "adam_w"),
        (lambda build: build(optimizer=keras.optimizers.AdamW(0.1, use_ema=True)), "variables in"),
    ],
)
def test_another_optimizer_is_refused(tmp_path, build, snapshot, change, message):
    folder = _write(tmp_path, build())
    other = change(build)
    other.optimizer.build(other.trainable_variables)
    before = snapshot(other)
    with pytest.raises(ArtifactError, match=message):
        checkpoint.read_variables_into(other, folder)
    assert snapshot(other) == before


def test_another_shape_or_name_is_refused_and_nothing_assigned(tmp_path, build, snapshot):
    def new(size, name):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(size, name=name)])
        model.compile("sgd", "mse")
        model.optimizer.build(model.trainable_variables)
        return model

    folder = _write(tmp_path, new(3, "head"))
    for other in (new(4, "head"), new(3, "tail")):
        before = snapshot(other)
        with pytest.raises(ArtifactError, match=r"has \w+/head/kernel"):
            checkpoint.read_variables_into(other, folder)
        assert snapshot(other) == before


def test_integers_of_another_backend_are_converted(tmp_path, build, train, snapshot):
    """Integers of another backend are converted.

    TensorFlow counts in int64, where JAX and PyTorch use int32 and uint32.
    """
    model = build(run_eagerly=True)
    train(model, 0, 3)
    arrays = checkpoint.collect_variables(model)
    for group in arrays.values():
        for name, array in group.items():
            if array.dtype.kind in "iu":
                group[name] = array.astype("int64" if array.dtype != "int64" else "uint32")
    checkpoint.write_variables(tmp_path, arrays)
    _change_index(tmp_path, lambda index: index.update(backend="other"))
    other = build(1)
    assert checkpoint.read_variables_into(other, tmp_path) == "other"
    assert snapshot(other) == snapshot(model)


def test_a_missing_tensor_is_named(tmp_path, build):
    model = build()
    folder = _write(tmp_path, model)
    _change_index(folder, lambda index: index["order"]["seeds.safetensors"].reverse())
    checkpoint.read_variables_into(model, folder)
    _change_index(
        folder, lambda index: index["order"]["seeds.safetensors"].__setitem__(0, "absent")
    )
    with pytest.raises(ArtifactError, match="absent"):
        checkpoint.read_variables_into(model, folder)


def test_an_unbuilt_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="build it"):
        checkpoint.collect_variables(keras.Sequential([keras.layers.Dense(2)]))


def test_a_model_without_optimizer(tmp_path):
    def new():
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])

    model, other = new(), new()
    checkpoint.read_variables_into(other, _write(tmp_path, model))
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])


def test_files_are_readable_by_others_as_the_umask_says(tmp_path, build):
    folder = _write(tmp_path, build())
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
