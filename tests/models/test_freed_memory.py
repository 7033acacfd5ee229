"""A model that nobody holds any more frees its memory, after training and after prediction."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from bert_keras import models
from bert_keras.models import BertEncoder, MaskedLM
from bert_keras.optimization import optimizer
from tests.contracts import TINY
from tests.models import every_model

CONFIG = TINY.replace(num_layers=1)
FITS = 2
BACKEND = keras.backend.backend()


class Live(NamedTuple):
    """Graphs and variables that are alive in this process."""

    graphs: int  # TensorFlow's traced functions
    variables: int
    trainable_bytes: int
    bytes: int  # of variables, and of the backend's own arrays or variables


def live() -> Live:
    """Count what is alive after a garbage collection."""
    for _ in range(3):  # an object may free others that were seen before it
        gc.collect()
    objects = gc.get_objects()
    graphs = sum(type(each).__name__ == "FuncGraph" for each in objects)
    # By the type: `isinstance` asks objects for attributes, and some of them warn.
    variables = [each for each in objects if issubclass(type(each), keras.Variable)]
    # Only differences count, so that 4 bytes will do for each number.
    sizes = [int(np.prod(each.shape)) * 4 for each in variables]
    trainable = sum(size for size, each in zip(sizes, variables, strict=True) if each.trainable)
    size = sum(sizes)
    if BACKEND == "jax":
        size += sum(array.nbytes for array in sys.modules["jax"].live_arrays())
    if BACKEND == "torch":
        torch = sys.modules["torch"]
        tensors = [each for each in objects if issubclass(type(each), torch.Tensor)]
        size += sum(tensor.element_size() * tensor.nelement() for tensor in tensors)
    if BACKEND == "tensorflow":
        tf = sys.modules["tensorflow"]
        own = [each for each in objects if issubclass(type(each), tf.Variable)]
        size += sum(each.shape.num_elements() * each.dtype.size for each in own)
    return Live(graphs, len(variables), trainable, size)


@pytest.fixture(autouse=True, scope="module")
def _only_new_objects() -> Iterator[None]:
    """Hide what earlier tests left: each of the many collections here would walk all of it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as tests/plugins.py leaves it


# === A model of each class ===


def _user_model(of: Callable[[BertEncoder], Any] = lambda encoder: encoder) -> keras.Model:
    """A functional model of a user's own over an encoder, or over a view of it."""
    layer = of(BertEncoder(CONFIG))
    inputs = dict(layer.input)
    outputs = {"label": keras.layers.Dense(2)(layer(inputs)["pooled_output"])}
    model = keras.Model(inputs, outputs)
    model.loss_and_metrics = lambda: {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    }
    return model


def _checkpointed() -> MaskedLM:
    encoder = BertEncoder(CONFIG)
    encoder.checkpoint_gradients()
    return MaskedLM(encoder)


def _of(name: str, **options: Any) -> Callable[[], keras.Model]:
    return lambda: getattr(models, name)(BertEncoder(CONFIG), **options)


# By class; those that are not named are built from an encoder alone.
MAKERS: dict[str, Callable[[], Any]] = {
    "BertEncoder": _user_model,
    "ChunkedTask": lambda: _checkpointed().loss_chunks(2),
    "Distiller": lambda: models.Distiller(_of("MaskedLM")(), _of("MaskedLM")()),
    "EncoderView": lambda: _user_model(BertEncoder.first_token),
    "PackedTask": lambda: models.PackedTask(MaskedLM(BertEncoder(CONFIG))),
    "ReplacedTokenDetector": lambda: models.ReplacedTokenDetector(
        BertEncoder(CONFIG.replace(pooler=False))
    ),
    "SequenceClassifier": _of("SequenceClassifier", num_classes=2),
    "TokenClassifier": _of("TokenClassifier", num_classes=2),
}
CLASSES = [each.__name__ for each in every_model.discovered()]
# How many axes an output has that its labels have not, if not one.
MORE_AXES = {"SentenceEncoder": 0, "Distiller": 2, "SentencePairs": 2, "ReplacedTokenDetector": 0}


def batch_of(model: Any) -> dict[str, np.ndarray]:
    """Return inputs of ones, which are ids, masks and positions alike."""
    shapes = {each.name: [size or 4 for size in each.shape[1:]] for each in model.inputs}
    return {name: np.ones([3, *shape], "int32") for name, shape in shapes.items()}


def train(model: Any, name: str) -> None:
    x = batch_of(model)
    axes = MORE_AXES.get(name, 1)
    y = {
        name: np.zeros([3, *[size or 4 for size in output.shape[1 : len(output.shape) - axes]]])
        for name, output in model.output.items()
    }
    # TensorFlow's graphs are the same without XLA, which takes longer.
    jit = {"jit_compile": False} if BACKEND == "tensorflow" else {}
    model.compile(optimizer(1e-3, total_steps=2), **model.loss_and_metrics(), **jit)
    model.fit(x, y, verbose=0)


# TensorFlow keeps traced functions, which most often kept a model alive.
_marks = () if BACKEND == "tensorflow" else pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks) for name in CLASSES])
def test_a_model_of_each_class_is_freed(name: str) -> None:
    before = live()
    train(MAKERS.get(name, _of(name))(), name)
    assert live() == before


def test_models_trained_one_after_another_are_freed() -> None:
    """As the seeds of one fine-tuning are."""
    name = "SequenceClassifier"
    before = live()
    for _ in range(FITS):
        model = MAKERS[name]()
        train(model, name)
        model.predict(batch_of(model), verbose=0)
        trained = live()
        assert trained.trainable_bytes > before.trainable_bytes
        assert trained.bytes > before.bytes
        assert (trained.graphs > before.graphs) == (BACKEND == "tensorflow")
        model.fit(batch_of(model), {"label": np.zeros(3)}, verbose=0)
        assert live() == trained  # nothing more after another `fit`
        del model
        assert live() == before
