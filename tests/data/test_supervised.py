"""Batches of labelled examples: each once in an epoch, and repeatable with a seed."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.supervised import SupervisedExamples, num_training_rows, validation_split
from bert_keras.errors import DataError


def rows_of(lengths: Any) -> EncodedTexts:
    """Return rows whose tokens identify them: row n has only the id n + 1."""
    ids = [np.full(length, number + 1) for number, length in enumerate(lengths)]
    return EncodedTexts.of(ids, [np.arange(len(row)) % 2 for row in ids], pad_id=0)


def examples(count: int = 50, **options: Any) -> SupervisedExamples:
    lengths = np.random.default_rng(0).integers(1, 40, count * (options.get("group") or 1))
    options = {"batch_size": 8, "seed": 3, **options}
    return SupervisedExamples(rows_of(lengths), {"label": np.arange(count)}, **options)


def labels(source: SupervisedExamples, epoch: int) -> list[list[int]]:
    batches = (source.batch(epoch, position) for position in range(source.num_batches(epoch)))
    return [y["label"].tolist() for _, y, _ in batches]


def flat(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def assert_same(one: Any, other: Any) -> None:
    """Check that two batches have the same names, dtypes and values."""
    for part, same in zip(one, other, strict=True):
        assert sorted(part) == sorted(same)
        for name in part:
            np.testing.assert_array_equal(part[name], same[name], strict=True)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 90),
    batch_size=st.integers(1, 9),
    seed=st.none() | st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 5),
)
def test_every_example_once_in_an_epoch(
    count: int, batch_size: int, seed: int | None, epoch: int
) -> None:
    source = examples(count, batch_size=batch_size, seed=seed)
    found = labels(source, epoch)
    assert sorted(flat(found)) == list(range(count))
    assert [len(batch) for batch in found[:-1]] == [batch_size] * (len(found) - 1)
    assert len(found) == source.num_batches(epoch) == -(-count // batch_size)
    assert 1 <= len(found[-1]) <= batch_size
    assert len(source) == source.num_examples == count


def test_every_epoch_has_an_order_of_its_own() -> None:
    source = examples()
    orders = [labels(source, epoch) for epoch in range(4)]
    for number, order in enumerate(orders):
        assert order not in orders[:number]
    assert labels(source, 0) == orders[0]  # The plan of this epoch was dropped from the cache.
    assert [labels(examples(), epoch) for epoch in range(4)] == orders
    assert labels(examples(seed=4), 0) not in orders


def test_without_a_seed_the_order_of_the_rows_is_kept() -> None:
    source = examples(seed=None)
    assert flat(labels(source, 0)) == flat(labels(source, 7)) == list(range(50))


def test_a_batch_is_what_the_rows_are() -> None:
    source = examples()
    for position in range(source.num_batches()):
        x, y, weights = source.batch(1, position)
        assert [sorted(part) for part in (x, y, weights)] == [
            ["padding_mask", "segment_ids", "token_ids"],
            ["label"],
            ["label"],
        ]
        lengths = source.rows.lengths[y["label"]]
        width = -(-lengths.max() // 8) * 8
        expected = source.rows.inputs(y["label"], width)
        assert_same((x,), (expected,))
        assert (x["token_ids"].max(axis=1) == y["label"] + 1).all()
        assert weights["label"].tolist() == [1.0] * len(lengths)
        assert weights["label"].dtype == np.float32


def test_widths_are_multiples_but_no_more_than_the_model_has() -> None:
    widths = {source_width(examples(multiple_of=16), p) for p in range(7)}
    assert widths <= {16, 32, 48}
    assert 48 in widths
    assert {source_width(examples(multiple_of=16, max_length=39), p) for p in range(7)} <= {
        16,
        32,
        39,
    }
    assert {source_width(examples(multiple_of=1), p) for p in range(7)} == {
        int(examples().lengths[batch].max()) for batch in examples().order(0)
    }


def source_width(source: SupervisedExamples, position: int) -> int:
    return source.batch(0, position)[0]["token_ids"].shape[1]


def test_batches_are_alike_in_length() -> None:
    """Batches of examples with similar lengths need little padding."""
    lengths = np.random.default_rng(1).lognormal(3, 0.7, 4000).astype(int).clip(3, 128)
    count = np.arange(len(lengths))
    sources = [
        SupervisedExamples(
            rows_of(lengths),
            {"label": count},
            batch_size=32,
            multiple_of=1,
            seed=seed,
            window=window,
        )
        for seed, window in ((None, 50), (0, 50), (0, 4), (0, 1))
    ]
    random, sorted_, some, none = (source.statistics(2) for source in sources)
    assert sorted_["tokens"] == random["tokens"] == lengths.sum()
    assert sorted_["batches"] == 125
    assert random["padding_share"] > 0.5
    assert none["padding_share"] == pytest.approx(random["padding_share"], abs=0.02)
    assert sorted_["padding_share"] < 0.1 < some["padding_share"] < none["padding_share"]
    # The reported share is the real share of padding in the batches.
    places = sum(sources[1].batch(2, p)[0]["token_ids"].size for p in range(125))
    assert sorted_["padding_share"] == pytest.approx(1 - lengths.sum() / places)


def test_short_and_long_batches_are_mixed() -> None:
    """The lengths of batches do not grow along an epoch, although batches are formed by length."""
    source = examples(4000, batch_size=8)
    longest = np.array([source.lengths[batch].max() for batch in source.order(0)])
    halves = longest[: len(longest) // 2].mean(), longest[len(longest) // 2 :].mean()
    assert halves[0] == pytest.approx(halves[1], rel=0.2)
    assert (np.diff(longest) < 0).sum() > len(longest) / 4


def test_choices_have_an_axis_of_their_own() -> None:
    source = examples(20, group=3)
    assert source.lengths.tolist() == source.rows.lengths.reshape(20, 3).max(axis=1).tolist()
    for position in range(source.num_batches()):
        x, y, weights = source.batch(0, position)
        assert x["token_ids"].shape[:2] == (len(y["label"]), 3)
        numbers = y["label"][:, None] * 3 + np.arange(3)
        assert (x["token_ids"].max(axis=2) == numbers + 1).all()
        assert (x["padding_mask"].sum(axis=2) == source.rows.lengths[numbers]).all()
        assert weights["label"].shape == (len(numbers),)
    tokens, places = source.rows.lengths.sum(), 0
    for position in range(source.num_batches()):
        places += source.batch(0, position)[0]["token_ids"].size
    assert source.statistics()["padding_share"] == pytest.approx(1 - tokens / places)


def test_rows_of_different_lengths_are_padded_apart() -> None:
    rows = rows_of([2, 30, 3, 25, 1, 28])  # short and long in turn
    options: dict[str, Any] = {"group": 2, "batch_size": 3, "seed": None, "multiple_of": 4}
    together = SupervisedExamples(rows, {"label": np.arange(3)}, **options)
    apart = SupervisedExamples(rows, {"label": np.arange(3)}, apart=True, **options)
    x, y, _ = apart.batch(0, 0)
    whole, same_y, _ = together.batch(0, 0)
    np.testing.assert_array_equal(y["label"], same_y["label"])
    for name, (short, long) in x.items():
        assert (short.shape, long.shape) == ((3, 1, 4), (3, 1, 32))
        np.testing.assert_array_equal(short[:, 0], whole[name][:, 0, :4])
        np.testing.assert_array_equal(long[:, 0], whole[name][:, 1])
    assert apart.statistics()["padding_share"] == 1 - 89 / (3 * 36)
    assert together.statistics()["padding_share"] == 1 - 89 / (3 * 64)
    # Rows of similar length are padded together.
    alike = SupervisedExamples(rows_of([9, 10] * 3), {"label": np.arange(3)}, apart=True, **options)
    assert alike.batch(0, 0)[0]["token_ids"].shape == (3, 2, 12)


def test_groups_of_one_keep_their_axis() -> None:
    x, _, _ = examples(5, group=1).batch(0, 0)
    assert x["token_ids"].ndim == 3


def test_weights_and_labels_of_any_shape_stay_with_their_examples() -> None:
    count = 30
    source = SupervisedExamples(
        rows_of(np.arange(count) % 7 + 1),
        {"a": np.arange(count), "b": np.arange(2 * count).reshape(count, 2)},
        weights={"b": np.arange(count, dtype=np.float32) / 2},
        batch_size=7,
    )
    for position in range(source.num_batches()):
        _, y, weights = source.batch(0, position)
        np.testing.assert_array_equal(y["b"], y["a"][:, None] * 2 + np.arange(2))
        np.testing.assert_array_equal(weights["b"], y["a"] / 2)
        assert (weights["a"] == 1).all()


def test_labels_of_tokens_lie_as_the_tokens_do() -> None:
    rows = rows_of([3, 1, 5, 2])
    places, counts = np.arange(11), np.arange(11, dtype=np.float32) / 4
    source = SupervisedExamples(
        rows,
        {},
        token_labels={"tags": places, "others": -places},
        token_weights={"tags": counts},
        batch_size=2,
    )
    for position in range(2):
        x, y, weights = source.batch(0, position)
        real = x["padding_mask"] == 1
        for row in range(2):
            number = x["token_ids"][row, 0] - 1
            expected = places[rows.bounds[number] : rows.bounds[number + 1]]
            assert y["tags"][row][real[row]].tolist() == expected.tolist()
            assert weights["tags"][row][real[row]].tolist() == (expected / 4).tolist()
        assert not y["tags"][~real].any()
        for name in ("tags", "others"):
            assert not weights[name][~real].any()
            assert weights[name].dtype == np.float32
        assert (weights["others"][real] == 1).all()


def test_models_without_segments() -> None:
    x, _, _ = examples(segments=False).batch(0, 0)
    assert sorted(x) == ["padding_mask", "token_ids"]


@settings(max_examples=50, deadline=None)
@given(epoch=st.integers(0, 3), position=st.integers(0, 6), steps=st.lists(st.integers(0, 20)))
def test_locate_counts_batches(epoch: int, position: int, steps: list[int]) -> None:
    source = examples()
    place = epoch, position
    for step in steps:
        place = source.locate(*place, step)
    assert place == source.locate(epoch, position, sum(steps))
    assert place[0] * 7 + place[1] == epoch * 7 + position + sum(steps)
    assert 0 <= place[1] < source.num_batches() == 7


def test_threads_read_the_same() -> None:
    source = examples(400)
    wanted = [(epoch, position) for epoch in range(4) for position in range(50)]
    mixed = np.random.default_rng(0).permutation(len(wanted)).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: source.batch(*wanted[number]), mixed))
    for number, batch in zip(mixed, found, strict=True):
        assert_same(batch, examples(400).batch(*wanted[number]))


def test_numbers_that_do_not_fit() -> None:
    rows = rows_of([1, 2, 3])
    for name in ("batch_size", "multiple_of"):
        options: dict[str, Any] = {name: 0}
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            SupervisedExamples(rows, {"label": np.arange(3)}, **options)
    with pytest.raises(ValueError, match=r"\{'label': 2\} for 3 rows in groups of 1"):
        SupervisedExamples(rows, {"label": np.arange(2)})
    with pytest.raises(ValueError, match=r"\{'label': 4\}"):
        SupervisedExamples(rows, {"label": np.arange(3)}, weights={"label": np.ones(4)})
    with pytest.raises(ValueError, match=r"\{'tags': 5\}.* 6 tokens"):
        SupervisedExamples(rows, {}, token_labels={"tags": np.arange(5)})
    with pytest.raises(ValueError, match="3 rows in groups of 2"):
        SupervisedExamples(rows, {"label": np.arange(1)}, group=2)
    with pytest.raises(ValueError, match="at least one example"):
        SupervisedExamples(rows_of([]), {"label": np.arange(0)})
    with pytest.raises(ValueError, match=r"Weights must have the name of a label. Received: lable"):
        SupervisedExamples(rows, {"label": np.arange(3)}, weights={"lable": np.ones(3)})
    source = examples()
    for position in (-1, 7):
        with pytest.raises(IndexError, match=f"7 batches.*position={position}"):
            source.batch(0, position)
    with pytest.raises(ValueError, match="must not be negative"):
        source.locate(0, 1, -1)
    with pytest.raises(ValueError, match="seed must be in"):
        examples(seed=-1).batch(0, 0)


# === A validation split is random, and keeps rows with the same first text together ===


@pytest.mark.parametrize(
    ("count", "share", "left"),
    [(10, 0.1, 9), (10, 0.01, 9), (10, 0.99, 1), (2, 0.1, 1), (1, 0.5, 0)],
)
def test_a_row_is_left_on_each_side(count: int, share: float, left: int) -> None:
    assert num_training_rows(count, share) == left


def test_every_row_is_on_one_side_in_the_order_of_the_data() -> None:
    learned, validated = validation_split(100, 0.2)
    assert (len(learned), len(validated)) == (80, 20)
    assert sorted(learned + validated) == list(range(100))
    assert learned == sorted(learned)
    assert validated == sorted(validated) != list(range(80, 100))


def test_the_seed_draws() -> None:
    """The seed alone determines the validation split."""
    assert validation_split(100, 0.2, seed=1) == validation_split(100, 0.2, seed=1)
    assert validation_split(100, 0.2, seed=1) != validation_split(100, 0.2, seed=2)


def test_rows_of_one_first_text_stay_together() -> None:
    firsts = [f"text {number % 10}" for number in range(60)]
    learned, validated = validation_split(60, 0.3, firsts=firsts)
    assert not {firsts[row] for row in learned} & {firsts[row] for row in validated}
    assert len(validated) == 18


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(DataError, match=r"At least two rows .* Received: 1"):
        validation_split(1, 0.5)
    for share in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            validation_split(10, share)
