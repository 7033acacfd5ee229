"""Rows of texts equal the tokenizer's output, in any group of rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data import model_inputs as module
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.model_inputs import (
    EncodedTexts,
    add_special_tokens,
    assemble,
    encode,
    front_share,
    truncate,
)
from bert_keras.tokenizers import Tokenizer, backends
from tests.tokenizers import learners
from tests.tokenizers.samples import TRICKY, VOCABULARY

TOKENIZER = Tokenizer(VOCABULARY)
TEXTS = [*TRICKY, "the wanted [MASK] world", ""]


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a byte-level BPE tokenizer that was learned on a few texts."""
    folder = tmp_path_factory.mktemp("bytes")
    learners.byte_level(folder)
    return Tokenizer.from_preset(folder)


def tokenizer_of(family: str, byte_level: Tokenizer) -> Tokenizer:
    """Return the tokenizer of a family; "llama" has `cls` before the second text too."""
    if family == "llama":
        places = {"separators": 1, "two_segments": True, "cls_before_second": True}
        scheme = dataclasses.replace(byte_level.scheme, **places)
        ids = {piece: index for index, piece in enumerate(byte_level.vocabulary)}
        return Tokenizer.from_engine(backends.byte_level(ids, [], scheme))
    return TOKENIZER if family == "wordpiece" else byte_level


def rows_of(*lengths: int) -> EncodedTexts:
    """Return rows with ids 10, 11, … in order. The segment ids are the number of the row."""
    ids = np.split(np.arange(10, 10 + sum(lengths)), np.cumsum(lengths)[:-1])
    return EncodedTexts.of(ids, [[number] * size for number, size in enumerate(lengths)], pad_id=7)


