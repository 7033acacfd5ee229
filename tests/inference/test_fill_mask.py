"""Predictions for mask tokens at any position. test_predictor.py compares with real models."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.inference.batching import Runner
from bert_keras.inference.fill_mask import check_top_k, fill_mask
from bert_keras.models import MaskedLM
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer


@pytest.fixture(scope="module")
def model(task) -> MaskedLM:
    return MaskedLM(task("labels").encoder)


def test_every_mask_of_every_text_has_its_own_fills(model, tokenizer) -> None:
    texts = ["[MASK] hello [MASK]", "the [MASK]", "[MASK] [MASK] [MASK] un wanted world"]
    runner = Runner(model, tokenizer, batch_size=2, max_length=32)
    found = fill_mask(runner, texts, 4)
    assert [len(fills) for fills in found] == [2, 1, 3]
    for text, fills in zip(texts, found, strict=True):
        x = tokenizer([text])
        places = np.flatnonzero(x["token_ids"][0] == tokenizer.mask_id)
        logits = model.predict_on_batch({**x, "mask_positions": places[None].astype(np.int32)})
        order = np.argsort(-logits["mlm"][0], axis=-1)[:, :4]
        assert [[fill.token_id for fill in row] for row in fills] == order.tolist()
        for row in fills:
            assert [fill.token for fill in row] == [
                tokenizer.id_to_token(fill.token_id) for fill in row
            ]
            assert row == sorted(row, key=lambda fill: -fill.score)


def test_a_mask_that_is_cut_is_named(model, tokenizer) -> None:
    with pytest.raises(ValueError, match=r"Text 1 has 2 \[MASK\], but 1 of them beyond the 5"):
        Predictor(model, tokenizer, max_length=5).fill_mask(["[MASK]", "[MASK] a b c d [MASK]"])


def test_how_many_tokens_can_be_named() -> None:
    six = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "w"])
    check_top_k(6, six)
    for top_k in (0, 7):
        with pytest.raises(ValueError, match=f"from 1 to 6.*top_k={top_k}"):
            check_top_k(top_k, six)
