"""Files of every family, and of every value of a config, give the model's outputs at any length."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keras
import pytest

from bert_keras.checkpoints import new_head_options
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.models import BertEncoder, MaskedLM, SequenceClassifier
from tests.contracts import VALUES, as_trained, inputs_of
from tests.export.runtimes.conftest import compare
from tests.export.runtimes.runners import RUNNERS
from tests.families import config_of
from tests.reference import numpy_outputs

BACKEND = keras.backend.backend()
MOST = 210  # positions; more than two windows, and than buckets of distances
LENGTHS = (7, 12, 200)  # the batches have 3, 2 and 1 rows, of which all but the first are padded
HEADS: dict[str, Callable[[BertEncoder], Any]] = {
    # The last block reads one token, or some tokens.
    "labels": lambda encoder: SequenceClassifier(encoder, 3, hidden_activation="tanh"),
    "masks": MaskedLM,
}


def _published(family: str, head: str) -> Any:
    """Return a family's encoder with the head that its checkpoints have, such as late pooling."""
    encoder = BertEncoder(config_of(family, max_positions=MOST))
    if head == "masks":
        return MaskedLM(encoder, **new_head_options("MaskedLM", encoder.config))
    options = new_head_options("SequenceClassifier", encoder.config)
    return SequenceClassifier(encoder, 3, **options)


FAMILY_HEADS: dict[str, Callable[[], Any]] = {
    f"{family}/{head}": lambda family=family, head=head: _published(family, head)
    for family in FAMILIES
    for head in HEADS
}
MODELS: dict[str, Callable[[], Any]] = {
    **{
        f"{value}/{head}": lambda value=value, make=make: make(
            BertEncoder(VALUES[value].replace(max_positions=MOST))
        )
        for value in VALUES
        for head, make in HEADS.items()
    },
    **{
        family: lambda family=family: BertEncoder(config_of(family, max_positions=MOST))
        for family in FAMILIES
    },
    **FAMILY_HEADS,
}
TOLERANCES = {None: 1e-5, "float16": 1e-2, "int8": 0.2, "int8_dynamic": 0.3}
# These run every time; `.ci/full` runs all.
FEW = ("modernbert", "deberta_v2", "mpnet")
# PyTorch needs 10 s to trace a model, so TensorFlow writes most families.
NAMES = [
    name
    for name in MODELS
    if BACKEND != "torch" or name in FEW or name.partition("/")[0] not in FAMILIES
]


def _cases() -> Iterator[Any]:
    """Yield each format that this backend writes with each model, and the quantized models.

    The heads of families are for ONNX alone: other formats have their operations in other cases.
    """
    for name, format_ in FORMATS.items():
        if BACKEND not in format_.writers:
            continue
        for quantization in (None, *format_.quantizers):
            for model in NAMES:
                if quantization and not model.endswith("/labels"):
                    continue
                if model in FAMILY_HEADS and (quantization or name != "onnx"):
                    continue
                quick = BACKEND == "tensorflow" and name == "onnx" and model in FEW
                marks = [] if quick and quantization is None else [pytest.mark.slow]
                yield pytest.param(name, quantization, model, marks=marks)


@pytest.mark.parametrize(("format_", "quantization", "name"), [*_cases()])
def test_outputs_are_the_models(
    format_: str, quantization: str | None, name: str, tmp_path: Path
) -> None:
    known = FORMATS[format_]
    for library in (
        *known.writers[BACKEND],
        *(known.quantizers[quantization] if quantization else ()),
    ):
        pytest.importorskip(library)
    model = as_trained(MODELS[name]())
    batches = []
    for rows, length in zip((3, 2, 1), LENGTHS, strict=True):
        batches.append({key: x[:rows] for key, x in inputs_of(model, length).items()})
    module: Any = importlib.import_module(f"bert_keras.export.runtimes.{known.module}")
    path = tmp_path / known.file
    module.write(model, path, quantization)
    is_known = isinstance(model, BertEncoder | MaskedLM)  # to the computation in float64
    exact = partial(numpy_outputs, model) if is_known and not quantization else None
    compare(model, batches, RUNNERS[format_](path), TOLERANCES[quantization], exact)
