"""JSON lines and Parquet to rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bert_keras.errors import DataError
from tests.tables import rows_of


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"b": 1, "a": "x\\ny"}\n{"a": null, "b": [1.5, "z"], "c": 0}\n')
    expected = [(2, ["x\ny", 1]), (3, [None, [1.5, "z"]])]
    assert rows_of(path, ["a", "b"]) == expected


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
