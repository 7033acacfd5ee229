"""Rehearsal: rows of tables suffice to add a model family with another transformer block.

The family has pre-layer normalization and rotary position embeddings (Su et al., 2021). Its
checkpoints store queries, keys and values in one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file

from bert_keras import BertConfig, BertEncoder, MaskedLM, SequenceClassifier, config, features
from bert_keras.checkpoints import hugging_face_names
from bert_keras.checkpoints.hugging_face_family import Family
from bert_keras.errors import UsageError
from bert_keras.kernels.mask_values import MASKED
from bert_keras.layers import FeedForward
from bert_keras.layers.core import Dense, LayerNorm
from bert_keras.layers.serialization import SerializableLayer, build_once
from bert_keras.models import encoder_layers
from bert_keras.models.encoder_layers import BlockKind
from tests import contracts

# === New code: two layers ===


@keras.saving.register_keras_serializable(package="rehearsal")
class RotaryAttention(SerializableLayer):
    """Self-attention with rotary position embeddings."""

    distance = None

    def __init__(self, num_heads: int, hidden_size: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_heads, self.head_size = num_heads, hidden_size // num_heads
        self.query, self.key, self.value, self.output_projection = (
            Dense(hidden_size, dtype=self.dtype_policy, name=name)
            for name in ("query", "key", "value", "output")
        )

    def build(self, x_shape: Any) -> None:
        for layer in (self.query, self.key, self.value, self.output_projection):
            build_once(layer, x_shape)
        self.built = True

    def _turned(self, x: Any, position_ids: Any) -> Any:
        """Split [batch, length, hidden_size] into heads, and rotate them by their positions."""
        batch, length, _ = ops.shape(x)
        x = ops.reshape(x, (batch, length, self.num_heads, self.head_size))
        if position_ids is None:
            position_ids = ops.arange(length)[None]
        half = self.head_size // 2
        rates = ops.exp(-math.log(10_000.0) / half * ops.arange(half, dtype="float32"))
        angles = ops.cast(position_ids, "float32")[..., None, None] * rates
        cosine, sine = ops.cos(angles), ops.sin(angles)
        left, right = x[..., :half], x[..., half:]
        turned = [left * cosine - right * sine, right * cosine + left * sine]
        return ops.cast(ops.concatenate(turned, axis=-1), x.dtype)

    def probabilities(
        self,
        x: Any,
        padding_mask: Any = None,
        position_ids: Any = None,
        queries: Any = None,
        query_position_ids: Any = None,
    ) -> Any:
        key = self._turned(self.key(x), position_ids)
        if queries is None:
            queries, query_position_ids = x, position_ids
        query = self._turned(self.query(queries), query_position_ids)
        scores = ops.einsum("BTNK,BSNK->BNTS", query, key) / math.sqrt(self.head_size)
        if padding_mask is not None:
            if len(padding_mask.shape) == 2:
                padding_mask = padding_mask[:, None]
            scores = ops.where(ops.cast(padding_mask, "bool")[:, None], scores, MASKED)
        return ops.softmax(scores)

    def call(self, x: Any, padding_mask: Any = None, **positions: Any) -> Any:
        probabilities = self.probabilities(x, padding_mask, **positions)
        batch, length, width = ops.shape(x)
        value = ops.reshape(self.value(x), (batch, length, self.num_heads, self.head_size))
        context = ops.einsum("BNTS,BSNK->BTNK", probabilities, value)
        return self.output_projection(ops.reshape(context, (batch, -1, width)))


@keras.saving.register_keras_serializable(package="rehearsal")
class PreNormBlock(SerializableLayer):
    """A transformer block with pre-layer normalization (Xiong et al., 2020)."""

    reads_positions = True
    takes_queries = True
    checkpoints_gradients = False

    def __init__(self, hidden_size: int, num_heads: int, intermediate_size: int, **kwargs: Any):
        super().__init__(**kwargs)
        options = {"dtype": self.dtype_policy}
        self.attention = RotaryAttention(num_heads, hidden_size, name="attention", **options)
        self.feedforward = FeedForward(
            intermediate_size, hidden_size, name="feedforward", **options
        )
        self.attention_layer_norm = LayerNorm(name="attention_layer_norm", **options)
        self.feedforward_layer_norm = LayerNorm(name="feedforward_layer_norm", **options)

    def build(self, x_shape: Any) -> None:
        for layer in (self.attention, self.feedforward):
            build_once(layer, x_shape)
        for layer in (self.attention_layer_norm, self.feedforward_layer_norm):
            build_once(layer, x_shape)
        self.built = True

    @property
    def norm_before_attention(self) -> LayerNorm:
        return self.attention_layer_norm

    def call(
        self,
        x: Any,
        padding_mask: Any = None,
        training: Any = None,
        position_ids: Any = None,
        queries: Any = None,
        query_position_ids: Any = None,
    ) -> Any:
        residual = x if queries is None else queries
        attended = self.attention(
            self.attention_layer_norm(x),
            padding_mask,
            position_ids=position_ids,
            queries=None if queries is None else self.attention_layer_norm(queries),
            query_position_ids=query_position_ids,
        )
        x = residual + attended
        return x + self.feedforward(self.feedforward_layer_norm(x), training=training)

    def compute_output_spec(self, x: Any, *_: Any, queries: Any = None, **__: Any) -> Any:
        shape = (x if queries is None else queries).shape
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def _make(sizes: BertConfig, index: int, policy: Any) -> PreNormBlock:
    return PreNormBlock(
        sizes.hidden_size,
        sizes.num_heads,
        sizes.intermediate_size,
        dtype=policy,
        name=f"block_{index}",
    )


def _make_final_norm(sizes: BertConfig, policy: Any) -> LayerNorm:
    return LayerNorm(epsilon=sizes.layer_norm_epsilon, dtype=policy, name="final_norm")


# === New rows of tables ===


_ENCODER = {
    "embeddings/token": "embeddings.tok_embeddings",
    "embeddings/layer_norm": "embeddings.norm",
    **{f"block_#/attention/{name}": "layers.#.attn.Wqkv" for name in ("query", "key", "value")},
    "block_#/attention/output": "layers.#.attn.Wo",
    "block_#/attention_layer_norm": "layers.#.attn_norm",
    "block_#/feedforward/intermediate": "layers.#.mlp.Wi",
    "block_#/feedforward/output": "layers.#.mlp.Wo",
    "block_#/feedforward_layer_norm": "layers.#.mlp_norm",
    "final_norm": "final_norm",
}
_BERT = hugging_face_names.FAMILIES["bert"]
_FIXED = {"num_segments": 0, "pooler": False, "block": "pre_norm", "position_embedding": "rotary"}
_CONSTANTS = {ours: theirs for ours, theirs in _BERT.constants.items() if ours not in _FIXED}
FAMILY = Family(
    model_types=("rehearsal",),
    prefix="model.",
    encoder=_ENCODER,
    heads={"mlm/dense": "head.dense", "mlm/layer_norm": "head.norm", "mlm": "decoder"},
    classes={"BertEncoder": "RehearsalModel", "MaskedLM": "RehearsalForMaskedLM"},
    constants=_CONSTANTS,
    fixed=_FIXED,
    redundant=(),
)
# Table, key, and new value. The tables of the config are the choices of a config value.
ROWS: list[tuple[Any, str, Any]] = [
    *(
        (config._CHOICES, name, (*config._CHOICES[name], value))
        for name, value in (
            ("family", "rehearsal"),
            ("block", "pre_norm"),
            ("position_embedding", "rotary"),
        )
    ),
    (encoder_layers.BLOCKS, "pre_norm", BlockKind(_make, _make_final_norm)),
    (hugging_face_names.FAMILIES, "rehearsal", FAMILY),
]
_MOST_PLACES = 7  # the rows of `ROWS` and two files for the new layers


@pytest.fixture(autouse=True)
def family() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for table, key, value in ROWS:
            patch.setitem(table, key, value)
        yield


def _config() -> BertConfig:
    return contracts.TINY.replace(family="rehearsal", **_FIXED)


def _encoder(**options: Any) -> BertEncoder:
    return contracts.as_trained(BertEncoder(_config(), **options))


# === Tests ===


def test_a_family_is_few_rows() -> None:
    assert len(ROWS) + 2 <= _MOST_PLACES


def test_positions_matter_and_padding_does_not() -> None:
    encoder, x = _encoder(), contracts.batch(_config())
    y = contracts.numpy(encoder(x))[features.SEQUENCE_OUTPUT]
    turned = {**x, features.TOKEN_IDS: x[features.TOKEN_IDS][:, ::-1].copy()}
    turned[features.PADDING_MASK] = np.ones_like(x[features.PADDING_MASK])
    plain = {**x, features.PADDING_MASK: turned[features.PADDING_MASK]}
    forward, backward = (
        contracts.numpy(encoder(each))[features.SEQUENCE_OUTPUT] for each in (plain, turned)
    )
    assert np.abs(forward - backward[:, ::-1]).max() > 1e-3
    padded = {name: np.pad(values, ((0, 0), (0, 3))) for name, values in x.items()}
    more = contracts.numpy(encoder(padded))[features.SEQUENCE_OUTPUT]
    is_real = x[features.PADDING_MASK].astype(bool)
    np.testing.assert_allclose(more[:, : y.shape[1]][is_real], y[is_real], atol=1e-5)


def test_the_last_vectors_are_normalised() -> None:
    encoder = _encoder()
    assert [w.path for w in encoder.weights if w.path.startswith("final_norm")]
    gamma = next(w for w in encoder.weights if w.path == "final_norm/gamma")
    gamma.assign(np.zeros(gamma.shape))
    beta = next(w for w in encoder.weights if w.path == "final_norm/beta")
    y = contracts.numpy(encoder(contracts.batch(_config())))[features.SEQUENCE_OUTPUT]
    expected = np.broadcast_to(contracts.numpy(beta), y.shape)
    np.testing.assert_allclose(y, expected, atol=1e-6)


def test_views_compute_the_same_vectors() -> None:
    encoder, x = _encoder(), contracts.batch(_config(), predictions=2)
    positions = x.pop(features.MASK_POSITIONS)
    whole = contracts.numpy(encoder(x))[features.SEQUENCE_OUTPUT]
    first = contracts.numpy(encoder.first_token()(x))[features.SEQUENCE_OUTPUT]
    np.testing.assert_allclose(first, whole[:, :1], atol=1e-5)
    some = encoder.at_positions()({**x, features.MASK_POSITIONS: positions})
    expected = np.take_along_axis(whole, positions[..., None], axis=1)
    np.testing.assert_allclose(contracts.numpy(some)[features.SEQUENCE_OUTPUT], expected, atol=1e-5)
    more = encoder.with_outputs(hidden_states=True, attentions=True)(x)
    assert len(more[features.HIDDEN_STATES]) == _config().num_layers + 1
    sums = contracts.numpy(more[features.ATTENTIONS][-1]).sum(axis=-1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)


def test_packed_examples_have_positions_of_their_own() -> None:
    encoder = _encoder()
    generator = np.random.default_rng(0)
    lengths = (4, 3)
    texts = [generator.integers(5, _config().vocab_size, (1, n)) for n in lengths]
    apart = [
        contracts.numpy(encoder({"token_ids": ids, "padding_mask": np.ones_like(ids)}))
        for ids in texts
    ]
    rows = {
        features.TOKEN_IDS: np.concatenate(texts, axis=1),
        features.POSITION_IDS: np.concatenate([np.arange(n) for n in lengths])[None],
        features.EXAMPLE_IDS: np.repeat([1, 2], lengths)[None],
        features.FIRST_POSITIONS: np.array([[0, lengths[0]]]),
    }
    together = contracts.numpy(encoder.packed()(rows))
    expected = np.concatenate([each[features.SEQUENCE_OUTPUT] for each in apart], axis=1)
    np.testing.assert_allclose(together[features.SEQUENCE_OUTPUT], expected, atol=1e-5)
    some = {**rows, features.MASK_POSITIONS: np.array([[2, 5]])}
    found = contracts.numpy(encoder.at_positions(packed=True)(some))[features.SEQUENCE_OUTPUT]
    np.testing.assert_allclose(found, expected[:, [2, 5]], atol=1e-5)


def test_a_folder_has_the_fused_tensor_and_opens_again(tmp_path: Path) -> None:
    task = contracts.as_trained(MaskedLM(BertEncoder(_config())))
    task.save_to_preset(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    width = _config().hidden_size
    assert tensors["model.layers.0.attn.Wqkv.weight"].shape == (3 * width, width)
    assert tensors["model.layers.1.attn.Wqkv.bias"].shape == (3 * width,)
    query = next(w for w in task.weights if w.path == "block_0/attention/query/kernel")
    np.testing.assert_array_equal(
        tensors["model.layers.0.attn.Wqkv.weight"][:width].T, contracts.numpy(query)
    )
    x = contracts.inputs_of(task)
    expected = contracts.numpy(task(x))
    for again in (MaskedLM.from_preset(tmp_path), MaskedLM.from_preset(tmp_path, plain=True)):
        np.testing.assert_array_equal(
            contracts.numpy(again(x))[features.MLM], expected[features.MLM]
        )
    assert BertEncoder.from_preset(tmp_path).config == _config()


def test_a_keras_file_opens_again(tmp_path: Path) -> None:
    encoder, x = _encoder(), contracts.batch(_config())
    encoder.save(tmp_path / "model.keras")
    again: Any = keras.models.load_model(tmp_path / "model.keras")
    for name, expected in contracts.numpy(encoder(x)).items():
        np.testing.assert_array_equal(contracts.numpy(again(x))[name], expected)


def test_it_learns() -> None:
    task = SequenceClassifier(BertEncoder(_config()), 2, hidden_activation="tanh")
    task.compile(keras.optimizers.Adam(0.01), **task.loss_and_metrics())
    x = contracts.batch(_config(), rows=6)
    y = {features.LABEL: np.arange(6) % 2}
    before, after = contracts.learn(task, x, y, steps=30)
    assert after < 0.5 * before


def test_an_adapter_and_fewer_layers() -> None:
    encoder, x = _encoder(), contracts.batch(_config())
    encoder.enable_lora(2)
    expected = contracts.numpy(encoder(x))[features.SEQUENCE_OUTPUT]
    encoder.merge_lora()
    np.testing.assert_allclose(
        contracts.numpy(encoder(x))[features.SEQUENCE_OUTPUT], expected, atol=1e-6
    )
    assert len(encoder.keep_layers([0]).blocks) == 1


@pytest.mark.parametrize("format", ["google_tf1", "keras_hub"])
def test_formats_without_the_family_refuse_it(format: str, tmp_path: Path) -> None:  # noqa: A002
    from bert_keras import save_checkpoint

    with pytest.raises(UsageError, match="rehearsal"):
        save_checkpoint(_encoder(), tmp_path / "folder", format=format)
    assert not (tmp_path / "folder").exists()
