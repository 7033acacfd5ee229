"""Text arguments of `fit` and their columns."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pytest

from bert_keras.data.columns import texts_of
from bert_keras.errors import CoverageWarning
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.models.text_columns import (
    find_text,
    report_coverage,
    text_pair,
)
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY
from tests.data.test_table_columns import Stream
from tests.tokenizers.spaceless import sentences

TEXTS, SECONDS = ["one", "two", "three"], ["uno", "dos", "tres"]


class Frame:
    """Table with the interface of a pandas DataFrame."""

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
        (list(zip(TEXTS, SECONDS, strict=True)), r"as columns, text and pair, .*zip\(\*rows\)"),
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
    """An unknown column is refused.

    A label that is read as the second text leaks into the input.
    """
    for table in (dict.fromkeys(names, TEXTS), Frame(dict.fromkeys(names, TEXTS))):
        with pytest.raises(ValueError, match=r"the task reads text, pair\. .* targets as `y`"):
            find_text(table, ("text", "pair"))


@pytest.mark.parametrize(
    "make",
    [dict, Frame, pa.table, lambda columns: Stream(pa.table(columns))],
    ids=["dictionary", "frame", "Arrow", "stream"],
)
def test_a_table_with_a_column_of_numbers_is_refused(make: Any) -> None:
    """A table of texts and labels tells what to pass, whatever the labels are."""
    with pytest.raises(ValueError, match=r"text, label, and .* `y`, such as table\['label'\]"):
        find_text(make({"text": TEXTS, "label": [1, 2, 3]}), ("text", "pair"))


def test_tables_and_columns_of_arrow_streams_are_text() -> None:
    """A data frame of polars exports such a stream."""
    for x in (Stream(pa.table({"text": TEXTS})), Stream(pa.chunked_array([TEXTS]))):
        found = find_text(x, ("text", "pair"))
        assert found is not None
        assert texts_of("text", found.columns[0]) == TEXTS


def test_several_splits_are_refused() -> None:
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1, 0]})
    splits = datasets.DatasetDict(train=split, test=split)
    with pytest.raises(ValueError, match=r"'train', 'test'.* x=data\['train'\]\['text'\]"):
        find_text(splits, ("text", "pair"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (TEXTS, r"rows = x\.dataset; texts = list\(rows\); .*batch_size=2\)"),
        (list(zip(TEXTS, [0, 1, 0], strict=True)), r"texts, labels = zip\(\*rows\)"),
        ([{"text": text} for text in TEXTS], r"texts = \[row\['text'\] for row in rows\]"),
    ],
    ids=["texts", "pairs", "dictionaries"],
)
def test_a_loader_of_strings_says_what_to_pass(rows: Any, message: str) -> None:
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(rows, batch_size=2)
    with pytest.raises(ValueError, match=message):
        find_text(loader, ("text", "pair"))


def test_loaders_of_other_things_are_no_text() -> None:
    torch = pytest.importorskip("torch")

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(TEXTS)

    features = [{"token_ids": np.zeros(3)}]
    for rows in (features, [np.zeros(3)], Endless()):
        assert find_text(torch.utils.data.DataLoader(rows, batch_size=2), ("text",)) is None


def test_texts_come_alone_or_in_pairs() -> None:
    assert text_pair((["a"],)) == (["a"], None)
    assert text_pair((["a"], ["b"])) == (["a"], ["b"])
    with pytest.raises(ValueError, match="Received: 3 columns"):
        text_pair((["a"], ["b"], ["c"]))


# === Text that is [UNK] ===


TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *TEXTS])


def _reported(capsys: pytest.CaptureFixture[str], *columns: Any, verbose: Any = "auto") -> str:
    """Return what is printed about the coverage of columns."""
    unknown = np.array([TOKENIZER.unk_id])
    report_coverage(TOKENIZER, columns, unknown, verbose)
    return capsys.readouterr().out


def test_unknown_text_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    line = "50 % of the tokens are [UNK]. Check that the tokenizer fits the language"
    assert _reported(capsys, TEXTS, SECONDS).startswith(line)
    assert _reported(capsys, [["one", "uno"], ("two", "dos")]).startswith(line)
    assert _reported(capsys, pa.array(["one", "uno"])).startswith(line)
    assert _reported(capsys, TEXTS, SECONDS, verbose=0) == ""
    assert _reported(capsys, TEXTS * 100, ["uno"]) == ""


def test_words_that_are_too_long_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(CoverageWarning, match=r"^50 % of the words, with 97 % of the characters"):
        assert _reported(capsys, ["one", "z" * 101], verbose=0) == ""


def test_text_without_unknown_tokens_is_not_read() -> None:
    report_coverage(TOKENIZER, [None], np.array([5, 6]), "auto")


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
def test_fit_warns_of_text_without_spaces() -> None:
    config = TINY.replace(vocab_size=TOKENIZER.vocab_size)
    task = SequenceClassifier(BertEncoder(config), labels=["bad", "good"], tokenizer=TOKENIZER)
    texts = [*sentences(3, length=60), "one"]
    with pytest.warns(CoverageWarning, match="75 % of the words") as caught:
        task.fit(texts, ["bad", "good"] * 2, verbose=0, max_length=8)
    assert caught[0].filename == __file__
