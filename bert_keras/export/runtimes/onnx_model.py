"""Writer of ONNX files, on the TensorFlow and PyTorch backends."""

from __future__ import annotations

import gc
import logging
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
from bert_keras.kernels.onnx_friendly import onnx_friendly_operations

_OPSET = 18
# Weights of a model whose copies are worth freeing. For a smaller one it would take more time than
# the export.
_LARGE = 2**23
_ROOT_NAME = "root_of_2"
_ROOT_HALF = float(np.float32(1.0) / np.float32(math.sqrt(2.0)))


def write(model: keras.Model, path: Path, quantization: str | None) -> None:
    """Write an .onnx file and check it.

    Axes of variable size, such as the batch, have names. The kernels use the operations of
    `kernels.onnx_friendly`, which ONNX Runtime fuses.

    Args:
        model: task or encoder that computes in float32.
        path: path of the file.
        quantization: "int8", "int8_dynamic", "float16" or None; see `runtime_model`.
    """
    make = _of_torch if keras.backend.backend() == "torch" else _of_tensorflow
    with onnx_friendly_operations():
        proto = make(model)
    for tensors, axes in ((proto.graph.input, input_axes(model)), _outputs(proto, model)):
        for tensor in tensors:
            _set_axes(tensor, axes[tensor.name])
    proto.producer_name = "bert_keras"
    onnx.checker.check_model(proto, full_check=True)
    _save(proto, path, quantization)


def _outputs(proto: onnx.ModelProto, model: keras.Model) -> tuple[Any, dict[str, Axes]]:
    """Return the outputs of the graph and their axes by name."""
    return proto.graph.output, output_axes(model)


def _set_axes(tensor: onnx.ValueInfoProto, axes: Axes) -> None:
    """Replace the axes of a tensor: an int is a fixed size, a str the name of a variable size."""
    shape = tensor.type.tensor_type.shape
    del shape.dim[:]
    for axis in axes:
        if isinstance(axis, str):
            shape.dim.add().dim_param = axis
        else:
            shape.dim.add().dim_value = axis


def _save(proto: onnx.ModelProto, path: Path, quantization: str | None) -> None:
    """Quantise a model and save it."""
    if quantization == INT8:
        # First the matrices, in blocks; then the embedding tables.
        _with_dynamic(_in_blocks(proto), path, op_types_to_quantize=["Gather"])
    elif quantization == INT8_DYNAMIC:
        _with_dynamic(proto, path)
    elif quantization == FLOAT16:
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(proto, keep_io_types=True), path)
    else:
        onnx.save(proto, path)


def _with_dynamic(proto: onnx.ModelProto, path: Path, **options: Any) -> None:
    """Save a model with int8 weights, by ONNX Runtime's dynamic quantisation."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="bert_keras_") as folder:
        whole = Path(folder, path.name)
        onnx.save(proto, whole)
        with _quiet():  # ONNX Runtime advises a preprocessing that does not help these models
            quantize_dynamic(
                whole,
                path,
                weight_type=QuantType.QInt8,
                per_channel=True,
                # Seven bits: with eight, 16-bit sums overflow on processors without VNNI.
                reduce_range=True,
                nodes_to_exclude=_products_of_heads(proto),
                **options,
            )


def _products_of_heads(proto: onnx.ModelProto) -> list[str]:
    """Return the names of matrix products with a constant that has an axis of heads.

    This is the product with the vectors of distances (DeBERTa), which are the same for all texts.
    ONNX Runtime writes it in int8, but cannot run it.
    """
    axes = {constant.name: len(constant.dims) for constant in proto.graph.initializer}
    products = [node for node in proto.graph.node if node.op_type == "MatMul"]
    return [node.name for node in products if any(axes.get(x, 0) > 2 for x in node.input)]


def _in_blocks(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Quantise the weights of matrix products to int8, with a scale for each block of a column."""
    with _quiet():  # the import configures the root logger
        from onnxruntime.quantization import matmul_nbits_quantizer as blocks
    # Accuracy level 4: the products are computed in int8 too.
    config = blocks.DefaultWeightOnlyQuantConfig(bits=8, accuracy_level=4)
    quantizer = blocks.MatMulNBitsQuantizer(proto, algo_config=config)
    quantizer.model.replace_gemm_with_matmul()  # the quantizer skips Gemm, which PyTorch writes
    with _quiet(blocks.__name__):  # it logs a line for each operation
        quantizer.process()
    return quantizer.model.model


