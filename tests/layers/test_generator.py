"""ELECTRA's generator: an encoder over another's embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import BertEncoder, features
from bert_keras.layers import BertEmbeddings, Generator, TransformerBlock
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
    # The tables are the encoder's: shared, not copied.
    assert embeddings.token in embeddings._layers
    assert any(weight is embeddings.token.embeddings for weight in generator.weights)
