"""Tasks of Label Studio: kinds of regions, several texts, and choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data import read_entities
from bert_keras.data.json_records import ChoicesReader
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


def write(folder: Path, rows: Any) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
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


def choice(tag: str, *names: str) -> dict[str, Any]:
    return {**CHOICE, "from_name": tag, "value": {"choices": [*names]}}


def test_choices_of_a_task() -> None:
    two = task(CHOICE, choice("d", "x", "y"))
    assert ChoicesReader(["Text", "label"]).values(task(CHOICE), "p") == [TEXT, ["news"]]
    assert ChoicesReader(["text", "d"]).values(two, "p") == [TEXT, ["x", "y"]]
    assert ChoicesReader(["text", "label"]).values({**task(), "annotations": []}, "p") is None
    with pytest.raises(DataError, match=r"p: no key 'label'.*'text'.*\['c', 'd'\]"):
        ChoicesReader(["text", "label"]).values(two, "p")


@pytest.mark.parametrize("is_first", [True, False])
def test_choices_of_two_tags_are_not_mixed(is_first: bool) -> None:
    """A task that lacks a choice of the named tag has one of another tag alone."""
    reader = ChoicesReader(["text", "d"])
    tasks = [task(CHOICE, choice("d", "x")), task(CHOICE)][:: 1 if is_first else -1]
    reader.values(tasks[0], "p")
    with pytest.raises(DataError, match=r"q: choices of the tag '.', and of '.' in the tasks"):
        reader.values(tasks[1], "q")


def test_a_tag_that_is_a_key_of_the_data_too() -> None:
    reader = ChoicesReader(["text", "c"])
    for value in ("news", ["news"]):
        assert reader.values(task(CHOICE, text=TEXT, c=value), "p") == [TEXT, value]
    for key in ("c", "C"):
        with pytest.raises(DataError, match=rf"\['news'\], and a key of the data.*'{key}'\] = 'x'"):
            reader.values(task(CHOICE, text=TEXT, **{key: "x"}), "p")


@pytest.mark.parametrize("keys", [["text"], ["text", "label"], ["review", "pair", "label"]])
def test_choices_are_no_text(keys: list[str]) -> None:
    with pytest.raises(DataError, match=r"no key '(text|pair)'. Received: data with the keys"):
        ChoicesReader(keys).values(task(CHOICE, review=TEXT), "p")
