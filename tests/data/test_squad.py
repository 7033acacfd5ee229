"""Questions from SQuAD and CMRC files: what is repaired and counted, what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data import squad
from bert_keras.data.examples import Answer, Question
from bert_keras.data.squad import SquadReport, read_squad
from bert_keras.errors import DataError

_CONTEXT = "😀 Ann saw Bob. Bob saw Ann."


def _entry(name: str, *answers: Any, **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "Who?", "answers": given, **more}


def _write(tmp_path: Path, *entries: Any, context: str = _CONTEXT) -> Path:
    article = {"title": "T", "paragraphs": [{"context": context, "qas": list(entries)}]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": "2.0", "data": [article]}, indent=1))
    return path


def _read(tmp_path: Path, *entries: Any, **more: Any) -> tuple[tuple[Question, ...], SquadReport]:
    return read_squad(_write(tmp_path, *entries, **more))


def test_answers_stand_at_code_points(tmp_path: Path) -> None:
    entries = [_entry("1", ("Ann", 2), ("Bob", 15)), _entry("2", is_impossible=True)]
    questions, report = _read(tmp_path, *entries)
    place = f"{tmp_path / 'a.json'}: data[0].paragraphs[0]"
    assert questions == (
        Question("1", "Who?", _CONTEXT, (Answer("Ann", 2), Answer("Bob", 15)), False, place),
        Question("2", "Who?", _CONTEXT, (), True, place),
    )
    assert report == SquadReport(1, 1, 2, 1, 2, {}, {})
    assert str(report) == "1 articles, 1 paragraphs, 2 questions (1 impossible), 2 answers"


def test_compressed_and_marked(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + _write(tmp_path, _entry("1", ("Ann", 2))).read_bytes()
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(data))
    assert read_squad(path)[0][0].answers == (Answer("Ann", 2),)


@pytest.mark.parametrize(
    ("text", "start", "found"),
    [
        ("Bob", 9, 10),
        ("Bob", 14, 15),
        ("Bob", 12, 10),  # 10 and 15: the nearer
        ("Bob", 13, 15),
        ("Ann", -1, 2),
        ("Ann", 999, 23),
        ("Bo b", 10, None),
        ("", 10, None),
    ],
)
def test_answers_out_of_place(tmp_path: Path, text: str, start: int, found: int | None) -> None:
    questions, report = _read(tmp_path, _entry("7", (text, start), ("saw", 6)))
    moved = () if found is None else (Answer(text, found),)
    assert questions[0].answers == (*moved, Answer("saw", 6))
    problem = squad.LOST_ANSWER if found is None else squad.MOVED_ANSWER
    assert report.problems == {problem: 1}
    assert questions[0].lost == ((text,) if text and found is None else ())
    assert set(questions[0].accepted) == {"saw", *filter(None, [text])}
    assert report.answers == len(questions[0].answers)
    (example,) = report.examples[problem]
    assert example.startswith(f"{tmp_path / 'a.json'}: data[0].paragraphs[0], id '7': ")
    assert str(report).splitlines()[1:] == [f"1 x {problem}", f"  {example}"]


@pytest.mark.parametrize(
    ("entries", "context", "kept", "problem"),
    [
        ([_entry("1", ("Ann", 2)), _entry("1", ("Bob", 10))], _CONTEXT, 1, squad.DUPLICATE_ID),
        ([_entry("1", ("Ann", 2))], " \n", 0, squad.EMPTY_CONTEXT),
        ([_entry("1", ("Ann", 2), question=" ")], _CONTEXT, 1, squad.EMPTY_QUESTION),
        ([_entry("1")], _CONTEXT, 1, squad.NO_ANSWER),
        ([{"id": 1, "question": "Who?"}], _CONTEXT, 1, squad.NO_ANSWER),
        ([_entry("1", ("Ann", 2), is_impossible=True)], _CONTEXT, 1, squad.ANSWERED_IMPOSSIBLE),
        ([_entry("1", (" ", 5), ("Ann", 2))], _CONTEXT, 1, squad.LOST_ANSWER),
    ],
)
def test_problems_are_counted(
    tmp_path: Path, entries: list[Any], context: str, kept: int, problem: str
) -> None:
    questions, report = _read(tmp_path, *entries, context=context)
    assert len(questions) == report.questions == kept
    assert report.problems == {problem: 1}
    assert questions == () or questions[0].id == "1"


def test_a_few_examples_stand_for_all(tmp_path: Path) -> None:
    questions, report = _read(tmp_path, *[_entry(str(i), ("Cid", 2)) for i in range(9)])
    assert len(questions) == 9
    assert report.problems == {squad.LOST_ANSWER: 9}
    assert [len(examples) for examples in report.examples.values()] == [5]


def test_the_first_form_of_cmrc(tmp_path: Path) -> None:
    entry = {"query_id": "Q_0", "query_text": "谁?", "answers": ["鲍勃", "安"]}
    article = {"context_id": "P", "context_text": "安见鲍勃。", "qas": [entry], "title": "T"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([article]), encoding="utf-8")
    questions, report = read_squad(path)
    assert questions[0].answers == (Answer("鲍勃", 2), Answer("安", 0))
    assert (questions[0].id, questions[0].question, questions[0].context) == (
        "Q_0",
        "谁?",
        "安见鲍勃。",
    )
    assert report.problems == {}


_AT = r"a\.json: data\[0\]\.paragraphs\[1\]"


def _second(paragraph: Any) -> str:
    return json.dumps({"data": [{"paragraphs": [{"context": "c", "qas": []}, paragraph]}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n\n'a'}", r"a\.json:3: not JSON: Expecting property name"),
        ("", r"a\.json:1: not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("{}", r"a\.json: no key 'data'\. Received: \[\]"),
        ("5", r"a\.json: an object with the key 'data' is needed\. Received: 5"),
        ('{"data": {}}', r"a\.json: 'data' must be a list\. Received: \{\}"),
        ('{"data": [5]}', r"a\.json: data\[0\]: an object with the key 'paragraphs'"),
        ('{"data": [{"title": 0}]}', r"data\[0\]: no key 'paragraphs'\. Received: \['title'\]"),
        (_second({"qas": []}), _AT + ": no key 'context'"),
        (_second({"context": "c"}), _AT + ": no key 'qas'"),
        (_second({"context": None, "qas": []}), _AT + ": 'context' must be text. Received: None"),
        (_second({"context": "c\0", "qas": []}), _AT + ": 'context' must be text, without NUL"),
        (_second({"context": "c", "qas": [5]}), _AT + r"\.qas\[0\]: an object with the key 'id'"),
        (_second({"context": "c", "qas": [{"id": "1"}]}), r"\.qas\[0\]: no key 'question'"),
        (_second({"context": "c", "qas": [_entry("1", ("c", "0"))]}), "answer_start is a whole"),
        (_second({"context": "c", "qas": [_entry("1", (5, 0))]}), r"answers\[0\]: 'text' must be"),
        (_second({"context": "c", "qas": [_entry("1", answers=5)]}), "'answers' must be a list"),
        (_second({"context": "c", "qas": [_entry("1", is_impossible=0)]}), "is_impossible is true"),
    ],
)
def test_files_that_are_built_in_another_way(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_squad(path)
    assert len(str(caught.value)) < 1000


@pytest.mark.data
def test_real_files(shared_data: Path) -> None:
    questions, report = read_squad(shared_data / "squad" / "split_share_35articles_v1.1.json")
    counted = (report.articles, report.paragraphs, report.questions, report.answers)
    assert counted == (35, 1_211, 6_013, 20_589)
    assert not report.problems
    assert questions[0].answers[0] == Answer("October 1973", 29)
    questions, report = read_squad(shared_data / "cmrc2018" / "cmrc2018_trial.json")
    assert (len(questions), report.answers) == (1_002, 1_002)
    assert report.problems == {squad.MOVED_ANSWER: 5, squad.EMPTY_QUESTION: 2}
    assert all("TRIAL_210_QUERY" in example for example in report.examples[squad.MOVED_ANSWER])
