"""Preprocessor and encoder for TensorFlow Hub's text API, used as its clients use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.errors import UsageError
from bert_keras.export import tf_hub
from bert_keras.features import TF_HUB
from bert_keras.models import BertEncoder, MaskedLM, Pretrainer, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained, assert_same_weights, numpy, weights

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##b", "."]
TEXTS = ["A b. c", "", "ab x [MASK]", "a " * 30]
OURS = {name: TF_HUB[name] for name in ("token_ids", "padding_mask", "segment_ids")}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    # The vocabulary file does not contain this option.
    return Tokenizer(VOCABULARY, strip_accents=False)


@pytest.fixture(scope="module")
def task() -> Pretrainer:
    config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=24, dropout=0.5)
    return as_trained(Pretrainer(BertEncoder(config)))


@pytest.fixture(scope="module")
def folder(task: Pretrainer, tokenizer: Tokenizer, tmp_path_factory) -> Path:
    """Return an exported folder that was moved. On JAX and PyTorch, a second process writes it."""
    path = tmp_path_factory.mktemp("hub") / "1"
    assert tf_hub(task, tokenizer, path, max_length=10) == path
    return path.rename(path.with_name("2"))


@pytest.fixture(scope="module")
def preprocessor(folder: Path) -> Any:
    return tf.saved_model.load(str(folder / "preprocessor"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Any:
    return tf.saved_model.load(str(folder / "encoder"))


def expected_inputs(tokenizer: Tokenizer, rows: list[list[list[int]]], length: int) -> dict:
    """Return the padded inputs: each row is [CLS] first [SEP] second [SEP]."""
    found = {name: np.zeros((len(rows), length), np.int32) for name in OURS.values()}
    for index, parts in enumerate(rows):
        ids = [tokenizer.cls_id, *parts[0], tokenizer.sep_id]
        segments = [0] * len(ids)
        for part in parts[1:]:
            ids += [*part, tokenizer.sep_id]
            segments += [1] * (len(part) + 1)
        found["input_word_ids"][index, : len(ids)] = ids
        found["input_mask"][index, : len(ids)] = 1
        found["input_type_ids"][index, : len(ids)] = segments
    return found


def test_texts_become_inputs(preprocessor, tokenizer) -> None:
    found = preprocessor(tf.constant(TEXTS))
    rows = [[ids[:8]] for ids in tokenizer.text_ids(TEXTS)]
    for name, values in expected_inputs(tokenizer, rows, 10).items():
        np.testing.assert_array_equal(found[name], values)
    assert preprocessor(tf.constant([], tf.string))["input_mask"].shape == (0, 10)


def test_tokens_by_words(preprocessor) -> None:
    words = preprocessor.tokenize(tf.constant(["a ab", ""]))
    assert words.to_list() == [[[5], [5, 13]], []]


def test_pairs_are_cut_in_turn(preprocessor, tokenizer) -> None:
    tokenize = preprocessor.tokenize
    parts = [tokenize(tf.constant(["a " * n])) for n in (9, 8)]
    for length, kept in ((10, (4, 3)), (11, (4, 4)), (20, (9, 8)), (3, (0, 0))):
        found = preprocessor.bert_pack_inputs(parts, seq_length=tf.constant(length))
        rows = [[[5] * kept[0], [5] * kept[1]]]
        for name, values in expected_inputs(tokenizer, rows, length).items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{length} {name}")
    short = tokenize(tf.constant(["b"]))
    found = preprocessor.bert_pack_inputs([parts[0], short], seq_length=8)
    assert found["input_word_ids"].numpy().tolist() == [[2, 5, 5, 5, 5, 3, 6, 3]]
    flat = preprocessor.bert_pack_inputs([short.merge_dims(1, 2)], seq_length=4)
    assert flat["input_word_ids"].numpy().tolist() == [[2, 6, 3, 0]]


def test_ids_of_special_tokens(preprocessor, tokenizer) -> None:
    expected = {
        "vocab_size": len(VOCABULARY),
        "start_of_sequence_id": tokenizer.cls_id,
        "end_of_segment_id": tokenizer.sep_id,
        "padding_id": tokenizer.pad_id,
        "mask_id": tokenizer.mask_id,
    }
    for source in (preprocessor, preprocessor.tokenize):
        found = source.get_special_tokens_dict()
        assert {name: int(value) for name, value in found.items()} == expected


def test_vectors_are_the_encoders(preprocessor, encoder, task) -> None:
    inputs = preprocessor(tf.constant(TEXTS))
    found = encoder(inputs)
    named = {ours: inputs[theirs].numpy() for ours, theirs in OURS.items()}
    expected = task.encoder.predict_on_batch(named)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], keras.ops.convert_to_numpy(value), atol=1e-5)
    np.testing.assert_array_equal(found["default"], found["pooled_output"])
    assert len(found["encoder_outputs"]) == task.encoder.config.num_layers
    np.testing.assert_array_equal(found["encoder_outputs"][-1], found["sequence_output"])


def test_what_a_classic_client_reads(encoder, tokenizer) -> None:
    path = encoder.vocab_file.asset_path.numpy().decode()
    assert Path(path).read_text(encoding="utf-8").splitlines() == VOCABULARY
    assert encoder.do_lower_case.numpy() == tokenizer.lowercase


def test_every_variable_has_a_gradient(preprocessor, encoder, task) -> None:
    inputs = preprocessor(tf.constant(TEXTS))
    assert len(encoder.variables) == len(task.encoder.variables)
    assert list(encoder.regularization_losses) == []
    with tf.GradientTape() as tape:
        outputs = encoder(inputs, training=True)
        loss = tf.reduce_mean(outputs["pooled_output"][:, 0])
        loss += tf.reduce_mean(outputs["sequence_output"][:, :, 0] ** 2)
    gradients = tape.gradient(loss, list(encoder.trainable_variables))
    assert None not in gradients
    first, second = (encoder(inputs, training=True)["pooled_output"] for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    first, second = (encoder(inputs)["pooled_output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_masked_language_model(preprocessor, encoder, task) -> None:
    inputs = preprocessor(tf.constant(TEXTS))
    positions = np.array([[1, 0], [0, 1], [2, 3], [4, 5]], np.int32)
    found = encoder.mlm({**inputs, "masked_lm_positions": tf.constant(positions)})
    named = {ours: inputs[theirs].numpy() for ours, theirs in OURS.items()}
    expected = task.predict_on_batch({**named, "mask_positions": positions})["mlm"]
    np.testing.assert_allclose(found["mlm_logits"], keras.ops.convert_to_numpy(expected), atol=1e-5)
    with tf.GradientTape() as tape:
        outputs = encoder.mlm({**inputs, "masked_lm_positions": positions}, training=True)
        loss = tf.reduce_mean(outputs["mlm_logits"] ** 2)
        loss += tf.reduce_mean(outputs["pooled_output"] ** 2)
    moving = list(encoder.mlm.trainable_variables)
    assert None not in tape.gradient(loss, moving)
    of_pair = len(task.pair.trainable_variables)  # the pair head is not in `mlm`
    assert len(moving) == len(task.trainable_variables) - of_pair


@pytest.mark.parametrize("place", ["", "encoder"])
def test_from_preset_opens_the_same_model(place: str, folder: Path, task, tokenizer) -> None:
    opened = BertEncoder.from_preset(folder / place)
    assert opened.config == task.encoder.config
    assert_same_weights(opened, task.encoder)
    inputs = tokenizer(TEXTS, max_length=10)
    found, expected = (numpy(model.predict_on_batch(inputs)) for model in (opened, task.encoder))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    assert Tokenizer.from_preset(folder / place) == tokenizer
    classifier = SequenceClassifier.from_preset(folder / place, labels=["bad", "good"])
    assert_same_weights(classifier.encoder, task.encoder)
    assert classifier.tokenizer == tokenizer


def test_from_preset_opens_the_masked_language_model(folder: Path, task, tokenizer) -> None:
    opened = MaskedLM.from_preset(folder)
    assert opened.tokenizer == tokenizer
    expected = weights(task)
    for path, values in weights(opened).items():
        np.testing.assert_array_equal(values, expected[path], err_msg=path)
    inputs = {**tokenizer(TEXTS, max_length=10), "mask_positions": np.ones((4, 2), np.int32)}
    found, theirs = (numpy(model.predict_on_batch(inputs)["mlm"]) for model in (opened, task))
    np.testing.assert_allclose(found, theirs, atol=1e-6)


def test_signatures(folder: Path) -> None:
    for name, inputs in (("preprocessor", {"inputs"}), ("encoder", set(OURS.values()))):
        model = tf.saved_model.load(str(folder / name))
        signature = model.signatures["serving_default"]
        assert set(signature.structured_input_signature[1]) == inputs


def test_refused(task, tokenizer, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        tf_hub(task, tokenizer, folder)
    with pytest.raises(ValueError, match="max_length=99"):
        tf_hub(task, tokenizer, tmp_path / "1", max_length=99)
    with pytest.raises(TypeError, match="Expected a task or a BertEncoder"):
        tf_hub(keras.Sequential(), tokenizer, tmp_path / "1")
    assert not any(tmp_path.iterdir())
