"""Queries with lists of documents become padded batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bert_keras import Tokenizer
from bert_keras.data import encode
from bert_keras.data.text_ranking import (
    RankingExamples,
    grouped_by_query,
    ranking_columns,
    ranking_examples,
)
from bert_keras.errors import DataError
from bert_keras.features import PADDING_MASK, SCORE, TOKEN_IDS
from tests.tokenizers.samples import VOCABULARY

QUERIES = ["hello", "want the", "mask"]
DOCUMENTS = [["hello world"], ["the want", "mask sep", "hello"], ["sep mask", "the"]]
RELEVANCE = [[1], [2.0, 0.0, 0.5], [0, 3]]


def examples(**options: Any) -> RankingExamples:
    options = {"batch_size": 2, "seed": None, "multiple_of": 1, **options}
    return ranking_examples(Tokenizer(VOCABULARY), QUERIES, DOCUMENTS, RELEVANCE, **options)


def test_batches_are_padded_to_the_longest_list() -> None:
    made = examples()
    assert (len(made), made.num_batches(), made.num_rows) == (3, 2, 6)
    x, y, weights = made.batch_of(0, np.array([0, 1]))
    assert x[TOKEN_IDS].shape[:2] == (2, 3)
    np.testing.assert_array_equal(y[SCORE], [[1, 0, 0], [2, 0, 0.5]])
    np.testing.assert_array_equal(weights[SCORE], [[1, 0, 0], [1, 1, 1]])
    tokenizer = Tokenizer(VOCABULARY)
    rows = encode(tokenizer, ["want the"] * 3, DOCUMENTS[1], max_length=128)
    for place in range(3):
        tokens = x[TOKEN_IDS][1, place][x[PADDING_MASK][1, place] > 0]
        np.testing.assert_array_equal(tokens, rows[place])
    # No row is empty: attention over padding alone would be NaN.
    assert x[PADDING_MASK].sum(axis=-1).min() == 1
    x, *_ = made.batch_of(0, np.array([0]))
    assert x[TOKEN_IDS].shape[:2] == (1, 1)


def test_lists_of_one_length_have_no_padding() -> None:
    made = ranking_examples(Tokenizer(VOCABULARY), QUERIES, QUERIES, [0, 1, 0], max_length=16)
    _, y, weights = made.batch_of(0, np.arange(3))
    np.testing.assert_array_equal(y[SCORE], [[0], [1], [0]])
    np.testing.assert_array_equal(weights[SCORE], np.ones((3, 1)))


def test_rows_with_one_query_make_one_list() -> None:
    queries, documents, relevance, rows = grouped_by_query("abab", "wxyz", [1, 2, 3, 4])
    assert queries == ["a", "b"]
    assert documents == [["w", "y"], ["x", "z"]]
    assert (relevance, rows) == ([[1, 3], [2, 4]], [[0, 2], [1, 3]])
    made = ranking_examples(Tokenizer(VOCABULARY), [*"abab"], [*"wxyz"], [1, 2, 3, 4], seed=None)
    made.weigh([1, 2, 3, 4])
    _, y, weights = made.batch_of(0, np.arange(2))
    np.testing.assert_array_equal(y[SCORE], [[1, 3], [2, 4]])
    np.testing.assert_array_equal(weights[SCORE], [[1, 3], [2, 4]])


def test_weights_of_queries() -> None:
    made = examples()
    made.weigh([2, 0, 1])
    *_, weights = made.batch_of(0, np.arange(3))
    np.testing.assert_array_equal(weights[SCORE], [[2, 0, 0], [0, 0, 0], [1, 1, 0]])


def test_columns() -> None:
    assert ranking_columns(np.array(["a"]), ("b",)) == (["a"], [["b"]], False)
    assert ranking_columns(["a"], [("b", "c")]) == (["a"], [["b", "c"]], True)


BAD: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "2 rows of documents": (DataError, lambda: ranking_columns(["a"], ["b", "c"])),
    "row 1 is an empty list": (DataError, lambda: ranking_columns(["a", "b"], [["c"], []])),
    "3 queries with 6": (ValueError, lambda: examples().weigh([1, 2])),
    "the weight of row 1": (DataError, lambda: examples().weigh([1, -2, 3])),
    "from 0 to 1. Received: 2": (DataError, lambda: examples(highest=1.0)),
    "1 of 3 queries with fewer": (DataError, lambda: examples(least_documents=2)),
    "a number for each document.* also in row 0": (
        DataError,
        lambda: ranking_examples(Tokenizer(VOCABULARY), ["a"], [["b", "c"]], [[1]]),
    ),
    "must be finite. Received: 'x'": (
        DataError,
        lambda: ranking_examples(Tokenizer(VOCABULARY), ["a"], [["b"]], [["x"]]),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_messages(message: str) -> None:
    error, call = BAD[message]
    with pytest.raises(error, match=message):
        call()
