"""Windows of long texts equal those of Hugging Face's `tokenizers`; messages count cut texts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from bert_keras.data import long_texts
from bert_keras.data.long_texts import CutTexts, check_long_texts, encode_long, mean_of_windows
from bert_keras.data.model_inputs import encode
from bert_keras.tokenizers import Tokenizer
from tests.tokenizers.samples import VOCABULARY

WORDS = [word for word in VOCABULARY if word.isalpha() and word.isascii()]
LENGTHS = (0, 1, 6, 7, 8, 9, 13, 14, 40)


def text(length: int, first: int = 0) -> str:
    """Return a text of so many tokens."""
    return " ".join(WORDS[(first + index) % len(WORDS)] for index in range(length))


TEXTS = [text(length, number) for number, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


def peer(folder: Path, tokenizer: Tokenizer, **truncation: Any) -> tokenizers.Tokenizer:
    """Return the same tokenizer of Hugging Face's library."""
    tokenizer.save_to_preset(folder)
    opened = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    opened.enable_truncation(**truncation)
    opened.no_padding()
    return opened


def rows_of(encoded: Any) -> list[list[int]]:
    return [encoded[row].tolist() for row in range(len(encoded))]


@pytest.mark.parametrize("stride", [1, 3, 6, None])
def test_windows_are_those_of_hugging_face(stride, tokenizer, tmp_path: Path) -> None:
    room = 7
    encoded = encode_long(
        tokenizer, TEXTS, max_length=room + 2, long_texts="windows", stride=stride
    )
    # Their stride is the overlap of neighbours.
    overlap = room - (stride or 5)
    other = peer(tmp_path, tokenizer, max_length=room + 2, stride=overlap)
    expected, sources = [], []
    for number, one in enumerate(other.encode_batch(TEXTS)):
        windows = [one, *one.overflowing]
        expected += [window.ids for window in windows]
        sources += [number] * len(windows)
    assert rows_of(encoded) == expected
    assert encoded.sources is not None
    assert encoded.sources.tolist() == sources
    assert encoded.num_cut == 0


@pytest.mark.parametrize("strategy", ["only_first", "only_second"])
def test_windows_of_the_longer_text_of_a_pair(strategy, tokenizer, tmp_path: Path) -> None:
    room, stride = 12, 4
    short = text(3)
    columns: Any = (TEXTS, [short] * len(TEXTS))
    columns = columns if strategy == "only_first" else columns[::-1]
    encoded = encode_long(
        tokenizer, *columns, max_length=room + 3, long_texts="windows", stride=stride
    )
    other = peer(
        tmp_path, tokenizer, max_length=room + 3, stride=room - 3 - stride, strategy=strategy
    )
    ids, segments = [], []
    for one in other.encode_batch(list(zip(*columns, strict=True))):
        windows = [one, *one.overflowing]
        ids += [window.ids for window in windows]
        segments += [kind for window in windows for kind in window.type_ids]
    assert rows_of(encoded) == ids
    assert encoded.segment_ids.tolist() == segments
    assert encoded.num_cut == 0


def test_of_two_long_texts_the_shorter_is_cut_to_half(tokenizer) -> None:
    encoded = encode_long(
        tokenizer, [text(20)], [text(9)], max_length=13, long_texts="windows", stride=5
    )
    rows = rows_of(encoded)
    first, second = (tokenizer.text_ids([x])[0] for x in (text(20), text(9)))
    assert [row[1:6] for row in rows] == [first[i : i + 5] for i in (0, 5, 10, 15)]
    assert all(row[7:-1] == second[:5] for row in rows)
    assert encoded.num_cut == 1


def test_each_window_begins_with_the_prompt(tokenizer) -> None:
    prompt = text(2, first=3)
    encoded = encode_long(
        tokenizer,
        [f"{prompt} {text(9)}"],
        max_length=7,
        long_texts="windows",
        stride=3,
        prefix=2,
    )
    head, body = (tokenizer.text_ids([x])[0] for x in (prompt, text(9)))
    assert [row[1:-1] for row in rows_of(encoded)] == [
        [*head, *body[start : start + 3]] for start in (0, 3, 6)
    ]
    with pytest.raises(ValueError, match="no room for a token"):
        encode_long(tokenizer, [text(9)], max_length=4, long_texts="windows", prefix=2)


@pytest.mark.parametrize("pairs", [None, TEXTS[::-1]], ids=["texts", "pairs"])
def test_truncation_counts_what_it_cuts(pairs, tokenizer) -> None:
    for reading in (None, "truncate"):
        encoded = encode_long(tokenizer, TEXTS, pairs, max_length=10, long_texts=reading)
        assert rows_of(encoded) == rows_of(encode(tokenizer, TEXTS, pairs, max_length=10))
        whole = encode(tokenizer, TEXTS, pairs, max_length=1000)
        assert encoded.num_cut == (whole.lengths > 10).sum() > 0
        assert encoded.sources is None


@pytest.mark.parametrize(
    ("reading", "stride", "message"),
    [
        ("window", None, "must be None or one of 'truncate', 'windows'"),
        (None, 4, '`stride` is for long_texts="windows"'),
        ("truncate", 4, '`stride` is for long_texts="windows"'),
        ("windows", 0, "at least 1"),
        ("windows", 2.5, "whole number"),
        ("windows", True, "whole number"),
    ],
)
def test_bad_values(reading, stride, message) -> None:
    with pytest.raises(ValueError, match=message):
        check_long_texts(reading, stride)


def test_the_mean_of_windows() -> None:
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = mean_of_windows(values, np.array([0, 1, 1, 2]))
    assert found.tolist() == [[0, 1], [3, 4], [6, 7]]
    assert found.dtype == np.float32
    assert mean_of_windows(values, None) is values
    assert mean_of_windows(values[:0], np.zeros(0, np.int64)).shape == (0, 2)


def test_the_message_has_the_counts() -> None:
    cut = CutTexts(37, 200, 128, advice=long_texts.READS_ALL)
    assert str(cut) == (
        "37 of 200 texts are longer than 128 tokens; the rest of them is not read. "
        'long_texts="windows" reads all.'
    )
    assert str(CutTexts(1, 2, 8)).startswith("1 of 2 texts is longer than 8 tokens; the rest of it")
    none = CutTexts(0, 5, 8, noun="pairs")
    assert not none
    assert str(none + cut) == str(cut + none) == str(cut).replace("200", "205")
    assert cut + None is cut


def test_a_warning_names_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="^cut$") as caught:
        long_texts.warn("cut")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode(Tokenizer(VOCABULARY), TEXTS, max_length=8)  # data functions count, and do not warn
