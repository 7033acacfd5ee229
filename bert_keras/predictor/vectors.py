"""Vectors of texts, and how alike they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras import features
from bert_keras.predictor.running import Runner


def own(runner: Runner, texts: Sequence[str]) -> np.ndarray:
    """The vectors that a `SentenceEncoder` makes: float32 [texts, hidden_size]."""
    return runner.per_example(features.SENTENCE_VECTOR, runner.encode(texts))


def means(runner: Runner, texts: Sequence[str]) -> np.ndarray:
    """The means of what an encoder makes of the tokens, [CLS] and [SEP] included."""
    rows = runner.encode(texts)
    results = np.zeros((len(rows), runner.model.config.hidden_size), np.float32)
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            vectors = outputs[features.SEQUENCE_OUTPUT][row, : rows.lengths[index]]
            results[index] = vectors.astype(np.float32).mean(axis=0)
    return results


def cosines(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Of the angle between each first and second row: float32 [rows]; 0 for a row of zeros."""
    lengths = np.linalg.norm(firsts, axis=1) * np.linalg.norm(seconds, axis=1)
    return (firsts * seconds).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny)
