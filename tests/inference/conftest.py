"""Tiny tasks with large random weights, so that no two answers have nearly the same score."""

from __future__ import annotations

import functools
from collections.abc import Callable

import keras
import numpy as np
import pytest

from bert_keras import (
    BertConfig,
    BertEncoder,
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
)
from bert_keras.models import Task
from tests.tokenizers.samples import VOCABULARY

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def _linked(encoder: BertEncoder) -> TokenClassifier:
    """Return a token classifier with a CRF whose random transitions change the answers."""
    task = TokenClassifier(encoder, 5, labels=TAGS, crf=True)
    rng = np.random.default_rng(0)
    assert task.crf is not None
    for weight in task.crf.weights:
        weight.assign(rng.normal(0, 1, weight.shape))
    return task


TASKS: dict[str, Callable[[BertEncoder], Task]] = {
    "labels": lambda encoder: SequenceClassifier(encoder, 3, labels=["bad", "good", "so"]),
    "several": lambda encoder: SequenceClassifier(
        encoder, 3, labels=["art", "law", "war"], problem="multi_label"
    ),
    "numbers": lambda encoder: SequenceClassifier(encoder, 2, problem="regression"),
    "tags": lambda encoder: TokenClassifier(encoder, 5, labels=TAGS),
    "linked": _linked,
    "answers": QuestionAnswerer,
    "choices": MultipleChoice,
    "vectors": SentenceEncoder,
    "pairs": lambda encoder: SentencePairs(
        encoder, loss="classification", num_classes=3, labels=["bad", "good", "so"]
    ),
}


@functools.cache
def _task(kind: str) -> Task:
    keras.utils.set_random_seed(len(kind))
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        max_positions=32,
        initializer_range=0.8,
    )
    return TASKS[kind](BertEncoder(config))


@pytest.fixture(scope="session")
def task() -> Callable[[str], Task]:
    """Return a function that builds the task of a kind, once for each kind."""
    return _task


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)
