"""JSON lines, CSV, TSV and Parquet files become rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import DataError
from tests.tables import rows_of, table_rows


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"b": 1, "a": "x\\ny"}\n{"a": null, "b": [1.5, "z"], "c": 0}\n')
    expected = [(2, ["x\ny", 1]), (3, [None, [1.5, "z"]])]
    assert rows_of(path, ["a", "b"]) == expected


# === Rows of every format, and each error that reading a table can raise ===


def test_tab_separated_fields_keep_their_quotes(tmp_path: Path) -> None:
    data = 'label\t text\n1\t"a\r\n\n0\tb"" \n'
    assert table_rows(tmp_path, data, ["text", "label"]) == [(2, ['"a', "1"]), (4, ['b"" ', "0"])]
    assert table_rows(tmp_path, data, [1], name="a.txt") == [(2, ['"a']), (4, ['b"" '])]


def test_files_without_a_header(tmp_path: Path) -> None:
    data = "gj04\t1\t\tA text.\n\ngj04\t0\t*\tB text.\n"
    expected = [(1, ["A text.", "1"]), (3, ["B text.", "0"])]
    assert table_rows(tmp_path, data, [3, 1], header=False) == expected
    # A column number may be text from a command line, or negative.
    assert table_rows(tmp_path, data, ["-1", "1"], header=False) == expected


def test_labels_in_front_of_texts(tmp_path: Path) -> None:
    data = b"DESC:manner How did\xa0it go ?\n\n4 Who  ? \n"
    options = {"name": "train.all", "format": "label_text", "encoding": "latin-1"}
    found = table_rows(tmp_path, data, ["text", "label", "fine"], **options)
    assert found == [(1, ["How did\xa0it go ?", "DESC", "DESC:manner"]), (3, ["Who  ?", "4", "4"])]


@pytest.mark.parametrize("name", ["a.tsv", "a.TSV.gz"])
def test_marks_and_compression(tmp_path: Path, name: str) -> None:
    """Byte order marks, gzip files and UTF-16 are read."""
    data = "\ufefftext\tlabel\nä\t1\n".encode()
    assert table_rows(tmp_path, data, ["text"], name=name) == [(2, ["ä"])]
    assert table_rows(tmp_path, gzip.compress(data), ["text"], name=name) == [(2, ["ä"])]
    wide = "text\tlabel\nä\t1\n".encode("utf-16")
    assert table_rows(tmp_path, wide, ["text"], encoding="utf-16", name=name) == [(2, ["ä"])]


_TSV, _CSV, _JSON = {}, {"name": "a.csv"}, {"name": "a.jsonl"}
_BARE = {"header": False}


@pytest.mark.parametrize(
    ("data", "columns", "options", "message"),
    [
        ("", ["a"], _TSV, r"a\.tsv: no rows\. Received: 0 bytes"),
        ("a\tb\n\n", ["a"], _TSV, r"a\.tsv: no rows\. Received: 5 bytes"),
        ("a\tb\n1\t2\n", ["c"], _TSV, r"a\.tsv:1: no column 'c'\. Received: \['a', 'b'\]"),
        ("\na\ta\n1\t2\n", ["a"], _TSV, r"a\.tsv:2: several columns 'a'"),
        ("a\tb\n1\t2\n", [2], _TSV, r"a\.tsv:1: no column 2\. Received: 2 columns"),
        ("\n1\t2\n", [2], _BARE, r"a\.tsv:2: no column 2\. Received: 2 columns"),
        ("1\t2\n", [-3], _BARE, r"a\.tsv:1: no column -3"),
        ("a\tb\n\n1\n", ["a"], _TSV, r"a\.tsv:3: too few fields\. Expected: 2, as in line 1\."),
        ("a\n\n1\t2\n", ["a"], _TSV, r"a\.tsv:3: too many fields\. Expected: 1.*\['1', '2'\]"),
        ("\n1\t2\n3\n", [0], _BARE, r"a\.tsv:3: too few fields\. Expected: 2, as in line 2\."),
        ("a\tb\n1\tx\0y\n", ["a"], _TSV, r"a\.tsv:2: character 4 of the line is NUL"),
        ("a\n1\n".encode("utf-16-le"), ["a"], _TSV, r"a\.tsv:1: character 2 .* NUL.*utf-16"),
        (b"a\n1\ncaf\xe9\n", ["a"], _TSV, r'a\.tsv:3: not UTF-8.* e9\..*encoding="latin-1"'),
        (b"a\n\xff\xff", ["a"], {"encoding": "gbk"}, r"a\.tsv:2: not gbk: .*0xff"),
        (b"a\n1\n", ["a"], {"encoding": "utf-16"}, r"a\.tsv:1: not utf-16"),
        ('a,b\n1,"x\n2,y\n', ["a"], _CSV, r"a\.csv:2: .*begins here.*unexpected end.*in line 3"),
        ('a,b\n1,"x"y\n', ["a"], _CSV, r"a\.csv:2: .*expected after.*quoting=False"),
        ('a,b\n1,"x\ny"\n2,z,0\n', ["a"], _CSV, r"a\.csv:4: too many fields\. Expected: 2"),
        ('{"a": 1}\n{"a" 1}\n', ["a"], _JSON, r"a\.jsonl:2: not JSON: Expecting ':'"),
        ("[1]\n", ["a"], _JSON, r"a\.jsonl:1: every row must be a JSON object"),
        ('{"b": 1, "c": 2}\n', ["a"], _JSON, r"a\.jsonl:1: no key 'a'.* the keys \['b', 'c'\]"),
        ("[" * 100_000 + "\n", ["a"], _JSON, r"a\.jsonl: .*nested too deeply"),
        ("DESC:x\n", ["text"], {"format": "label_text"}, r"a\.tsv:1: a label, a space and a text"),
        (": x\n", ["text"], {"format": "label_text"}, r"a\.tsv:1: a label, a space and a text"),
        ("A x\n", ["sentence"], {"format": "label_text"}, "no column 'sentence'.*'label', 'fine'"),
    ],
)
def test_bad_files(
    tmp_path: Path, data: str | bytes, columns: list[str | int], options: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        table_rows(tmp_path, data, columns, **options)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a.xlsx"}, r"a\.xlsx: the ending '\.xlsx' stands for no known format"),
        ({"name": "data"}, "the ending '' stands for no known format"),
        ({"format": "excel"}, "format must be one of"),
        ({"encoding": "latin-99"}, "unknown encoding: latin-99"),
        ({"encoding": "rot13"}, "not a text encoding"),
        ({"separator": ""}, "separator must be at least one"),
        ({"separator": "||", "quoting": True}, r"neither a quote nor a line end.*'\|\|'"),
        ({"separator": '"', "quoting": True}, "neither a quote nor a line end"),
        ({"header": False}, "columns are numbers from 0. Received: 'a'"),
    ],
)
def test_bad_arguments(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        table_rows(tmp_path, "a\tb\n1\t2\n", ["a"], **options)
    assert not isinstance(caught.value, DataError)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.csv: cannot be read: No such file"):
        rows_of(tmp_path / "gone.csv", ["a"])


# === Names of columns that are not the usual ones ===


@pytest.mark.parametrize("name", ["Label", "LABEL ", "ｌａｂｅｌ"])
def test_names_of_columns_match_without_case(tmp_path: Path, name: str) -> None:
    assert table_rows(tmp_path, f"text,{name}\na,b\n", ["label"], name="a.csv") == [(2, ["b"])]
    line = f'{{"text": "a", "{name}": "b"}}\n'
    assert table_rows(tmp_path, line, ["label"], name="a.jsonl") == [(1, ["b"])]


def test_columns_in_any_language(tmp_path: Path) -> None:
    """An accent may be a character of its own, as macOS writes it."""
    data = "文本,e\u0301tiquette,Label,LABEL\na,b,c,d\n"
    assert table_rows(tmp_path, data, ["文本", "étiquette"], name="a.csv") == [(2, ["a", "b"])]
    with pytest.raises(DataError, match=r"no column 'text'\. .*'文本'.*text=COLUMN label=COLUMN"):
        table_rows(tmp_path, data, ["text"], name="a.csv")
    with pytest.raises(DataError, match=r"several columns 'label'"):
        table_rows(tmp_path, data, ["label"], name="a.csv")
    lines = '{"text": "a", "Label": 1, "LABEL": 2}\n'
    with pytest.raises(DataError, match=r"a\.jsonl:1: several keys 'label'"):
        table_rows(tmp_path, lines, ["label"], name="a.jsonl")


def test_lists_of_json_and_choices_of_label_studio(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": ["x"]}, {"text": "b", "label": {"choices": ["x", "y"]}}]
    expected = [(1, ["a", ["x"]]), (2, ["b", ["x", "y"]])]
    assert (
        table_rows(tmp_path, json.dumps(rows, indent=1), ["text", "label"], name="a.json")
        == expected
    )
    results = [{"from_name": "c", "value": {"choices": [name]}} for name in "xy"]
    tasks = [
        {"data": {"text": "a"}, "annotations": [{"result": results[:1]}]},
        {"data": {"text": "b"}, "annotations": []},
        {"data": {"text": "c"}, "annotations": [{"result": results}]},
    ]
    with pytest.warns(UserWarning, match=r"a\.json: left out 1 tasks that nobody has annotated"):
        found = table_rows(tmp_path, json.dumps(tasks), ["text", "label"], name="a.json")
    assert found == [(1, ["a", ["x"]]), (3, ["c", ["x", "y"]])]
    texts = table_rows(tmp_path, json.dumps(tasks), ["text"], name="a.json")
    assert [values for _, values in texts] == [["a"], ["b"], ["c"]]
    one = json.dumps(rows[0], indent=1)
    assert table_rows(tmp_path, one, ["text", "label"], name="a.json") == expected[:1]
    with pytest.raises(DataError, match=r"(?s)a\.json:2: every row must be a JSON object"):
        table_rows(tmp_path, '[{"text": "a"}, 7]', ["text"], name="a.json")


def test_rejected_answers_of_prodigy_are_counted(tmp_path: Path) -> None:
    rows = [
        {"text": text, "label": "x", "_input_hash": 1, "answer": answer}
        for text, answer in (("a", "accept"), ("b", "reject"), ("c", "ignore"), ("d", "reject"))
    ]
    data = "".join(f"{json.dumps(row)}\n" for row in rows)
    message = r"a\.jsonl: left out 2 rows .* 'reject' and 1 rows .* 'ignore'\."
    with pytest.warns(UserWarning, match=message):
        found = table_rows(tmp_path, data, ["text", "label"], name="a.jsonl")
    assert found == [(1, ["a", "x"])]
    plain = data.replace("_input_hash", "n")  # a column `answer` of another program
    assert len(table_rows(tmp_path, plain, ["text", "answer"], name="a.jsonl")) == 4
