"""Truncation and rows, against the loops they stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data.packing import front_share, pack, truncate
from bert_keras.data.sampling import Draws, Stream

LENGTHS = st.integers(1, 40)


@given(a=LENGTHS, b=LENGTHS, room=st.integers(2, 50))
def test_truncate_is_the_loop_of_the_recipe(a: int, b: int, room: int) -> None:
    kept_a, kept_b = truncate(np.array([a]), np.array([b]), room)
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    assert (kept_a.item(), kept_b.item()) == (a, b)
    assert min(a, b) >= 1


def test_truncate_lets_a_single_segment_be() -> None:
    kept_a, kept_b = truncate(np.array([4, 9]), np.array([0, 0]), 9)
    assert kept_a.tolist() == [4, 9]
    assert kept_b.tolist() == [0, 0]


@given(removed=st.integers(0, 192), row=st.integers(0, 1000))
def test_front_share_counts_one_bit_per_token(removed: int, row: int) -> None:
    raw = Draws(0, 0).rows(Stream.CROP, row, 1, 3)
    bits = sum(int(word) << (64 * n) for n, word in enumerate(raw[0]))
    expected = (bits & ((1 << removed) - 1)).bit_count()
    assert front_share(np.array([removed]), raw).tolist() == [expected]


def test_front_share_is_fair() -> None:
    raw = Draws(1, 0).rows(Stream.CROP, 0, 10_000, 2)
    share = front_share(np.full(10_000, 100), raw)
    assert abs(share.mean() - 50) < 5 * np.sqrt(25 / 10_000)
    assert abs(share.var() - 25) < 2


@given(
    spans=st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 6), st.integers(0, 50), st.integers(0, 6)),
        min_size=1,
        max_size=5,
    )
)
def test_pack_is_cls_a_sep_b_sep(spans: list[tuple[int, int, int, int]]) -> None:
    tokens = np.arange(100, 200).astype(np.uint16)
    columns = (np.array(column) for column in zip(*spans, strict=True))
    rows = pack(tokens, *columns, length=15, cls_id=1, sep_id=2, pad_id=7)
    assert rows.token_ids.dtype == rows.segment_ids.dtype == rows.padding_mask.dtype == np.int32
    for row, (start_a, length_a, start_b, length_b) in enumerate(spans):
        a = tokens[start_a : start_a + length_a].tolist()
        b = tokens[start_b : start_b + length_b].tolist()
        ids = [1, *a, 2, *b, *([2] if b else [])]
        rest = 15 - len(ids)
        assert rows.token_ids[row].tolist() == ids + [7] * rest
        assert rows.padding_mask[row].tolist() == [1] * len(ids) + [0] * rest
        assert rows.is_text[row].tolist() == [i >= 100 for i in ids] + [False] * rest
        ones = len(b) + 1 if b else 0
        assert rows.segment_ids[row].tolist() == [0] * (len(a) + 2) + [1] * ones + [0] * rest
