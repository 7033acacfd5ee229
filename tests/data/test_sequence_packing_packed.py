"""Batches of packed rows: each example once in an epoch, and repeatable with a seed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.corpus import Corpus
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.pretraining import PretrainingExamples
from bert_keras.data.sequence_packing import PackedExamples
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.tokenizers import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))])


def supervised(count: int = 100, **options: Any) -> SupervisedExamples:
    """Return examples whose tokens identify them: example n has only the id n + 1."""
    lengths = np.random.default_rng(0).integers(1, 33, count * (options.get("group") or 1))
    ids = [np.full(length, number + 1) for number, length in enumerate(lengths)]
    rows = EncodedTexts.of(ids, [np.arange(len(row)) % 2 for row in ids], pad_id=0)
    if "group" not in options:
        options["token_labels"] = {"tags": np.arange(len(rows.token_ids))}
    return SupervisedExamples(rows, {"label": np.arange(count)}, **{"seed": 3, **options})


def pretraining(loss: str = "nsp", **options: Any) -> PretrainingExamples:
    """Return pretraining examples of a small random corpus."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, (8, 6)).tolist()
    corpus = Corpus.from_ids([[rng.integers(5, 50, n).tolist() for n in row] for row in sizes])
    values = {"sequence_length": 32, "batch_size": 4, "short_seq_prob": 0.8, "seed": 3}
    return PretrainingExamples(corpus, TOKENIZER, loss=loss, **{**values, **options})


def packed(source: Any = None, **options: Any) -> PackedExamples:
    options = {"sequence_length": 64, "batch_size": 4, **options}
    return PackedExamples(source or supervised(), **options)


def all_of(source: PackedExamples, epoch: int = 0) -> list[Any]:
    return [source.batch(epoch, position) for position in range(source.num_batches(epoch))]


def examples_of(batch: Any) -> list[int]:
    """Return the numbers of the examples in a batch of `supervised`, read from their tokens."""
    x, y, weights = batch
    first = np.take_along_axis(x["token_ids"], x["first_positions"], axis=1)
    used = weights["label"] > 0
    np.testing.assert_array_equal(first[used] - 1, y["label"][used])
    return y["label"][used].tolist()


def assert_same(one: Any, other: Any) -> None:
    """Check that two batches have the same names, dtypes and values."""
    for part, same in zip(one, other, strict=True):
        assert sorted(part) == sorted(same)
        for name in part:
            np.testing.assert_array_equal(part[name], same[name], strict=True)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 90),
    batch_size=st.integers(1, 9),
    row_length=st.integers(32, 80),
    most=st.none() | st.integers(1, 5),
    seed=st.none() | st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 5),
)
def test_every_example_once_in_an_epoch(
    count: int, batch_size: int, row_length: int, most: int | None, seed: int | None, epoch: int
) -> None:
    source = supervised(count, seed=seed)
    rows = packed(source, sequence_length=row_length, batch_size=batch_size, max_examples=most)
    found = [number for batch in all_of(rows, epoch) for number in examples_of(batch)]
    assert sorted(found) == list(range(count))
    tokens = sum((x["example_ids"] > 0).sum() for x, _, _ in all_of(rows, epoch))
    assert tokens == source.lengths.sum() == rows.statistics(epoch)["tokens"]


def test_a_row_is_what_its_examples_are() -> None:
    source = supervised()
    for x, y, weights in all_of(packed(source)):
        for row, ids in enumerate(x["example_ids"]):
            for slot in range(ids.max()):
                of_this = ids == slot + 1
                number = y["label"][row, slot]
                length = int(of_this.sum())
                begin, end = source.rows.bounds[number : number + 2]
                assert np.flatnonzero(of_this)[0] == x["first_positions"][row, slot]
                assert x["token_ids"][row, of_this].tolist() == [number + 1] * length
                assert x["position_ids"][row, of_this].tolist() == list(range(length))
                assert x["segment_ids"][row, of_this].tolist() == [n % 2 for n in range(length)]
                assert y["tags"][row, of_this].tolist() == list(range(begin, end))
            assert (weights["label"][row] > 0).sum() == ids.max(initial=0)
            assert (weights["tags"][row] > 0).tolist() == (ids > 0).tolist()
        share = np.float32(4 / (weights["label"] > 0).sum())
        assert set(weights["tags"].ravel().tolist()) <= {0.0, float(share)}


@pytest.mark.parametrize("source", [supervised(), pretraining("nsp"), pretraining("mlm")])
def test_shapes_are_fixed(source: Any) -> None:
    rows = packed(source)
    shapes = {
        str([{name: (v.shape, v.dtype) for name, v in part.items()} for part in batch])
        for epoch in (0, 1)
        for batch in all_of(rows, epoch)
    }
    assert len(shapes) == 1
    assert rows.fixed_shapes


def test_every_epoch_has_rows_of_its_own() -> None:
    orders = [[examples_of(b) for b in all_of(packed(), epoch)] for epoch in range(4)]
    for number, order in enumerate(orders):
        assert order not in orders[:number]
    partners = [
        {
            tuple(sorted(row[row > 0].tolist()))
            for x, _, _ in all_of(packed(), epoch)
            for row in x["token_ids"]
        }
        for epoch in range(2)
    ]
    assert len(partners[0] & partners[1]) < len(partners[0]) / 4
    assert [[examples_of(b) for b in all_of(packed(), epoch)] for epoch in range(4)] == orders
    assert [examples_of(b) for b in all_of(packed(supervised(seed=4)))] not in orders


