"""The sentences of a corpus as examples are made of them: never empty, never longer than a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.errors import DataError
from bert_keras.features import NSP, PAIR_LOSSES

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
    piece = np.arange(first[-1]) - first[sentence]
    cuts = starts[sentence] + lengths[sentence] * piece // pieces[sentence]
    return Sentences(np.append(cuts, starts[-1]), np.unique(first[documents]))


def check(corpus: Corpus, text: Sentences, loss: str) -> None:
    """Raises DataError where the sentences of a corpus cannot be examples of that kind."""
    received = f"Received: {corpus!r}."
    if len(text.offsets) < 2:
        raise DataError(f"The corpus has no text. {received} Prepare it again, from text.")
    if loss not in PAIR_LOSSES:
        return
    if np.diff(text.documents).max() < 2:
        raise DataError(
            f'loss="{loss}" needs documents of at least two sentences. {received} '
            'Put blank lines between documents, not between sentences; or use loss="mlm".'
        )
    if loss == NSP and len(text.documents) < 3:
        raise DataError(
            f'loss="nsp" takes half of its second segments from other documents. {received} '
            'Put blank lines between documents; or use loss="sop" or "mlm".'
        )
