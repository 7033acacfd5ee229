"""Sentence pairs for pretraining: the plan of an epoch, with the two spans of each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.data.counter_rng import Draws, Stream, below, chance
from bert_keras.errors import DataError
from bert_keras.features import NSP, PAIR_LOSSES, SOP

if TYPE_CHECKING:
    from bert_keras.data.corpus import Corpus


class Sentences(NamedTuple):
    """Sentences that fit in a row.

    Sentence i has the tokens from `offsets[i]` up to `offsets[i + 1]` of the corpus. Document i has
    the sentences from `documents[i]` up to `documents[i + 1]`.
    """

    offsets: np.ndarray  # int64 [sentences + 1]
    documents: np.ndarray  # int64 [documents + 1]


def split_long_sentences(corpus: Corpus, max_tokens: int) -> Sentences:
    """Return the offsets of a corpus's sentences, after long sentences are split.

    No tokens are copied.

    Args:
        corpus: tokenised corpus.
        max_tokens: maximum number of tokens of a sentence: the sequence length without special
            tokens. A longer sentence is split into as few pieces as possible. Their lengths
            differ by at most one.

    Returns:
        Offsets of the sentences in the tokens, int64 [sentences + 1], and of the documents in the
        sentences, int64 [documents + 1].
    """
    starts, documents = np.asarray(corpus.sentence_starts), np.asarray(corpus.document_starts)
    lengths = np.diff(starts)
    pieces = -(-lengths // max_tokens)
    # An empty document repeats an offset, and np.unique drops it.
    if np.all(pieces == 1):
        return Sentences(starts, np.unique(documents))
    first_piece = np.concatenate(([0], np.cumsum(pieces)))
    sentence_of = np.repeat(np.arange(len(lengths)), pieces)
    piece_in = np.arange(first_piece[-1], dtype=np.int64) - first_piece[sentence_of]
    # Piece k of p pieces of a sentence of n tokens begins at its token n * k // p.
    cuts = starts[sentence_of] + lengths[sentence_of] * piece_in // pieces[sentence_of]
    return Sentences(np.append(cuts, starts[-1]), np.unique(first_piece[documents]))


def check_sentences(corpus: Corpus, text: Sentences, loss: str) -> None:
    """Raise a `DataError` if a corpus has too few sentences or documents for a loss."""
    received = f"Received: {corpus!r}."
    if len(text.offsets) < 2:
        raise DataError(
            f"The corpus has no text. {received} Prepare it again from files with sentences."
        )
    if loss not in PAIR_LOSSES:
        return
    if np.diff(text.documents).max() < 2:
        raise DataError(
            f'loss="{loss}" needs documents of at least two sentences. {received} '
            'Put blank lines between documents, not between sentences; or use loss="mlm".'
        )
    if loss == NSP and len(text.documents) < 3:
        raise DataError(
            'loss="nsp" needs at least two documents: half of the second segments come from '
            f"another document. {received} "
            'Put blank lines between documents; or use loss="sop" or "mlm".'
        )


# === Plan of an epoch ===
# This follows BERT (Devlin et al., 2019, appendix A.2). A chunk is consecutive sentences of one
# document, up to a target length. A is the beginning of the chunk. B is its rest or, half of the
# time, text from another document; the next chunk then begins with the rest. The differences are:
#
# - A draw depends on the sentence at which its chunk begins, so that a plan is a pure function of
#   (seed, epoch).
# - A chunk has two sentences if its document has two left. BERT's code gives a random B to every
#   chunk of one sentence. If there are still more random Bs than others, some of these examples
#   get the rest of their chunk as B, which the next chunk reads too. So half the labels are 1.
# - B starts at a sentence that is drawn evenly from the sentences of all other documents. If it
#   were drawn evenly from the documents, sentences of short documents would betray the label.


_BLOCK = 2**18  # sentences that are planned at a time, which bounds the memory for draws
_INTEGERS = 8  # random 64-bit integers for each sentence


@dataclass(frozen=True)
class EpochPlan:
    """Examples of an epoch in the order in which they are read: int64 arrays [examples].

    An example has the spans A and B of the corpus, before they are truncated to fit in a row. For
    "mlm" and "rtd" B is empty.
    """

    start_a: np.ndarray  # index of the first token of A in the corpus
    length_a: np.ndarray  # number of tokens of A
    start_b: np.ndarray
    length_b: np.ndarray
    label: np.ndarray  # "nsp": 1 if B is from another document; "sop": 1 if A and B are swapped
    dropped: int = 0  # examples with a random B that were left out to balance the labels

    def __len__(self) -> int:
        return len(self.label)


def plan_epoch(
    text: Sentences, draws: Draws, *, loss: str, room: int, short_seq_prob: float
) -> EpochPlan:
    """Plan the examples of an epoch.

    Args:
        text: sentences of the corpus, checked for the loss by `check_sentences`.
        draws: random integers of the epoch.
        loss: "nsp" and "sop" pair sentences. "mlm" and "rtd" take as many whole sentences of a
            document as fit in a row (RoBERTa's DOC-SENTENCES, Liu et al., 2019, §4.2).
        room: maximum number of tokens in a row without its special tokens.
        short_seq_prob: share of chunks whose target length is drawn from 2 to `room`. The target
            length of the others is `room`.
    """
    blocks: list[_Chunks] = []
    start, num_sentences = 0, len(text.offsets) - 1
    for low in range(0, num_sentences, _BLOCK):
        candidates = np.arange(low, min(low + _BLOCK, num_sentences))
        raw = draws.rows(Stream.PLAN, low, len(candidates), _INTEGERS)
        chunks, target, following = _chunks(text, candidates, raw, loss, room, short_seq_prob)
        chosen, start = _walk(following, low, start)
        chunks = _take(chunks, chosen)
        if loss == NSP:
            chunks = _with_random_b(text, chunks, target[chosen], raw[chosen, 4])
        blocks.append(chunks)
    chunks = _Chunks(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    dropped = 0
    if loss == SOP:  # drop the documents of one sentence, which have no B
        chunks = _take(chunks, np.flatnonzero(chunks.start_b < chunks.stop_b))
    if loss == NSP:
        chunks, dropped = _balance(chunks, draws)
    return _shuffled_plan(text, chunks, draws, loss, dropped)


class _Chunks(NamedTuple):
    """Chunks as indices of sentences, each int64 [chunks]; an end is the index after the last.

    A goes from `start` to `stop_a`, the whole chunk from `start` to `stop`, B from `start_b` to
    `stop_b`. For `label` see `EpochPlan`.
    """

    start: np.ndarray
    stop_a: np.ndarray
    stop: np.ndarray
    start_b: np.ndarray
    stop_b: np.ndarray
    label: np.ndarray


def _take(chunks: _Chunks, rows: np.ndarray) -> _Chunks:
    """Return the chunks with these indices."""
    return _Chunks(*(column[rows] for column in chunks))


def _document_bounds(text: Sentences, sentence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first sentence and the end of the document of each sentence: int64 [N] each."""
    document = np.searchsorted(text.documents, sentence, side="right")
    return text.documents[document - 1], text.documents[document]


def _chunks(
    text: Sentences,
    start: np.ndarray,
    raw: np.ndarray,
    loss: str,
    room: int,
    short_seq_prob: float,
) -> tuple[_Chunks, np.ndarray, np.ndarray]:
    """Return the chunk that would begin at each sentence; `_walk` then chooses among them.

    Args:
        text: sentences of the corpus.
        start: indices of the sentences: int64 [N].
        raw: random 64-bit integers of these sentences: uint64 [N, 8].
        loss: see `plan_epoch`, as for the arguments below.
        room: maximum number of tokens of a chunk.
        short_seq_prob: share of chunks with a random target length.

    Returns:
        The chunks, their target lengths in tokens [N], and the sentence at which the next chunk
        begins [N]: the end of the chunk, or the end of A if B is from another document.
    """
    short = chance(raw[:, 0], short_seq_prob)
    target = np.where(short, 2 + below(raw[:, 1], room - 1), room)
    aim = text.offsets[start] + target
    end = _document_bounds(text, start)[1]
    if loss not in PAIR_LOSSES:
        stop = np.searchsorted(text.offsets, aim, side="right") - 1
        stop = np.minimum(np.maximum(stop, start + 1), end)
        return _Chunks(start, stop, stop, stop, stop, np.zeros_like(start)), target, stop
    stop = np.searchsorted(text.offsets, aim, side="left")
    stop = np.minimum(np.maximum(stop, start + 2), end)
    if loss == SOP:  # the last sentence alone could not be a pair
        stop = np.where(end - stop == 1, end, stop)
    stop_a = start + 1 + below(raw[:, 2], np.maximum(stop - start - 1, 1))
    label = chance(raw[:, 3], 0.5)
    following = stop
    if loss == NSP:
        label |= stop - start == 1
        following = np.where(label, stop_a, stop)
    chunks = _Chunks(start, stop_a, stop, stop_a, stop, label.astype(np.int64))
    return chunks, target, following


def _walk(following: np.ndarray, low: int, start: int) -> tuple[np.ndarray, int]:
    """Follow the chunks from sentence `start` to the end of a block.

    A chunk begins where the one before it says, in the next document too, so that one chain of
    chunks goes through the whole corpus.

    Args:
        following: sentence at which the next chunk begins, for each sentence of the block.
        low: index of the first sentence of the block.
        start: sentence at which the first chunk of the block begins.

    Returns:
        The sentences at which chunks begin, as rows of the block: int64 [chunks], and the sentence
        at which the first chunk of the next block begins.
    """
    links: list[int] = following.tolist()
    chosen: list[int] = []
    while start < low + len(links):
        chosen.append(start - low)
        start = links[start - low]
    return np.array(chosen, np.int64), start


def _with_random_b(
    text: Sentences, chunks: _Chunks, target: np.ndarray, raw: np.ndarray
) -> _Chunks:
    """Give the chunks of label 1 a B from another document, as long as the target length allows.

    Args:
        text: sentences of the corpus.
        chunks: chunks with their own rest as B.
        target: target length of each chunk in tokens, [chunks].
        raw: one random 64-bit integer for each chunk: uint64 [chunks].
    """
    first, end = _document_bounds(text, chunks.start)
    size = end - first
    start_b = below(raw, np.maximum(len(text.offsets) - 1 - size, 1))
    start_b += np.where(start_b >= first, size, 0)
    length_a = text.offsets[chunks.stop_a] - text.offsets[chunks.start]
    aim = text.offsets[start_b] + np.maximum(target - length_a, 1)
    stop_b = np.searchsorted(text.offsets, aim, side="left")
    stop_b = np.minimum(stop_b, _document_bounds(text, start_b)[1])
    random = chunks.label == 1
    return chunks._replace(
        start_b=np.where(random, start_b, chunks.start_b),
        stop_b=np.where(random, stop_b, chunks.stop_b),
    )


def _balance(chunks: _Chunks, draws: Draws) -> tuple[_Chunks, int]:
    """Make half of the labels 0 if more than half of the chunks have a random B.

    First, some of these chunks get their own rest as B again. If that is not enough, mostly because
    of documents of one sentence, other chunks with a random B are left out.

    Returns:
        The chunks, and the number of chunks that are left out.
    """
    random = chunks.label == 1
    surplus = 2 * int(random.sum()) - len(random)
    if surplus < 2:
        return chunks, 0
    keys = draws.keys(Stream.BALANCE, len(random))
    mendable = np.flatnonzero(random & (chunks.stop_a < chunks.stop))
    mended = mendable[np.argsort(keys[mendable], kind="stable")[: surplus // 2]]
    random[mended] = False
    chunks = chunks._replace(
        start_b=np.where(random, chunks.start_b, chunks.stop_a),
        stop_b=np.where(random, chunks.stop_b, chunks.stop),
        label=random.astype(np.int64),
    )
    surplus -= 2 * len(mended)
    if surplus < 2:
        return chunks, 0
    left = np.flatnonzero(random)
    left_out = left[np.argsort(keys[left], kind="stable")[:surplus]]
    return _take(chunks, np.delete(np.arange(len(random)), left_out)), surplus


def _shuffled_plan(
    text: Sentences, chunks: _Chunks, draws: Draws, loss: str, dropped: int
) -> EpochPlan:
    """Convert chunks of sentences to spans of tokens, shuffled. For "sop" swap A and B at label 1.

    Args:
        text: sentences of the corpus.
        chunks: chunks of the epoch, as indices of sentences.
        draws: random integers of the epoch, which give the order.
        loss: "mlm", "rtd", "nsp" or "sop".
        dropped: number of chunks that `_balance` left out.
    """
    order = np.argsort(draws.keys(Stream.ORDER, len(chunks.label)), kind="stable")
    chunk = _take(chunks, order)
    start_a, start_b = text.offsets[chunk.start], text.offsets[chunk.start_b]
    length_a = text.offsets[chunk.stop_a] - start_a
    length_b = text.offsets[chunk.stop_b] - start_b
    if loss == SOP:
        swapped = chunk.label == 1
        start_a, start_b = np.where(swapped, (start_b, start_a), (start_a, start_b))
        length_a, length_b = np.where(swapped, (length_b, length_a), (length_a, length_b))
    return EpochPlan(start_a, length_a, start_b, length_b, chunk.label, dropped)
