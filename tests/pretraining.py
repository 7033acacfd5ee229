"""A few examples to pretrain on."""

from __future__ import annotations

from typing import Any

import numpy as np

from bert_keras.data import Corpus, PretrainingExamples
from bert_keras.tokenizers import Tokenizer


def few_examples(loss: str) -> PretrainingExamples:
    """Return pretraining examples of many lengths that fit `contracts.TINY`."""
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(45)]
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    sizes = rng.integers(1, 5, (4, 5)).tolist()
    corpus = Corpus.from_ids([[rng.integers(5, 50, n).tolist() for n in row] for row in sizes])
    options: dict[str, Any] = {"sequence_length": 12, "batch_size": 1, "short_seq_prob": 0.8}
    return PretrainingExamples(corpus, tokenizer, loss=loss, **options)
