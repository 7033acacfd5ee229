"""Batches for pretraining: masked sentence pairs or sentences of a corpus."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.data.batches import BaseExamples, Batch, BatchCache
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.fill_mask import Masking
from bert_keras.data.model_inputs import RANDOM_BITS, assemble, front_share, truncate
from bert_keras.data.sentence_pairs import (
    EpochPlan,
    check_sentences,
    plan_epoch,
    split_long_sentences,
)
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
_TOKENS_AT_ONCE = 2**16  # tokens of the batches that are built together


class PretrainingExamples(BaseExamples[EpochPlan]):
    """Masked sentence pairs, or sentences, of a corpus. Safe to read from several threads.

    Example i of an epoch is a function of (seed, epoch, i). The batch size, the workers and earlier
    reads do not change it. Each epoch has new pairs, a new order and new masks.

    A batch is (x, y, sample_weight), with B rows of T tokens and P predictions:
        x: token_ids, segment_ids, padding_mask int32 [B, T]; mask_positions int32 [B, P].
        y: "mlm" int32 [B, P]. By loss also "nsp" (0: B follows A, 1: B is from another place) or
            "sop" (0: in order, 1: swapped) int32 [B], or "rtd", the ids before masking, int32
            [B, T].
        sample_weight: "mlm" float32 [B, P], 0 for unused predictions; "nsp" or "sop" ones [B];
            "rtd" float32 [B, T], 0 for padding.

    Args:
        corpus: tokens, sentences and documents.
        tokenizer: tokenizer that encoded the corpus.
        sequence_length: tokens of a row, including special tokens.
        batch_size: rows of a batch. An incomplete batch at the end of an epoch is not read.
        loss: "nsp" or "sop" for sentence pairs (`Pretrainer`); "mlm" or "rtd" for whole sentences
            in one segment (`ElectraPretrainer` for "rtd").
        masking: unit of masking: "token", "whole_word" or "span".
        mask_rate: share of the text to predict.
        max_predictions_per_seq: maximum number of predictions in a row. None:
            ceil(mask_rate * sequence_length).
        short_seq_prob: share of examples with a random, shorter target length.
        seed: seed of pairs, order and masks, 0 <= seed < 2**64.

    Raises:
        DataError: the corpus cannot give such examples, or another tokenizer encoded it.
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
        super().__init__(batch_size=batch_size, seed=seed)
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {LOSSES}. Received: {loss!r}")
        room = sequence_length - (3 if loss in PAIR_LOSSES else 2)
        if room < 2 or sequence_length >= 2**16:
            raise ValueError(f"sequence_length must be in [5, 65535]. Received: {sequence_length}")
        if not 0 <= short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob must be in [0, 1]. Received: {short_seq_prob}")
        made_by = corpus.manifest.get("tokenizer")
        if made_by and made_by["fingerprint"] != tokenizer.fingerprint:
            raise DataError(
                "The corpus was encoded by another tokenizer. "
                f"Received: {corpus!r}, encoded by one of {made_by.get('vocab_size')} tokens, and "
                f"{tokenizer!r}. Pass the tokenizer that is saved beside the corpus, or prepare "
                "the corpus again with this one."
            )
        self._draws = partial(Draws, seed)
        self._draws(0)  # raises for a seed out of range
        if max_predictions_per_seq is None:
            max_predictions_per_seq = math.ceil(mask_rate * sequence_length)
        self.masking = Masking(
            tokenizer, unit=masking, rate=mask_rate, max_predictions_per_seq=max_predictions_per_seq
        )
        self.corpus, self.tokenizer, self.loss = corpus, tokenizer, loss
        self.sequence_length, self.short_seq_prob = sequence_length, short_seq_prob
        self._room = room
        self._tokens = np.asarray(corpus.tokens)  # each index into a memory map takes longer
        self._sentences = split_long_sentences(corpus, room)
        check_sentences(corpus, self._sentences, loss)
        self._counts: dict[int, int] = {}
        size = max(1, _TOKENS_AT_ONCE // (batch_size * sequence_length))
        self._batches = BatchCache(self._built, rows=batch_size, size=size)

    def _plan(self, epoch: int) -> EpochPlan:
        return plan_epoch(
            self._sentences,
            self._draws(epoch),
            loss=self.loss,
            room=self._room,
            short_seq_prob=self.short_seq_prob,
        )

    def num_batches(self, epoch: int = 0) -> int:
        """Return the number of batches in an epoch. Epochs differ, because their pairs differ.

        Raises:
            DataError: the epoch has fewer examples than one batch.
        """
        if epoch not in self._counts:
            examples = len(self.plan(epoch))
            if examples < self.batch_size:
                raise DataError(
                    f"The corpus gives fewer examples than one batch. Received: {self.corpus!r}, "
                    f"{examples} examples of sequence_length={self.sequence_length}, "
                    f"batch_size={self.batch_size}. Pass a smaller batch_size, a smaller "
                    "sequence_length, or a corpus with more text."
                )
            self._counts[epoch] = examples // self.batch_size
        return self._counts[epoch]

    def _batch(self, epoch: int, position: int) -> Batch:
        return self._batches(epoch, position, self.num_batches(epoch))

    def _built(self, epoch: int, first: int, last: int) -> Batch:
        """Return the batches [first, last) of an epoch as one batch, for `BatchCache`."""
        return self.batch_of(epoch, np.arange(first * self.batch_size, last * self.batch_size))

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of the examples with these numbers in the epoch."""
        plan, draws = self.plan(epoch), self._draws(epoch)
        length_a, length_b = plan.length_a[examples], plan.length_b[examples]
        kept_a, kept_b = truncate(length_a, length_b, self._room)
        # One random bit decides for each token to cut. At most the room and one more sentence are
        # cut, or two more for "sop".
        width = -(-2 * self._room // RANDOM_BITS)
        coins = draws.rows_at(Stream.CROP, examples, 2 * width)
        rows = assemble(
            self._tokens,
            plan.start_a[examples] + front_share(length_a - kept_a, coins[:, :width]),
            kept_a,
            plan.start_b[examples] + front_share(length_b - kept_b, coins[:, width:]),
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
        """Token id of padding."""
        return self.tokenizer.pad_id

    @property
    def per_token_labels(self) -> tuple[str, ...]:
        """Names of the labels that have a value for each token."""
        return (RTD,)

    def epoch_order(self, epoch: int) -> np.ndarray:
        """Return the numbers of the examples of an epoch, shuffled: int64 [examples]."""
        return np.arange(len(self.plan(epoch)))

    def lengths_of(self, epoch: int) -> np.ndarray:
        """Return the number of tokens of each example, including special tokens: [examples]."""
        plan = self.plan(epoch)
        kept_a, kept_b = truncate(plan.length_a, plan.length_b, self._room)
        return kept_a + kept_b + 2 + (kept_b > 0)

    def most_predictions(self, tokens: int, examples: int) -> int:
        """Return an upper bound of masked tokens in a row of so many tokens and examples."""
        # An example has its rounded share, and at least one: less than its share and one more.
        share = int(self.masking.rate * tokens) + examples
        return min(share, examples * self.masking.max_predictions_per_seq)

    # === Statistics ===

    def statistics(self, epoch: int = 0, batches: int | None = 100) -> dict[str, float]:
        """Count tokens, padding, masks and labels over the first batches of an epoch.

        Args:
            epoch: epoch to count.
            batches: number of batches to count, from the first one; None for all of the epoch.

        Returns:
            batches: number of batches counted.
            tokens: tokens in them, including special tokens.
            padding_share: share of padding among all places.
            unknown_share: share of [UNK] among the tokens of the text.
            masks_per_row: mean number of predictions in a row.
            mask_share: share of predictions among the tokens that may be predicted.
            shown_share, replaced_share, kept_share: shares of the predictions whose input is
                [MASK], another token, or the token itself.
            nsp_share or sop_share: share of rows with label 1.
            dropped_share: share of the epoch's examples that were left out to balance the labels.
        """
        figures = super().statistics(epoch, batches)
        is_paired = self.loss in PAIR_LOSSES
        rows = unknown = predicted = shown = kept = positive = 0
        for position in range(int(figures["batches"])):
            x, y, weights = self.batch(epoch, position)
            used = weights[MLM] > 0
            inputs = np.take_along_axis(x[TOKEN_IDS], x[MASK_POSITIONS], axis=1)[used]
            rows += len(x[TOKEN_IDS])
            unknown += int((x[TOKEN_IDS] == self.tokenizer.unk_id).sum())
            predicted += len(inputs)
            shown += int((inputs == self.tokenizer.mask_id).sum())
            kept += int((inputs == y[MLM][used]).sum())
            positive += int(y[self.loss].sum()) if is_paired else 0
        specials = 3 if is_paired else 2
        text, plan = int(figures["tokens"]) - specials * rows, self.plan(epoch)
        figures |= {
            "unknown_share": unknown / max(text, 1),
            "masks_per_row": predicted / rows,
            "mask_share": predicted / max(text - unknown, 1),
            "shown_share": shown / max(predicted, 1),
            "replaced_share": (predicted - shown - kept) / max(predicted, 1),
            "kept_share": kept / max(predicted, 1),
            "dropped_share": plan.dropped / (len(plan) + plan.dropped),
        }
        if is_paired:
            figures[f"{self.loss}_share"] = positive / rows
        return figures

    def _tokens_and_places(self, epoch: int, batches: int) -> tuple[int, int]:
        rows = batches * self.batch_size
        return int(self.lengths_of(epoch)[:rows].sum()), rows * self.sequence_length
