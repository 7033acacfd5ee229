"""A predictor gives the outputs of its model, in batches of any size."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder, MaskedLM, Pretrainer
from bert_keras.predictor import Fill, Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import MAY_CUT
from tests.tokenizers import learners

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "fast", "is", "of", "france"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", ".", "!"]
TEXTS = [
    "the [MASK] sat on a mat.",
    "[MASK]",
    "cats ran [MASK] [MASK] [MASK] fast dogs of paris " + "cat " * 9,
    "paris is the [MASK] of [MASK]",
    "dogs [MASK]!",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=8,
    num_layers=1,
    num_heads=2,
    intermediate_size=16,
    max_positions=24,
    # Wide initial weights: the scores of two tokens are never nearly equal.
    initializer_range=0.8,
)


@pytest.fixture(scope="module")
def task() -> Pretrainer:
    keras.utils.set_random_seed(0)
    return Pretrainer(BertEncoder(CONFIG))


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits.astype(np.float64))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_fills_are_the_models_best(task, tokenizer):
    found = Predictor(task, tokenizer, batch_size=2).fill_mask(TEXTS, top_k=3)
    for text, fills in zip(TEXTS, found, strict=True):
        inputs = tokenizer([text])
        positions = np.flatnonzero(inputs[features.TOKEN_IDS][0] == tokenizer.mask_id)
        inputs[features.MASK_POSITIONS] = positions[None].astype(np.int32)
        scores = softmax(task.predict_on_batch(inputs)[features.MLM][0])
        assert len(fills) == len(positions) == text.count("[MASK]")
        for row, best in zip(scores, fills, strict=True):
            order = np.argsort(-row)[:3].tolist()
            assert [fill.token_id for fill in best] == order
            assert [fill.token for fill in best] == [VOCABULARY[i] for i in order]
            np.testing.assert_allclose([fill.score for fill in best], row[order], atol=1e-5)


def test_answers_do_not_depend_on_the_batch(task, tokenizer):
    one = Predictor(task, tokenizer, batch_size=1)(TEXTS[::-1])
    many = Predictor(task, tokenizer)(TEXTS)
    for alone, together in zip(one[::-1], many, strict=True):
        for fills, others in zip(alone, together, strict=True):
            assert [fill.token for fill in fills] == [fill.token for fill in others]
            np.testing.assert_allclose(
                [fill.score for fill in fills], [fill.score for fill in others], atol=1e-5
            )


def test_all_fills_sum_to_one(task, tokenizer):
    ((fills,),) = Predictor(task, tokenizer).fill_mask(["[MASK]"], top_k=len(VOCABULARY))
    assert sum(fill.score for fill in fills) == pytest.approx(1, abs=1e-5)
    assert fills == sorted(fills, key=lambda fill: -fill.score)
    assert isinstance(fills[0], Fill)


def test_masked_lm_fills_too(task, tokenizer):
    masked_lm = MaskedLM(task.encoder)
    assert len(Predictor(masked_lm, tokenizer)(["the [MASK]"])[0][0]) == 5


@MAY_CUT
def test_next_sentence(task, tokenizer):
    firsts, seconds = ["the cat sat.", "paris", "a " * 30], ["dogs ran fast", "", "the dog " * 9]
    found = Predictor(task, tokenizer).next_sentence(firsts, seconds)
    assert found.dtype == np.float32
    for first, second, probability in zip(firsts, seconds, found, strict=True):
        inputs = tokenizer([first], [second], max_length=24)
        inputs[features.MASK_POSITIONS] = np.zeros((1, 1), np.int32)
        expected = softmax(task.predict_on_batch(inputs)[features.NSP])[0, 0]
        assert probability == pytest.approx(expected, abs=1e-5)


def test_encode(task, tokenizer):
    found = Predictor(task.encoder, tokenizer)(TEXTS)
    assert found.shape == (len(TEXTS), 8)
    assert found.dtype == np.float32
    for text, vector in zip(TEXTS, found, strict=True):
        outputs = task.encoder.predict_on_batch(tokenizer([text]))
        expected = outputs[features.SEQUENCE_OUTPUT][0].mean(axis=0)
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    np.testing.assert_array_equal(Predictor(task, tokenizer).encode(TEXTS), found)


@MAY_CUT
def test_texts_are_cut_where_the_model_has_learned_no_more(task, tokenizer):
    text = "the cat sat on a mat [MASK] the dog ran"
    short = Predictor(task, tokenizer, max_length=9)
    assert short.fill_mask([text])[0][0] == short.fill_mask([text.partition(" the dog")[0]])[0][0]
    with pytest.raises(ValueError, match="beyond the 8 tokens that are read"):
        Predictor(task, tokenizer, max_length=8).fill_mask([text])
    for length in (2, 25):
        with pytest.raises(ValueError, match=f"from 3 to 24.*max_length={length}"):
            Predictor(task, tokenizer, max_length=length)


def test_pairs_of_unequal_number(task, tokenizer):
    for firsts, seconds in (([], ["a"]), (["the cat"], [])):
        with pytest.raises(ValueError, match="Every first text needs one second"):
            Predictor(task, tokenizer).next_sentence(firsts, seconds)


def test_no_texts(task, tokenizer):
    predictor = Predictor(task, tokenizer)
    assert predictor([]) == []
    assert predictor.encode([]).shape == (0, 8)
    assert predictor.next_sentence([], []).shape == (0,)


def test_texts_that_cannot_be_filled(task, tokenizer):
    predictor = Predictor(task, tokenizer)
    with pytest.raises(ValueError, match=r"Text 1 has no \[MASK\].*'the cat'"):
        predictor(["a [MASK]", "the cat"])
    with pytest.raises(ValueError, match=r"Text 0 has 2 .*but 1 of them beyond the 24 tokens"):
        predictor(["[MASK] " + "cat " * 30 + "[MASK]"])


def test_earlier_names_are_answered_with_todays(task, tokenizer):
    predictor = Predictor(task, tokenizer)
    for old, new in Predictor.earlier_names.items():
        assert callable(getattr(predictor, new))
        with pytest.raises(AttributeError, match=rf"`Predictor\.{old}` is called `{new}` now"):
            getattr(predictor, old)


def test_wrong_models_and_arguments(task, tokenizer):
    with pytest.raises(ValueError, match="top_k=0"):
        Predictor(task, tokenizer).fill_mask(["[MASK]"], top_k=0)
    with pytest.raises(ValueError, match="top_k=99"):
        Predictor(task, tokenizer).fill_mask(["[MASK]"], top_k=99)
    with pytest.raises(ValueError, match=r"`next_sentence` needs .*'nsp'.*MaskedLM with 'mlm'"):
        Predictor(MaskedLM(task.encoder), tokenizer).next_sentence(["a"], ["b"])
    with pytest.raises(ValueError, match=r"`fill_mask` needs .*'mlm'.*BertEncoder"):
        Predictor(task.encoder, tokenizer).fill_mask(["[MASK]"])
    with pytest.raises(ValueError, match="batch_size=0"):
        Predictor(task, tokenizer, batch_size=0)
    with pytest.raises(TypeError, match="Received: str"):
        Predictor("model", tokenizer)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="21 entries, the model's token table 20 rows"):
        Predictor(task, Tokenizer([*VOCABULARY, "more"]))


@MAY_CUT
def test_a_family_with_one_segment(tmp_path):
    """RoBERTa's special tokens, byte-level pieces and positions, which begin at 2, are used."""
    learners.byte_level(tmp_path)
    tokenizer = Tokenizer.from_preset(tmp_path)
    config = CONFIG.replace(
        vocab_size=tokenizer.vocab_size, num_segments=1, position_offset=2, pooler=False
    )
    task = MaskedLM(BertEncoder(config))
    text = "the <mask> is low"
    (fills,) = Predictor(task, tokenizer, max_length=8).fill_mask([text], top_k=3)
    batch = tokenizer([text], max_length=8)
    assert set(batch) == {features.TOKEN_IDS, features.PADDING_MASK}
    place = np.argwhere(batch[features.TOKEN_IDS][0] == tokenizer.mask_id)
    logits = task.predict({**batch, features.MASK_POSITIONS: place}, verbose=0)["mlm"][0, 0]
    assert [fill.token for fill in fills[0]] == [
        tokenizer.id_to_token(int(i)) for i in np.argsort(-logits)[:3]
    ]
