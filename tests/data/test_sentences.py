"""The sentence table: what is dropped, what is cut, and which corpora give no examples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data.corpus import Corpus
from bert_keras.data.sentences import check, sentences
from bert_keras.errors import DataError


def corpus(*documents: list[int]) -> Corpus:
    """Documents given by the lengths of their sentences."""
    return Corpus.from_ids([[[5] * length for length in lengths] for lengths in documents])


def table(sentence_starts: np.ndarray, document_starts: np.ndarray) -> Any:
    """Return a corpus with the two arrays that `sentences` reads."""
    return SimpleNamespace(sentence_starts=sentence_starts, document_starts=document_starts)


def test_plain_sentences_are_taken_as_they_are() -> None:
    text = sentences(corpus([3, 4], [5]), room=5)
    assert text.offsets.tolist() == [0, 3, 7, 12]
    assert text.documents.tolist() == [0, 2, 3]


def test_a_sentence_longer_than_a_row_is_cut_into_even_pieces() -> None:
    text = sentences(corpus([3, 11], [2]), room=5)
    assert np.diff(text.offsets).tolist() == [3, 3, 4, 4, 2]
    assert text.documents.tolist() == [0, 4, 5]


@given(
    documents=st.lists(
        st.lists(st.integers(0, 30), min_size=1, max_size=5), min_size=1, max_size=5
    ),
    room=st.integers(2, 9),
)
def test_no_token_is_lost_and_no_document_mixed(documents: list[list[int]], room: int) -> None:
    starts = np.cumsum([0, *(length for lengths in documents for length in lengths)])
    edges = np.cumsum([0, *(len(lengths) for lengths in documents)])
    text = sentences(table(starts, edges), room)
    lengths = np.diff(text.offsets)
    assert text.offsets[0] == 0
    assert text.offsets[-1] == starts[-1]
    assert ((lengths >= 1) & (lengths <= room)).all()
    assert set(starts.tolist()) <= set(text.offsets.tolist())
    ends = {int(starts[edge]) for edge in edges}
    assert set(text.offsets[text.documents].tolist()) == ends


@pytest.mark.parametrize("loss", ["nsp", "sop", "mlm"])
def test_a_corpus_without_text_is_refused(loss: str) -> None:
    empty = Corpus.from_ids([])
    with pytest.raises(DataError, match=r"no text.*Received: .*0 documents, 0 sentences"):
        check(empty, sentences(empty, room=9), loss)


@pytest.mark.parametrize(
    ("documents", "loss", "message"),
    [
        ([[4]], "nsp", "1 documents, 1 sentences.*blank lines.*mlm"),
        ([[4]], "sop", "1 documents, 1 sentences.*blank lines.*mlm"),
        ([[4], [3], [2]], "nsp", "3 documents, 3 sentences.*mlm"),
        ([[4, 3, 2]], "nsp", "other documents.*1 documents, 3 sentences.*sop"),
    ],
)
def test_a_corpus_that_gives_no_pairs_says_what_to_do(
    documents: list[list[int]], loss: str, message: str
) -> None:
    found = corpus(*documents)
    text = sentences(found, room=9)
    with pytest.raises(DataError, match=message):
        check(found, text, loss)
    check(found, text, "mlm")


@pytest.mark.parametrize(
    ("documents", "loss"), [([[1, 1], [1]], "nsp"), ([[1, 1]], "sop"), ([[1]], "mlm")]
)
def test_the_smallest_corpora_that_do(documents: list[list[int]], loss: str) -> None:
    found = corpus(*documents)
    check(found, sentences(found, room=9), loss)