def test_rows_are_padded_at_the_end() -> None:
    rows = rows_of(2, 0, 3)
    assert len(rows) == 3
    assert rows.lengths.tolist() == [2, 0, 3]
    assert [rows[number].tolist() for number in range(3)] == [[10, 11], [], [12, 13, 14]]
    inputs = rows.inputs(np.array([2, 0, 1]), 4)
    assert {value.dtype for value in inputs.values()} == {np.dtype(np.int32)}
    assert inputs["token_ids"].tolist() == [[12, 13, 14, 7], [10, 11, 7, 7], [7, 7, 7, 7]]
    assert inputs["segment_ids"].tolist() == [[2, 2, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert inputs["padding_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_numbers_of_rows_have_any_shape() -> None:
    rows = rows_of(1, 2, 3, 4)
    inputs = rows.inputs(np.array([[0, 1], [2, 3]]), 5)
    for name, values in inputs.items():
        flat = rows.inputs(np.arange(4), 5)[name]
        np.testing.assert_array_equal(values, flat.reshape(2, 2, 5))


def test_gather_reads_what_lies_beside_the_ids() -> None:
    rows = rows_of(2, 1)
    weights = np.array([0.5, 1.5, 2.5], np.float32)
    found = rows.gather(weights, np.array([1, 0]), 3, fill=-1)
    assert found.dtype == np.float32
    assert found.tolist() == [[2.5, -1, -1], [0.5, 1.5, -1]]


def test_no_rows_and_rows_without_tokens() -> None:
    nothing = EncodedTexts.of([], [], 0)
    assert len(nothing) == 0
    assert nothing.inputs(np.zeros(0, np.int64), 3)["token_ids"].shape == (0, 3)
    assert len(encode(TOKENIZER, [], max_length=8)) == 0
    assert len(encode(TOKENIZER, [], [], max_length=8)) == 0
    assert rows_of(0, 0).inputs(np.array([1]), 2)["token_ids"].tolist() == [[7, 7]]


def test_merged_rows_stand_in_the_order_asked_for() -> None:
    one, other = rows_of(2, 1), EncodedTexts.of([[1, 2, 3]], [[1, 1, 1]], 7)
    merged = one.merged(other, np.array([1, 2, 0]))
    assert [merged[number].tolist() for number in range(3)] == [[12], [1, 2, 3], [10, 11]]
    assert merged.segment_ids.tolist() == [1, 1, 1, 1, 0, 0]
    nothing = EncodedTexts.of([], [], 7)
    assert nothing.merged(other, np.array([0]))[0].tolist() == [1, 2, 3]
    assert len(nothing.merged(nothing, np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize("pairs", [None, TEXTS[::-1]])
@pytest.mark.parametrize("max_length", [3, 4, 9, 512])
@pytest.mark.parametrize("family", ["wordpiece", "bytes", "llama"])
def test_rows_are_those_of_the_tokenizer(
    byte_level: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    pairs: list[str] | None,
    max_length: int,
    family: str,
) -> None:
    tokenizer = tokenizer_of(family, byte_level)
    max_length += family != "wordpiece"  # The others have one more token between the texts.
    # A small number makes the texts run in several parts.
    monkeypatch.setattr(module, "_TEXTS_AT_ONCE", 5)
    rows = encode(tokenizer, TEXTS, pairs, max_length=max_length)
    expected = tokenizer(TEXTS, pairs, max_length=max_length, padding="max_length")
    found = rows.inputs(np.arange(len(TEXTS)), max_length)
    assert len(rows) == len(TEXTS)
    assert rows.pad_id == tokenizer.pad_id
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, strict=True)
    assert ("segment_ids" in expected) or not found["segment_ids"].any()


@pytest.mark.parametrize("family", ["wordpiece", "bytes", "llama"])
def test_pieces_with_special_tokens_are_rows_of_the_tokenizer(
    byte_level: Tokenizer, family: str
) -> None:
    tokenizer = tokenizer_of(family, byte_level)
    first, second = (tokenizer.text_ids([text])[0] for text in ("hello world", "un wanted mask"))
    alone = tokenizer.encode("hello world")
    assert add_special_tokens(tokenizer, first) == (alone.ids, alone.segment_ids, 1)
    pair = tokenizer.encode("hello world", "un wanted mask")
    ids, segments, begin = add_special_tokens(tokenizer, first, second)
    assert (ids, segments) == (pair.ids, pair.segment_ids)
    assert ids[begin : begin + len(second)] == second
    assert ids[begin - 1] == (tokenizer.cls_id if family == "llama" else tokenizer.sep_id)


def test_texts_that_cannot_be_encoded() -> None:
    with pytest.raises(TypeError, match="one string"):
        encode(TOKENIZER, "hello", max_length=8)
    with pytest.raises(ValueError, match="equally many"):
        encode(TOKENIZER, ["hello"], ["a", "b"], max_length=8)
    with pytest.raises(ValueError, match="room for 3 special tokens"):
        encode(TOKENIZER, ["hello"], ["a"], max_length=2)


def test_the_learned_family_is_another(byte_level: Tokenizer) -> None:
    """The byte-level tokenizer of these tests has two separators and one segment."""
    assert (byte_level.scheme.separators, byte_level.scheme.two_segments) == (2, False)


# === Truncation and rows, compared with plain loops ===


LENGTHS = st.integers(1, 40)


@given(a=LENGTHS, b=LENGTHS, room=st.integers(2, 50))
def test_truncate_is_the_loop_of_the_recipe(a: int, b: int, room: int) -> None:
    """`truncate` gives the result of BERT's loop, which shortens the longer segment."""
    kept_a, kept_b = truncate(np.array([a]), np.array([b]), room)
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    assert (kept_a.item(), kept_b.item()) == (a, b)
    assert min(a, b) >= 1


def test_truncate_lets_a_single_segment_be() -> None:
    """`truncate` leaves single segments that fit unchanged."""
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
    """Tokens are removed from the front and the end with equal probability."""
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
    rows = assemble(tokens, *columns, length=15, cls_id=1, sep_id=2, pad_id=7)
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
