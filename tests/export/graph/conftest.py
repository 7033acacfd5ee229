"""Fixtures for tests of TensorFlow graphs. Other backends have no such models."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained

if keras.backend.backend() != "tensorflow":
    collect_ignore_glob = ["test_*.py"]

WORDS = [*"abcdefgh", "the", "cat", "##s", "##b", "##1", ".", ",", "'", "(", "中", "文", "!", "1"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="session")
def encoder():
    """Return a function that makes an encoder with different outputs for different texts."""

    def make(**values) -> BertEncoder:
        config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=64, **values)
        return as_trained(BertEncoder(config))

    return make


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Return short and long texts with all kinds of characters."""
    draw = np.random.default_rng(1)
    pool = [*WORDS, *(" " * 3), "a1b", "cat's", "é", "e\u0301", "x" * 101, "\u200d", "😀ａ½"]
    drawn = [" ".join(draw.choice(pool, draw.integers(1, 60))) for _ in range(60)]
    joined = ["".join(draw.choice(pool, draw.integers(1, 40))) for _ in range(60)]
    long = ["a" * 5000, " ".join(draw.choice(pool, 900))]
    return [*drawn, *joined, "", " ", "\x00", "[MASK] [SEP]", *long]