@contextmanager
def _quiet(name: str | None = None) -> Iterator[None]:
    """Suppress a logger's warnings, and restore its level and handlers afterwards."""
    logger = logging.getLogger(name)
    level, handlers = logger.level, list(logger.handlers)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def _of_torch(model: keras.Model) -> onnx.ModelProto:
    """Convert a model to ONNX with PyTorch's exporter."""
    import torch

    from bert_keras.export.runtimes import torch_export

    # The exporter warns of its own deprecations.
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
    proto = made.model_proto
    _rename_between(proto.graph, input_axes(model))
    return proto


def _rename_between(graph: onnx.GraphProto, axes: dict[str, Axes]) -> None:
    """Give the axes of intermediate tensors the names of the inputs' axes.

    ONNX Runtime fuses operations only if it knows that their axes are equal.
    """
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
            elif size.dim_param:  # an expression of several axes
                size.Clear()


def _of_tensorflow(model: keras.Model) -> onnx.ModelProto:
    """Convert a model to ONNX with tf2onnx."""
    import tensorflow as tf
    import tf2onnx

    from bert_keras.export.runtimes import litert

    _, run = litert.signature(model)
    names = list(input_axes(model))
    specs = [run.structured_input_signature[1][name] for name in names]  # pyright: ignore[reportAttributeAccessIssue]
    function = tf.function(lambda *inputs: run(**dict(zip(names, inputs, strict=True))))
    with _freed_copies() if model.count_params() > _LARGE else nullcontext():
        proto, _ = tf2onnx.convert.from_function(function, input_signature=specs, opset=_OPSET)
    proto.graph.ClearField("value_info")  # the converter's guesses of intermediate shapes
    _divide_for_erf(proto.graph)
    return proto


@contextmanager
def _freed_copies() -> Iterator[None]:
    """Free the copies of a graph, with all weights, that the optimizers of tf2onnx make.

    Each optimizer makes one. They refer to themselves, so only the garbage collector frees them.
    Otherwise the peak memory is many times that of the weights.
    """
    from tf2onnx.optimizer.optimizer_base import GraphOptimizerBase

    optimize = GraphOptimizerBase.optimize

    def freed(*args: Any, **kwargs: Any) -> Any:
        """Optimize a graph after the copies before it are freed."""
        gc.collect()
        return optimize(*args, **kwargs)

    GraphOptimizerBase.optimize = freed
    try:
        yield
    finally:
        GraphOptimizerBase.optimize = optimize


def _divide_for_erf(graph: onnx.GraphProto) -> None:
    """Replace x * (1 / sqrt(2)) in each GELU by x / sqrt(2).

    TensorFlow multiplies. ONNX Runtime recognises only the division, and then computes a sum and
    its GELU in one operation.
    """
    factors = {
        constant.name
        for constant in graph.initializer
        if _is_scalar(constant) and _number(constant) == _ROOT_HALF
    }
    read_by_erf = {node.input[0] for node in graph.node if node.op_type == "Erf"}
    products = [
        node
        for node in graph.node
        if node.op_type == "Mul" and node.output[0] in read_by_erf and factors & {*node.input}
    ]
    for node in products:
        (x,) = (name for name in node.input if name not in factors)
        node.op_type = "Div"
        node.input[:] = [x, _ROOT_NAME]
    if not products:
        return
    root = np.array(math.sqrt(2.0), np.float32)
    graph.initializer.append(onnx.numpy_helper.from_array(root, _ROOT_NAME))
    read = {name for node in graph.node for name in node.input}
    for constant in [item for item in graph.initializer if item.name in factors - read]:
        graph.initializer.remove(constant)


def _is_scalar(tensor: onnx.TensorProto) -> bool:
    """Return whether a constant is a single float32."""
    return not tensor.dims and tensor.data_type == onnx.TensorProto.FLOAT


def _number(tensor: onnx.TensorProto) -> float:
    """Return the value of a scalar constant."""
    return float(onnx.numpy_helper.to_array(tensor))
