"""Multiple-choice prompts with options, from JSON lines and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data.examples import Choices
from bert_keras.data.multiple_choice import read_choices, read_swag
from bert_keras.errors import DataError


def _json(tmp_path: Path, *rows: Any, **options: Any) -> Choices:
    """Write rows as JSON lines and read them as multiple-choice examples."""
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return read_choices(path, **options)


def _row(prompt: Any = "p", options: Any = ("x", "y"), answer: Any = 0) -> dict[str, Any]:
    return {"prompt": prompt, "options": options, "answer": answer}


def test_json_lines(tmp_path: Path) -> None:
    rows = [_row(answer=1), _row("", ["x", "y", "z"], "C"), _row(answer=" b "), _row(answer="0")]
    found = _json(tmp_path, *rows)
    assert found.prompts == ("p", "", "p", "p")
    assert found.options == (("x", "y"), ("x", "y", "z"), ("x", "y"), ("x", "y"))
    assert found.answers == (1, 2, 1, 0)
    assert found.places == tuple(f"{tmp_path / 'a.jsonl'}:{i}" for i in range(1, 5))


def test_keys_have_names(tmp_path: Path) -> None:
    row = {"goal": "g", "sol1": "x", "sol2": "y", "gold": 1}
    found = _json(tmp_path, row, prompt="goal", options=["sol1", "sol2"], answer="gold")
    assert (found.prompts, found.options, found.answers) == (("g",), (("x", "y"),), (1,))
    found = _json(tmp_path, row, prompt=None, options=["sol1", "sol2"], answer=None)
    assert (found.prompts, found.answers) == (("",), None)


def test_swag(tmp_path: Path) -> None:
    path = tmp_path / "val.csv"
    head = ",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label"
    path.write_text(f'{head}\n0,v1,"He sits, still.",He,a.,"b, c.",d.,e.,2\n1,v2,S.,,a,b,c,d,0\n')
    found = read_swag(path)
    assert found.prompts == ("He sits, still.", "S.")
    assert found.options == (("He a.", "He b, c.", "He d.", "He e."), ("a", "b", "c", "d"))
    assert found.answers == (2, 0)
    assert read_swag(path, has_answers=False).answers is None


def test_tables_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('1\tp\tx "\ty\n')
    found = read_choices(path, prompt=1, options=[2, 3], answer=0, header=False)
    assert found == Choices(("p",), (('x "', "y"),), (1,), (f"{path}:1",))


def test_lists_of_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"prompt": ["p"], "options": [["x", "y"]], "answer": [1]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    found = read_choices(tmp_path / "a.parquet")
    assert (found.prompts, found.options, found.answers) == (("p",), (("x", "y"),), (1,))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (_row(prompt=5), r"a\.jsonl:2: 'prompt' must be text\. Received: 5"),
        (_row(options="x"), r"a\.jsonl:2: a list of options is needed\. Received: 'x'"),
        (_row(options=["x"]), r"a\.jsonl:2: a row needs at least two options\. Received: \['x'\]"),
        (_row(options=["x", None]), r"a\.jsonl:2: 'options\[1\]' must be text\. Received: None"),
        (_row(options=["x", " "]), r"a\.jsonl:2: 'options\[1\]' is empty"),
        (_row(answer=2), r"a\.jsonl:2: 'answer' must be .* 0 to 1, or a letter, A to B.* 2$"),
        (_row(answer=-1), "0 to 1.*Received: -1"),
        (_row(answer="C"), "Received: 'C'"),
        (_row(answer=""), "Received: ''"),
        (_row(answer="AB"), "Received: 'AB'"),
        (_row(answer="-1"), "Received: '-1'"),
        (_row(answer=None), "Received: None"),
        (_row(answer=True), "Received: True"),
        (_row(answer=1.0), "Received: 1.0"),
        ({"prompt": "p", "options": ["x", "y"]}, r"a\.jsonl:2: no key 'answer'"),
    ],
)
def test_bad_rows(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _json(tmp_path, _row(), row)


def test_bad_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prompt,options,answer\np,x,0\n")
    with pytest.raises(
        DataError, match=r"a\.csv:2: a list .* is needed.* names of all these columns"
    ):
        read_choices(path)
    with pytest.raises(DataError, match=r"a\.csv:1: no column 'sent1'"):
        read_swag(path)
