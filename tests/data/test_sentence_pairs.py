"""The sentence table: dropped and cut sentences, and corpora that give no examples."""

from __future__ import annotations

from dataclasses import astuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data import sentence_pairs
from bert_keras.data.corpus import Corpus
from bert_keras.data.counter_rng import Draws
from bert_keras.data.sentence_pairs import (
    EpochPlan,
    Sentences,
    check_sentences,
    plan_epoch,
    split_long_sentences,
)
from bert_keras.errors import DataError


def corpus(*documents: list[int]) -> Corpus:
    """Return a corpus of documents, each given by the lengths of its sentences."""
    return Corpus.from_ids([[[5] * length for length in lengths] for lengths in documents])


def table(sentence_starts: np.ndarray, document_starts: np.ndarray) -> Any:
    """Return a stand-in for a corpus with the two arrays that `split_long_sentences` reads."""
    return SimpleNamespace(sentence_starts=sentence_starts, document_starts=document_starts)


def test_plain_sentences_are_taken_as_they_are() -> None:
    text = split_long_sentences(corpus([3, 4], [5]), max_tokens=5)
    assert text.offsets.tolist() == [0, 3, 7, 12]
    assert text.documents.tolist() == [0, 2, 3]


def test_a_sentence_longer_than_a_row_is_cut_into_even_pieces() -> None:
    text = split_long_sentences(corpus([3, 11], [2]), max_tokens=5)
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
    text = split_long_sentences(table(starts, edges), room)
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
        check_sentences(empty, split_long_sentences(empty, max_tokens=9), loss)


@pytest.mark.parametrize(
    ("documents", "loss", "message"),
    [
        ([[4]], "nsp", "1 documents, 1 sentences.*blank lines.*mlm"),
        ([[4]], "sop", "1 documents, 1 sentences.*blank lines.*mlm"),
        ([[4], [3], [2]], "nsp", "3 documents, 3 sentences.*mlm"),
        ([[4, 3, 2]], "nsp", "another document.*1 documents, 3 sentences.*sop"),
    ],
)
def test_a_corpus_that_gives_no_pairs_says_what_to_do(
    documents: list[list[int]], loss: str, message: str
) -> None:
    found = corpus(*documents)
    text = split_long_sentences(found, max_tokens=9)
    with pytest.raises(DataError, match=message):
        check_sentences(found, text, loss)
    check_sentences(found, text, "mlm")


@pytest.mark.parametrize(
    ("documents", "loss"), [([[1, 1], [1]], "nsp"), ([[1, 1]], "sop"), ([[1]], "mlm")]
)
def test_the_smallest_corpora_that_do(documents: list[list[int]], loss: str) -> None:
    """The smallest valid corpora give a sentence table."""
    found = corpus(*documents)
    check_sentences(found, split_long_sentences(found, max_tokens=9), loss)


# === The plan of an epoch: pairs, random sentences, and full coverage ===


ROOM = 20


def text_of(*documents: list[int]) -> Sentences:
    """Return a text of documents, each given by the lengths of its sentences in tokens."""
    lengths = [length for document in documents for length in document]
    sizes = [len(document) for document in documents]
    return Sentences(np.cumsum([0, *lengths]), np.cumsum([0, *sizes]))


def random_text(documents: int, seed: int = 0, longest: int = ROOM) -> Sentences:
    rng = np.random.default_rng(seed)
    return text_of(
        *(rng.integers(1, longest + 1, rng.integers(1, 30)).tolist() for _ in range(documents))
    )


def plan_of(text: Sentences, loss: str = "nsp", seed: int = 0, epoch: int = 0, short=0.1):
    return plan_epoch(text, Draws(seed, epoch), loss=loss, room=ROOM, short_seq_prob=short)


def document(text: Sentences, offset: np.ndarray) -> np.ndarray:
    return np.searchsorted(text.offsets[text.documents], offset, side="right")


