"""Pretraining batches: their content, which (seed, epoch, position) determines."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bert_keras.data import pretraining
from bert_keras.data.batches import Batch
from bert_keras.data.corpus import Corpus
from bert_keras.data.pretraining import LOSSES, PretrainingExamples
from bert_keras.errors import DataError
from bert_keras.tokenizers import Tokenizer

LENGTH, SIZE = 24, 8
NUM_TOKENS = 20_000


def documents(seed: int = 0) -> list[list[list[int]]]:
    """Return documents in which each token has its own id, in order.

    An id therefore tells the token's place in the corpus.
    """
    rng, found, next_id = np.random.default_rng(seed), [], 5
    while next_id < NUM_TOKENS:
        lengths = rng.integers(1, 40, rng.integers(1, 20))
        edges = next_id + np.cumsum([0, *lengths])
        next_id = int(edges[-1])
        found.append([list(range(a, b)) for a, b in pairwise(edges)])
    return found


CORPUS = Corpus.from_ids(documents())
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENIZER = Tokenizer([*SPECIALS, *(f"t{n}" for n in range(CORPUS.num_tokens))])
PAD, _, CLS, SEP, _ = TOKENIZER.special_ids


def examples(**options: Any) -> PretrainingExamples:
    return PretrainingExamples(
        CORPUS, TOKENIZER, **{"sequence_length": LENGTH, "batch_size": SIZE, **options}
    )


def assert_same(one: Batch, other: Batch) -> None:
    """Check that two batches have the same names, dtypes and values, in the same order."""
    for part, same in zip(one, other, strict=True):
        assert list(part) == list(same)
        for name in part:
            np.testing.assert_array_equal(part[name], same[name], strict=True)


def revealed(batch: Batch) -> np.ndarray:
    """Return the token ids as they were before masking."""
    x, y, weights = batch
    ids = x["token_ids"].copy()
    rows, slots = np.nonzero(weights["mlm"])
    ids[rows, x["mask_positions"][rows, slots]] = y["mlm"][rows, slots]
    return ids


def segments(ids: np.ndarray) -> list[np.ndarray]:
    """Return the segments of a row, without its special tokens."""
    row = ids[ids != PAD]
    assert row[0] == CLS
    assert row[-1] == SEP
    return np.split(row[1:-1], np.flatnonzero(row[1:-1] == SEP))


def document(token_id: int) -> int:
    place = np.searchsorted(CORPUS.sentence_starts, token_id - 5, side="right") - 1
    return int(np.searchsorted(CORPUS.document_starts, place, side="right"))


@pytest.mark.parametrize("loss", LOSSES)
def test_names_shapes_and_types(loss: str) -> None:
    x, y, weights = examples(loss=loss).batch(0, 0)
    predictions = 4  # The number is ceil(0.15 * 24).
    shapes = {name: (array.shape, array.dtype.name) for name, array in x.items()}
    row, slots = ((SIZE, LENGTH), "int32"), ((SIZE, predictions), "int32")
    assert shapes == {
        "token_ids": row,
        "segment_ids": row,
        "padding_mask": row,
        "mask_positions": slots,
    }
    shapes = {name: (array.shape, array.dtype.name) for name, array in y.items()}
    size = (SIZE, LENGTH) if loss == "rtd" else (SIZE,)
    beside = {} if loss == "mlm" else {loss: (size, "int32")}
    assert shapes == {"mlm": slots, **beside}
    shapes = {name: (array.shape, array.dtype.name) for name, array in weights.items()}
    beside = {} if loss == "mlm" else {loss: (size, "float32")}
    assert shapes == {"mlm": ((SIZE, predictions), "float32"), **beside}
    if loss in ("nsp", "sop"):
        assert (weights[loss] == 1).all()


def test_labels_of_replaced_tokens_are_the_tokens_before_masking() -> None:
    x, y, weights = batch = examples(loss="rtd").batch(0, 0)
    np.testing.assert_array_equal(y["rtd"], revealed(batch))
    np.testing.assert_array_equal(weights["rtd"], x["padding_mask"])
    assert (x["token_ids"] != y["rtd"]).any()
    x_mlm, y_mlm, weights_mlm = examples(loss="mlm").batch(0, 0)
    assert_same((x_mlm, y_mlm, weights_mlm), (x, {"mlm": y["mlm"]}, {"mlm": weights["mlm"]}))


def test_next_sentence_rows_are_what_their_labels_say() -> None:
    source = examples()
    labels = []
    for position in range(40):
        batch = source.batch(0, position)
        for row, ids in enumerate(revealed(batch)):
            a, b = segments(ids)
            b = b[1:]
            assert len(a) >= 1
            assert len(b) >= 1
            assert (np.diff(a) == 1).all()
            assert (np.diff(b) == 1).all()
            label = batch[1]["nsp"][row]
            labels.append(label)
            if label == 0:
                assert a[-1] < b[0]
                assert document(a[0]) == document(b[0])
                # Segments are not adjacent only if truncation removed tokens between them.
                assert b[0] == a[-1] + 1 or len(a) + len(b) == LENGTH - 3
            else:
                assert document(a[0]) != document(b[0])
            ones = batch[0]["segment_ids"][row]
            assert ones.sum() == len(b) + 1
            assert (ids[ones == 1][:-1] == b).all()
            np.testing.assert_array_equal(batch[0]["padding_mask"][row], ids != PAD)
    assert abs(np.mean(labels) - 0.5) < 5 * np.sqrt(0.25 / len(labels))


def test_sentence_order_rows_are_what_their_labels_say() -> None:
    source = examples(loss="sop")
    for position in range(20):
        batch = source.batch(0, position)
        for row, ids in enumerate(revealed(batch)):
            a, b = segments(ids)
            assert (a[0] > b[1]) == batch[1]["sop"][row]
            assert document(a[0]) == document(b[1])


def test_full_sentences_are_one_segment_of_one_document() -> None:
    source = examples(loss="mlm")
    for position in range(20):
        batch = source.batch(0, position)
        assert not batch[0]["segment_ids"].any()
        for ids in revealed(batch):
            (text,) = segments(ids)
            assert (np.diff(text) == 1).all()
            assert document(text[0]) == document(text[-1])


@pytest.mark.parametrize("loss", LOSSES)
def test_every_sentence_is_read_sooner_or_later(loss: str) -> None:
    source = examples(loss=loss, sequence_length=64)
    sizes = np.diff(CORPUS.document_starts)
    # Sentence order needs documents of at least two sentences.
    unread = np.repeat(sizes, sizes) > (loss == "sop")
    for epoch in range(40):
        seen = np.zeros(TOKENIZER.vocab_size, bool)
        for position in range(source.num_batches(epoch)):
            seen[revealed(source.batch(epoch, position))] = True
        tokens = seen[5 : 5 + CORPUS.num_tokens]
        unread &= ~np.logical_or.reduceat(tokens, CORPUS.sentence_starts[:-1])
        if not unread.any():
            break
    assert not unread.any()


def test_truncation_takes_from_both_ends() -> None:
    source, starts = examples(short_seq_prob=0.0), set((CORPUS.sentence_starts + 5).tolist())
    front = back = 0
    for position in range(40):
        for ids in revealed(source.batch(0, position)):
            a = segments(ids)[0]
            front += a[0] not in starts
            back += a[-1] + 1 not in starts
    assert abs(front - back) < 5 * np.sqrt(front + back)
    assert min(front, back) > 20


@pytest.mark.parametrize("masking", ["token", "whole_word", "span"])
def test_a_batch_depends_on_nothing_that_was_read_before(masking: str) -> None:
    first, second = examples(masking=masking, seed=7), examples(masking=masking, seed=7)
    places = [(0, 3), (2, 1), (0, 0), (5, 2), (0, 3), (1, 9)]
    kept = {place: first.batch(*place) for place in places}
    for place in reversed(places):
        assert_same(kept[place], second.batch(*place))


def test_an_example_does_not_depend_on_the_batch_size() -> None:
    small, large = examples(batch_size=4), examples(batch_size=12)
    for part in range(3):
        x, y, weights = large.batch(1, 2)
        rows = slice(4 * part, 4 * part + 4)
        cut = tuple({k: v[rows] for k, v in group.items()} for group in (x, y, weights))
        assert_same((cut[0], cut[1], cut[2]), small.batch(1, 6 + part))


def test_seed_and_epoch_give_other_pairs_and_other_masks() -> None:
    source = examples()
    batches = [source.batch(0, 0), source.batch(1, 0), examples(seed=1).batch(0, 0)]
    ids = {revealed(batch).tobytes() for batch in batches}
    positions = {batch[0]["mask_positions"].tobytes() for batch in batches}
    assert len(ids) == len(positions) == 3


def test_threads_read_the_same() -> None:
    source, found, failed = examples(), {}, []
    expected = {
        place: examples().batch(*place) for place in [(e, p) for e in range(4) for p in (0, 5)]
    }

    def read(places) -> None:
        try:
            found.update({place: source.batch(*place) for place in places})
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(list(expected)[n::3],)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for place, batch in expected.items():
        assert_same(found[place], batch)


def test_the_examples_of_an_epoch_are_all_different() -> None:
    plan = examples().plan(0)
    assert len(np.unique(plan.start_a)) == len(plan)
    assert examples().num_batches(0) == len(plan) // SIZE


def test_locate_counts_batches_over_epochs() -> None:
    source = examples()
    first, second = source.num_batches(0), source.num_batches(1)
    assert source.locate(0, 0, 0) == (0, 0)
    assert source.locate(0, 2, 3) == (0, 5)
    assert source.locate(0, 0, first) == (1, 0)
    assert source.locate(0, first - 1, second + 4) == (2, 3)
    assert source.locate(1, second, 0) == (2, 0)
    walked = (0, 0)
    for _ in range(first + second + 2):
        walked = source.locate(*walked, 1)
    assert walked == source.locate(0, 0, first + second + 2) == (2, 2)
    with pytest.raises(ValueError, match="steps=-1"):
        source.locate(0, 0, -1)


def test_a_place_outside_the_epoch_is_an_error() -> None:
    source = examples()
    for position in (-1, source.num_batches(0)):
        with pytest.raises(IndexError, match=f"{source.num_batches(0)} batches.*{position}"):
            source.batch(0, position)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "nsq"}, r"loss must be one of .* Received: 'nsq'"),
        ({"sequence_length": 4}, r"sequence_length must be in \[5, 65535\]. Received: 4"),
        ({"sequence_length": 2**16}, "Received: 65536"),
        ({"batch_size": 0}, "batch_size must be at least 1. Received: batch_size=0"),
        ({"short_seq_prob": 1.5}, r"short_seq_prob must be in \[0, 1\]. Received: 1.5"),
        ({"mask_rate": 0.0}, "mask_rate must be above 0 and below 1. Received: 0.0"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq must be at least 1. Received: 0"),
        ({"masking": "words"}, "masking must be one of .* Received: 'words'"),
        ({"seed": -1}, "seed must be in .* Received: -1"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        examples(**options)


def test_a_corpus_smaller_than_a_batch_is_an_error_and_no_endless_loop() -> None:
    corpus = Corpus.from_ids([[[5, 6], [7]], [[8]]])
    source = PretrainingExamples(corpus, TOKENIZER, batch_size=SIZE)
    with pytest.raises(DataError, match=r"fewer .*Received: .*, \d examples .*batch_size=8"):
        source.locate(0, 0, 1)
    assert PretrainingExamples(corpus, TOKENIZER, batch_size=1).num_batches(0) >= 1


def test_the_tokenizer_must_be_the_one_that_made_the_corpus() -> None:
    about = {"fingerprint": Tokenizer([*SPECIALS, "other"]).fingerprint, "vocab_size": 6}
    corpus = replace(CORPUS, manifest=CORPUS.manifest | {"tokenizer": about})
    with pytest.raises(DataError, match=r"another tokenizer.*6 tokens.*Tokenizer\("):
        PretrainingExamples(corpus, TOKENIZER)
    about = {"fingerprint": TOKENIZER.fingerprint, "vocab_size": TOKENIZER.vocab_size}
    PretrainingExamples(replace(CORPUS, manifest={"tokenizer": about}), TOKENIZER)


def test_a_corpus_without_pairs_is_an_error() -> None:
    with pytest.raises(DataError, match="mlm"):
        PretrainingExamples(Corpus.from_ids([[[5, 6, 7]]]), TOKENIZER)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_shortest_rows_work(loss: str) -> None:
    source = examples(loss=loss, sequence_length=5)
    x, _, weights = source.batch(0, 0)
    assert x["token_ids"].shape == (SIZE, 5)
    assert weights["mlm"].shape == (SIZE, 1)
    assert weights["mlm"].all()


def test_one_endless_sentence_per_document_works() -> None:
    corpus = Corpus.from_ids([[list(range(5, 5000))], [list(range(5000, 9000))]])
    source = PretrainingExamples(corpus, TOKENIZER, sequence_length=32, batch_size=8)
    assert revealed(source.batch(0, 0)).shape == (8, 32)
    assert source.statistics(0, 5)["padding_share"] < 0.2


def test_batches_of_all_groups_are_those_of_their_examples(monkeypatch: pytest.MonkeyPatch):
    group = 3
    monkeypatch.setattr(pretraining, "_TOKENS_AT_ONCE", group * SIZE * LENGTH)
    source = examples()
    count = source.num_batches(0)
    assert count > 2 * group
    for position in range(count):
        numbers = np.arange(position * SIZE, (position + 1) * SIZE)
        assert_same(source.batch(0, position), source.batch_of(0, numbers))
