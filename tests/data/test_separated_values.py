"""Fields of CSV and TSV files are split by the right separator, also within quotes."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data import separated_values
from bert_keras.errors import DataError
from tests.tables import table_rows


def test_comma_separated_fields_are_quoted(tmp_path: Path) -> None:
    data = 'id,text\r\n1,"a, ""b""\r\n\r\nc"\r\n\r\n2,d "e"\r\n"3",""\r\n'
    expected = [(2, ['a, "b"\n\nc']), (6, ['d "e"']), (7, [""])]
    assert table_rows(tmp_path, data, ["text"], name="a.csv") == expected
    plain = table_rows(tmp_path, 'id,text\n1,"a\n', ["text"], name="a.csv", quoting=False)
    assert plain == [(2, ['"a'])]
    semicolons = table_rows(tmp_path, 'text;n\n"a;b";1\n', ["text"], name="a.csv", separator=";")
    assert semicolons == [(2, ["a;b"])]
    assert table_rows(tmp_path, 'text\tn\n"a\tb"\t1\n', ["text"], quoting=True) == [(2, ["a\tb"])]


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.just("x"))))
def test_what_a_csv_writer_writes_comes_back(rows: list[tuple[str, str]]) -> None:
    """Rows that `csv.writer` wrote are read back with their line numbers.

    Line ends within a field become LF.
    """
    kept = [(text.replace("\0", "").replace("\r", "\n"), other) for text, other in rows]
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b"])
    writer.writerows(kept)
    with tempfile.TemporaryDirectory() as folder:
        if not kept:
            with pytest.raises(DataError, match="no rows"):
                table_rows(Path(folder), text.getvalue(), ["a", "b"], name="a.csv")
            return
        found = table_rows(Path(folder), text.getvalue(), ["a", "b"], name="a.csv")
    assert [tuple(values) for _, values in found] == kept
    line = 2
    for (number, _), (field, _) in zip(found, kept, strict=True):
        assert number == line
        line += 1 + field.count("\n")


def test_long_fields_are_read_and_the_limit_of_the_process_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    text = "x" * 200_000
    found = table_rows(tmp_path, f'text,n\n"{text}",1\n{text},2\n', ["text", "n"], name="a.csv")
    assert found == [(2, [text, "1"]), (3, [text, "2"])]
    assert csv.field_size_limit() == before == 131_072


def test_a_field_beyond_the_bound_is_refused_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert separated_values.MAX_FIELD == 2**24
    monkeypatch.setattr(separated_values, "MAX_FIELD", 1000)
    data = 'a,b\n1,"' + "x" * 1001 + '"\n'
    with pytest.raises(DataError, match=r"a\.csv:2: .*more than 1,000 characters"):
        table_rows(tmp_path, data, ["a"], name="a.csv")
    assert csv.field_size_limit() == 131_072


# === Separators that are not the usual ones ===


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_a_header_shows_its_separator(tmp_path: Path, name: str, separator: str) -> None:
    """A file whose columns have other separators than its ending says is read, with a warning."""
    rows = [["text", "label"], ["good", "1"], ["it is", "0"]]
    data = "".join(f"{separator.join(row)}\n" for row in rows)
    usual = "," if name == "a.csv" else "\t"
    if separator == usual:
        found = table_rows(tmp_path, data, ["text", "label"], name=name)
    else:
        with pytest.warns(UserWarning, match=rf"{name}:1: .* by {re.escape(repr(separator))}, not"):
            found = table_rows(tmp_path, data, ["text", "label"], name=name)
    assert found == [(2, ["good", "1"]), (3, ["it is", "0"])]


def test_quotes_hold_a_field_with_another_separator(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="by ';', not by"):
        found = table_rows(tmp_path, 'text;label\n"a; b";1\n', ["text"], name="a.tsv")
    assert found == [(2, ["a; b"])]


def test_a_separator_without_the_names_is_said(tmp_path: Path) -> None:
    message = (
        r"a\.csv:1: no column 'text'\. .*separator ';' the columns are \['texte', 'é'\].*text="
    )
    with pytest.raises(DataError, match=message):
        table_rows(tmp_path, "texte;é\na;b\n", ["text", "label"], name="a.csv")
    with pytest.raises(DataError, match=r"no column 1\. .*separator ';'"):
        table_rows(tmp_path, "a;b\n", [0, 1], name="a.csv", header=False)
    with pytest.raises(DataError, match=r"no column 'text'\. Received: \['a', 'b'\]"):
        table_rows(tmp_path, "a,b\n1;2,3\n", ["text"], name="a.csv")


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;", "\ufeffsep=;", "sep=;\r"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_first_line_names_the_separator(tmp_path: Path, name: str, first: str) -> None:
    data = f'{first}\ntext;label\n"a; b";1\n'
    assert table_rows(tmp_path, data, ["text"], name=name) == [(3, ["a; b"])]
    quoted = table_rows(tmp_path, data, [1], name=name, separator=";", quoting=True)
    assert quoted == [(3, ["1"])]
    rows = table_rows(tmp_path, f"{first}\na;1\n", [1], name=name, header=False)
    assert rows == [(2, ["1"])]
    with pytest.raises(DataError, match=rf"{name}:2: no column 'words'"):
        table_rows(tmp_path, data, ["words"], name=name)
