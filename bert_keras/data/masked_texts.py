"""Batches of texts for masked language models, with new masks in every epoch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bert_keras.data.feeding import Batch
from bert_keras.data.masking import Masking
from bert_keras.data.rows import Rows
from bert_keras.data.sampling import Draws, Stream
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.features import MASK_POSITIONS, MLM, PADDING_MASK, TOKEN_IDS
from bert_keras.tokenizers import Tokenizer


class MaskedTexts(SupervisedExamples):
    """Texts with masked tokens: {"mlm": int32 [B, P]}, and a weight of 1 for each prediction.

    The masks of a text are a pure function of the seed, the epoch, the number of the text and the
    length of the longest text; batches do not change them. Without a seed the texts keep their
    order, and every epoch has the masks of the first one.

    Args:
        tokenizer: of the texts.
        rows: the texts.
        masking: what is masked together: "token", "whole_word" or "span".
        mask_rate: share of the tokens that is predicted.
        weights: weight of each text, float32 [texts]; None for 1.
        options: those of `SupervisedExamples`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        rows: Rows,
        *,
        masking: str = "token",
        mask_rate: float = 0.15,
        weights: np.ndarray | None = None,
        **options: Any,
    ):
        super().__init__(rows, {}, **options)
        self._length = int(rows.lengths.max(initial=1))
        self._row_weights = weights
        self._masking = Masking(
            tokenizer,
            unit=masking,
            rate=mask_rate,
            max_predictions_per_seq=max(1, math.ceil(mask_rate * self._length)),
        )

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of these texts, masked as in this epoch."""
        x, _, _ = super().batch_of(epoch, examples)
        token_ids = x[TOKEN_IDS]
        is_text = x[PADDING_MASK] > 0  # special tokens are never predicted
        draws = Draws(self.seed or 0, epoch if self.seed is not None else 0)
        width = self._masking.width(self._length)  # of the longest text: masks of a text alone
        raw = draws.rows_at(Stream.MASK, examples, width)
        # The parts of the words for each row lie `length` apart. Padding needs none.
        parts = raw.reshape(len(examples), -1, self._length)[:, :, : token_ids.shape[1]]
        missing = token_ids.shape[1] - parts.shape[2]
        parts = np.pad(parts, [(0, 0), (0, 0), (0, max(0, missing))])
        raw = parts.reshape(len(examples), -1)
        masked = self._masking(token_ids, is_text, raw)
        weights = masked.weights
        if self._row_weights is not None:
            weights = weights * self._row_weights[examples][:, None]
        x[TOKEN_IDS] = masked.token_ids
        x[MASK_POSITIONS] = masked.positions
        return x, {MLM: masked.labels}, {MLM: weights.astype(np.float32)}