def test_without_a_seed_rows_are_in_the_order_of_their_first_examples() -> None:
    rows = packed(supervised(seed=None))
    first = [y["label"][:, 0][w["label"][:, 0] > 0].tolist() for _, y, w in all_of(rows)]
    first = [number for part in first for number in part]
    assert first == sorted(first)
    assert_same(rows.batch(0, 0), rows.batch(3, 0))


@pytest.mark.parametrize("loss", ["mlm", "nsp", "sop"])
def test_pretraining(loss: str) -> None:
    """Packed pretraining rows hold the tokens, masks and labels of the unpacked examples."""
    source = pretraining(loss)
    rows = packed(source, batch_size=3)
    count = len(source.plan(1))
    x, y, weights = source.batch_of(1, np.arange(count))
    assert len(source.batch_of(1, np.arange(0))[0]["token_ids"]) == 0
    single = {
        tuple(ids[:length].tolist()): (row, length)
        for row, (ids, length) in enumerate(
            zip(x["token_ids"], x["padding_mask"].sum(axis=1), strict=True)
        )
    }
    found = 0
    for packed_x, packed_y, packed_weights in all_of(rows, 1):
        for row, ids in enumerate(packed_x["example_ids"]):
            used = packed_weights["mlm"][row] > 0
            places = packed_x["mask_positions"][row][used]
            for slot in range(ids.max()):
                of_this = ids == slot + 1
                number, length = single[tuple(packed_x["token_ids"][row, of_this].tolist())]
                found += 1
                begin = packed_x["first_positions"][row, slot]
                mine = (places >= begin) & (places < begin + length)
                expected = weights["mlm"][number] > 0
                assert (places[mine] - begin).tolist() == x["mask_positions"][number][
                    expected
                ].tolist()
                assert (
                    packed_y["mlm"][row][used][mine].tolist() == y["mlm"][number][expected].tolist()
                )
                if loss != "mlm":
                    assert packed_y[loss][row, slot] == y[loss][number]
                    assert packed_weights[loss][row, slot] == 1
    assert found == count
    assert rows.num_rows(1) < 0.8 * count  # Packing must save rows.


def test_batches_of_pretraining_are_those_of_their_numbers() -> None:
    source = pretraining()
    whole = source.batch(0, 1)
    some = source.batch_of(0, np.array([7, 4]))
    for part, of_these in zip(whole, some, strict=True):
        for name, values in of_these.items():
            np.testing.assert_array_equal(values, part[name][[3, 0]], strict=True)


@settings(max_examples=50, deadline=None)
@given(epoch=st.integers(0, 3), position=st.integers(0, 6), steps=st.lists(st.integers(0, 20)))
def test_locate_counts_batches(epoch: int, position: int, steps: list[int]) -> None:
    source = packed()
    batches = source.num_batches()
    place = epoch, position
    for step in steps:
        place = source.locate(*place, step)
    assert place == source.locate(epoch, position, sum(steps))
    assert place[0] * batches + place[1] == epoch * batches + position + sum(steps)


def test_threads_read_the_same() -> None:
    source = packed(supervised(400))
    wanted = [(epoch, position) for epoch in range(4) for position in range(20)]
    mixed = np.random.default_rng(0).permutation(len(wanted)).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: source.batch(*wanted[number]), mixed))
    for number, batch in zip(mixed, found, strict=True):
        assert_same(batch, packed(supervised(400)).batch(*wanted[number]))


def test_statistics_are_what_is_read() -> None:
    source = packed(supervised(1000))
    batches = all_of(source, 2)
    real = sum((x["example_ids"] > 0).sum() for x, _, _ in batches)
    places = sum(x["token_ids"].size for x, _, _ in batches)
    said = source.statistics(2)
    assert said["batches"] == len(batches) == source.num_batches(2)
    assert said["tokens"] == real
    assert said["padding_share"] == pytest.approx(1 - real / places)
    assert said["padding_share"] < 0.04
    assert said["rows"] == sum((x["example_ids"].max(axis=1) > 0).sum() for x, _, _ in batches)
    some = source.statistics(2, batches=2)
    assert (some["batches"], some["rows"]) == (2, 2 * source.batch_size)
    assert some["tokens"] == sum((x["example_ids"] > 0).sum() for x, _, _ in batches[:2])
    assert source.epoch_order(2).tolist() == list(range(source.num_rows(2)))


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        packed(batch_size=0)
    with pytest.raises(ValueError, match=r"1 to 16 tokens.* Received: an example of 3\d"):
        packed(sequence_length=16)
    with pytest.raises(ValueError, match="most_examples must be at least 1"):
        packed(max_examples=0)
    with pytest.raises(ValueError, match=r"several rows.* group=2"):
        packed(supervised(20, group=2))
    with pytest.raises(ValueError, match=r"packed again.* Received: PackedExamples"):
        packed(packed())
    source = packed()
    for position in (-1, source.num_batches()):
        with pytest.raises(IndexError, match=f"{source.num_batches()} batches.*position="):
            source.batch(0, position)
    with pytest.raises(ValueError, match="must not be negative"):
        source.locate(0, 1, -1)
