"""ONNX files give the model's outputs in ONNX Runtime, with open sizes and named axes."""

from __future__ import annotations

import functools
import logging
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras.models import BertEncoder, SequenceClassifier
from tests.contracts import TINY, as_trained
from tests.export.runtimes.conftest import MODELS, batch_of
from tests.export.runtimes.runners import RUNNERS

ort = pytest.importorskip("onnxruntime")
# PyTorch needs 10 s to trace a model. The later steps are the same as on TensorFlow.
slow_on_torch = pytest.mark.slow if keras.backend.backend() == "torch" else lambda test: test
onnx = pytest.importorskip("onnx")
if keras.backend.backend() == "jax":
    pytest.skip("ONNX is written on the other backends", allow_module_level=True)
from bert_keras.export.runtimes import onnx_model  # noqa: E402


@slow_on_torch
@pytest.mark.parametrize("name", ["pretrainer", "pairs", "attentions"])
def test_it_answers_alike(name: str, check) -> None:
    check(name, onnx_model.write, "model.onnx", RUNNERS["onnx"])


@slow_on_torch
@pytest.mark.parametrize(
    ("quantization", "tolerance"), [("float16", 3e-3), ("int8", 0.1), ("int8_dynamic", 0.2)]
)
def test_quantised(quantization: str, tolerance: float, check) -> None:
    options = {"quantization": quantization, "tolerance": tolerance}
    check("pretrainer", onnx_model.write, "model.onnx", RUNNERS["onnx"], **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that exports a model once, for all tests that only read its file."""

    @functools.cache
    def write(name: str) -> Path:
        path = tmp_path_factory.mktemp("written") / "model.onnx"
        onnx_model.write(MODELS[name](), path, None)
        return path

    return write


def test_the_runtime_knows_what_it_reads(tmp_path: Path) -> None:
    """ONNX Runtime fuses residual sums with layer normalisations, and fuses GELUs.

    Attention stays two matrix products, and all shapes are known.
    """
    model = as_trained(SequenceClassifier(BertEncoder(TINY), 3))
    onnx_model.write(model, tmp_path / "model.onnx", None)
    options = ort.SessionOptions()
    # Hides the warning that an optimised file fits this machine only.
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    ort.InferenceSession(tmp_path / "model.onnx", options)
    operations = Counter(node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node)
    layers = TINY.num_layers
    # Each layer normalisation is fused with its sum. On TensorFlow, those of [CLS] alone are not.
    apart = 2 if keras.backend.backend() == "tensorflow" else 0
    assert operations["SkipLayerNormalization"] == 2 * layers + 1 - apart
    assert operations["LayerNormalization"] == apart
    assert operations["BiasGelu"] == layers
    assert not operations.keys() & {"ReduceMean", "Erf", "Einsum", "Range"}
    # The pooler and the classifier may become another kind of product.
    products = operations["MatMul"] + operations["FusedMatMul"]
    assert 8 * layers <= products <= 8 * layers + 2


@pytest.mark.parametrize("name", ["pretrainer", "pairs"])
def test_only_open_sizes_have_names_and_all_weights_are_read(
    name: str, written: Callable[[str], Path]
) -> None:
    graph = onnx.load(written(name)).graph
    named = {
        size.dim_param
        for tensor in (*graph.input, *graph.value_info, *graph.output)
        for size in tensor.type.tensor_type.shape.dim
    }
    assert named <= {"", "batch", "texts", "length", "predictions"}
    read = {tensor for node in graph.node for tensor in node.input}
    assert {weight.name for weight in graph.initializer} <= read


@slow_on_torch
def test_int8_answers_row_by_row(tmp_path: Path) -> None:
    """A row of an int8 model has the same outputs alone and in a batch.

    All matrices and tables are int8.
    """
    model = as_trained(SequenceClassifier(BertEncoder(TINY), 3))
    onnx_model.write(model, tmp_path / "model.onnx", "int8")
    operations = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    products = 6 * TINY.num_layers + 2  # the pooler and the classifier
    assert operations.count("MatMulNBits") == products
    assert not {"MatMulInteger", "Gemm"} & set(operations)
    run = RUNNERS["onnx"](tmp_path / "model.onnx")
    inputs = batch_of(model, 5, 12)
    together = run(inputs)["label"]
    for row in range(5):
        alone = run({name: values[row : row + 1] for name, values in inputs.items()})["label"]
        np.testing.assert_allclose(together[row], alone[0], atol=1e-6, rtol=0)


@slow_on_torch
def test_nothing_begins_to_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's block quantisation configures the root logger. The export prevents this."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.delitem(sys.modules, "onnxruntime.quantization.matmul_nbits_quantizer", False)
    level = logging.root.level
    onnx_model.write(as_trained(MODELS["pairs"]()), tmp_path / "model.onnx", "int8")
    assert (logging.root.level, logging.root.handlers) == (level, [])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf2onnx: one backend")
def test_copies_of_large_models_are_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tf2onnx.optimizer.optimizer_base import GraphOptimizerBase

    collected: list[int] = []
    optimize = GraphOptimizerBase.optimize
    monkeypatch.setattr(onnx_model, "_LARGE", 0)
    monkeypatch.setattr(onnx_model.gc, "collect", lambda: collected.append(1))
    onnx_model.write(as_trained(MODELS["pairs"]()), tmp_path / "model.onnx", None)
    assert len(collected) > 10
    assert GraphOptimizerBase.optimize is optimize


def test_open_axes_have_names(written: Callable[[str], Path]) -> None:
    graph = onnx.load(written("pretrainer")).graph
    found = {
        tensor.name: [
            axis.dim_param or axis.dim_value for axis in tensor.type.tensor_type.shape.dim
        ]
        for tensor in (*graph.input, *graph.output)
    }
    assert found == {
        **{key: ["batch", "length"] for key in ("token_ids", "segment_ids", "padding_mask")},
        "mask_positions": ["batch", "predictions"],
        "mlm": ["batch", "predictions", 50],
        "nsp": ["batch", 2],
    }
