"""Fixture: the folder of a tiny sentence encoder with random weights."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from bert_keras import BertEncoder, SentenceEncoder, Tokenizer
from tests.contracts import TINY

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklm.", "dog", "cat", "##s"]


@pytest.fixture(scope="session")
def tiny_preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the saved encoder and its tokenizer."""
    keras.utils.set_random_seed(0)
    tokenizer = Tokenizer(_WORDS)
    config = TINY.replace(vocab_size=tokenizer.vocab_size, max_positions=32)
    folder = tmp_path_factory.mktemp("tiny")
    SentenceEncoder(BertEncoder(config)).save_to_preset(folder)
    tokenizer.save_to_preset(folder)
    return folder
