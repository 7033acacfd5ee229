"""Every layer, view and task is rebuilt from its config by a file, a clone and a copy.

Classes are discovered, so a new layer or model must be added to `LAYERS` or `MODELS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import features, layers, models
from bert_keras.layers import core
from bert_keras.layers.core import LayerNorm, seeded_dropout
from bert_keras.layers.crf import _Forward
from bert_keras.layers.embeddings import FixedTable, sinusoids
from bert_keras.layers.heads import MaskedVectors
from bert_keras.layers.normalization import RMSNorm
from bert_keras.layers.relative_positions import RelativeKey, RelativeKeyQuery
from bert_keras.layers.serialization import SerializableLayer
from bert_keras.layers.state import get_state, layers_by_name
from bert_keras.models import BertEncoder, Task
from bert_keras.models.distiller import _Fixed
from bert_keras.models.encoder import VIEWS, EncoderView
from tests import contracts
from tests.contracts import FAMILIES, TINY, inputs_of
from tests.layers.test_frozen import WITHOUT_WEIGHTS
from tests.rebuilding import check_operations

# === One model for each class ===


def _vectors(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def _ids(*rows: list[int]) -> np.ndarray:
    return np.array(rows, "int32")


X = _vectors(2, 5, 8)
MASK = _ids([1, 1, 1, 1, 1], [1, 1, 1, 0, 0])
TOKENS = _ids([5, 6, 7, 8, 9], [9, 8, 7, 0, 0])
POSITIONS = _ids([1, 2], [2, 0])


def _block(**options: Any) -> layers.TransformerBlock:
    return layers.TransformerBlock(8, 2, 16, name="block", **options)


def _pre_norm_block() -> layers.PreNormBlock:
    return layers.PreNormBlock(
        *(8, 2, 16, "silu", 1e-5, 0.2, 0.3, 0.1, None, 0, 3),
        num_key_value_heads=1,
        attention_bias=False,
        gated=True,
        intermediate_bias=False,
        output_bias=False,
        intermediate_dropout=0.4,
        norm="rms",
        attention_norm=False,
    )


def _embeddings(**options: Any) -> layers.BertEmbeddings:
    return layers.BertEmbeddings(50, 12, 2, 8, 8, name="embeddings", **options)


def _head() -> layers.MaskedLMHead:
    return layers.MaskedLMHead(_embeddings().token, activation="relu", layer_norm_epsilon=1e-5)


def _generator() -> layers.Generator:
    blocks = [layers.TransformerBlock(4, 2, 8, name=f"block_{i}") for i in range(2)]
    return layers.Generator(_embeddings(), blocks, hidden_size=4)


class _Cell(keras.layers.Layer):
    """Recurrent cell as a layer that can be called on one step."""

    def __init__(self, cell: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.cell = (
            _Forward(3, name="forward")
            if cell is None
            else keras.saving.deserialize_keras_object(cell)
        )

    def call(self, x: Any, state: Any) -> Any:
        return self.cell(x, [state])[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "cell": keras.saving.serialize_keras_object(self.cell)}


keras.saving.register_keras_serializable(package="tests")(_Cell)


def _fixed() -> _Fixed:
    symbol = keras.Input((5, 8))
    return _Fixed(keras.Model(symbol, keras.layers.Dense(3)(symbol)))


# Class -> a constructor in which no argument has its default, and the arrays for a call.
LAYERS: dict[str, tuple[Callable[[], Any], tuple[np.ndarray, ...]]] = {
    "AttentionProbabilities": (
        lambda: layers.AttentionProbabilities(layers.SelfAttention(2, 8, head_size=3)),
        (X, MASK),
    ),
    "BertEmbeddings": (
        lambda: layers.BertEmbeddings(
            *(50, 12, 2, 4, 8, 2, "sinusoidal", 1e-6, 0.2, 0.1), dtype="mixed_bfloat16"
        ),
        (TOKENS, TOKENS % 2),
    ),
    "ClassificationHead": (
        lambda: layers.ClassificationHead(3, 6, "tanh", 0.2, 0.1, 0.3),
        (X,),
    ),
    "ConditionalRandomField": (layers.ConditionalRandomField, (X,)),
    "Dense": (lambda: core.Dense(3, "tanh"), (X,)),
    "Embedding": (lambda: core.Embedding(50, 4), (TOKENS,)),
    "ExampleMask": (layers.ExampleMask, (TOKENS,)),
    "ExamplePooling": (layers.ExamplePooling, (X, TOKENS, POSITIONS)),
    "FeedForward": (lambda: layers.FeedForward(16, 8, "gelu_tanh", 0.1), (X,)),
    "FixedTable": (lambda: FixedTable(50, 4, embeddings_initializer=sinusoids), (TOKENS,)),
    "FirstToken": (lambda: layers.FirstToken(_block(activation="silu")), (X, MASK)),
    "Generator": (_generator, (TOKENS, TOKENS % 2, MASK)),
    "HiddenDistance": (lambda: layers.HiddenDistance(0.25), (X, X + 1.0, X - 1.0, MASK)),
    "LayerNorm": (lambda: LayerNorm(epsilon=1e-5), (X,)),
    "MaskedLMHead": (_head, (X, POSITIONS)),
    "MaskedVectors": (lambda: MaskedVectors(_head()), (X,)),
    "MergeChoices": (layers.MergeChoices, (TOKENS[:, None],)),
    "PairHead": (lambda: layers.PairHead(0.1), (X[:, 0],)),
    "Pooler": (lambda: layers.Pooler(8, 0.1), (X, POSITIONS)),
    "RelativeKey": (lambda: RelativeKey(12, 4, 0.1), (_vectors(2, 5, 2, 4), _vectors(2, 5, 2, 4))),
    "RelativeKeyQuery": (
        lambda: RelativeKeyQuery(12, 4, 0.1),
        (_vectors(2, 5, 2, 4), _vectors(2, 5, 2, 4)),
    ),
    "BucketBias": (lambda: layers.BucketBias(2, 8, 6, 0.1), (TOKENS,)),
    "DistanceVectors": (lambda: layers.DistanceVectors(8, 3, True, 1e-5, 0.2, 0.1), (TOKENS,)),
    "LinearBias": (lambda: layers.LinearBias(3), (TOKENS,)),
    "PreNormBlock": (_pre_norm_block, (X, MASK)),
    "RMSNorm": (lambda: RMSNorm(1e-3), (X,)),
    "RotaryAngles": (lambda: layers.RotaryAngles(4, 50.0, 2.0), (TOKENS, TOKENS)),
    "ReversibleEmbedding": (lambda: core.ReversibleEmbedding(50, 4), (TOKENS,)),
    "Dropout": (lambda: seeded_dropout(0.2, "dropout", "float32"), (X,)),
    "SelfAttention": (
        lambda: layers.SelfAttention(2, 8, 0.2, 0.1, "relative_key", 12, 3),
        (X, MASK),
    ),
    "SentencePooling": (lambda: layers.SentencePooling("max", False), (X, MASK)),
    "SplitChoices": (layers.SplitChoices, (X[:, 0, :1], TOKENS[:, None])),
    "SplitTexts": (layers.SplitTexts, (X[:, 0], TOKENS[:, None])),
    "TokenReplacement": (layers.TokenReplacement, (TOKENS, _vectors(2, 2, 50), POSITIONS)),
    "TokensAt": (layers.TokensAt, (X, POSITIONS)),
    "TokensOf": (lambda: layers.TokensOf(_block(), True), (X, POSITIONS, MASK)),
    "TransformerBlock": (
        lambda: layers.TransformerBlock(
            *(8, 2, 16, "relu", 1e-6, 0.2, 0.3, 0.1, "relative_key_query", 12, 3)
        ),
        (X, MASK),
    ),
    "_Fixed": (_fixed, (X,)),
    "_Forward": (lambda: _Cell(name="cell"), (_vectors(2, 9), _vectors(2, 3))),
}


def _layer_model(name: str) -> tuple[keras.Model, dict[str, np.ndarray]]:
    """Return a functional model with one layer of this class, and inputs for it."""
    make, arrays = LAYERS[name]
    x = {f"x{number}": array for number, array in enumerate(arrays)}
    symbols = {
        key: keras.Input(
            array.shape[1:] if array.dtype.kind == "f" else (None,) * (array.ndim - 1),
            dtype=array.dtype,
            name=key,
        )
        for key, array in x.items()
    }
    return keras.Model(symbols, make()(*symbols.values())), x


def _scalar_mix_model() -> tuple[keras.Model, dict[str, np.ndarray]]:
    symbol = keras.Input((5, 8), name="x")
    return keras.Model({"x": symbol}, layers.ScalarMix()([symbol, symbol * 2.0])), {"x": X}


PACKED = {
    features.TOKEN_IDS: _ids([5, 6, 7, 8, 9, 0]),
    features.SEGMENT_IDS: _ids([0, 1, 1, 0, 1, 0]),
    features.POSITION_IDS: _ids([0, 1, 2, 0, 1, 0]),
    features.EXAMPLE_IDS: _ids([1, 1, 1, 2, 2, 0]),
    features.FIRST_POSITIONS: _ids([0, 3]),
}
PREDICTED = {features.MASK_POSITIONS: _ids([1, 4])}


def _task(task_class: type[Task], *arguments: Any, **options: Any) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        task: Any = task_class(BertEncoder(TINY), *arguments, **options)
        return task, inputs_of(task)

    return make


def _pairs() -> tuple[Any, Any]:
    x = contracts.batch(TINY)
    pairs = {key: np.stack([values, values[::-1]], axis=1) for key, values in x.items()}
    return models.SentencePairs(BertEncoder(TINY), pooling="max"), pairs


def _distiller(hidden: float) -> tuple[Any, Any]:
    tasks = [
        models.SequenceClassifier(BertEncoder(TINY), 3, hidden_activation="tanh") for _ in range(2)
    ]
    return models.Distiller(*tasks, hidden=hidden, alpha=0.2), contracts.batch(TINY)


# Class -> functions that return a model and its inputs, each under the name of its variant.
MODELS: dict[str, dict[str, Callable[[], tuple[Any, Any]]]] = {
    "BertEncoder": {
        family: lambda family=family: (
            BertEncoder(FAMILIES[family], hidden_states=True, attentions=True),
            contracts.batch(FAMILIES[family]),
        )
        for family in ("shared_blocks", "projected")
    },
    "EncoderView": {
        "with_outputs": lambda: (
            BertEncoder(TINY).with_outputs(hidden_states=True, attentions=True),
            contracts.batch(TINY),
        ),
        "first_token": lambda: (
            BertEncoder(FAMILIES["shared_blocks"]).first_token(),
            contracts.batch(TINY),
        ),
        "at_positions": lambda: (
            BertEncoder(TINY).at_positions(pooled=True),
            contracts.batch(TINY, predictions=2),
        ),
        "packed": lambda: (BertEncoder(TINY).packed(hidden_states=True), PACKED),
        "at_positions of packed": lambda: (
            BertEncoder(TINY).at_positions(packed=True, pooled=True),
            {**PACKED, **PREDICTED},
        ),
    },
    "ChunkedTask": {
        "rows": lambda: (
            models.MaskedLM(BertEncoder(TINY)).loss_chunks(2),
            contracts.batch(TINY, predictions=2),
        ),
        "packed rows": lambda: (
            models.Pretrainer(BertEncoder(TINY)).packed().loss_chunks(3),
            {**PACKED, **PREDICTED},
        ),
    },
    "Distiller": {"outputs": lambda: _distiller(0.0), "states": lambda: _distiller(0.5)},
    "ElectraPretrainer": {"": _task(models.ElectraPretrainer, generator_size=0.5)},
    "MaskedLM": {"": _task(models.MaskedLM, activation="relu", layer_norm_epsilon=1e-3)},
    "MultipleChoice": {"": _task(models.MultipleChoice)},
    "PackedTask": {
        "masked tokens": lambda: (
            models.MaskedLM(BertEncoder(TINY)).packed(),
            {**PACKED, **PREDICTED},
        ),
        "labels": lambda: (models.SequenceClassifier(BertEncoder(TINY), 3).packed(), PACKED),
    },
    "Pretrainer": {"": _task(models.Pretrainer, loss="sop")},
    "QuestionAnswerer": {"": _task(models.QuestionAnswerer, dropout=0.2)},
    "ReplacedTokenDetector": {"": _task(models.ReplacedTokenDetector)},
    "ScalarMix": {"": _scalar_mix_model},
    "SentenceEncoder": {"": _task(models.SentenceEncoder, pooling="cls", normalize=False)},
    "SentencePairs": {"": _pairs},
    "SequenceClassifier": {
        "pooled": _task(models.SequenceClassifier, 3),
        "mix": _task(models.SequenceClassifier, 3, hidden_activation="tanh", representation="mix"),
    },
    "TextRanker": {"": _task(models.TextRanker)},
    "TokenClassifier": {"": _task(models.TokenClassifier, 3, crf=True)},
}
# Classes whose own test files save them: a layer needs TensorFlow and a folder, and a clone of the
# view has no head, which is not in its graph.
ELSEWHERE = {
    "SavedModelLayer": Path(__file__).parent / "test_saved_model_layer.py",
    "FewShot": Path(__file__).parents[1] / "models" / "test_few_shot.py",
}


def test_every_class_is_tested() -> None:
    tested = {*LAYERS, *MODELS, *ELSEWHERE}
    for test in ELSEWHERE.values():
        assert "load_model" in test.read_text(encoding="utf-8")
    registered = keras.saving.get_custom_objects()
    found = {
        each.__name__: each
        for each in registered.values()
        if isinstance(each, type) and each.__module__.startswith("bert_keras.")
    }
    found = {name: each for name, each in found.items() if issubclass(each, keras.layers.Layer)}
    assert found.keys() == tested
    waiting: list[type] = [keras.layers.Layer]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        for each in below:
            is_base = any(
                other.__module__.startswith("bert_keras.") for other in each.__subclasses__()
            )
            if each.__module__.startswith("bert_keras.") and not is_base:
                assert found.get(each.__name__) is each, f"{each} is not registered"
    methods = [
        name
        for name, method in vars(BertEncoder).items()
        if getattr(method, "__annotations__", {}).get("return") == EncoderView.__name__
        and not name.startswith("_")
    ]
    assert methods == list(VIEWS)
    assert methods == [name.split(" ")[0] for name in MODELS["EncoderView"]][: len(VIEWS)]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    if name != "_Forward":  # `_Forward` is inside a layer of this test
        layer = LAYERS[name][0]()
        assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
        json.dumps(layer.get_config())
    check_operations(name, {"": lambda: _layer_model(name)}, tmp_path)


@pytest.mark.parametrize("how", ["called", "built"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_rebuilt_layer_is_frozen_before_any_model_is_made(name: str, how: str) -> None:
    make, arrays = LAYERS[name]
    layer = make()
    layer(*arrays)
    parts = [part for part in layers_by_name(layer).values() if part.weights]
    assert bool(parts) == (name not in WITHOUT_WEIGHTS)
    if not parts:
        layer.trainable = False  # the layer's own config holds this flag, not the state
        assert not type(layer).from_config(layer.get_config()).trainable
        return
    parts[-1].trainable = False
    if len(parts) > 1:
        next(iter(parts[0].weights)).trainable = False
    state = get_state(layer)
    assert state
    rebuilt = type(layer).from_config(layer.get_config())
    if how == "called":
        rebuilt(*arrays)
    else:
        rebuilt.build_from_config(layer.get_build_config())
        if not all(part.built for part in rebuilt._flatten_layers()):
            rebuilt(*arrays)
    assert get_state(rebuilt) == state
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: Path) -> None:
    check_operations(name, MODELS[name], tmp_path)


class _Scaled(SerializableLayer):
    """Layer with one argument of each kind: a layer, a list of layers, and a number."""

    def __init__(self, within: Any, several: Any, factor: float = 2.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.within, self.several, self.factor = within, several, factor

    def call(self, x: Any) -> Any:
        for layer in (self.within, *self.several):
            x = layer(x)
        return x * self.factor


def test_arguments_are_the_config() -> None:
    within = [keras.layers.Dense(8, name=f"dense_{number}") for number in range(3)]
    scaled = _Scaled(within[0], within[1:], factor=3.0, dtype="mixed_bfloat16", name="scaled")
    config = scaled.get_config()
    assert (config["name"], config["factor"]) == ("scaled", 3.0)
    assert [each["config"]["name"] for each in config["several"]] == ["dense_1", "dense_2"]
    rebuilt = _Scaled.from_config(json.loads(json.dumps(config)))
    assert rebuilt.get_config() == config
    assert rebuilt.dtype_policy.name == "mixed_bfloat16"
    assert rebuilt.within is not within[0]


def test_a_frozen_layer_is_frozen_again_with_all_its_parts() -> None:
    layer = layers.FeedForward(16, 8)
    layer.trainable = False
    rebuilt = layers.FeedForward.from_config(layer.get_config())
    symbol = keras.Input((5, 8))
    model = keras.Model(symbol, rebuilt(symbol))
    assert not model.trainable_variables
    rebuilt.trainable = True
    assert len(model.trainable_variables) == 4
