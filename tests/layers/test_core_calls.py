"""Direct calls of layers, and the cases that still need the preparations of Keras."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras import kernels
from bert_keras.layers import HiddenDistance, SelfAttention, TransformerBlock, core
from bert_keras.layers.core import Dense, Embedding, LayerNorm, seeded_dropout
from tests.contracts import POLICIES, as_built, numpy

X = np.linspace(-1.0, 1.0, 24, dtype="float32").reshape(2, 3, 4)
torch_alone = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="other backends have no hooks"
)


def _dense(**options: Any) -> Dense:
    return as_built(Dense(5, **options), X)


def _tensor(dtype: str = "float32") -> Any:
    return keras.ops.convert_to_tensor(X, dtype=dtype)


class Owner(keras.layers.Layer):
    """Layer that calls a function of its input."""

    def __init__(self, function: Callable[[Any], Any], **options: Any):
        super().__init__(**options)
        self.function = function

    def call(self, x, training=None):  # noqa: ARG002 (Keras passes it on)
        return self.function(x)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[keras.layers.Layer]:
    """Return a list that collects each layer whose call Keras prepares."""
    found: list[keras.layers.Layer] = []
    call = keras.layers.Layer.__call__

    def record(layer: keras.layers.Layer, *inputs: Any, **options: Any) -> Any:
        found.append(layer)
        return call(layer, *inputs, **options)

    monkeypatch.setattr(keras.layers.Layer, "__call__", record)
    return found


# === Calls that need no preparation ===


LAYERS: dict[str, tuple[Callable[[str], Any], dict[str, Any]]] = {
    "dense": (lambda dtype: Dense(5, dtype=dtype), {}),
    "dense with an activation": (lambda dtype: Dense(5, kernels.gelu, dtype=dtype), {}),
    "dense without a bias": (lambda dtype: Dense(5, use_bias=False, dtype=dtype), {}),
    "layer norm": (lambda dtype: LayerNorm(dtype=dtype), {"training": False}),
    "dropout": (lambda dtype: seeded_dropout(0.5, "dropout", dtype), {"training": False}),
    "attention": (lambda dtype: SelfAttention(2, 4, dtype=dtype), {"training": False}),
    "block": (lambda dtype: TransformerBlock(4, 2, 8, dtype=dtype), {"training": False}),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", LAYERS)
def test_it_computes_the_same(
    name: str,
    policy: str,
    prepared: list[keras.layers.Layer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A direct call has the output and dtype of a call that Keras prepares."""
    make, options = LAYERS[name]
    layer = as_built(make(policy), X)
    owner = Owner(lambda x: layer(x, **options), dtype=policy)
    prepared.clear()
    found = owner(X)
    assert prepared == [owner]
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    monkeypatch.setattr(core, "is_prepared", lambda *_: False)
    expected = owner(X)
    assert layer in prepared
    np.testing.assert_array_equal(*(numpy(keras.ops.cast(x, "float32")) for x in (found, expected)))


def test_rows_of_a_table(prepared: list[keras.layers.Layer]) -> None:
    ids = keras.ops.convert_to_tensor([[3, 0], [1, 1]], dtype="int32")
    table = as_built(Embedding(4, 2), np.zeros((2, 2), "int32"))
    prepared.clear()
    np.testing.assert_array_equal(numpy(table(ids)), numpy(table.embeddings)[numpy(ids)])
    assert not prepared


@pytest.mark.parametrize("own", [None, "tanh"])
@pytest.mark.parametrize("quantised", [False, True])
def test_an_activation_comes_after_the_layers_own(own: str | None, quantised: bool) -> None:
    dense = _dense(activation=own)
    if quantised:
        dense.quantize("int8")
    for activation in (kernels.gelu, keras.ops.sigmoid):
        found, expected = dense(_tensor(), activation=activation), activation(dense(_tensor()))
        np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-6)


def test_the_product_of_an_adapter_is_added_to_the_kernel(
    prepared: list[keras.layers.Layer],
) -> None:
    dense, plain = _dense(activation="tanh"), keras.layers.Dense(5, "tanh")
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones(dense.lora_kernel_b.shape))
    plain.build(X.shape)
    plain.set_weights([numpy(dense.kernel), numpy(dense.bias)])
    prepared.clear()
    found = numpy(dense(_tensor()))
    assert not prepared
    np.testing.assert_allclose(found, numpy(plain(X)), atol=1e-6)
    dense.lora_kernel_b.assign(np.zeros(dense.lora_kernel_b.shape))
    assert np.abs(numpy(dense(_tensor())) - found).max() > 1e-3


# === Calls that Keras prepares ===


def _with_mask(x: Any) -> Any:
    x._keras_mask = keras.ops.ones((2, 3), dtype="bool")
    return x


