"""Columns of texts, labels and words become plain values, whatever type holds them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.data.columns import is_all_str, is_text, labels_of, texts_of, words_of_rows
from bert_keras.data.examples import Choices, TaggedWords, Texts
from bert_keras.data.text_classification import targets_of
from bert_keras.errors import DataError
from tests.case_names import case_name

TEXTS = ["good", "schön", "好"]
NAN = float("nan")


class _Series:
    """Stand-in for a pandas Series: its index finds the rows, and may start above 0."""

    __module__ = "pandas.core.series"

    def __init__(self, values: Sequence[Any]):
        self._values = list(values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, label: Any) -> Any:
        raise KeyError(label)

    def tolist(self) -> list[Any]:
        return list(self._values)


class _Column(Sequence):
    """Stand-in for a column of the `datasets` library, whose slices are lists."""

    __module__ = "datasets.arrow_dataset"

    def __init__(self, values: Sequence[Any]):
        self._values = list(values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        assert isinstance(key, slice) or key == 0, "rows are read one by one"
        return self._values[key]


class _Frame:
    """Stand-in for a pandas DataFrame: iterating gives the names of its columns."""

    __module__ = "pandas.core.frame"
    columns = ("text", "label")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class NAType:
    """Stand-in for the missing value of pandas, which has no truth value."""

    __module__ = "pandas._libs.missing"

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self) -> str:
        return "<NA>"

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _arrow(values: Any) -> Any:
    return pytest.importorskip("pyarrow").array(values)


def _chunked(values: Any) -> Any:
    return pytest.importorskip("pyarrow").chunked_array([values])


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy U": lambda values: np.array(values, np.str_),
    "numpy object": lambda values: np.array(values, object),
    "numpy S": lambda values: np.array([value.encode() for value in values]),
    "numpy T": lambda values: np.array(values, np.dtypes.StringDType()),
    "list of numpy str": lambda values: list(map(np.str_, values)),
    "like pandas": _Series,
    "like datasets": _Column,
    "pyarrow": _arrow,
    "pyarrow chunked": _chunked,
}
OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "like pandas": _Series,
    "like datasets": _Column,
}
MISSING: dict[str, Any] = {"None": None, "nan": NAN, "float32": np.float32("nan"), "NA": NAType()}
# pandas and datasets are optional. The tests above run without them.
if importlib.util.find_spec("pandas"):
    import pandas

    CONTAINERS |= {
        "pandas": lambda values: pandas.Series(values, index=range(5, 5 + len(values))),
        "pandas string": lambda values: pandas.Series(values, dtype="string"),
        "pandas category": lambda values: pandas.Series(values, dtype="category"),
        "pandas index": lambda values: pandas.Index(values),
    }
    OF_ROWS["pandas"] = CONTAINERS["pandas"]
    MISSING |= {"pandas NA": pandas.NA, "pandas NaT": pandas.NaT}
if importlib.util.find_spec("datasets"):
    import datasets

    CONTAINERS["datasets"] = lambda values: datasets.Dataset.from_dict({"x": values})["x"]


_any_container = pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)


def _are_plain(values: Any, *types: type) -> bool:
    return type(values) is list and set(map(type, values)) <= set(types)


@_any_container
def test_texts_of_every_container_become_a_list_of_plain_str(make: Callable[[Any], Any]) -> None:
    column = make(TEXTS)
    assert is_text(column)
    assert texts_of("texts", column) == labels_of("labels", column) == TEXTS
    assert _are_plain(texts_of("texts", column), str)
    assert _are_plain(labels_of("labels", column), str)


def test_generators_and_other_iterables_become_lists() -> None:
    generator = (text for text in TEXTS)
    assert not is_text(generator)  # The check must not consume the generator.
    assert texts_of("texts", generator) == TEXTS
    assert texts_of("texts", dict(enumerate(TEXTS)).values()) == TEXTS
    assert texts_of("texts", map(np.str_, TEXTS)) == TEXTS
    assert words_of_rows("words", (iter(TEXTS) for _ in range(2))) == [TEXTS, TEXTS]


def test_a_plain_list_is_not_copied() -> None:
    assert texts_of("texts", TEXTS) is TEXTS
    assert labels_of("labels", TEXTS) is TEXTS
    assert Texts(TEXTS, targets=TEXTS).texts is TEXTS
    rows = [TEXTS, TEXTS]
    assert TaggedWords(rows).words is rows
    assert is_all_str(TEXTS)
    assert not is_all_str([np.str_("a")])


def test_strings_of_other_classes_keep_their_text() -> None:
    class Color(str, Enum):  # noqa: UP042
        RED = "red"

    assert texts_of("texts", [Color.RED]) == ["red"]
    assert _are_plain(texts_of("texts", [Color.RED]), str)


@pytest.mark.parametrize(
    "x",
    [
        "a text",
        np.str_("a text"),
        [["two", "words"], ["one"]],
        [("two", "words")],
        [np.array(["two", "words"])],
        np.array([["a", "b"]]),
        np.array([["two", "words"], ["one"]], object),
        [None, "a"],
        [NAN, NAType(), "a"],
        np.array([None, "a"], object),
        _Series([None, NAN, "a"]),
        _Series([["a"], ["b"]]),
        (["a"], ["b"]),
    ],
    ids=case_name,
)
def test_what_is_text(x: Any) -> None:
    assert is_text(x)


@pytest.mark.parametrize(
    "x",
    [
        None,
        5,
        [],
        [None, NAN],
        [1, 2],
        {"text": ["a"]},
        [{"text": "a"}],
        {"token_ids": np.zeros((2, 3))},
        np.zeros((2, 3)),
        [np.zeros(3)],
        np.array([None, 1], object),
        _Series([1, 2]),
        _Frame(),
        iter(["a"]),
        range(3),
        {"a"},
    ],
    ids=case_name,
)
def test_what_is_no_text(x: Any) -> None:
    assert not is_text(x)


def test_tensors_and_datasets_of_keras_are_no_text() -> None:
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            raise AssertionError("a batch was read")

    assert not is_text(Batches())
    assert not is_text(keras.ops.zeros((2, 3)))
    assert not is_text(keras.Input((3,)))


def test_columns_of_arrow_tables() -> None:
    arrow = pytest.importorskip("pyarrow")
    assert is_text(arrow.array([None, "a"]))
    assert not is_text(arrow.array([1, 2]))
    assert not is_text(arrow.table({"text": ["a"]}))
    assert texts_of("texts", arrow.array(["a", "b"]).dictionary_encode()) == ["a", "b"]
    assert words_of_rows("words", arrow.array([["a", "b"], ["c"]])) == [["a", "b"], ["c"]]
    with pytest.raises(DataError, match=r"one column is needed.*Table with \['text'\]"):
        texts_of("texts", arrow.table({"text": ["a"]}))


@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("read", [texts_of, labels_of, words_of_rows])
@pytest.mark.parametrize("make", OF_ROWS.values(), ids=OF_ROWS)
def test_missing_values_are_refused_by_row(make: Any, read: Any, missing: Any) -> None:
    good: Any = ["a"] if read is words_of_rows else "a"
    with pytest.raises(DataError, match="row 1") as caught:
        read("column", make([good, missing]))
    assert "row 0" not in str(caught.value)
    assert re.search(r"Received: (None|nan|np\.float32|<NA>|NaT)", str(caught.value))


def test_all_bad_rows_are_named_together() -> None:
    column: list[Any] = ["a", None, 5, "b", b"\xff", *[None] * 30]
    with pytest.raises(DataError) as caught:
        texts_of("texts", column)
    lines = str(caught.value).split("\n")
    assert lines[0] == "33 errors:"
    assert lines[1] == (
        "texts: row 1 is missing. Received: None. Drop the rows without a value, or fill them. "
        "The same holds for rows 5, 6 and 28 more."
    )
    assert lines[2] == (
        "texts: row 2 is of type int, not str. Received: 5. Convert it to str, or drop the row."
    )
    assert lines[3].startswith("texts: row 4 is not UTF-8")
    assert len(lines) == 4


def test_rows_have_the_names_of_their_places() -> None:
    places = ["a.tsv:2", "a.tsv:5"]
    for read in (texts_of, labels_of):
        with pytest.raises(DataError, match=r"column: a.tsv:5 is missing"):
            read("column", ["a", None], places)
    with pytest.raises(
        DataError, match=r"a.tsv:5: words: item 1 is of type int, not str. Received: 3"
    ):
        words_of_rows("words", [["a"], ["b", 3]], places)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("a text", r"not one str\. Received: 'a text'\. Pass a list: \["),
        (np.array("a text"), "not one str"),
        (np.str_("a text"), "not one str"),
        (None, "column with an order is needed. Received: None"),
        (5, "column with an order is needed. Received: 5"),
        ({"a"}, "column with an order"),
        ({"text": ["a"]}, r"one column is needed, not a table.*dict with \['text'\]"),
        (_Frame(), r"one column is needed.*_Frame with \['text', 'label'\]"),
    ],
    ids=case_name,
)
@pytest.mark.parametrize("read", [texts_of, labels_of, words_of_rows])
def test_what_is_no_column_is_refused(read: Any, column: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^name: .*{message}"):
        read("name", column)


def test_labels_become_plain_python_values() -> None:
    column = [np.str_("a"), b"b", np.int64(3), 4, np.bool_(True), False, np.float32(0.5), 1.5]
    found = labels_of("labels", column)
    assert found == ["a", "b", 3, 4, True, False, 0.5, 1.5]
    assert list(map(type, found)) == [str, str, int, int, bool, bool, float, float]
    for numbers in (np.array([2, 0], np.int8), _Series([np.int64(2), np.int64(0)])):
        assert labels_of("labels", numbers) == [2, 0]
        assert _are_plain(labels_of("labels", numbers), int)
    assert _are_plain(labels_of("labels", np.array([0.5, 2.0])), float)
    assert _are_plain(labels_of("labels", np.array([True, False])), bool)


def test_several_labels_of_a_row_become_a_tuple() -> None:
    rows = [["b", "a"], {"b", "a"}, ("a",), np.array(["a"]), np.array([2, 1]), (), _Series(["x"])]
    found = labels_of("labels", rows)
    assert found == [("b", "a"), ("a", "b"), ("a",), ("a",), (2, 1), (), ("x",)]
    with pytest.raises(DataError, match="labels: row 1 is missing"):
        labels_of("labels", [["a"], ["b", None]])


def test_labels_of_tensors_are_numbers() -> None:
    import keras

    tensor = keras.ops.convert_to_tensor([1, 0], dtype="int32")
    assert labels_of("labels", tensor) == [1, 0]
    assert labels_of("labels", list(tensor)) == [1, 0]
    assert _are_plain(labels_of("labels", tensor), int)


def test_other_objects_are_no_labels() -> None:
    with pytest.raises(
        DataError, match=r"labels: row 1 is of type dict, which cannot be a label. Received: {}"
    ):
        labels_of("labels", ["a", {}])
    with pytest.raises(DataError, match="labels: row 0 is of type object"):
        labels_of("labels", [object()])


@pytest.mark.parametrize("make", OF_ROWS.values(), ids=OF_ROWS)
@pytest.mark.parametrize("inner", [list, tuple, np.array, _Series, iter])
def test_words_of_rows_become_lists_of_plain_str(make: Any, inner: Any) -> None:
    found = words_of_rows("words", make([inner(["two", "words"]), inner(["one"])]))
    assert found == [["two", "words"], ["one"]]
    assert all(_are_plain(row, str) for row in found)


def test_a_text_among_rows_of_words_is_refused() -> None:
    with pytest.raises(DataError, match="row 1: words: a sequence of str is needed, not one str"):
        words_of_rows("words", [["a"], "b c"])


@_any_container
def test_examples_are_made_of_every_container(make: Callable[[Any], Any]) -> None:
    texts = Texts(make(TEXTS), make(TEXTS), make(["x", "y", "x"]))
    assert (list(texts.texts), list(texts.pairs or ())) == (TEXTS, TEXTS)
    assert targets_of(texts, ["y", "x"], "single_label").tolist() == [1, 0, 1]
    choices = Choices(make(TEXTS), [make(TEXTS)] * 3, np.array([0, 1, 2]))  # pyright: ignore[reportArgumentType]
    assert list(choices.prompts) == TEXTS
    assert [list(row) for row in choices.options] == [TEXTS] * 3
    assert _are_plain(choices.answers, int)
    words = TaggedWords([make(TEXTS)], [make(TEXTS)])
    assert [list(row) for row in words.words] == [list(row) for row in words.tags or ()] == [TEXTS]


@pytest.mark.parametrize("make", OF_ROWS.values(), ids=OF_ROWS)
def test_examples_do_not_look_rows_up_by_the_index_of_pandas(make: Any) -> None:
    words = TaggedWords(make([["a", "b"], ["c"]]), make([["O", "B-X"], ["O"]]))
    assert list(words.words) == [["a", "b"], ["c"]]
    assert list(words.tags or ()) == [["O", "B-X"], ["O"]]
    choices = Choices(make(["p", "q"]), make([["x", "y"], ["x", "z"]]), make([1, 0]))
    assert list(choices.answers or ()) == [1, 0]
    assert list(choices.options) == [["x", "y"], ["x", "z"]]


def test_examples_refuse_missing_values_by_row() -> None:
    with pytest.raises(DataError, match=r"texts: row 1 is missing. Received: nan"):
        Texts(_Series(["a", NAN]))  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=r"pairs: f:2 is missing. Received: None"):
        Texts(["a", "b"], ["c", None], places=["f:1", "f:2"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=r"targets: row 0 is missing. Received: <NA>"):
        Texts(["a", "b"], targets=[NAType(), "x"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="row 1: tags: item 0 is missing"):
        TaggedWords([["a"], ["b"]], [["O"], [None]])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="answers: row 1 is missing"):
        Choices(["a", "b"], [["x", "y"]] * 2, [0, None])  # pyright: ignore[reportArgumentType]


def test_the_module_imports_no_library_of_columns() -> None:
    import bert_keras.data.columns as module

    source = Path(module.__file__).read_text(encoding="utf-8")
    for library in ("pandas", "pyarrow", "datasets", "polars"):
        assert f"import {library}" not in source
