"""Pretraining batches: a pure function of (seed, epoch, position), and their statistics."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras.data.batch_datasets import Batch, later
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.fill_mask import Masking
from bert_keras.data.model_inputs import WORD_BITS, assemble, front_share, truncate
from bert_keras.data.sentence_pairs import EpochPlan, check_sentences, plan_epoch, sentences
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
    pass

if TYPE_CHECKING:
    from bert_keras.data.corpus import Corpus
    from bert_keras.tokenizers import Tokenizer

_KEPT = 4  # groups: readers in threads may be in several


class BatchCache:
    """Hands out batches one by one, each built with its neighbours. Safe for several threads.

    Args:
        build: makes the batches [first, last) of an epoch, as one with all their rows; called with
            the epoch, first and last.
        rows: of a batch.
        size: batches of a group, at least 1.
    """

    def __init__(self, build: Callable[[int, int, int], Batch], *, rows: int, size: int):
        self._build, self._rows, self._size = build, rows, size
        self._groups: dict[tuple[int, int], Future[Batch]] = {}
        self._lock = threading.Lock()

    def __call__(self, epoch: int, position: int, end: int) -> Batch:
        """One batch, whose arrays are the caller's own.

        Args:
            epoch: of the batch,
            position: and its number there.
            end: batches of the epoch.
        """
        if self._size == 1:
            return self._build(epoch, position, position + 1)
        first = position - position % self._size
        with self._lock:
            group = self._groups.get((epoch, first))
            if is_new := group is None:
                group = self._groups[epoch, first] = Future()
                while len(self._groups) > _KEPT:
                    del self._groups[next(iter(self._groups))]
        try:
            if is_new:
                group.set_result(self._build(epoch, first, min(first + self._size, end)))
        except BaseException as error:
            with self._lock:  # whoever asks again builds again
                self._groups.pop((epoch, first), None)
            group.set_exception(error)
        begin = (position - first) * self._rows
        return _copied(group.result(), slice(begin, begin + self._rows))


def _copied(batch: Any, rows: slice) -> Any:
    return tuple({name: part[rows].copy() for name, part in arrays.items()} for arrays in batch)


# === Statistics ===


def batch_statistics(examples: PretrainingExamples, epoch: int, batches: int) -> dict[str, float]:
    """Counts over the first `batches` batches of an epoch, or all where it has fewer.

    Returns:
        batches: how many were read.
        tokens: real tokens in them, special ones included.
        padding_share: of all slots.
        unknown_share: [UNK] among the text.
        masks_per_row: predictions, in the mean.
        mask_share: predictions among the text that could be predicted.
        shown_share, replaced_share, kept_share: of predictions: as [MASK], as another token, as is.
        nsp_share or sop_share: of rows, with label 1.
        dropped_share: of the epoch's examples, left out so that labels are half and half.
    """
    tokenizer, count = examples.tokenizer, min(batches, examples.num_batches(epoch))
    is_paired = examples.loss in PAIR_LOSSES
    specials = 3 if is_paired else 2
    slots = tokens = rows = unknown = predicted = shown = kept = positive = 0
    for position in range(count):
        x, y, weights = examples.batch(epoch, position)
        used = weights[MLM] > 0
        seen = np.take_along_axis(x[TOKEN_IDS], x[MASK_POSITIONS], axis=1)[used]
        slots += x[TOKEN_IDS].size
        rows += len(x[TOKEN_IDS])
        tokens += int(x[PADDING_MASK].sum())
        unknown += int((x[TOKEN_IDS] == tokenizer.unk_id).sum())
        predicted += len(seen)
        shown += int((seen == tokenizer.mask_id).sum())
        kept += int((seen == y[MLM][used]).sum())
        positive += int(y[examples.loss].sum()) if is_paired else 0
    text, plan = tokens - specials * rows, examples.plan(epoch)
    figures: dict[str, float] = {
        "batches": count,
        "tokens": tokens,
        "padding_share": 1 - tokens / slots,
        "unknown_share": unknown / max(text, 1),
        "masks_per_row": predicted / rows,
        "mask_share": predicted / max(text - unknown, 1),
        "shown_share": shown / max(predicted, 1),
        "replaced_share": (predicted - shown - kept) / max(predicted, 1),
        "kept_share": kept / max(predicted, 1),
        "dropped_share": plan.dropped / (len(plan) + plan.dropped),
    }
    if is_paired:
        figures[f"{examples.loss}_share"] = positive / rows
    return figures


# === Batches ===


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
        check_sentences(corpus, self._sentences, loss)
        self._plans: dict[int, EpochPlan] = {}
        self._counts: dict[int, int] = {}
        self._lock = threading.Lock()
        size = max(1, _TOKENS_AT_ONCE // (batch_size * sequence_length))
        self._batches = BatchCache(self._built, rows=batch_size, size=size)

    def plan(self, epoch: int) -> EpochPlan:
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
        rows = assemble(
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
        return batch_statistics(self, epoch, batches)
