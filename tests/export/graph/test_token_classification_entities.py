"""Entities from a graph equal those of the predictor: words, tags, long texts and spans."""

from __future__ import annotations

import pytest

from bert_keras.export.graph.token_classification import Entities
from bert_keras.models import TokenClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer
from tests.contracts import as_trained

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

SCHEMES = {
    "bio": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "bioes": ["O", "B-X", "I-X", "E-X", "S-X"],
    "bilou": ["U-A", "O", "L-A", "B-A", "I-A"],
    "bare": ["B", "I", "O"],
    "others": ["O", "B-PER", "noun", "I-PER"],
}


def check(task: TokenClassifier, tokenizer, texts: list[str], max_length: int) -> int:
    expected = Predictor(task, tokenizer, max_length=max_length).predict_entities(texts)
    entities = Entities(task, InGraphTokenizer(tokenizer), max_length=max_length)
    run = tf.function(lambda t: entities(t), input_signature=[tf.TensorSpec([None], tf.string)])
    for start in range(0, len(texts), 32):
        batch = texts[start : start + 32]
        found = {name: value.numpy() for name, value in run(tf.constant(batch)).items()}
        for row, text in enumerate(batch):
            entities_of_text = expected[start + row]
            count = int(found["count"][row])
            columns = [found[name][row, :count] for name in ("label", "text", "start", "end")]
            got = [
                (label.decode(), part.decode(), int(a), int(b))
                for label, part, a, b in zip(*columns, strict=True)
            ]
            assert got == [(e.label, e.text, e.start, e.end) for e in entities_of_text], ascii(text)
            assert found["score"][row, :count] == pytest.approx(
                [e.score for e in entities_of_text], abs=1e-5
            )
            assert not found["score"][row, count:].any()
            assert set(found["text"][row, count:]) <= {b""}
    assert run(tf.constant([], tf.string))["text"].shape == (0, 0)
    return sum(map(len, expected))


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_are_the_predictors(scheme: str, crf: bool, encoder, tokenizer, texts) -> None:
    labels = SCHEMES[scheme]
    task = as_trained(TokenClassifier(encoder(), len(labels), labels=labels, crf=crf))
    assert check(task, tokenizer, texts, 12) > 100


def test_no_entities_at_all(encoder, tokenizer, texts) -> None:
    task = TokenClassifier(encoder(), 2, labels=["noun", "verb"])
    assert check(task, tokenizer, texts[:40], 64) == 0
