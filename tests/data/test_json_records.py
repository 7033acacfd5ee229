"""JSON files of annotation tools: keys, formats of other tools, and places in messages."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data import read_entities, read_table
from bert_keras.errors import DataError

TEXT = "Anna lives in Rome."
TAGS = ("B-PER", "O", "O", "O", "O")
SPAN: dict[str, Any] = {"start": 0, "end": 4, "text": "Anna", "labels": ["PER"]}


def write(folder: Path, rows: Any, name: str = "a.json") -> Path:
    path = folder / name
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return path


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


MINIMAL = {"annotator": 1, "text": TEXT}


def test_minimal_json_with_a_tag_of_another_name(tmp_path: Path) -> None:
    """The key of a tag is missing in rows where nothing was marked."""
    path = write(tmp_path, [MINIMAL, {**MINIMAL, "ner": [SPAN]}])
    assert read_entities(path, entities="ner").tags == (("O",) * 5, TAGS)
    for wrong in (None, "other"):
        with pytest.raises(DataError, match=r"item 1: no key .*'ner'\]\. Name one.*label=KEY"):
            read_entities(path, entities=wrong)
    write(tmp_path, [{**MINIMAL, "Label": [SPAN]}, {**MINIMAL, "ner": [SPAN]}])
    assert read_entities(path).tags == (TAGS, ("O",) * 5)
    assert read_entities(write(tmp_path, [MINIMAL])).tags == (("O",) * 5,)


def test_tags_of_words_beside_a_text(tmp_path: Path) -> None:
    row = {"text": "Anna lives", "tokens": ["Anna", "lives"], "ner_tags": ["B-PER", "O"]}
    path = write(tmp_path, [row])
    with pytest.raises(DataError, match=r"'ner_tags' has tags of words.*text=tokens\."):
        read_entities(path)
    assert read_entities(path, text="tokens").tags == [["B-PER", "O"]]


@pytest.mark.parametrize("content", ['{"text": NUMBER}', '[{"text": NUMBER}]'])
def test_numbers_of_thousands_of_digits(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, content.replace("NUMBER", "1" * 5000))
    for read in (read_entities, partial(read_table, text="text")):
        with pytest.raises(DataError, match=r"a\.json.* not JSON: Exceeds the limit"):
            read(path)


def test_lines_of_a_list_are_counted_with_blank_ones(tmp_path: Path) -> None:
    path = write(tmp_path, '\n\n[{"text": "a",\n\n "label" 1}]')
    for read in (read_entities, partial(read_table, text="text")):
        with pytest.raises(DataError, match=r"a\.json:5: neither JSON nor lines of JSON"):
            read(path)
