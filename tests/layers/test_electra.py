"""ELECTRA's generator, which shares the embeddings of an encoder."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, features
from bert_keras.layers import BertEmbeddings, Generator, TokenReplacement, TransformerBlock
from tests import contracts
from tests.contracts import TINY, numpy


@pytest.mark.parametrize("width", [8, 4])
def test_equals_an_encoder_of_its_weights(width: int):
    config = TINY.replace(hidden_size=width, embedding_size=8, num_heads=2, pooler=False)
    encoder = contracts.as_trained(BertEncoder(config))
    embeddings = BertEmbeddings(50, 12, 2, 8, 6)
    blocks = [TransformerBlock(width, 2, 16, name=f"block_{index}") for index in range(2)]
    generator = Generator(embeddings, blocks, width)
    x = contracts.batch(config)
    arrays = [x[name] for name in (features.TOKEN_IDS, features.SEGMENT_IDS, features.PADDING_MASK)]
    embeddings(*arrays[:2])
    generator(*arrays)
    found = contracts.weights(encoder)
    for weight in (*embeddings.weights, *generator.weights):
        path = weight.path.split("/", 1)[1]
        if "projection" in path:
            path = f"projection/{weight.name}"
            if width == 8 or "embeddings" in weight.path:
                continue
            path = f"embeddings/{path}"
        elif "block" not in path:
            path = f"embeddings/{path}"
        weight.assign(found[path])
    expected = numpy(encoder(x))[features.SEQUENCE_OUTPUT]
    np.testing.assert_allclose(numpy(generator(*arrays)), expected, rtol=0, atol=1e-6)


def test_symbols_have_the_shape_of_the_values():
    embeddings = BertEmbeddings(50, 12, 2, 8, 6, name="embeddings")
    generator = Generator(embeddings, [TransformerBlock(4, 1, 8)], 4)
    ids = np.zeros((2, 5), "int32")
    embeddings(ids)
    assert generator(ids).shape == (2, 5, 4) == generator.compute_output_spec(ids).shape
    # The embedding tables are shared with the encoder, not copied.
    assert embeddings.token in embeddings._layers
    assert any(weight is embeddings.token.embeddings for weight in generator.weights)


# === Masked tokens are replaced by sampled tokens ===


IDS = np.arange(5, 17).reshape(2, 6)
POSITIONS = np.array([[1, 4, 0], [5, 0, 0]])


def certain(tokens: np.ndarray, vocab_size: int = 20) -> np.ndarray:
    """Return logits with which one token is always sampled."""
    return 100.0 * np.eye(vocab_size, dtype="float32")[tokens]


def test_puts_tokens_where_masks_were():
    seen = numpy(TokenReplacement()(IDS, certain(np.array([[1, 2, 3], [4, 0, 0]])), POSITIONS))
    expected = IDS.copy()
    expected[0, 1], expected[0, 4], expected[1, 5] = 1, 2, 4
    np.testing.assert_array_equal(seen, expected)  # unused mask positions change nothing


def test_draws_by_the_distribution():
    """In training, tokens are sampled from the distribution of the logits."""
    keras.utils.set_random_seed(0)
    layer = TokenReplacement()
    logits = np.log(np.tile([[0.7, 0.2, 0.1]], (400, 1)))[:, None].astype("float32")
    ids, positions = np.full((400, 2), 9), np.ones((400, 1), int)
    first = numpy(layer(ids, logits, positions, training=True))
    second = numpy(layer(ids, logits, positions, training=True))
    assert (first[:, 0] == 9).all()
    assert (first != second).any()
    shares = np.bincount(np.append(first[:, 1], second[:, 1]), minlength=3) / 800
    np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.06)


def test_what_is_measured_is_drawn_alike():
    """Outside training, the same tokens are sampled in every call and no seed advances."""
    layer = TokenReplacement()
    before = numpy(layer.seed_generator.state.value)
    logits = np.zeros((2, 3, 20), "float32")
    first, second = (numpy(layer(IDS, logits, POSITIONS)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(numpy(layer.seed_generator.state.value), before)
    other = TokenReplacement()
    np.testing.assert_array_equal(numpy(other(IDS, logits, POSITIONS)), first)


def test_symbol():
    inputs = [keras.Input((None,), dtype="int32"), keras.Input((None, 20)), keras.Input((None,))]
    symbol = TokenReplacement(dtype="mixed_bfloat16")(*inputs)
    assert (symbol.shape, symbol.dtype) == ((None, None), "int32")
