"""All errors of a file are reported in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras import Tokenizer
from bert_keras.data import (
    TaggedWords,
    Texts,
    read_choices,
    read_conll,
    read_table,
    tag_examples,
)
from bert_keras.data.text_classification import targets_of
from bert_keras.errors import DataError
from tests.tables import rows_of


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "a.tsv",
        "text\tscore\nfine\t1\n\t2\ntoo\tmany\tfields\nnan\tNaN\nfine\t3\nfew\n",
    )
    with pytest.raises(DataError) as found:
        read_table(path, text="text", label="score", problem="regression")
    lines = str(found.value).splitlines()
    assert lines[0] == "4 errors:"
    places = [line.removeprefix(f"{path}:").split(":")[0] for line in lines[1:]]
    assert places == ["3", "4", "5", "7"]
    for line, told in zip(
        lines[1:], ("no text", "too many fields", "finite number", "too few fields"), strict=True
    ):
        assert told in line


def test_json_lines(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.jsonl", '{"text": "a"}\n[]\n{"other": 1}\n{"text": \n')
    with pytest.raises(DataError, match="3 errors") as found:
        rows_of(path, ["text"])
    for number, told in (
        (2, "every row must be a JSON object"),
        (3, "no key 'text'"),
        (4, "not JSON"),
    ):
        assert f"{path}:{number}: {told}" in str(found.value)


def test_labels_before_texts(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.txt", "A:x good\nB\nC:y\n")
    with pytest.raises(DataError, match="2 errors") as found:
        read_table(path, text="text", label="label", format="label_text")
    assert f"{path}:2: a label" in str(found.value)
    assert f"{path}:3: a label" in str(found.value)


def test_choices(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "a.jsonl",
        '{"prompt": "p", "options": ["a"], "answer": 0}\n'
        '{"prompt": "p", "options": ["a", "b"], "answer": 1}\n'
        '{"prompt": "p", "options": ["a", "b"], "answer": 2}\n',
    )
    with pytest.raises(DataError, match="2 errors") as found:
        read_choices(path)
    assert f"{path}:1: a row needs at least two options" in str(found.value)
    assert f"{path}:3: 'answer' must be the index" in str(found.value)


def test_columns(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.txt", "one O\ntwo\n\nthree B-X\nO\nfour five O\n")
    with pytest.raises(DataError, match="3 errors") as found:
        read_conll(path)
    for number in (2, 5, 6):
        assert f"{path}:{number}: " in str(found.value)


def test_broken_spans(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.txt", "a B-X\nb O\n\nc S-X\n\nd O\ne I-X\n")
    with pytest.raises(DataError, match="2 errors") as found:
        read_conll(path, scheme="bioes")
    assert f"{path}:7" in str(found.value)


def test_labels_that_a_model_has_not() -> None:
    texts = Texts(("a", "b", "c"), None, ("x", "y", "z"), ("f:1", "f:2", "f:3"))
    with pytest.raises(DataError, match=r"2 errors:\nf:2: unknown label 'y'.*\nf:3: unknown"):
        targets_of(texts, ["x"], "single_label")


def test_tags_that_a_model_has_not() -> None:
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"])
    words = TaggedWords((("a",), ("b",), ("c",)), (("O",), ("B-X",), ("B-Y",)))
    with pytest.raises(DataError, match=r"2 errors:\nsentence 1, word 0: .*'B-X'.*\nsentence 2, "):
        tag_examples(tokenizer, words, labels=["O"])
