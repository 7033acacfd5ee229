"""A real model gives a text the same answer alone, in a batch, and with any padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Predictor,
    QuestionAnswerer,
    SentenceEncoder,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
)
from bert_keras.data import read_squad, read_table
from bert_keras.inference import batching as running

_LABELS = ["no", "perhaps", "yes"]


@pytest.fixture(scope="module")
def encoder(mini_lm: Path) -> BertEncoder:
    return BertEncoder.from_preset(mini_lm)


@pytest.fixture(scope="module")
def tokenizer(mini_lm: Path) -> Tokenizer:
    return Tokenizer.from_preset(mini_lm)


@pytest.fixture(scope="module")
def texts(shared_data: Path) -> list[str]:
    """Return about 40 sentences of the STS benchmark that have many different lengths."""
    table = read_table(
        shared_data / "stsb" / "official_dev.tsv", text="sentence1", label="score", quoting=False
    )
    chosen = sorted(set(table.texts), key=len)
    return chosen[:: len(chosen) // 39][::-1]


def _numbers(kind: str, predictor: Predictor, texts: list[str]) -> list[np.ndarray]:
    """Return the numbers behind the answers, for each text."""
    if kind == "labels":
        return list(predictor.predict_scores(texts))
    if kind == "vectors":
        return list(predictor.encode(texts))
    tags = predictor.predict_tags([text.split() for text in texts])
    return [np.array([(_LABELS.index(tag.label), tag.score) for tag in row]) for row in tags]


@pytest.mark.data
@pytest.mark.parametrize("kind", ["labels", "tags", "vectors"])
def test_nothing_beside_a_text_changes_its_answer(
    kind: str,
    encoder: BertEncoder,
    tokenizer: Tokenizer,
    texts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keras.utils.set_random_seed(0)
    task = {
        "labels": lambda: SequenceClassifier(encoder, 3, labels=_LABELS),
        "tags": lambda: TokenClassifier(encoder, 3, labels=_LABELS),
        "vectors": lambda: SentenceEncoder(encoder),
    }[kind]()
    expected = _numbers(kind, Predictor(task, tokenizer), texts)

    def assert_same(found: list[np.ndarray]) -> None:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)

    assert_same(_numbers(kind, Predictor(task, tokenizer, batch_size=7), texts[::-1])[::-1])
    # Pad only to the longest text of the batch.
    monkeypatch.setattr(running, "_ANY_SIZE", 10**6)
    assert_same(_numbers(kind, Predictor(task, tokenizer, batch_size=5), texts))
    alone = [_numbers(kind, Predictor(task, tokenizer), [text])[0] for text in texts[:3]]
    assert_same([*alone, *expected[3:]])


@pytest.mark.data
def test_the_order_of_the_labels_changes_no_answer(
    encoder: BertEncoder, tokenizer: Tokenizer, texts: list[str]
) -> None:
    keras.utils.set_random_seed(0)
    one, other = (
        SequenceClassifier(encoder, 3, labels=labels) for labels in (_LABELS, _LABELS[::-1])
    )
    for a, b in zip(one.head.weights, other.head.weights, strict=True):
        b.assign(keras.ops.flip(a, axis=-1))
    found, expected = (Predictor(task, tokenizer).predict_labels(texts) for task in (other, one))
    for answer, wanted in zip(found, expected, strict=True):
        assert answer.label == wanted.label
        assert answer.score == pytest.approx(wanted.score, abs=1e-5)


@pytest.mark.data
def test_a_question_alone_has_the_answer_it_has_among_others(
    encoder: BertEncoder, tokenizer: Tokenizer, shared_data: Path
) -> None:
    keras.utils.set_random_seed(0)
    task = QuestionAnswerer(encoder)
    path = shared_data / "squad" / "split_share_35articles_v1.1.json"
    asked = read_squad(path)[0][:400:40]
    columns: Any = ([q.question for q in asked], [q.context for q in asked])
    expected = Predictor(task, tokenizer, max_length=192)(*columns)
    turned = Predictor(task, tokenizer, max_length=192, batch_size=3)(*(c[::-1] for c in columns))
    for found, wanted, question in zip(turned[::-1], expected, asked, strict=True):
        assert found.text == wanted.text == question.context[found.start : found.end]
        assert found.score == pytest.approx(wanted.score, abs=1e-5)
