"""Pretraining batches: a pure function of (seed, epoch, position), and what feeds them to `fit`."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.data.feeding import Batch, later
from bert_keras.data.health import statistics
from bert_keras.data.masking import Masking
from bert_keras.data.packing import WORD_BITS, front_share, pack, truncate
from bert_keras.data.pairs import Plan, plan_epoch
from bert_keras.data.sampling import Draws, Stream
from bert_keras.data.sentences import check, sentences
from bert_keras.data.several import Several
from bert_keras.earlier_names import renamed
from bert_keras.errors import DataError
from bert_keras.features import (
    MASK_POSITIONS,
    MLM,
    NSP,
    PADDING_MASK,
    PAIR_LOSSES,
    RTD,
    SEGMENT_IDS,
    SOP,
    TOKEN_IDS,
)

if TYPE_CHECKING:
    from bert_keras.data.corpus import Corpus
    from bert_keras.tokenizers import Tokenizer

__all__ = ["LOSSES", "PretrainingExamples"]

LOSSES = (NSP, SOP, MLM, RTD)
_PLANS_KEPT = 2  # workers may still build the end of one epoch when the next has begun
_TOKENS_AT_ONCE = 2**16  # of batches that are built together


class PretrainingExamples:
    """Masked sentence pairs, or sentences, of a corpus. Safe to read from several threads.

    Example number i of an epoch is a function of (seed, epoch, i): neither batch size, nor workers,
    nor what was read before change it. A new epoch has new pairs, a new order and new masks.

    Args:
        corpus: the tokens, sentences and documents.
        tokenizer: the tokenizer that made them.
        sequence_length: tokens per row, special tokens included.
        batch_size: rows per batch; what is left over at the end of an epoch is not read.
        loss: "nsp", "sop" (with `Pretrainer`); "mlm", "rtd" (with `ElectraPretrainer`):
            whole sentences, one segment.
        masking: what is masked together: "token", "whole_word" or "span".
        mask_rate: share of the text that is predicted.
        max_predictions_per_seq: predictions per row at most; None:
            ceil(mask_rate * sequence_length).
        short_seq_prob: share of examples that aim at a random, shorter length.
        seed: 0 <= seed < 2**64.

    Raises:
        DataError: the corpus cannot give such examples, or was made by another tokenizer.
        ValueError: an argument is out of range.
    """

    fixed_shapes = True

    @renamed(
        "PretrainingExamples",
        objective="loss",
        max_predictions="max_predictions_per_seq",
        short_probability="short_seq_prob",
    )
    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        *,
        sequence_length: int = 128,
        batch_size: int = 32,
        loss: str = NSP,
        masking: str = "token",
        mask_rate: float = 0.15,
        max_predictions_per_seq: int | None = None,
        short_seq_prob: float = 0.1,
        seed: int = 0,
    ):
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {LOSSES}. Received: {loss!r}")
        room = sequence_length - (3 if loss in PAIR_LOSSES else 2)
        if room < 2 or sequence_length >= 2**16:
            raise ValueError(f"sequence_length must be in [5, 65535]. Received: {sequence_length}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1. Received: {batch_size}")
        if not 0 <= short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob must be in [0, 1]. Received: {short_seq_prob}")
        made_by = corpus.manifest.get("tokenizer")
        if made_by and made_by["fingerprint"] != tokenizer.fingerprint:
            raise DataError(
                "The corpus was made by another tokenizer. "
                f"Received: {corpus!r} made by one of {made_by.get('vocab_size')} entries, and "
                f"{tokenizer!r}. Take the tokenizer beside the corpus, or prepare it again."
            )
        Draws(seed, epoch=0)
        if max_predictions_per_seq is None:
            max_predictions_per_seq = math.ceil(mask_rate * sequence_length)
        self.masking = Masking(
            tokenizer, unit=masking, rate=mask_rate, max_predictions_per_seq=max_predictions_per_seq
        )
        self.corpus, self.tokenizer, self.loss = corpus, tokenizer, loss
        self.sequence_length, self.batch_size = sequence_length, batch_size
        self.short_seq_prob, self.seed = short_seq_prob, seed
        self._room = room
        self._tokens = np.asarray(corpus.tokens)  # a memory map costs time at every index
        self._sentences = sentences(corpus, room)
        check(corpus, self._sentences, loss)
        self._plans: dict[int, Plan] = {}
        self._counts: dict[int, int] = {}
        self._lock = threading.Lock()
        size = max(1, _TOKENS_AT_ONCE // (batch_size * sequence_length))
        self._batches = Several(self._built, rows=batch_size, size=size)

    def plan(self, epoch: int) -> Plan:
        """The examples of an epoch in reading order; the plans of two epochs are kept."""
        with self._lock:
            plan = self._plans.pop(epoch, None)
            if plan is None:
                plan = plan_epoch(
                    self._sentences,
                    Draws(self.seed, epoch),
                    loss=self.loss,
                    room=self._room,
                    short_seq_prob=self.short_seq_prob,
                )
            self._plans[epoch] = plan
            while len(self._plans) > _PLANS_KEPT:
                del self._plans[next(iter(self._plans))]
            return plan

    def num_batches(self, epoch: int) -> int:
        """Batches in an epoch, at least one; epochs differ a little, for their pairs do.

        Raises:
            DataError: the epoch has fewer examples than one batch.
        """
        if epoch not in self._counts:
            examples = len(self.plan(epoch))
            if examples < self.batch_size:
                raise DataError(
                    f"The corpus gives fewer examples than one batch. Received: {self.corpus!r}, "
                    f"{examples} examples of sequence_length={self.sequence_length}, "
                    f"batch_size={self.batch_size}. "
                    "Take a smaller batch, shorter rows or more text."
                )
            self._counts[epoch] = examples // self.batch_size
        return self._counts[epoch]

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """The (epoch, position) that is `steps` >= 0 batches later."""
        return later(self.num_batches, epoch, position, steps)

    def batch(self, epoch: int, position: int) -> Batch:
        """One batch: inputs, labels, sample weights.

        Returns:
            x: token_ids, segment_ids, padding_mask int32 [B, T], mask_positions int32 [B, P].
            y: "mlm" int32 [B, P] and, by loss, "nsp" (0: B follows A, 1: from elsewhere)
                or "sop" (0: in order, 1: swapped) int32 [B], or "rtd", the ids before masking,
                int32 [B, T].
            sample_weight: "mlm" float32 [B, P], 0 in unused slots; "nsp" or "sop" ones [B];
                "rtd" float32 [B, T], 0 for padding.
        """
        if not 0 <= position < self.num_batches(epoch):
            raise IndexError(
                f"Epoch {epoch} has {self.num_batches(epoch)} batches. Received: {position=}"
            )
        return self._batches(epoch, position, self.num_batches(epoch))

    def _built(self, epoch: int, first: int, last: int) -> Batch:
        return self.batch_of(epoch, np.arange(first * self.batch_size, last * self.batch_size))

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """As `batch`, of the examples with these numbers in the epoch."""
        plan, draws = self.plan(epoch), Draws(self.seed, epoch)
        length_a, length_b = plan.length_a[examples], plan.length_b[examples]
        kept_a, kept_b = truncate(length_a, length_b, self._room)
        # At most the room and one more sentence go, or two more in "sop"; a bit for each.
        words = -(-2 * self._room // WORD_BITS)
        coins = draws.rows_at(Stream.CROP, examples, 2 * words)
        rows = pack(
            self._tokens,
            plan.start_a[examples] + front_share(length_a - kept_a, coins[:, :words]),
            kept_a,
            plan.start_b[examples] + front_share(length_b - kept_b, coins[:, words:]),
            kept_b,
            length=self.sequence_length,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
            pad_id=self.tokenizer.pad_id,
        )
        raw = draws.rows_at(Stream.MASK, examples, self.masking.width(self.sequence_length))
        masked = self.masking(rows.token_ids, rows.is_text, raw)
        x = {
            TOKEN_IDS: masked.token_ids,
            SEGMENT_IDS: rows.segment_ids,
            PADDING_MASK: rows.padding_mask,
            MASK_POSITIONS: masked.positions,
        }
        y, sample_weight = {MLM: masked.labels}, {MLM: masked.weights}
        if self.loss == RTD:
            y[RTD] = rows.token_ids
            sample_weight[RTD] = rows.padding_mask.astype(np.float32)
        elif self.loss != MLM:
            y[self.loss] = plan.label[examples].astype(np.int32)
            sample_weight[self.loss] = np.ones(len(examples), np.float32)
        return x, y, sample_weight

    @property
    def pad_id(self) -> int:
        """Token id of the padding."""
        return self.tokenizer.pad_id

    @property
    def token_names(self) -> tuple[str, ...]:
        """The labels of all tokens."""
        return (RTD,)

    def drawn(self, epoch: int) -> np.ndarray:
        """The numbers of an epoch's examples, which are drawn in their order."""
        return np.arange(len(self.plan(epoch)))

    def lengths_of(self, epoch: int) -> np.ndarray:
        """Tokens of an epoch's examples, special ones included."""
        plan = self.plan(epoch)
        kept_a, kept_b = truncate(plan.length_a, plan.length_b, self._room)
        return kept_a + kept_b + 2 + (kept_b > 0)

    def most_predictions(self, tokens: int, examples: int) -> int:
        """Masked tokens at most among so many tokens, of so many examples."""
        # Each has its share, rounded, and at least one: less than one more than the share.
        share = int(self.masking.rate * tokens) + examples
        return min(share, examples * self.masking.max_predictions_per_seq)

    def statistics(self, epoch: int = 0, batches: int = 100) -> dict[str, float]:
        """Padding, masks, labels and [UNK], counted over some batches: see `health.statistics`."""
        return statistics(self, epoch, batches)
