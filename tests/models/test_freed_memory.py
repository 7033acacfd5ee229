"""A model without references frees its memory, after training and after prediction."""

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
    """Numbers of the graphs and variables that are alive in this process."""

    graphs: int  # traced functions of TensorFlow
    variables: int
    trainable_bytes: int
    bytes: int  # size of the variables and of the backend's own arrays


def live() -> Live:
    """Count the live graphs and variables after a garbage collection."""
    for _ in range(3):  # an object may free another one that was already visited
        gc.collect()
    objects = gc.get_objects()
    graphs = sum(type(each).__name__ == "FuncGraph" for each in objects)
    # The type is compared, because `isinstance` reads attributes and some objects then warn.
    variables = [each for each in objects if issubclass(type(each), keras.Variable)]
    # Only differences matter, so 4 bytes are counted for each number.
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
    """Hide the objects of earlier tests from the garbage collector, which would visit them all."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # restore the state that tests/plugins.py sets


# === A model of each class ===


def _user_model(of: Callable[[BertEncoder], Any] = lambda encoder: encoder) -> keras.Model:
    """Return a user's functional model over an encoder or over a view of it."""
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


# Class -> a maker of its model. Other classes are built from an encoder alone.
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
# Number of axes that an output has more than its labels, where it is not one.
MORE_AXES = {"SentenceEncoder": 0, "Distiller": 2, "SentencePairs": 2, "ReplacedTokenDetector": 0}


def batch_of(model: Any) -> dict[str, np.ndarray]:
    """Return inputs of ones, which are valid ids, masks and positions."""
    shapes = {each.name: [size or 4 for size in each.shape[1:]] for each in model.inputs}
    return {name: np.ones([3, *shape], "int32") for name, shape in shapes.items()}


def train(model: Any, name: str) -> None:
    x = batch_of(model)
    axes = MORE_AXES.get(name, 1)
    y = {
        name: np.zeros([3, *[size or 4 for size in output.shape[1 : len(output.shape) - axes]]])
        for name, output in model.output.items()
    }
    # TensorFlow's graphs are the same without XLA, whose compilation takes longer.
    jit = {"jit_compile": False} if BACKEND == "tensorflow" else {}
    model.compile(optimizer(1e-3, total_steps=2), **model.loss_and_metrics(), **jit)
    model.fit(x, y, verbose=0)


# Most leaks were traced functions that TensorFlow kept, so its test is not slow.
_marks = () if BACKEND == "tensorflow" else pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks) for name in CLASSES])
def test_a_model_of_each_class_is_freed(name: str) -> None:
    before = live()
    train(MAKERS.get(name, _of(name))(), name)
    assert live() == before


def test_models_trained_one_after_another_are_freed() -> None:
    """Models of several fine-tuning runs in one process are freed one after another."""
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
        assert live() == trained  # another `fit` adds nothing
        del model
        assert live() == before


@pytest.mark.skipif(BACKEND != "torch", reason="only on this backend do gradients stay")
def test_no_gradients_are_in_memory_in_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MAKERS["SequenceClassifier"]()
    call, found = model.call, list[bool]()

    def counted(*args: Any, **kwargs: Any) -> Any:
        """Call the model, and remember whether there are gradients."""
        found.append(any(weight.value.grad is not None for weight in model.trainable_weights))
        return call(*args, **kwargs)

    monkeypatch.setattr(model, "call", counted)
    train(model, "SequenceClassifier")
    steps = len(found)
    assert any(weight.value.grad is not None for weight in model.trainable_weights)
    model.fit(batch_of(model), {"label": np.zeros(3)}, verbose=0)
    assert len(found) > steps
    assert not any(found)
