"""The graph splits every text into the words that Python's tokenizer finds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.entity_spans import words_of
from bert_keras.export.graph import basic_words
from bert_keras.export.graph.basic_words import Characters

tf = pytest.importorskip("tensorflow")

_HARD = [
    *"aZs19 .,;:!?'’()[]{}-–—_$+\t\n，：；（中文、Ａ１\u3000x",
    "\u0301",
    "\u200d",
    "😀",
    "'s",
    "'S",
]
_HARD += ["don't", "1,000", "Rome,Paris", "U.S.-based", "a1", "1a"]


@pytest.fixture(scope="module")
def find() -> Callable[..., Any]:
    kinds = Characters()
    spec = tf.TensorSpec([None], tf.string)
    return tf.function(lambda texts: basic_words.words_of(texts, kinds), input_signature=[spec])


def check(find, texts: list[str]) -> None:
    found = find(tf.constant(texts, tf.string))
    starts, ends, spelled = (values.numpy() for values in (found.starts, found.ends, found.texts))
    splits = found.splits.numpy()
    assert len(splits) == len(texts) + 1
    for text, (first, last) in zip(texts, pairwise(splits), strict=True):
        places = list(zip(starts[first:last], ends[first:last], strict=True))
        assert places == words_of(text), ascii(text)
        assert [w.decode() for w in spelled[first:last]] == [text[a:b] for a, b in places]


def test_hard_texts(find) -> None:
    draw = random.Random(0)
    texts = ["".join(draw.choices(_HARD, k=draw.randint(0, 14))) for _ in range(5000)]
    check(find, texts)
    for text in texts[:50]:
        check(find, [text])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_text(find, texts) -> None:
    check(find, texts)


@pytest.mark.data
def test_naughty_strings(find, shared_data: Path) -> None:
    check(find, json.loads((shared_data / "blns" / "blns.json").read_text(encoding="utf-8")))


def test_parts_of_texts() -> None:
    points = tf.strings.unicode_decode("aé中😀", "UTF-8")
    starts, ends = tf.constant([0, 1, 2], tf.int64), tf.constant([0, 3, 4], tf.int64)
    found = basic_words.spelled(points, starts, ends).numpy()
    assert [part.decode() for part in found] == ["", "é中", "中😀"]


def test_flags_beyond_the_end_are_none() -> None:
    """Positions beyond the end of a row set no flag."""
    found = basic_words.flags_at(tf.constant([0, 2, 2, 3], tf.int64), tf.constant(3))
    assert found.numpy().tolist() == [True, False, True]
