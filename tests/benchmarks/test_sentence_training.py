"""Rows, scores and the table of the benchmark of sentence vectors."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.contest import OURS
from benchmarks.sentence_training import PEER, Rows, rows_of, score, show


def _folder(folder: Path) -> Path:
    """Write few rows of each data set."""
    for name in ("snli", "stsb", "squad"):
        (folder / name).mkdir()
    pairs = [("p", "yes", "0"), ("p", "maybe", "1"), ("p", "no", "2"), ("q", "yes", "0")]
    lines = ["premise\thypothesis\tlabel", *("\t".join(row) for row in pairs)]
    (folder / "snli" / "validation.tsv").write_text("\n".join(lines))
    for split in ("train", "dev"):
        text = "score\tsentence1\tsentence2\n5.0\ta\tb\n2.5\tc\td\n"
        (folder / "stsb" / f"official_{split}.tsv").write_text(text)
    articles = [
        {"paragraphs": [{"context": f"context {n}", "qas": [{"question": f" question {n}"}] * 2}]}
        for n in range(8)
    ]
    file = folder / "squad" / "split_share_35articles_v1.1.json"
    file.write_text(json.dumps({"data": articles}))
    return folder


def test_rows_of_each_task(tmp_path: Path) -> None:
    data = _folder(tmp_path)
    assert rows_of("nli", data, 5).columns == (["p"], ["yes"], ["no"])
    assert rows_of("nli", data, 5).right == [5.0, 2.5]
    stsb = rows_of("stsb", data, 5)
    assert sorted(zip(*stsb.columns, stsb.targets or [], strict=True)) == [
        ("a", "b", 1.0),
        ("c", "d", 0.5),
    ]
    squad = rows_of("squad", data, 3)
    assert len(squad.columns[0]) == 3
    assert {*squad.columns[1]} <= {"context 0", "context 1"}  # the last six articles are held out
    assert squad.corpus == [f"context {number}" for number in range(2, 8)]
    assert squad.queries[:2] == ["question 2"] * 2
    assert squad.right[:3] == [0, 0, 1]


def test_scores() -> None:
    vectors = np.eye(4, dtype="float32")
    found = Rows(([],), None, ["q"], ["a"] * 4, [2])
    assert score(found, vectors[2:3], vectors) == 1.0
    assert score(found, vectors[1:2], vectors) < 1.0
    pairs = Rows(([],), None, ["a"] * 3, ["b"] * 3, [0.0, 0.5, 1.0])
    firsts = np.array([[1, 0], [1, 0], [1, 0]], "float32")
    seconds = np.array([[0, 1], [1, 1], [1, 0]], "float32")
    assert score(pairs, firsts, seconds) == pytest.approx(1.0)


def test_the_table_compares_seconds() -> None:
    rows = [
        {"task": "squad", "program": program, "seconds": seconds, "score": 0.5, "score_cut": 0.25}
        for program, seconds in ((OURS, 6.0), (OURS, 6.0), (PEER, 10.0))
    ]
    screen = io.StringIO()
    show(rows, Console(file=screen, width=120))
    assert "0.60" in screen.getvalue()
    assert "50.00 ± 0.00" in screen.getvalue()