def covered(text: Sentences, plan: EpochPlan) -> np.ndarray:
    """Return the number of examples that contain each token."""
    change = np.zeros(text.offsets[-1] + 1, np.int64)
    for start, length in ((plan.start_a, plan.length_a), (plan.start_b, plan.length_b)):
        np.add.at(change, start, 1)
        np.add.at(change, start + length, -1)
    return np.cumsum(change)[:-1]


def assert_spans_are_sentences(text: Sentences, plan: EpochPlan) -> None:
    """Check that each segment consists of whole sentences of one document."""
    for start, length in ((plan.start_a, plan.length_a), (plan.start_b, plan.length_b)):
        assert np.isin(start, text.offsets).all()
        assert np.isin(start + length, text.offsets).all()
        some = length > 0
        assert (document(text, start) == document(text, start + length - 1))[some].all()


documents = st.lists(
    st.lists(st.integers(1, ROOM), min_size=1, max_size=8), min_size=2, max_size=6
).filter(lambda found: max(map(len, found)) > 1)


@given(found=documents, seed=st.integers(0, 99), short=st.sampled_from([0.0, 0.1, 1.0]))
def test_the_laws_of_next_sentence_pairs(found: list[list[int]], seed: int, short: float) -> None:
    text = text_of(*found)
    plan = plan_of(text, seed=seed, short=short)
    follows = plan.label == 0
    assert_spans_are_sentences(text, plan)
    assert set(plan.label.tolist()) <= {0, 1}
    assert (plan.length_a > 0).all()
    assert (plan.length_b > 0).all()
    assert (plan.start_b == plan.start_a + plan.length_a)[follows].all()
    other = document(text, plan.start_a) != document(text, plan.start_b)
    assert (other == ~follows).all()
    # An example exceeds the room by two sentences at most. `PretrainingExamples` draws enough
    # random bits to truncate that many.
    assert (plan.length_a + plan.length_b <= 3 * ROOM).all()
    # Surplus random second sentences are replaced. A shortage is left to chance.
    assert plan.label.sum() <= (len(plan) + 1) // 2
    if not plan.dropped:
        assert (covered(text, plan) > 0).all()


@given(found=documents, seed=st.integers(0, 99))
def test_the_laws_of_sentence_order_pairs(found: list[list[int]], seed: int) -> None:
    text = text_of(*found)
    plan = plan_of(text, "sop", seed)
    swapped = plan.label == 1
    assert_spans_are_sentences(text, plan)
    assert (plan.length_a > 0).all()
    assert (plan.length_b > 0).all()
    assert (plan.start_b == plan.start_a + plan.length_a)[~swapped].all()
    assert (plan.start_a == plan.start_b + plan.length_b)[swapped].all()
    assert (plan.length_a + plan.length_b <= 3 * ROOM).all()
    alone = np.repeat([len(lengths) == 1 for lengths in found], [sum(d) for d in found])
    np.testing.assert_array_equal(covered(text, plan), ~alone)


@given(found=documents, seed=st.integers(0, 99))
def test_the_laws_of_full_sentences(found: list[list[int]], seed: int) -> None:
    text = text_of(*found)
    plan = plan_of(text, "mlm", seed)
    assert_spans_are_sentences(text, plan)
    assert (plan.length_a <= ROOM).all()
    assert (plan.length_b == 0).all()
    assert (covered(text, plan) == 1).all()


def test_full_sentences_fill_the_row() -> None:
    text = random_text(40)
    plan = plan_of(text, "mlm", short=0.0)
    ends = np.searchsorted(text.offsets, plan.start_a + plan.length_a)
    more = text.offsets[np.minimum(ends + 1, len(text.offsets) - 1)] - plan.start_a > ROOM
    assert (more | np.isin(ends, text.documents)).all()


def test_labels_are_half_and_half() -> None:
    plan = plan_of(random_text(2000))
    assert len(plan) > 10_000
    assert plan.dropped == 0
    assert abs(int(plan.label.sum()) * 2 - len(plan)) <= 1
    swapped = plan_of(random_text(2000), "sop").label
    assert abs(swapped.mean() - 0.5) < 5 * np.sqrt(0.25 / len(swapped))


