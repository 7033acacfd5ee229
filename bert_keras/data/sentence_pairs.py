"""Sentences of a corpus, and the plan of an epoch: the two spans of each example."""

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
    """Sentences of 1 to `room` tokens: offsets into the tokens, and of documents into these."""

    offsets: np.ndarray  # int64 [sentences + 1]
    documents: np.ndarray  # int64 [documents + 1]


def sentences(corpus: Corpus, room: int) -> Sentences:
    """The sentences of a corpus: none empty, and those longer than `room` cut into even pieces."""
    starts, documents = np.asarray(corpus.sentence_starts), np.asarray(corpus.document_starts)
    lengths = np.diff(starts)
    pieces = -(-lengths // room)
    if np.all(pieces == 1):
        return Sentences(starts, np.unique(documents))
    first = np.concatenate(([0], np.cumsum(pieces)))
    sentence = np.repeat(np.arange(len(lengths)), pieces)
    piece = np.arange(first[-1], dtype=np.int64) - first[sentence]
    cuts = starts[sentence] + lengths[sentence] * piece // pieces[sentence]
    return Sentences(np.append(cuts, starts[-1]), np.unique(first[documents]))


def check_sentences(corpus: Corpus, text: Sentences, loss: str) -> None:
    """Raises DataError where the sentences of a corpus cannot be examples of that kind."""
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
# After the recipe of BERT (Devlin et al., 2019, appendix A.2): consecutive sentences of one
# document up to a target length are a chunk; A is its beginning, B its rest or, half of the time,
# text from another document, and then the rest of the chunk is put back. Where this differs, and
# why:
#
# - Draws are keyed by the sentence a chunk begins at, so a plan is a pure function of (seed,
#   epoch).
# - A chunk has two sentences where its document has them: a long or a last sentence is then not
#   forced to a random B. Of the examples that are too many among the random ones still, some get
#   their chunk's rest back as B (which the next chunk reads too), so that labels are half and half.
# - B starts at a sentence drawn evenly from all other documents, not evenly from documents: else
#   sentences of short documents would give the label away.


_BLOCK = 2**18  # sentences planned at a time: bounds the memory for draws
_WORDS = 8  # raw words per sentence


@dataclass(frozen=True)
class EpochPlan:
    """The examples of an epoch, in the order they are read: arrays [examples].

    Spans are offsets into the corpus and lengths in tokens, not truncated. Labels: for "nsp"
    1 = B is from another document, for "sop" 1 = swapped. `dropped`: how many examples with a
    random B were left out because too few had a follower.
    """

    start_a: np.ndarray
    length_a: np.ndarray
    start_b: np.ndarray
    length_b: np.ndarray
    label: np.ndarray
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.label)


def plan_epoch(
    text: Sentences, draws: Draws, *, loss: str, room: int, short_seq_prob: float
) -> EpochPlan:
    """Plans one epoch.

    Args:
        text: the sentences, checked for the loss.
        draws: the random words of the epoch.
        loss: "nsp" and "sop" pair sentences; the others take as many whole sentences of a
            document as fit (RoBERTa's DOC-SENTENCES, Liu et al., 2019, §4.2).
        room: tokens in a row beside its special tokens.
        short_seq_prob: share of chunks whose target is drawn from 2..room; the others aim at
            `room`.
    """
    blocks: list[_Chunks] = []
    start, num_sentences = 0, len(text.offsets) - 1
    for low in range(0, num_sentences, _BLOCK):
        candidates = np.arange(low, min(low + _BLOCK, num_sentences))
        raw = draws.rows(Stream.PLAN, low, len(candidates), _WORDS)
        chunks, target, following = _chunks(text, candidates, raw, loss, room, short_seq_prob)
        chosen, start = _walk(following, low, start)
        chunks = _take(chunks, chosen)
        if loss == NSP:
            chunks = _with_random_b(text, chunks, target[chosen], raw[chosen, 4])
        blocks.append(chunks)
    chunks = _Chunks(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    dropped = 0
    if loss == SOP:  # documents of one sentence
        chunks = _take(chunks, np.flatnonzero(chunks.start_b < chunks.stop_b))
    if loss == NSP:
        chunks, dropped = _balance(chunks, draws)
    return _in_order(text, chunks, draws, loss, dropped)


class _Chunks(NamedTuple):
    """Sentence numbers [chunks]: A is start to stop_a; its chunk goes on to stop."""

    start: np.ndarray
    stop_a: np.ndarray
    stop: np.ndarray
    start_b: np.ndarray
    stop_b: np.ndarray
    label: np.ndarray


def _take(chunks: _Chunks, rows: np.ndarray) -> _Chunks:
    return _Chunks(*(column[rows] for column in chunks))


def _document_bounds(text: Sentences, sentence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    """The chunk that would begin at each of `start`, its target, and where the next one begins."""
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
    """The chunks reached from sentence `start`, as rows, and where the next block's first begins.

    A document ends where the next one begins, so one chain of links runs through the whole corpus.
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
    """Gives the chunks of label 1 a B from another document, as long as the target leaves room."""
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
    """Makes labels half and half where last sentences gave too many random Bs.

    First some chunks get their own rest back as B; where that is not enough (mostly documents of
    one sentence), examples with a random B are left out. Returns also how many.
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


def _in_order(text: Sentences, chunks: _Chunks, draws: Draws, loss: str, dropped: int) -> EpochPlan:
    """Spans in tokens, in the order of a stateless permutation."""
    order = np.argsort(draws.keys(Stream.ORDER, len(chunks.label)), kind="stable")
    start, stop_a, _, start_b, stop_b, label = _take(chunks, order)
    start_a, start_b = text.offsets[start], text.offsets[start_b]
    length_a, length_b = text.offsets[stop_a] - start_a, text.offsets[stop_b] - start_b
    if loss == SOP:
        swapped = label == 1
        start_a, start_b = np.where(swapped, (start_b, start_a), (start_a, start_b))
        length_a, length_b = np.where(swapped, (length_b, length_a), (length_a, length_b))
    return EpochPlan(start_a, length_a, start_b, length_b, label, dropped)
