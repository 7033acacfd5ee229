"""Encoders of all families with the input and output names of TensorFlow Hub."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import load_checkpoint
from bert_keras.export.graph import tf_hub
from bert_keras.features import TF_HUB, rename
from bert_keras.models import BertEncoder, ElectraPretrainer
from bert_keras.tokenizers import Tokenizer
from tests.contracts import FAMILIES, TINY, as_trained, assert_same_weights, inputs_of

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("name", ["bert", "no_segments", "no_pooler", "shared_blocks"])
def test_encoders(name: str, tmp_path: Path) -> None:
    config = FAMILIES[name]
    encoder = as_trained(BertEncoder(config))
    words = [f"w{number}" for number in range(config.vocab_size - 5)]
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    tf_hub.write_encoder(encoder, tokenizer, tmp_path)
    model = tf.saved_model.load(str(tmp_path))
    inputs = inputs_of(encoder)
    zeros = {"segment_ids": np.zeros_like(inputs["token_ids"])}
    found = model(rename({**zeros, **inputs}, TF_HUB))
    expected = encoder.predict_on_batch(inputs)
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values, atol=1e-5)
    if "pooled_output" not in expected:
        np.testing.assert_array_equal(found["pooled_output"], found["sequence_output"][:, 0])
    assert len(found["encoder_outputs"]) == config.num_layers
    assert not hasattr(model, "mlm")
    opened = load_checkpoint(tmp_path)
    assert opened.get_config() == encoder.get_config()
    assert_same_weights(opened, encoder)


def test_a_generators_head_is_not_the_encoders(tmp_path: Path) -> None:
    task = as_trained(ElectraPretrainer(BertEncoder(TINY.replace(pooler=False))))
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(45))])
    tf_hub.write_encoder(task, tokenizer, tmp_path)
    assert not hasattr(tf.saved_model.load(str(tmp_path)), "mlm")
    assert_same_weights(load_checkpoint(tmp_path), task.encoder)
