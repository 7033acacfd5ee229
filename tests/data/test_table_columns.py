"""Names of columns, Parquet files, folders of `datasets`, and Arrow streams."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data import read_entities, read_table, table_columns
from bert_keras.errors import DataError, UsageError
from tests.tables import rows_of


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"text": ["x", "y", None], "label": [1, 0, 2], "tags": [["a"], [], None]}
    parquet.write_table(arrow.table(columns), path, row_group_size=2)
    found = rows_of(path, ["tags", "text", "label"])
    assert found == [(1, [["a"], "x", 1]), (2, [[], "y", 0]), (3, [None, None, 2])]
    assert rows_of(path, [0, "text"]) == [(1, ["x"] * 2), (2, ["y"] * 2), (3, [None] * 2)]
    with pytest.raises(DataError, match=r"a\.parquet: no column 'body'.*'text', 'label', 'tags'"):
        rows_of(path, ["body"])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        DataError, match=r"a\.parquet: cannot be read as Parquet after row 0: .*[a-z].$"
    ):
        rows_of(path, ["text"])
    with pytest.raises(DataError, match=r"gone\.parquet: cannot be read as Parquet"):
        rows_of(tmp_path / "gone.parquet", ["text"])


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[finetune\]"'):
        rows_of(tmp_path / "a.parquet", ["a"])


def test_names_that_match() -> None:
    names = ["Label", "text ", "ﬁeld", 3]
    assert table_columns.matching_names("label", names) == ["Label"]
    assert table_columns.matching_names("TEXT", names) == ["text "]
    assert table_columns.matching_names("field", names) == ["ﬁeld"]
    assert table_columns.matching_names("3", names) == []


# === Folders that the library `datasets` writes ===


COLUMNS = {
    "text": ["good", "bad", "fine"],
    "label": [1, 0, 1],
    "tokens": [["a", "b"], ["c"], ["d"]],
    "ner_tags": [[0, 1], [1], [2]],
}
FEATURES: dict[str, Any] = {
    "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    "ner_tags": {
        "feature": {"names": ["O", "B-X", "I-X"], "_type": "ClassLabel"},
        "_type": "List",
    },
}


def write_folder(folder: Path, columns: dict[str, Any], features: dict[str, Any]) -> Path:
    """Write the folder of a dataset in two Arrow files, as `Dataset.save_to_disk` does."""
    arrow = pytest.importorskip("pyarrow")
    folder.mkdir(parents=True)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = arrow.table(columns).replace_schema_metadata(metadata)
    names = [f"data-{number}.arrow" for number in range(2)]
    for name, part in zip(names, (table.slice(0, 2), table.slice(2)), strict=True):
        with (
            arrow.OSFile(str(folder / name), "wb") as file,
            arrow.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(part)
    state = {"_data_files": [{"filename": name} for name in names]}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def test_a_folder_of_a_dataset(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", COLUMNS, FEATURES)
    expected = [(1, ["good", "pos"]), (2, ["bad", "neg"]), (3, ["fine", "pos"])]
    assert rows_of(folder, ["text", "Label"]) == expected
    assert rows_of(folder, ["ner_tags"]) == [(1, [["O", "B-X"]]), (2, [["B-X"]]), (3, [["I-X"]])]
    assert table_columns.names_of_columns(folder) == list(COLUMNS)
    texts = read_table(folder, text="text", label="label")
    assert (texts.targets, texts.places[2]) == (("pos", "neg", "pos"), f"{folder}:3")
    with pytest.raises(DataError, match=r"set: no column 'body'.*'text', 'label'"):
        rows_of(folder, ["body"])


def test_folders_that_the_library_itself_writes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    names = {"label": datasets.ClassLabel(names=["neg", "pos"]), "text": datasets.Value("string")}
    made = datasets.Dataset.from_dict(
        {"label": [1, 0], "text": ["a", "b"]}, features=datasets.Features(names)
    )
    datasets.DatasetDict(train=made, validation=made.select([1])).save_to_disk(str(tmp_path / "d"))
    assert rows_of(tmp_path / "d" / "train", ["text", "label"]) == [
        (1, ["a", "pos"]),
        (2, ["b", "neg"]),
    ]
    made.select([1]).save_to_disk(str(tmp_path / "one"))
    assert rows_of(tmp_path / "one", ["text"]) == [(1, ["b"])]


def test_a_split_of_several(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        write_folder(tmp_path / "d" / split, COLUMNS, FEATURES)
    path = tmp_path / "d" / "dataset_dict.json"
    path.write_text('{"splits": ["train", "validation"]}')
    folder = path.parent
    assert table_columns.splits_of(folder) == ["train", "validation"]
    assert table_columns.split_folder(folder, "dev", "validation") == folder / "validation"
    assert table_columns.split_folder(folder / "train", "dev") == folder / "train"
    with pytest.raises(UsageError, match=r"splits train, validation\. Name .*train"):
        rows_of(folder, ["text"])
    path.write_text('{"splits": ["train"]}')
    assert len(rows_of(folder, ["text"])) == 3


def test_folders_that_are_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a folder without rows.*save_to_disk"):
        rows_of(tmp_path, ["text"])
    folder = write_folder(tmp_path / "set", COLUMNS, FEATURES | {"label": {"names": ["only"]}})
    with pytest.raises(DataError, match=r"set:1: 'label' must be a class number from 0 to 0.*: 1,"):
        rows_of(folder, ["label"])
    (folder / "data-1.arrow").write_bytes(b"no arrow")
    with pytest.raises(DataError, match=r"data-1\.arrow: damaged"):
        rows_of(folder, ["text"])
    state = folder / "state.json"
    for name in ("../set/data-0.arrow", "gone.arrow", 3):
        state.write_text(json.dumps({"_data_files": [{"filename": name}]}))
        with pytest.raises(DataError, match="no such file of the dataset"):
            rows_of(folder, ["text"])
    state.write_text("{}")
    with pytest.raises(DataError, match=r"set: not a folder of rows"):
        rows_of(folder, ["text"])


def test_class_names_in_parquet_are_asked_for(tmp_path: Path) -> None:
    """A table of labels keeps its numbers, as before; a file of tags has their names."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    metadata = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table(COLUMNS).replace_schema_metadata(metadata), path)
    assert rows_of(path, ["label", "ner_tags"])[0] == (1, [1, [0, 1]])
    named = table_columns.parquet_rows(path, ["label", "ner_tags"], named_classes=True)
    assert next(named) == (1, ["pos", ["O", "B-X"]])
    assert read_entities(path, text="tokens").tags == [["O", "B-X"], ["B-X"], ["B-X"]]
    assert table_columns.names_of_columns(path) == list(COLUMNS)


# === Tables that only export an Arrow stream ===


class Stream:
    """Table or column of a library that has nothing but the stream, as polars has it."""

    def __init__(self, value: Any):
        self._value = value

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._value.__arrow_c_stream__(requested_schema)


class ToArrow:
    """Table of a library with the method `to_arrow`."""

    def __init__(self, value: Any):
        self._value = value

    def to_arrow(self) -> Any:
        return self._value


@pytest.mark.parametrize("wrap", [Stream, ToArrow])
def test_tables_and_columns_of_arrow_streams(wrap: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"text": ["a", None], "words": [["a"], []]})
    assert table_columns.from_arrow_stream(wrap(table)).to_pydict() == table.to_pydict()
    column = table_columns.from_arrow_stream(wrap(table["words"]))
    assert column.to_pylist() == [["a"], []]
    empty = table_columns.from_arrow_stream(wrap(table.slice(0, 0)))
    assert empty.column_names == ["text", "words"]
    for other in ([1], "a", {"a": 1}, None):
        assert table_columns.from_arrow_stream(other) is other


def test_streams_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'A ToArrow needs pyarrow.*"bert-keras\[finetune\]"'):
        table_columns.from_arrow_stream(ToArrow(None))
