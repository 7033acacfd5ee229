"""A model as ONNX, from the TensorFlow and PyTorch backends."""

from __future__ import annotations

import logging
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnx.numpy_helper

from bert_keras.export.runtimes.formats import (
    FLOAT16,
    INT8,
    INT8_DYNAMIC,
    Axes,
    input_axes,
    output_axes,
)
from bert_keras.kernels.onnx_friendly import written_out

_OPSET = 18
_ROOT_NAME = "root_of_2"
_ROOT_HALF = float(np.float32(1.0) / np.float32(math.sqrt(2.0)))


def write(model: keras.Model, path: Path, quantization: str | None) -> None:
    """Writes an .onnx file, checked, with names for its open axes."""
    make = _of_torch if keras.backend.backend() == "torch" else _of_tensorflow
    with written_out():
        found = make(model)
    for tensors, axes in ((found.graph.input, input_axes(model)), _outputs(found, model)):
        for tensor in tensors:
            _name(tensor, axes[tensor.name])
    found.producer_name = "bert_keras"
    onnx.checker.check_model(found, full_check=True)
    _save(found, path, quantization)


def _outputs(found: onnx.ModelProto, model: keras.Model) -> tuple[Any, dict[str, Axes]]:
    return found.graph.output, output_axes(model)


def _name(tensor: onnx.ValueInfoProto, axes: Axes) -> None:
    shape = tensor.type.tensor_type.shape
    del shape.dim[:]
    for size in axes:
        if isinstance(size, str):
            shape.dim.add().dim_param = size
        else:
            shape.dim.add().dim_value = size


def _save(found: onnx.ModelProto, path: Path, quantization: str | None) -> None:
    if quantization == INT8:
        # The product of what is quantised row by row with blocks of a matrix; then the tables.
        _with_dynamic(_in_blocks(found), path, op_types_to_quantize=["Gather"])
    elif quantization == INT8_DYNAMIC:
        _with_dynamic(found, path)
    elif quantization == FLOAT16:
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(found, keep_io_types=True), path)
    else:
        onnx.save(found, path)


def _with_dynamic(found: onnx.ModelProto, path: Path, **options: Any) -> None:
    """Writes it with int8 weights, by ONNX Runtime's dynamic quantisation."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="bert_keras_") as folder:
        whole = Path(folder, path.name)
        onnx.save(found, whole)
        with _quiet():  # a hint at what would be worth while for other networks
            quantize_dynamic(
                whole,
                path,
                weight_type=QuantType.QInt8,
                per_channel=True,
                # Seven bits: with eight, 16-bit sums overflow on processors without VNNI.
                reduce_range=True,
                **options,
            )


def _in_blocks(found: onnx.ModelProto) -> onnx.ModelProto:
    """With products of matrices whose weights are int8."""
    with _quiet():  # the import lets everybody's logging print
        from onnxruntime.quantization import matmul_nbits_quantizer as blocks
    # 4: the sums are of int8 too.
    config = blocks.DefaultWeightOnlyQuantConfig(bits=8, accuracy_level=4)
    quantizer = blocks.MatMulNBitsQuantizer(found, algo_config=config)
    quantizer.model.replace_gemm_with_matmul()  # PyTorch's of vectors, which it would leave
    with _quiet(blocks.__name__):  # a line for each operation
        quantizer.process()
    return quantizer.model.model


@contextmanager
def _quiet(name: str | None = None) -> Iterator[None]:
    """Without a logger's warnings; as it was before, whatever is done to it."""
    logger = logging.getLogger(name)
    level, handlers = logger.level, list(logger.handlers)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def _of_torch(model: keras.Model) -> onnx.ModelProto:
    import torch

    from bert_keras.export.runtimes import torch_export

    # Of what it could not know, and of its own future.
    with warnings.catch_warnings(action="ignore"), _quiet("torch.onnx"):
        made = torch.onnx.export(
            torch_export.exported(model),
            dynamo=True,
            input_names=list(input_axes(model)),
            output_names=list(output_axes(model)),
            opset_version=_OPSET,
            verbose=False,
        )
    assert made is not None
    found = made.model_proto
    _rename_between(found.graph, input_axes(model))
    return found


def _rename_between(graph: onnx.GraphProto, axes: dict[str, Axes]) -> None:
    """Names sizes in between as those of the inputs, for a runtime fuses only what it knows."""
    names = {
        size.dim_param: str(axis)
        for tensor in graph.input
        for size, axis in zip(tensor.type.tensor_type.shape.dim, axes[tensor.name], strict=True)
        if size.dim_param
    }
    for tensor in graph.value_info:
        for size in tensor.type.tensor_type.shape.dim:
            if size.dim_param in names:
                size.dim_param = names[size.dim_param]
            elif size.dim_param:  # something made of them
                size.Clear()


def _of_tensorflow(model: keras.Model) -> onnx.ModelProto:
    import tensorflow as tf
    import tf2onnx

    from bert_keras.export.runtimes import litert

    _, run = litert.signature(model)
    names = list(input_axes(model))
    specs = [run.structured_input_signature[1][name] for name in names]
    function = tf.function(lambda *inputs: run(**dict(zip(names, inputs, strict=True))))
    found, _ = tf2onnx.convert.from_function(function, input_signature=specs, opset=_OPSET)
    found.graph.ClearField("value_info")  # the converter's guesses at sizes in between
    _divide_for_erf(found.graph)
    return found


def _divide_for_erf(graph: onnx.GraphProto) -> None:
    """Has GELU divide by the root of 2, as runtimes know it: TensorFlow multiplies by its inverse.

    So a sum and its GELU are one operation of ONNX Runtime.
    """
    factors = {
        each.name for each in graph.initializer if _is_scalar(each) and _number(each) == _ROOT_HALF
    }
    read_by_erf = {each.input[0] for each in graph.node if each.op_type == "Erf"}
    found = [
        each
        for each in graph.node
        if each.op_type == "Mul" and each.output[0] in read_by_erf and factors & {*each.input}
    ]
    for node in found:
        (x,) = (name for name in node.input if name not in factors)
        node.op_type = "Div"
        node.input[:] = [x, _ROOT_NAME]
    if not found:
        return
    root = np.array(math.sqrt(2.0), np.float32)
    graph.initializer.append(onnx.numpy_helper.from_array(root, _ROOT_NAME))
    read = {name for node in graph.node for name in node.input}
    for each in [each for each in graph.initializer if each.name in factors - read]:
        graph.initializer.remove(each)


def _is_scalar(tensor: onnx.TensorProto) -> bool:
    return not tensor.dims and tensor.data_type == onnx.TensorProto.FLOAT


def _number(tensor: onnx.TensorProto) -> float:
    return float(onnx.numpy_helper.to_array(tensor))