def test_labels_are_half_and_half_even_where_hardly_anything_follows() -> None:
    text = text_of(*([5], [6], [7]) * 300, [4, 4, 4, 4])
    plan = plan_of(text)
    assert 2 * plan.label.sum() - len(plan) in (0, 1)
    assert 0 in plan.label
    assert plan.dropped > 800


def test_one_target_in_ten_is_shorter() -> None:
    """One example in ten has a shorter target length.

    Sentences of one token make the length of the example equal to its target.
    """
    plan = plan_of(text_of(*([1] * 60_000,) * 2), "mlm")
    short = plan.length_a[plan.length_a < ROOM]
    expected = 0.1 * (1 - 1 / (ROOM - 1))
    assert abs(len(short) / len(plan) - expected) < 5 * np.sqrt(expected / len(plan))
    assert set(short.tolist()) == set(range(2, ROOM))
    pair = plan_of(text_of(*([1] * 60_000,) * 2))
    assert (pair.length_a + pair.length_b <= ROOM).all()
    share = (pair.length_a + pair.length_b < ROOM).mean()
    assert abs(share - expected) < 5 * np.sqrt(expected / len(pair))


def test_a_is_any_beginning_of_its_chunk() -> None:
    """The first segment has each possible number of sentences equally often."""
    plan = plan_of(text_of(*([4] * 20_000,) * 2), short=0.0)
    counts = np.bincount(plan.length_a // 4, minlength=5)[1:5]
    assert np.abs(counts - len(plan) / 4).max() < 5 * np.sqrt(len(plan) * 3 / 16)


def test_random_text_comes_evenly_from_the_sentences_of_other_documents() -> None:
    text = text_of([5] * 900, [5] * 3000, [5] * 6000)
    counts = np.zeros((4, 4))
    for epoch in range(4):
        plan = plan_of(text, epoch=epoch)
        random = plan.label == 1
        places = document(text, plan.start_a[random]), document(text, plan.start_b[random])
        np.add.at(counts, places, 1)
    share = counts[3, 1] / counts[3].sum()
    assert abs(share - 900 / 3900) < 5 * np.sqrt(0.2 / counts[3].sum())


def test_a_plan_is_a_function_of_seed_and_epoch() -> None:
    text = random_text(50)
    plans = {(s, e): plan_of(text, seed=s, epoch=e) for s in (0, 1) for e in (0, 1)}
    again = plan_of(text, seed=1, epoch=0)
    for one, other in zip(astuple(plans[1, 0])[:-1], astuple(again)[:-1], strict=True):
        np.testing.assert_array_equal(one, other)
    pairs_of = [
        frozenset(zip(plan.start_a.tolist(), plan.start_b.tolist(), strict=True))
        for plan in plans.values()
    ]
    assert len(set(pairs_of)) == 4
    assert plans[0, 0].start_a.tolist() != sorted(plans[0, 0].start_a.tolist())


@pytest.mark.parametrize("loss", ["nsp", "sop", "mlm", "rtd"])
def test_planning_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    text = random_text(50)
    whole = plan_of(text, loss)
    monkeypatch.setattr(sentence_pairs, "_BLOCK", 7)
    for one, other in zip(astuple(whole), astuple(plan_of(text, loss)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_sentence_begins_an_a_and_a_random_b_in_some_epoch() -> None:
    """Each sentence begins a first segment and a random second one in some epoch."""
    text = random_text(6)
    begins: dict[int, set[int]] = {0: set(), 1: set()}
    for epoch in range(200):
        plan = plan_of(text, epoch=epoch)
        begins[0] |= set(plan.start_a.tolist())
        begins[1] |= set(plan.start_b[plan.label == 1].tolist())
    every = set(text.offsets[:-1].tolist())
    assert begins == {0: every, 1: every}
