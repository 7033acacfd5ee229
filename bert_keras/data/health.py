"""Statistics of the batches of a corpus, counted for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bert_keras.features import (
    MASK_POSITIONS,
    MLM,
    PADDING_MASK,
    PAIR_LOSSES,
    TOKEN_IDS,
)

if TYPE_CHECKING:
    from bert_keras.data.pretraining import PretrainingExamples


def statistics(examples: PretrainingExamples, epoch: int, batches: int) -> dict[str, float]:
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
