"""Arguments of `fit` that are text, and their columns."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pytest

from bert_keras.models.text_columns import find_text

TEXTS, SECONDS = ["one", "two", "three"], ["uno", "dos", "tres"]


class Frame:
    """A table with the interface of a pandas DataFrame."""

    def __init__(self, columns: dict[str, Any]):
        self._columns = columns
        self.columns, self.iloc = list(columns), None

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]


@pytest.mark.parametrize(
    ("x", "count"),
    [
        (TEXTS, 1),
        (tuple(TEXTS), 1),
        (np.array(TEXTS), 1),
        (pa.array(TEXTS), 1),
        ((TEXTS, SECONDS), 2),
        ({"text": TEXTS}, 1),
        (Frame({"left": TEXTS, "right": SECONDS}), 2),
        (pa.table({"pair": SECONDS, "text": TEXTS}), 2),
    ],
)
def test_text_is_found(x: Any, count: int) -> None:
    found = find_text(x, ("text", "pair"))
    assert found is not None
    assert len(found.columns) == count
    assert len(found.columns[0]) in (2, 3)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([], "No texts. Received: an empty list"),
        ((), "No texts. Received: an empty tuple"),
        (list(zip(TEXTS, SECONDS, strict=True)), r"reads columns, text and pair, .*zip\(\*rows\)"),
        ([list(TEXTS)], "Received: a list of rows"),
        (np.array([TEXTS, SECONDS]).T, "Received: a ndarray of rows"),
    ],
)
def test_rows_and_nothing_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_text(x, ("text", "pair"))


def test_lists_of_words_are_one_column() -> None:
    found = find_text([["a", "word"], ["b"]], ("words",))
    assert found is not None
    assert found.columns == ([["a", "word"], ["b"]],)


def test_a_tuple_of_sentences_is_one_column_for_a_task_that_reads_one() -> None:
    words = (("a", "word"), ("b",))
    found = find_text(words, ("words",))
    assert found is not None
    assert found.columns == (words,)


def test_columns_come_in_the_order_of_the_task() -> None:
    found = find_text({"context": SECONDS, "question": TEXTS}, ("question", "context"))
    assert found is not None
    assert found.columns == (TEXTS, SECONDS)
    other = find_text({"premise": TEXTS, "hypothesis": SECONDS}, ("text", "pair"))
    assert other is not None
    assert other.columns == (TEXTS, SECONDS)


@pytest.mark.parametrize(
    "x",
    [
        {"token_ids": np.zeros((2, 3), np.int32)},
        np.zeros((2, 3)),
        {},
        None,
        iter(TEXTS),
        [1, 2],
        [{"token_ids": 1}],
    ],
)
def test_features_are_no_text(x: Any) -> None:
    assert find_text(x, ("text", "pair")) is None


def test_tf_data_of_strings_is_text() -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.data is read under the TensorFlow backend")
    import tensorflow as tf

    make = tf.data.Dataset.from_tensor_slices
    texts_and_labels: Any = ({"text": TEXTS}, SECONDS)
    cases = [
        (make(TEXTS), 1, None),
        (make((TEXTS, [1, 0, 1])), 1, [1, 0, 1]),
        (make((TEXTS, SECONDS)).map(lambda a, b: ((a, b), 1.5)), 2, [1.5] * 3),
        (make(texts_and_labels).batch(2), 1, SECONDS),
    ]
    for dataset, count, targets in cases:
        found: Any = find_text(dataset, ("text", "pair"))
        assert len(found.columns) == count
        assert found.columns[0] == TEXTS
        assert found.y == targets
    assert find_text(make([1, 2]), ("text",)) is None


def test_tf_data_has_columns_targets_and_weights_as_keras_reads_them() -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.data is read under the TensorFlow backend")
    import tensorflow as tf

    make: Any = tf.data.Dataset.from_tensor_slices
    swapped = {"context": SECONDS, "question": TEXTS}
    weighed = (TEXTS, {"label": [0, 1, 0]}, [0.5, 1.0, 2.0])
    for data in (make(swapped), make(swapped).batch(2)):
        found: Any = find_text(data, ("question", "context"))
        assert found.columns == (TEXTS, SECONDS)
    for data in (make(weighed), make(weighed).batch(2)):
        found = find_text(data, ("text", "pair"))
        assert (found.columns, found.y) == ((TEXTS,), [0, 1, 0])
        assert found.sample_weight == [0.5, 1.0, 2.0]
    flags = [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    for data in (make((TEXTS, flags)), make((TEXTS, flags)).batch(2)):
        found = find_text(data, ("text", "pair"))
        assert [row.tolist() for row in found.y] == flags
    with pytest.raises(ValueError, match=r"one column. Received: 2, a, b"):
        find_text(make((TEXTS, {"a": [0] * 3, "b": [0] * 3})), ("text", "pair"))


@pytest.mark.parametrize(
    "names",
    [("text", "label"), ("review", "label"), ("text", "other"), ("a", "b", "c"), ("text", "y")],
)
def test_a_column_that_the_task_does_not_read_is_refused(names: tuple[str, ...]) -> None:
    """A label that is taken for the second text of a pair leaks into the input."""
    for table in (dict.fromkeys(names, TEXTS), Frame(dict.fromkeys(names, TEXTS))):
        with pytest.raises(ValueError, match=r"the task reads text, pair\. .* targets as `y`"):
            find_text(table, ("text", "pair"))


def test_a_table_with_a_column_of_numbers_is_no_text() -> None:
    assert find_text({"text": TEXTS, "number": [1, 2, 3]}, ("text", "pair")) is None
