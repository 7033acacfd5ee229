"""The most probable tokens for masked places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras import features
from bert_keras.predictor.answers import Fill
from bert_keras.predictor.running import Runner, softmax


def fill_mask(runner: Runner, texts: Sequence[str], top_k: int) -> list[list[list[Fill]]]:
    """See `Predictor.fill_mask`."""
    tokenizer, rows = runner.tokenizer, runner.encode(texts)
    positions = [np.flatnonzero(rows[index] == tokenizer.mask_id) for index in range(len(rows))]
    for index, (text, found) in enumerate(zip(texts, positions, strict=True)):
        _check(runner, index, text, len(found))
    results: list[list[list[Fill]]] = [[] for _ in texts]
    for batch, outputs in runner.run(rows, positions=positions):
        for row, index in enumerate(batch):
            logits = outputs[features.MLM][row, : len(positions[index])]
            results[index] = _fills(runner, logits[:, : tokenizer.vocab_size], top_k)
    return results


def _check(runner: Runner, index: int, text: str, found: int) -> None:
    mask = runner.tokenizer.id_to_token(runner.tokenizer.mask_id)
    if not found and mask not in text:
        raise ValueError(f"Text {index} has no {mask} to fill. Received: {text[:80]!r}")
    if found < text.count(mask):
        raise ValueError(
            f"Text {index} has {text.count(mask)} {mask}, but {text.count(mask) - found} of "
            f"them beyond the {runner.max_length} tokens that are read. "
            f"Shorten the text. Received: {text[:80]!r}"
        )


def _fills(runner: Runner, logits: np.ndarray, top_k: int) -> list[list[Fill]]:
    """Logits [masks, vocab_size] -> for each mask, the best fills."""
    scores = softmax(logits)
    best = np.argpartition(-scores, top_k - 1, axis=-1)[:, :top_k]
    return [
        [
            Fill(runner.tokenizer.id_to_token(token_id), token_id, float(row[token_id]))
            for token_id in sorted(ids.tolist(), key=lambda i: (-row[i], i))
        ]
        for row, ids in zip(scores, best, strict=True)
    ]