INPUTS: dict[str, Callable[[], Any]] = {
    "an array": lambda: X,
    "another dtype": lambda: _tensor("float16"),
    "symbolic": lambda: keras.Input((3, 4)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_are_no_tensors_of_the_layer(
    name: str, prepared: list[keras.layers.Layer]
) -> None:
    dense = _dense()
    prepared.clear()
    assert keras.backend.standardize_dtype(dense(INPUTS[name]()).dtype) == "float32"
    assert prepared == [dense]
    prepared.clear()
    if name != "another dtype":
        dense(_tensor())
        assert not prepared


@torch_alone  # elsewhere a tensor does not accept every attribute
def test_an_input_with_a_mask(prepared: list[keras.layers.Layer]) -> None:
    dense = _dense()
    prepared.clear()
    assert dense(_with_mask(_tensor()))._keras_mask is not None
    assert prepared == [dense]


def test_a_table_that_makes_a_mask(prepared: list[keras.layers.Layer]) -> None:
    ids = keras.ops.convert_to_tensor([[3, 0], [1, 1]], dtype="int32")
    table = Embedding(4, 2, mask_zero=True)
    table(ids)
    prepared.clear()
    table(ids)
    assert prepared == [table]


def test_a_layer_that_is_not_built(prepared: list[keras.layers.Layer]) -> None:
    dense = Dense(5)
    assert dense(_tensor()).shape == (2, 3, 5)
    assert prepared == [dense]


def test_another_scope_of_dtypes(prepared: list[keras.layers.Layer]) -> None:
    """A float32 layer within a mixed precision layer keeps float32 weights."""
    dense = _dense()
    owner = Owner(lambda x: dense(keras.ops.cast(x, "float32")), dtype="mixed_bfloat16")
    prepared.clear()
    np.testing.assert_allclose(
        numpy(owner(X)), numpy(dense(keras.ops.cast(_tensor("bfloat16"), "float32"))), atol=1e-6
    )
    assert dense in prepared


def test_a_layer_that_is_quantised(prepared: list[keras.layers.Layer]) -> None:
    dense = _dense()
    before = numpy(dense(X))
    dense.quantize("int8")
    prepared.clear()
    assert 0 < np.abs(numpy(dense(_tensor())) - before).max() < 0.1
    assert prepared == [dense]


def test_a_block_of_quantised_layers() -> None:
    block = TransformerBlock(4, 2, 8, dropout=0.0, attention_dropout=0.0)
    before = numpy(block(X))
    block.feedforward.intermediate.quantize("int8")
    assert 0 < np.abs(numpy(block(X)) - before).max() < 0.1


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
def test_quantize_of_a_model_reaches_every_kernel_and_table() -> None:
    config = bk.BertConfig(
        vocab_size=50,
        max_positions=12,
        hidden_size=8,
        embedding_size=4,
        num_layers=2,
        num_heads=2,
        intermediate_size=16,
    )
    model = bk.MaskedLM(bk.BertEncoder(config))
    model.quantize("int8")
    dtypes = Counter((variable.name, str(variable.dtype)) for variable in model.weights)
    assert dtypes == {
        ("kernel", "int8"): 15,
        ("kernel_scale", "float32"): 15,
        ("bias", "float32"): 16,
        ("embeddings", "int8"): 3,
        ("embeddings_scale", "float32"): 3,
        ("gamma", "float32"): 6,
        ("beta", "float32"): 6,
    }


def test_a_layer_whose_output_may_have_a_layout(
    prepared: list[keras.layers.Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keras prepares every call while a distribution is set."""
    dense = _dense()
    monkeypatch.setattr(core, "distribution", object)
    prepared.clear()
    monkeypatch.setattr(keras.layers.Layer, "__call__", lambda layer, *_: prepared.append(layer))
    dense(_tensor())
    assert prepared == [dense]


def test_a_layer_that_is_computed_again(prepared: list[keras.layers.Layer]) -> None:
    with keras.RematScope(mode="full"):
        dense = Dense(5)
    as_built(dense, X)
    prepared.clear()
    found = numpy(dense(_tensor()))
    assert prepared == [dense]
    expected = X @ numpy(dense.kernel) + numpy(dense.bias)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@torch_alone
@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ],
)
def test_hooks_of_pytorch_are_called(register: str) -> None:
    dense, seen = _dense(), []
    remove = getattr(dense, register)(lambda *given: seen.append(given[0]))
    dense(_tensor().requires_grad_()).sum().backward()
    assert seen == [dense]
    remove.remove()
    dense(_tensor().requires_grad_()).sum().backward()
    assert seen == [dense]


def test_a_keras_without_its_private_function(
    prepared: list[keras.layers.Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = _dense()
    assert core.get_autocast_scope is not None
    monkeypatch.setattr(core, "get_autocast_scope", None)
    prepared.clear()
    dense(_tensor())
    assert prepared == [dense]


# === Training, and losses ===


def test_training_is_found_by_keras_where_the_caller_does_not_say_it() -> None:
    dropout = as_built(seeded_dropout(0.5, "dropout", "float32"), X)
    owner = Owner(dropout)
    assert (numpy(owner(X, training=True)) == 0).any()
    np.testing.assert_array_equal(numpy(owner(X, training=False)), X)
    np.testing.assert_array_equal(numpy(owner(X)), X)
    explicit = Owner(lambda x: dropout(x, training=False))
    np.testing.assert_array_equal(numpy(explicit(X, training=True)), X)


def test_training_may_be_said_to_every_layer(prepared: list[keras.layers.Layer]) -> None:
    """Each layer accepts the argument `training` in a direct call."""
    dense = _dense()
    prepared.clear()
    np.testing.assert_array_equal(numpy(dense(_tensor(), training=True)), numpy(dense(_tensor())))
    assert not prepared


@torch_alone  # other backends collect a loss of symbolic tensors too
def test_a_loss_is_that_of_the_last_call() -> None:
    """A layer keeps only the loss of its last call."""
    layer = HiddenDistance()
    mask = keras.ops.ones((2, 3), dtype="int32")
    for _ in range(3):
        layer(_tensor(), _tensor(), _tensor() + 1.0, mask)
    assert len(layer.losses) == 1
