"""The most probable tokens for masked places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.inference.base import Fill, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, softmax
from bert_keras.tokenizers import Tokenizer


def mask_logits(runner: Runner, texts: Sequence[str]) -> list[np.ndarray]:
    """Return the logits of the [MASK] of each text: float32 [masks, vocab_size] each.

    Raises:
        ValueError: a text has no [MASK], or has one where the text is cut.
    """
    tokenizer, rows = runner.tokenizer, runner.encode(texts)
    positions = [np.flatnonzero(rows[index] == tokenizer.mask_id) for index in range(len(rows))]
    for index, (text, places) in enumerate(zip(texts, positions, strict=True)):
        _check(runner, index, text, len(places))
    results = [np.zeros((0, tokenizer.vocab_size), np.float32) for _ in texts]
    for batch, outputs in runner.run(rows, positions=positions):
        for row, index in enumerate(batch):
            logits = outputs[features.MLM][row, : len(positions[index]), : tokenizer.vocab_size]
            results[index] = logits.astype(np.float32)
    return results


def fill_mask(runner: Runner, texts: Sequence[str], top_k: int) -> list[list[list[Fill]]]:
    """See `MaskMethods.fill_mask`."""
    return [_fills(runner, logits, top_k) for logits in mask_logits(runner, texts)]


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


def check_top_k(top_k: int, tokenizer: Tokenizer) -> None:
    """Raises `ValueError` unless that many tokens can be named."""
    if not 1 <= top_k <= tokenizer.vocab_size:
        raise ValueError(
            f"`top_k` must be from 1 to {tokenizer.vocab_size}, the size of the vocabulary. "
            f"Received: top_k={top_k}"
        )


class MaskMethods(TextMethods):
    """Methods of masked language models."""

    @one_or_many("texts")
    def fill_mask(self, texts: str | Sequence[str], *, top_k: int = 5) -> Any:
        """Return the most probable tokens for every [MASK].

        Args:
            texts: texts with one [MASK] or more, or one such text. Every place is filled on its
                own.
            top_k: how many fills for each.

        Returns:
            For each text, for each of its masks, a list of `Fill`, best first. Of one text the
            entry of that text alone.

        Raises:
            ValueError: a text has no [MASK], or has one where the text is cut.
        """
        self._require(features.MLM, "fill_mask")
        runner = self._runner()
        check_top_k(top_k, runner.tokenizer)
        return fill_mask(runner, texts, top_k)


class PairMethods(TextMethods):
    """Methods of models that were pretrained on pairs of sentences."""

    @one_or_many("firsts", "seconds")
    def next_sentence(
        self, firsts: str | Sequence[str], seconds: str | Sequence[str]
    ) -> np.ndarray:
        """Return the probability that the second text follows the first: float32 [pairs].

        Of one pair the probability alone.

        Raises:
            ValueError: the model was not trained for it.
        """
        self._require(features.NSP, "next_sentence")
        runner = self._runner()
        rows = runner.encode(firsts, seconds)
        nowhere = [np.zeros(1, np.int32)] * len(rows)
        return softmax(runner.per_example(features.NSP, rows, positions=nowhere))[:, 0]
