"""What a SavedModel's signatures take and give, for models of several kinds."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder, MaskedLM
from bert_keras.tokenizers import Tokenizer

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
from bert_keras.export import serving  # noqa: E402

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY) + 2,
    hidden_size=8,
    num_layers=2,
    num_heads=2,
    intermediate_size=8,
    max_positions=12,
)


def saved(task, folder: Path, max_length: int = 12, top_k: int = 2):
    serving.write(task, Tokenizer(VOCABULARY), folder, max_length=max_length, top_k=top_k)
    return tf.saved_model.load(str(folder))


def test_encoder_without_segments_and_pooler_but_with_everything_inside(tmp_path):
    config = CONFIG.replace(num_segments=0, pooler=False)
    encoder = BertEncoder(config, hidden_states=True, attentions=True, dtype="mixed_bfloat16")
    model = saved(encoder, tmp_path)
    specs = model.signatures["ids"].structured_input_signature[1]
    assert sorted(specs) == ["padding_mask", "token_ids"]
    outputs = model.signatures["serving_default"](text=tf.constant(["a b", "c"]))
    integers = {"token_ids", "padding_mask"}
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {
        "sentence_vector": (2, 8),
        "sequence_output": (2, 4, 8),
        **{f"hidden_states_{index}": (2, 4, 8) for index in range(3)},
        **{f"attentions_{index}": (2, 2, 4, 4) for index in range(2)},
        **dict.fromkeys(integers, (2, 4)),
    }
    for name, value in outputs.items():
        assert value.dtype == (tf.int32 if name in integers else tf.float32)


def test_text_is_cut_at_max_length(tmp_path):
    model = saved(MaskedLM(BertEncoder(CONFIG)), tmp_path, max_length=4)
    outputs = model.signatures["serving_default"](
        text=tf.constant(["[MASK] a [MASK]", "[MASK]" * 9])
    )
    assert outputs["mask_count"].numpy().tolist() == [1, 2]


def test_rows_without_a_token_are_no_answer(tmp_path):
    # The model has two rows more than the vocabulary, and these are the likeliest.
    task = MaskedLM(BertEncoder(CONFIG))
    task.mlm.bias.assign([0.0] * len(VOCABULARY) + [50.0, 50.0])
    model = saved(task, tmp_path, top_k=len(VOCABULARY))
    outputs = model.signatures["serving_default"](text=tf.constant(["[MASK]"]))
    assert {token.decode() for token in outputs["tokens"].numpy().ravel()} == set(VOCABULARY)
    assert outputs["scores"].numpy().sum() == pytest.approx(1, abs=1e-5)


def test_one_text_or_many_give_the_same(tmp_path):
    run = saved(MaskedLM(BertEncoder(CONFIG)), tmp_path).signatures["serving_default"]
    texts = ["[MASK]", "a [MASK] b [MASK] c a b c", "c [MASK]"]
    together = run(text=tf.constant(texts))
    for row, text in enumerate(texts):
        alone = run(text=tf.constant([text]))
        count = int(alone["mask_count"][0])
        assert count == int(together["mask_count"][row])
        np.testing.assert_allclose(
            alone["scores"][0], together["scores"][row, :count], atol=1e-6, rtol=1e-5
        )
