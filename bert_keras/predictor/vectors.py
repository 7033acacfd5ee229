"""Vectors of texts, and how alike they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras import features
from bert_keras.predictor.running import Runner


def own(runner: Runner, texts: Sequence[str], prompt: str) -> np.ndarray:
    """Return the vectors that a `SentenceEncoder` makes: float32 [texts, size].

    Args:
        runner: of the model.
        texts: the texts.
        prompt: what stands before each of them.
    """
    rows = runner.encode(prompted(texts, prompt))
    length = prompt_length(runner, prompt)
    return runner.per_example(features.SENTENCE_VECTOR, rows, prompt_length=length)


def prompted(texts: Sequence[str], prompt: str) -> Sequence[str]:
    """Return the texts behind a prompt."""
    return [prompt + text for text in texts] if prompt else texts


def prompt_length(runner: Runner, prompt: str) -> int:
    """Return how many of a row's first tokens are of a prompt, with [CLS]; 0 for no prompt."""
    if not prompt:
        return 0
    return len(runner.tokenizer.encode(prompt, max_length=runner.max_length)) - 1  # without [SEP]


def means(runner: Runner, texts: Sequence[str], prompt: str) -> np.ndarray:
    """Return the means of what an encoder makes of the tokens, [CLS] and [SEP] included."""
    rows = runner.encode(prompted(texts, prompt))
    results = np.zeros((len(rows), runner.model.config.hidden_size), np.float32)
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            vectors = outputs[features.SEQUENCE_OUTPUT][row, : rows.lengths[index]]
            results[index] = vectors.astype(np.float32).mean(axis=0)
    return results


def cosines(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the cosine of each first and second row: float32 [rows]; 0 for a row of zeros."""
    lengths = np.linalg.norm(firsts, axis=1) * np.linalg.norm(seconds, axis=1)
    return dots(firsts, seconds) / np.maximum(lengths, np.finfo(np.float32).tiny)


def dots(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the product of each first and second row: float32 [rows]."""
    return (firsts * seconds).sum(axis=1)


def _euclidean(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    return -np.linalg.norm(firsts - seconds, axis=1)


def _manhattan(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    return -np.abs(firsts - seconds).sum(axis=1)


# By the names of `features.SIMILARITIES`.
SIMILARITIES = {
    features.COSINE: cosines,
    "dot": dots,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}
