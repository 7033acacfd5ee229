"""Writer of LiteRT (TensorFlow Lite) files. TensorFlow backend only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from bert_keras.export.graph.text_classification import flat


class _Root(tf.Module):
    """Object in which the converter finds the variables of a function."""

    weights: list[Any]
    run: Any


def signature(model: keras.Model) -> tuple[tf.Module, tf.types.experimental.ConcreteFunction]:
    """Return a module with the weights, and its inference function.

    The function takes the model's inputs by name, int32, and returns its outputs by name, float32.
    """

    def run(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return flat(model(inputs, training=False))

    specs = {
        tensor.name: tf.TensorSpec(tensor.shape, tf.int32, name=tensor.name)
        for tensor in model.inputs
    }
    root = _Root()
    root.weights = [variable.value for variable in model.variables]
    root.run = tf.function(run, autograph=False)
    return root, root.run.get_concrete_function(**specs)


def write(model: keras.Model, path: Path, quantization: str | None) -> None:
    """Write a .tflite file that uses only LiteRT's own operations."""
    root, function = signature(model)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], root)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantization is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization == "float16":
        converter.target_spec.supported_types = [tf.float16]
    path.write_bytes(converter.convert())
