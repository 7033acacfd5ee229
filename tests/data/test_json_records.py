"""JSON files of annotation tools: kinds of regions, texts, choices, and formats of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data import read_entities
from bert_keras.data.json_records import class_of_task
from bert_keras.errors import DataError

TEXT = "Anna lives in Rome."
TAGS = ("B-PER", "O", "O", "O", "O")
PATHS = {"start": "/text()[1]", "end": "/text()[1]", "startOffset": 0, "endOffset": 4}
SPAN: dict[str, Any] = {"start": 0, "end": 4, "text": "Anna", "labels": ["PER"]}
HTML = {**PATHS, "globalOffsets": {"start": 0, "end": 4}, "text": "Anna"}
CHOICE = {"type": "choices", "from_name": "c", "to_name": "text", "value": {"choices": ["news"]}}


def region(value: Any, kind: str = "labels", name: str = "text") -> dict[str, Any]:
    return {"value": value, "type": kind, "to_name": name, "from_name": "label"}


def task(*result: Any, **data: Any) -> dict[str, Any]:
    return {"id": 7, "data": data or {"text": TEXT}, "annotations": [{"result": [*result]}]}


def write(folder: Path, rows: Any, name: str = "a.json") -> Path:
    path = folder / name
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return path


def test_regions_of_hypertext_in_plain_text(tmp_path: Path) -> None:
    value = {**HTML, "hypertextlabels": ["PER"]}
    path = write(tmp_path, [task(region(value, "hypertextlabels"))])
    assert read_entities(path).tags == (TAGS,)
    path = write(tmp_path, [task(region(value, "hypertextlabels"), text=f"<b>{TEXT}</b>")])
    with pytest.raises(DataError, match=r"task with id 7: positions in HTML"):
        read_entities(path)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (region({"start": 0, "end": 4, "text": "Anna"}), "must have start, end and a label"),
        (region({"labels": ["PER"]}), "must have start, end and a label"),
        (region({**PATHS, "hypertextlabels": ["A"]}, "hypertextlabels"), "positions in HTML"),
        (region({"start": "0", "paragraphlabels": ["A"]}, "paragraphlabels"), "'paragraphlabels'"),
        (region({"x": 1, "rectanglelabels": ["A"]}, "rectanglelabels"), "kind 'rectanglelabels'"),
        (7, "a region must be an object"),
    ],
)
def test_regions_that_cannot_be_read_are_refused(tmp_path: Path, found: Any, message: str) -> None:
    path = write(tmp_path, [task(region(SPAN), found)])
    with pytest.raises(DataError, match=rf"a\.json: task with id 7: .*{message}"):
        read_entities(path)


def test_paragraphs_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [task(dialogue=[{"text": "Hi"}])])
    with pytest.raises(DataError, match=r"task with id 7: data: 'dialogue' is a list"):
        read_entities(path)


def test_results_without_positions_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, [task(region(SPAN), CHOICE, {"type": "relation"}), task(CHOICE)])
    with pytest.warns(UserWarning, match=r"left out .*: 2 of choices, 1 of relation"):
        assert read_entities(path).tags == (TAGS, ("O",) * 5)
    with pytest.raises(DataError, match=r"no entities, but .*1 of choices.*text_classification"):
        read_entities(write(tmp_path, [task(CHOICE)]))


def test_regions_of_another_text(tmp_path: Path) -> None:
    data = {"text": "Hugo lives here.", "title": TEXT}
    path = write(tmp_path, [task(region(SPAN, name="title"), **data)])
    with pytest.raises(DataError, match=r"than 'text'\. Received: to_name 'title'.*text=KEY"):
        read_entities(path)
    assert read_entities(path, text="title").tags == (TAGS,)
    own = {"start": 0, "end": 4, "labels": ["PER"]}
    both = [region(SPAN, name="title"), region(own)]
    path = write(tmp_path, [task(*both, **data)])
    with pytest.warns(UserWarning, match="1 of entities of another text"):
        assert read_entities(path, text="text").tags == (("B-PER", "O", "O", "O"),)
    path = write(tmp_path, [task(region(SPAN, name="a"), region(own, name="b"), **data)])
    with pytest.raises(DataError, match=r"to_name 'a', 'b'"):
        read_entities(path, text="text")


def test_rejected_answers_of_prodigy_are_left_out(tmp_path: Path) -> None:
    answers = ("accept", "reject", "reject", "ignore")
    rows = [{"text": TEXT, "spans": [SPAN], "answer": answer} for answer in answers]
    path = write(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "a.jsonl")
    with pytest.warns(UserWarning, match=r"1 rows with .*'ignore' and 2 rows with .*'reject'\."):
        assert read_entities(path).tags == (TAGS,)
    assert len(read_entities(path, labelled=False)) == 4  # predictions are numbered as rows are


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ann", "T1\tPER 0 4\tAnna\n", "of brat"),
        ("a.txt", "T1\tPER 0 4\tAnna\n", "of brat"),
        ("a.csv", "text,label\nAnna,PER\n", "a table.*JSON-MIN"),
        ("a.conll", "Anna B-PER\n", "read_conll"),
        ("a.jsonl", '{"text": "good", "label": ["pos"]}', "whole text, not entities.*read_table"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)^{tmp_path / name}.*{message}"):
        read_entities(write(tmp_path, content, name))


def test_pairs_with_classes_are_read(tmp_path: Path) -> None:
    pairs = [[TEXT, {"entities": [[0, 4, "PER"]]}], None]
    found = read_entities(write(tmp_path, {"classes": ["PER"], "annotations": pairs}))
    assert found.tags == (TAGS,)


def test_choices_of_a_task() -> None:
    other = {**CHOICE, "from_name": "d", "value": {"choices": ["x", "y"]}}
    assert class_of_task(task(CHOICE), ["Text", "label"], "p") == [TEXT, ["news"]]
    assert class_of_task(task(CHOICE, other), ["text", "d"], "p") == [TEXT, ["x", "y"]]
    assert class_of_task({**task(), "annotations": []}, ["text", "label"], "p") is None
    with pytest.raises(DataError, match=r"p: no key 'label'.*'text'.*\['c', 'd'\]"):
        class_of_task(task(CHOICE, other), ["text", "label"], "p")
