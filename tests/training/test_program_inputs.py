"""Words of a command line are texts, tables, lines or standard input."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.training.program_inputs import (
    input_rows,
    is_table,
    is_text,
    open_predictor,
    reading_of,
)

READING: dict[str, Any] = {
    "format": "",
    "header": True,
    "quoting": "auto",
    "separator": "",
    "encoding": "utf-8",
}


def _texts(word: str, column: str = "text") -> list[Any]:
    """Return the first value of each row."""
    rows = input_rows(word, ("text", "pair"), {"text": column}, reading_of(READING), name="text 1")
    return [row.values[0] for row in rows]


def test_a_word_is_a_text_unless_it_is_a_file_or_looks_like_one(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a")
    assert is_text("a film")
    assert not is_text(str(tmp_path / "notes"))
    assert not is_text("missing.csv")
    assert not is_text("-")


def test_tables_are_known_by_ending_or_format() -> None:
    assert is_table(Path("a.tsv"), None)
    assert is_table(Path("a.csv.gz"), "")
    assert is_table(Path("a.txt"), "tsv")
    assert not is_table(Path("a.txt"), None)


def test_rows_of_each_kind_of_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "table.tsv").write_text("n\tbody\n1\tthree\n2\tfour\n")
    with gzip.open(tmp_path / "table.csv.gz", "wt") as file:
        file.write("body\nfive\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"six\n"), "utf-8"))
    assert _texts("a film") == ["a film"]
    assert _texts(str(tmp_path / "lines.txt")) == ["one", "two"]
    assert _texts(str(tmp_path / "table.tsv"), "body") == ["three", "four"]
    assert _texts(str(tmp_path / "table.csv.gz"), "body") == ["five"]
    assert _texts("-") == ["six"]
    with pytest.raises(DataError, match="body"):
        _texts(str(tmp_path / "table.tsv"), "text")
    with pytest.raises(UsageError, match="quoting must be auto"):
        reading_of({**READING, "quoting": "often"})


def test_a_missing_model_is_one_message(tmp_path: Path) -> None:
    values: dict[str, Any] = dict.fromkeys(("variant", "precision", "device"), "")
    values |= {"batch_size": 32, "max_length": 0, "averages": False}
    values |= {"allow_pickle": False, "trust": False}
    with pytest.raises((ArtifactError, UsageError), match="missing"):
        open_predictor(str(tmp_path / "missing"), values)
