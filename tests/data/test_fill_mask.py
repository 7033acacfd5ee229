"""Masking: its statistics, and properties that each masked row has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.fill_mask import UNITS, Masked, Masking, _span_starts
from bert_keras.tokenizers import Tokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{n}" for n in range(300)]
PIECES = [f"##{n}" for n in range(150)]
TOKENIZER = Tokenizer([*SPECIALS[:3], *WORDS, *SPECIALS[3:], *PIECES])
LENGTH = 128


def text(rows: int, length: int = LENGTH, seed: int = 0, **chances: float) -> np.ndarray:
    """Return random rows [CLS] ... [SEP] ... [SEP] with padding, and with [UNK] among the words."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, TOKENIZER.vocab_size, (rows, length)).astype(np.int32)
    ids[np.isin(ids, [TOKENIZER.pad_id, TOKENIZER.mask_id])] = TOKENIZER.unk_id
    ids[:, 0] = TOKENIZER.cls_id
    ids[:, length // 3] = TOKENIZER.sep_id
    ends = rng.integers(length // 2, length, rows)
    ids[np.arange(length) > ends[:, None]] = TOKENIZER.pad_id
    ids[np.arange(rows), ends] = TOKENIZER.sep_id
    return ids


def is_text(ids: np.ndarray) -> np.ndarray:
    return ~np.isin(ids, [TOKENIZER.pad_id, TOKENIZER.cls_id, TOKENIZER.sep_id])


def masking(unit: str = "token", **options: Any) -> Masking:
    return Masking(
        TOKENIZER, **{"unit": unit, "rate": 0.15, "max_predictions_per_seq": 20, **options}
    )


def mask(masking: Masking, ids: np.ndarray, first: int = 0) -> Masked:
    raw = Draws(0, 0).rows(Stream.MASK, first, len(ids), masking.width(ids.shape[1]))
    return masking(ids, is_text(ids), raw)


def chosen(ids: np.ndarray, masked: Masked) -> np.ndarray:
    """Return which tokens are predicted, bool [B, T], and check the prediction slots."""
    flags = np.zeros(ids.shape, bool)
    for row, (positions, labels, weights) in enumerate(zip(*masked[1:], strict=True)):
        count = int(weights.sum())
        assert weights.tolist() == [1.0] * count + [0.0] * (len(weights) - count)
        assert (np.diff(positions[:count]) > 0).all()
        assert not positions[count:].any()
        assert not labels[count:].any()
        np.testing.assert_array_equal(ids[row, positions[:count]], labels[:count])
        flags[row, positions[:count]] = True
    return flags


def words_of(ids: np.ndarray) -> np.ndarray:
    """Return the number of the word of each token.

    A continuation piece belongs to the word of the token before it, if that is no special token.
    """
    text = ~np.isin(ids, TOKENIZER.special_ids)
    goes_on = TOKENIZER.continuation[ids] & text
    goes_on[1:] &= text[:-1]
    goes_on[0] = False
    return np.cumsum(~goes_on) - 1


@pytest.mark.parametrize("unit", UNITS)
def test_statistics_over_a_hundred_thousand_tokens(unit: str) -> None:
    ids = text(1500)
    masked = mask(masking(unit), ids)
    flags = chosen(ids, masked)
    eligible = ~np.isin(ids, TOKENIZER.special_ids)
    total, count = int(eligible.sum()), int(flags.sum())
    assert total > 100_000
    # The number is rounded in each row. Whole words do not always fill the number exactly.
    assert abs(count / total - 0.15) < (0.002 if unit == "token" else 0.01)
    seen, was = masked.token_ids[flags], ids[flags]
    shares = [
        (seen == TOKENIZER.mask_id).mean(),
        ((seen != TOKENIZER.mask_id) & (seen != was)).mean(),
        (seen == was).mean(),
    ]
    # The bound is five standard deviations. A span of about five tokens is drawn once.
    scale = 5 * np.sqrt((5 if unit == "span" else 1) / count)
    for share, expected in zip(shares, (0.8, 0.1, 0.1), strict=True):
        assert abs(share - expected) < scale * np.sqrt(expected * (1 - expected)) + 0.001


@pytest.mark.parametrize("unit", UNITS)
def test_no_special_token_is_predicted_or_put_in(unit: str) -> None:
    ids = text(800)
    masked = mask(masking(unit), ids)
    flags = chosen(ids, masked)
    assert not np.isin(ids[flags], TOKENIZER.special_ids).any()
    np.testing.assert_array_equal(masked.token_ids[~flags], ids[~flags])
    put_in = masked.token_ids[flags & (masked.token_ids != ids)]
    put_in = put_in[put_in != TOKENIZER.mask_id]
    assert len(put_in) > 500
    assert not np.isin(put_in, TOKENIZER.special_ids).any()


def test_random_replacements_come_from_the_whole_rest_of_the_vocabulary() -> None:
    ids = np.full((3000, 32), TOKENIZER.token_to_id("w0"), np.int32)
    masked = mask(masking(rate=0.9, max_predictions_per_seq=32), ids)
    rest = set(range(TOKENIZER.vocab_size)) - set(TOKENIZER.special_ids)
    assert set(np.unique(masked.token_ids)) == rest | {TOKENIZER.mask_id}


@pytest.mark.parametrize("unit", UNITS)
@given(length=st.integers(8, 40), rate=st.floats(0.01, 0.99), most=st.integers(1, 12))
@settings(max_examples=30)
def test_the_budget_is_kept(unit: str, length: int, rate: float, most: int) -> None:
    """The number of predictions is at most the masking rate and `max_predictions_per_seq`."""
    ids = text(20, length, seed=length)
    flags = chosen(ids, mask(masking(unit, rate=rate, max_predictions_per_seq=most), ids))
    eligible = (~np.isin(ids, TOKENIZER.special_ids)).sum(axis=1)
    budget = np.minimum(np.clip(np.rint(rate * eligible), 1, most), eligible)
    assert (flags.sum(axis=1) <= budget).all()
    if unit == "token":
        np.testing.assert_array_equal(flags.sum(axis=1), budget)


def test_whole_words_are_whole_and_passed_over_only_for_the_budget() -> None:
    ids = text(400)
    flags = chosen(ids, mask(masking("whole_word"), ids))
    for row, flag in zip(ids, flags, strict=True):
        word = words_of(row)
        sizes = np.bincount(word)
        np.testing.assert_array_equal(np.bincount(word, weights=flag) % sizes, 0)
        eligible = ~np.isin(row, TOKENIZER.special_ids)
        left = round(0.15 * int(eligible.sum())) - int(flag.sum())
        free = np.unique(word[eligible & ~flag])
        assert (sizes[free] > left).all()


def test_every_token_is_as_likely() -> None:
    ids = np.full((4000, 20), TOKENIZER.token_to_id("w1"), np.int32)
    for unit in ("token", "whole_word"):
        share = chosen(ids, mask(masking(unit), ids)).mean(axis=0)
        assert np.abs(share - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / 4000)


def test_span_lengths_have_the_law_of_spanbert() -> None:
    begins = _span_starts(np.ones((2000, 100), bool), Draws(0, 0).rows(Stream.MASK, 0, 2000, 100))
    assert begins[:, 0].all()
    lengths = np.concatenate([np.diff(np.flatnonzero(row))[:20] for row in begins])
    law = 0.2 * 0.8 ** np.arange(10)
    law /= law.sum()
    share = np.bincount(lengths, minlength=11)[1:] / len(lengths)
    assert len(share) == 10
    assert np.abs(share - law).max() < 5 * np.sqrt(0.2 / len(lengths))
    assert abs(lengths.mean() - 3.797) < 5 * lengths.std() / np.sqrt(len(lengths))


def test_spans_are_runs_of_whole_words() -> None:
    ids = np.full((2000, 400), TOKENIZER.token_to_id("w2"), np.int32)
    ids[:, 1::2] = TOKENIZER.vocabulary.index("##3")
    flags = chosen(ids, mask(masking("span", max_predictions_per_seq=60), ids))
    assert (flags[:, ::2] == flags[:, 1::2]).all()
    edges = np.diff(np.pad(flags[:, ::2].astype(int), ((0, 0), (1, 1))), axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    # The last span of a row is cut, and two adjacent spans look like one.
    assert 3.3 < lengths.mean() < 4.2
    assert (lengths > 10).mean() < 0.05


def test_a_span_has_one_fate_and_keeps_to_its_segment() -> None:
    """All tokens of a span are replaced in the same way, and no span crosses a separator."""
    ids = text(600)
    masked = mask(masking("span", max_predictions_per_seq=8), ids)
    flags = chosen(ids, masked)
    assert not flags[:, LENGTH // 3].any()
    shown = masked.token_ids == TOKENIZER.mask_id
    ends = (flags[:, :-1] & flags[:, 1:]) & (shown[:, :-1] != shown[:, 1:])
    # The replacement changes within a run only where two spans touch, which is rare.
    assert ends.sum() < 0.1 * (flags[:, :-1] & flags[:, 1:]).sum()


def test_tokens_put_in_for_a_span_are_drawn_one_by_one() -> None:
    ids = np.full((2000, 60), TOKENIZER.token_to_id("w3"), np.int32)
    masked = mask(masking("span", max_predictions_per_seq=9), ids)
    put_in = np.where(
        (masked.token_ids != ids) & (masked.token_ids != TOKENIZER.mask_id), masked.token_ids, -1
    )
    beside = (put_in[:, :-1] >= 0) & (put_in[:, 1:] >= 0)
    assert beside.sum() > 500
    # Two random words are equal with a probability of 1 in 450.
    assert (put_in[:, :-1] == put_in[:, 1:])[beside].mean() < 0.02


@given(
    length=st.integers(8, 60),
    rate=st.floats(0.01, 0.99),
    most=st.integers(1, 70),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_tokens_are_masked_as_by_a_loop(length: int, rate: float, most: int, seed: int) -> None:
    masker, ids = masking(rate=rate, max_predictions_per_seq=most), text(4, length, seed=seed)
    raw = Draws(seed, 0).rows(Stream.MASK, 0, len(ids), masker.width(length))
    rest = [n for n in range(TOKENIZER.vocab_size) if n not in TOKENIZER.special_ids]
    masked = masker(ids, is_text(ids), raw)
    flags = chosen(ids, masked)
    for row, flag, integers, seen in zip(ids, flags, raw.tolist(), masked.token_ids, strict=True):
        able = [i for i in range(length) if int(row[i]) in rest]
        budget = min(max(round(rate * len(able)), 1), most, len(able))
        columns = sorted(sorted(able, key=lambda i: (integers[i] >> 16, i))[:budget])
        expected = row.tolist()
        for column in columns:
            integer = integers[length + column]
            fate = (integer >> 32) / 2**32
            if fate < 0.8:
                expected[column] = TOKENIZER.mask_id
            elif fate < 0.9:
                expected[column] = rest[(integer & 0xFFFFFFFF) * len(rest) >> 32]
        assert np.flatnonzero(flag).tolist() == columns
        assert seen.tolist() == expected


@pytest.mark.parametrize("unit", UNITS)
def test_a_row_is_masked_the_same_in_any_batch(unit: str) -> None:
    ids = text(9)
    whole, tail = mask(masking(unit), ids), mask(masking(unit), ids[4:], first=4)
    for one, other in zip(whole, tail, strict=True):
        np.testing.assert_array_equal(one[4:], other)


def test_the_input_is_left_alone_and_types_are_those_of_a_model() -> None:
    """Masking leaves its input unchanged, and returns int32 and float32."""
    ids = text(4)
    before = ids.copy()
    masked = mask(masking(), ids)
    np.testing.assert_array_equal(ids, before)
    assert [array.dtype for array in masked] == [np.int32, np.int32, np.int32, np.float32]
    assert masked.positions.shape == (4, 20)


@pytest.mark.parametrize("unit", UNITS)
def test_a_row_without_text_has_no_predictions(unit: str) -> None:
    ids = text(3)
    ids[1] = TOKENIZER.unk_id
    masked = mask(masking(unit), ids)
    assert masked.weights.sum(axis=1).tolist()[1] == 0
    assert masked.weights[[0, 2]].sum(axis=1).all()
    np.testing.assert_array_equal(masked.token_ids[1], ids[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "word"}, "masking must be one of .* Received: 'word'"),
        ({"rate": 0.0}, r"mask_rate must be .* Received: 0\.0"),
        ({"rate": 1.0}, r"mask_rate must be .* Received: 1\.0"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq must be at least 1. Received: 0"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masking(**options)


def test_a_vocabulary_of_special_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="only special tokens"):
        Masking(Tokenizer(SPECIALS), unit="token", rate=0.15, max_predictions_per_seq=1)
