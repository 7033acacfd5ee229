"""Prediction of masked tokens, and of whether a sentence follows another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.model_inputs import encode
from bert_keras.inference.base import Fill, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, softmax
from bert_keras.tokenizers import Tokenizer


def mask_logits(
    runner: Runner, texts: Sequence[str], *, require_masks: bool = True
) -> list[np.ndarray]:
    """Return the logits of all masks of each text, one array float32 [masks, vocab_size] each.

    With `require_masks=False`, a text may have no mask, and masks beyond the maximum length are
    left out.

    Raises:
        ValueError: if a text has no [MASK], or one beyond the maximum length.
    """
    tokenizer = runner.tokenizer
    rows = encode(tokenizer, texts, max_length=runner.max_length)
    positions = [np.flatnonzero(rows[index] == tokenizer.mask_id) for index in range(len(rows))]
    if require_masks:
        for index, (text, places) in enumerate(zip(texts, positions, strict=True)):
            _check(runner, index, text, len(places))
    runner.tell_cut(rows.num_cut, len(texts))
    results = [np.zeros((0, tokenizer.vocab_size), np.float32) for _ in texts]
    for batch, outputs in runner.run(rows, positions=positions):
        for row, index in enumerate(batch):
            logits = outputs[features.MLM][row, : len(positions[index]), : tokenizer.vocab_size]
            results[index] = logits.astype(np.float32)
    return results


def fill_mask(
    runner: Runner, texts: Sequence[str], top_k: int, *, require_masks: bool = True
) -> list[list[list[Fill]]]:
    """Return the best tokens for each mask of each text; see `MaskMethods.fill_mask`."""
    logits = mask_logits(runner, texts, require_masks=require_masks)
    return [_fills(runner, rows, top_k) for rows in logits]


def _check(runner: Runner, index: int, text: str, masks: int) -> None:
    """Check that a text has masks, and that all are among the tokens that are read.

    Args:
        runner: runner of the model.
        index: index of the text, for the message.
        text: the text.
        masks: number of masks among the tokens that are read.

    Raises:
        ValueError: if it has no mask, or fewer are read than it has.
    """
    mask = runner.tokenizer.id_to_token(runner.tokenizer.mask_id)
    if not masks and mask not in text:
        raise ValueError(
            f"Text {index} has no {mask} to fill. Received: {text[:80]!r}. "
            f"Write {mask} where a word is to be predicted."
        )
    if masks < text.count(mask):
        raise ValueError(
            f"Text {index} has {text.count(mask)} {mask}, but {text.count(mask) - masks} of "
            f"them beyond the {runner.max_length} tokens that are read. "
            f"Shorten the text. Received: {text[:80]!r}"
        )


def _fills(runner: Runner, logits: np.ndarray, top_k: int) -> list[list[Fill]]:
    """Return the `top_k` best tokens for each mask, from logits [masks, vocab_size]."""
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
    """Raise `ValueError` unless `top_k` is from 1 to the size of the vocabulary."""
    if not 1 <= top_k <= tokenizer.vocab_size:
        raise ValueError(
            f"`top_k` must be from 1 to {tokenizer.vocab_size}, the size of the vocabulary. "
            f"Received: top_k={top_k}"
        )


class MaskMethods(TextMethods):
    """Prediction methods of masked language models."""

    @one_or_many("texts")
    def fill_mask(self, texts: str | Sequence[str], *, top_k: int = 5) -> Any:
        """Return the most probable tokens for every [MASK].

        Args:
            texts: texts with at least one [MASK] each, or one such text. Each mask is predicted
                independently of the others.
            top_k: number of tokens for each mask.

        Returns:
            A list of `Fill` for each mask of each text, best first. For a single str, the result
            of that text without the outer list.

        Raises:
            ValueError: if a text has no [MASK], or one beyond the maximum length.
        """
        self._require(features.MLM, "fill_mask")
        runner = self._runner()
        check_top_k(top_k, runner.tokenizer)
        return fill_mask(runner, texts, top_k)


class PairMethods(TextMethods):
    """Prediction methods of models that were pretrained with next sentence prediction."""

    @one_or_many("firsts", "seconds")
    def next_sentence(
        self, firsts: str | Sequence[str], seconds: str | Sequence[str]
    ) -> np.ndarray:
        """Return the probability that the second text follows the first.

        Args:
            firsts: first texts, or one text.
            seconds: second texts, as many, or one text.

        Returns:
            float32 [pairs]; one number for a single pair.

        Raises:
            ValueError: if the model has no NSP head, or the texts differ in number.
        """
        self._require(features.NSP, "next_sentence")
        runner = self._runner()
        rows = runner.encode(firsts, seconds)
        # The model also has an MLM head, which needs some position.
        positions = [np.zeros(1, np.int32)] * len(rows)
        return softmax(runner.per_example(features.NSP, rows, positions=positions))[:, 0]
