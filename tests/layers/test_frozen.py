"""Training does not change frozen weights, in any layer and by any way of freezing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.src.saving import object_registration

from bert_keras import layers
from bert_keras.layers import BertEmbeddings, SelfAttention, TransformerBlock, core
from bert_keras.layers.core import LayerNorm
from bert_keras.layers.embeddings import FixedTable
from bert_keras.layers.heads import MaskedVectors
from bert_keras.layers.normalization import RMSNorm
from bert_keras.layers.relative_positions import RelativeKey, RelativeKeyQuery
from tests import contracts

# Shapes of the inputs without the batch axis.
X, HEADS, POTENTIALS, VECTOR = (7, 8), (7, 2, 4), (7, 5), (8,)
IDS, POSITIONS = "ids", "positions"


def _embeddings() -> BertEmbeddings:
    return BertEmbeddings(50, 12, 2, 4, 8)


def _table() -> Any:
    table = keras.layers.ReversibleEmbedding(50, 8, name="token")
    table.build((None, 7))
    return table


# Class name -> a constructor that takes `trainable`, and the inputs of `call`.
WITH_WEIGHTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "AttentionProbabilities": (
        lambda **options: layers.AttentionProbabilities(SelfAttention(2, 8), **options),
        (X,),
    ),
    "BertEmbeddings": (
        lambda **options: BertEmbeddings(50, 12, 2, 4, 8, **options),
        (IDS,),
    ),
    "ClassificationHead": (
        lambda **options: layers.ClassificationHead(3, 8, "tanh", **options),
        (X,),
    ),
    "ConditionalRandomField": (layers.ConditionalRandomField, (POTENTIALS,)),
    "Dense": (lambda **options: core.Dense(3, **options), (X,)),
    "Embedding": (lambda **options: core.Embedding(50, 4, **options), (IDS,)),
    "FeedForward": (lambda **options: layers.FeedForward(16, 8, **options), (X,)),
    "FirstToken": (
        lambda **options: layers.FirstToken(TransformerBlock(8, 2, 16), **options),
        (X,),
    ),
    "Generator": (
        lambda **options: layers.Generator(
            _embeddings(), [TransformerBlock(6, 2, 16)], 6, **options
        ),
        (IDS,),
    ),
    "LayerNorm": (LayerNorm, (X,)),
    "MaskedLMHead": (lambda **options: layers.MaskedLMHead(_table(), **options), (X,)),
    "MaskedVectors": (
        lambda **options: MaskedVectors(layers.MaskedLMHead(_table()), **options),
        (X,),
    ),
    "PairHead": (layers.PairHead, (VECTOR,)),
    "Pooler": (lambda **options: layers.Pooler(8, **options), (X,)),
    "RelativeKey": (lambda **options: RelativeKey(12, 4, **options), (HEADS, HEADS)),
    "RelativeKeyQuery": (lambda **options: RelativeKeyQuery(12, 4, **options), (HEADS, HEADS)),
    "ReversibleEmbedding": (lambda **options: core.ReversibleEmbedding(50, 4, **options), (IDS,)),
    "BucketBias": (lambda **options: layers.BucketBias(2, 8, 6, **options), (IDS,)),
    "DistanceVectors": (lambda **options: layers.DistanceVectors(8, 3, True, **options), (IDS,)),
    "PreNormBlock": (lambda **options: layers.PreNormBlock(8, 2, 16, **options), (X,)),
    "RMSNorm": (RMSNorm, (X,)),
    "ScalarMix": (layers.ScalarMix, ([X, X],)),
    "SelfAttention": (
        lambda **options: SelfAttention(
            2, 8, relative_positions="relative_key", max_positions=12, **options
        ),
        (X,),
    ),
    "TokensOf": (
        lambda **options: layers.TokensOf(TransformerBlock(8, 2, 16), **options),
        (X, POSITIONS),
    ),
    "TransformerBlock": (lambda **options: TransformerBlock(8, 2, 16, **options), (X,)),
}
WITHOUT_WEIGHTS = {
    *(
        "Dropout",
        "ExampleMask",
        "ExamplePooling",
        "HiddenDistance",
        "LinearBias",
        "MergeChoices",
        "RotaryAngles",
        "SentencePooling",
        "SplitChoices",
        "SplitTexts",
    ),
    *("TokenReplacement", "TokensAt", "_Forward"),
}
# These layers are tested in test_saved_model_layer.py, test_embeddings.py and test_distiller.py.
ELSEWHERE = {"SavedModelLayer", "FixedTable", "_Fixed"}
WAYS = ("constructor", "layer, before it is built", "layer", "model")


def test_every_registered_layer_is_here() -> None:
    registered = {
        each.__name__
        for name, each in object_registration.GLOBAL_CUSTOM_OBJECTS.items()
        if name.startswith("bert_keras>")
        and isinstance(each, type)
        and issubclass(each, keras.layers.Layer)
        and not issubclass(each, keras.Model)
    }
    assert registered == {*WITH_WEIGHTS, *WITHOUT_WEIGHTS, *ELSEWHERE}


def _input(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_input(each) for each in kind]
    if isinstance(kind, tuple):
        return keras.Input(kind)
    return keras.Input((7,), dtype="int32")


def frozen_model(name: str, way: str) -> tuple[keras.Model, Any]:
    """Build a model with one layer between others, and freeze the layer or the model in one way."""
    make, kinds = WITH_WEIGHTS[name]
    layer = make(trainable=False) if way == "constructor" else make()
    if way == "layer, before it is built":
        layer.trainable = False
    inputs = [_input(kind) for kind in kinds]
    outputs = keras.layers.Dense(1, name="trained")(layer(*inputs))
    model = keras.Model(inputs, outputs)
    if way in ("layer", "model"):
        (layer if way == "layer" else model).trainable = False
    return model, layer


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_a_frozen_layer_trains_nothing(name: str, way: str) -> None:
    model, layer = frozen_model(name, way)
    assert layer.weights
    assert layer.trainable_weights == []
    assert [
        weight.path for weight in model.trainable_weights if "trained/" not in weight.path
    ] == []
    model.trainable = layer.trainable = True
    assert len(layer.trainable_weights) == len(layer.weights)


@pytest.mark.parametrize("way", ["constructor", "layer"])
@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_a_frozen_layer_is_frozen_in_the_loaded_model(name: str, way: str, tmp_path: Path) -> None:
    model, _ = frozen_model(name, way)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
    assert len(loaded.trainable_weights) == len(model.trainable_weights)


@pytest.mark.parametrize("way", WAYS[:-1])
def test_training_moves_nothing_that_is_frozen(way: str) -> None:
    model, layer = frozen_model("TransformerBlock", way)
    before = contracts.weights(layer)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(np.ones([3, *X], "float32"), np.ones([3, 7, 1]), verbose=0)
    for path, values in contracts.weights(layer).items():
        np.testing.assert_array_equal(values, before[path], err_msg=path)


def test_a_fixed_table_stays_fixed() -> None:
    """Sinusoidal positions stay frozen after the layer around them is frozen and unfrozen."""
    layer = BertEmbeddings(50, 12, 2, 8, 8, position_embedding="sinusoidal")
    layer.build((None, 7))
    assert isinstance(layer.position, FixedTable)
    for trainable in (False, True):
        layer.trainable = trainable
        assert layer.position.trainable_weights == []
        assert not any(weight.trainable for weight in layer.position.weights)
    assert len(layer.trainable_weights) == len(layer.weights) - 1
