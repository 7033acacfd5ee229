"""Rows to predict, from lines and tables."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from bert_keras import BertEncoder, MultipleChoice, QuestionAnswerer
from bert_keras.errors import DataError
from bert_keras.predictor import Row, file_lines, keys_of, line_rows, standard_input, table_rows
from tests.contracts import TINY


def test_the_keys_of_a_task() -> None:
    encoder = BertEncoder(TINY)
    assert keys_of(encoder) == ("text", "pair")
    assert keys_of(QuestionAnswerer(encoder)) == ("question", "context")
    assert keys_of(MultipleChoice(encoder)) == ("prompt", "options")


def test_lines_by_names_of_their_own() -> None:
    keys = keys_of(None)
    lines = ["plain\n", '{"a": "x", "b": "y"}', '{"a": "x"}']
    found = list(line_rows(lines, "f", keys, {"text": "a", "pair": "b"}))
    values = [("plain", None), ("x", "y"), ("x", None)]
    assert found == [Row(f"f:{n}", each) for n, each in enumerate(values, 1)]
    with pytest.raises(DataError, match="f:1: no 'a'"):
        list(line_rows(['{"text": "x"}'], "f", keys, {"text": "a"}))


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\nx,y,z\n")
    keys = keys_of(None)
    assert table_rows(path, keys, {"text": "a"}) == [Row(f"{path}:2", ("x", None))]
    assert table_rows(path, keys, {"text": "a", "pair": "c"})[0].values == ("x", "z")
    found = table_rows(path, ("question", "context"), {"question": "b", "context": "a"})
    assert found[0].values == ("y", "x")
    names = {"prompt": "a", "options": "b, c"}
    assert table_rows(path, ("prompt", "options"), names)[0].values == ("x", ["y", "z"])
    found = table_rows(path, keys, {"text": "2"}, header=False)
    assert [row.values[0] for row in found] == ["c", "z"]


def test_standard_input_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\nb\n")))
    assert list(standard_input()) == ["a\n", "b\n"]
    (tmp_path / "t.txt").write_text("a\nb\n")
    assert [line.rstrip() for line in file_lines(tmp_path / "t.txt")] == ["a", "b"]
