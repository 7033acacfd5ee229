"""Questions from SQuAD and CMRC files: repaired, counted and refused ones."""

from __future__ import annotations

import gzip
import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data import question_answering
from bert_keras.data.examples import Answer, Choices, Question
from bert_keras.data.multiple_choice import choice_examples, choice_rows
from bert_keras.data.question_answering import (
    SquadReport,
    question_examples,
    question_rows,
    read_squad,
)
from bert_keras.errors import DataError
from bert_keras.tokenizers import Tokenizer
from tests.tokenizers import learners
from tests.tokenizers.samples import VOCABULARY

_CONTEXT = "😀 Ann saw Bob. Bob saw Ann."


def _entry(name: str, *answers: Any, **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "Who?", "answers": given, **more}


def _write(tmp_path: Path, *entries: Any, context: str = _CONTEXT) -> Path:
    """Write a SQuAD file with one paragraph and these questions."""
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
        ("Bob", 12, 10),  # "Bob" is found at 10 and 15, of which 10 is nearer.
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
    problem = question_answering.LOST_ANSWER if found is None else question_answering.MOVED_ANSWER
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
        (
            [_entry("1", ("Ann", 2)), _entry("1", ("Bob", 10))],
            _CONTEXT,
            1,
            question_answering.DUPLICATE_ID,
        ),
        ([_entry("1", ("Ann", 2))], " \n", 0, question_answering.EMPTY_CONTEXT),
        ([_entry("1", ("Ann", 2), question=" ")], _CONTEXT, 1, question_answering.EMPTY_QUESTION),
        ([_entry("1")], _CONTEXT, 1, question_answering.NO_ANSWER),
        ([{"id": 1, "question": "Who?"}], _CONTEXT, 1, question_answering.NO_ANSWER),
        (
            [_entry("1", ("Ann", 2), is_impossible=True)],
            _CONTEXT,
            1,
            question_answering.ANSWERED_IMPOSSIBLE,
        ),
        ([_entry("1", (" ", 5), ("Ann", 2))], _CONTEXT, 1, question_answering.LOST_ANSWER),
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
    """The report counts all problems and keeps five examples of each."""
    questions, report = _read(tmp_path, *[_entry(str(i), ("Cid", 2)) for i in range(9)])
    assert len(questions) == 9
    assert report.problems == {question_answering.LOST_ANSWER: 9}
    assert [len(examples) for examples in report.examples.values()] == [5]


def test_the_first_form_of_cmrc(tmp_path: Path) -> None:
    """The first format of CMRC 2018 is read."""
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
        ("[" * 100_000, "nested too deeply"),
        (
            '{"data": [{"title": "Oslo", "title": "Rome"}]}',
            r"a\.json: 'title' is said twice.*an object of \[\('title', 'Oslo'\)",
        ),
        ("{}", r"a\.json: no key 'data'\. Received: the keys \[\]"),
        ("5", r"a\.json: an object with the key 'data' is needed\. Received: 5"),
        ('{"data": {}}', r"a\.json: 'data' must be a list\. Received: \{\}"),
        ('{"data": [5]}', r"a\.json: data\[0\]: an object with the key 'paragraphs'"),
        ('{"data": [{"title": 0}]}', r"data\[0\]: no key 'paragraphs'.* the keys \['title'\]"),
        (_second({"qas": []}), _AT + ": no key 'context'"),
        (_second({"context": "c"}), _AT + ": no key 'qas'"),
        (_second({"context": None, "qas": []}), _AT + ": 'context' must be text. Received: None"),
        (_second({"context": "c\0", "qas": []}), _AT + ": 'context' must be text without NUL"),
        (_second({"context": "c", "qas": [5]}), _AT + r"\.qas\[0\]: an object with the key 'id'"),
        (_second({"context": "c", "qas": [{"id": "1"}]}), r"\.qas\[0\]: no key 'question'"),
        (_second({"context": "c", "qas": [_entry("1", ("c", "0"))]}), "answer_start must be a"),
        (_second({"context": "c", "qas": [_entry("1", (5, 0))]}), r"answers\[0\]: 'text' must be"),
        (_second({"context": "c", "qas": [_entry("1", answers=5)]}), "'answers' must be a list"),
        (
            _second({"context": "c", "qas": [_entry("1", is_impossible=0)]}),
            "is_impossible must be true",
        ),
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
    assert report.problems == {
        question_answering.MOVED_ANSWER: 5,
        question_answering.EMPTY_QUESTION: 2,
    }
    assert all(
        "TRIAL_210_QUERY" in example for example in report.examples[question_answering.MOVED_ANSWER]
    )


# === The labelled pieces of a row are the answer, and choices stand side by side ===


TOKENIZER = Tokenizer(VOCABULARY)
CONTEXT = "the world wanted 中国 and hello unaffable, the un wanted mask. Ünñ a world"


def ask(answer: str, context: str = CONTEXT, start: int | None = None, **options: Any) -> Question:
    start = context.index(answer) if start is None else start
    return Question("q", "hello mask?", context, (Answer(answer, start),), **options)


def labelled(tokenizer: Tokenizer, question: Question, **options: Any) -> list[str | None]:
    """Return each row's labelled answer as text, or None if its label is [CLS]."""
    options = {"max_length": 16, "stride": 4, "max_question": 64, **options}
    source = question_examples(tokenizer, [question], seed=None, **options)
    _, windows, pieces = question_rows(tokenizer, [question], **options)
    found: list[str | None] = []
    for position in range(source.num_batches()):
        x, y, _ = source.batch(0, position)
        for start, end, ids in zip(y["start"], y["end"], x["token_ids"], strict=True):
            window = windows[len(found)]
            if (start, end) == (0, 0):
                found.append(None)
                continue
            first, last = (int(place) - window.offset + window.first for place in (start, end))
            assert ids[start : end + 1].tolist() == pieces[0].ids[first : last + 1].tolist()
            found.append(question.context[pieces[0].starts[first] : pieces[0].ends[last]])
    assert len(found) == len(windows)
    return found


@pytest.mark.parametrize(
    "answer", ["the world", "中", "中国 and", "unaffable", "un", "mask.", "mask", "Ünñ", "world"]
)
def test_a_label_is_the_answer(answer: str) -> None:
    assert labelled(TOKENIZER, ask(answer), max_length=200) == [answer]


def test_the_place_of_an_answer_counts() -> None:
    """If the answer occurs twice in the context, its start chooses the right one."""
    questions = [ask("world"), ask("world", start=CONTEXT.rindex("world"))]
    _, y, _ = question_examples(TOKENIZER, questions, seed=None).batch(0, 0)
    assert y["start"][0] < y["start"][1]


def test_an_answer_within_a_word_is_widened_to_pieces() -> None:
    assert labelled(TOKENIZER, ask("naff"), max_length=200) == ["unaff"]
    assert labelled(TOKENIZER, ask("fable, t"), max_length=200) == ["affable, the"]


def test_parts_without_the_answer_say_cls() -> None:
    """Windows without the answer have [CLS] as their label."""
    found = labelled(TOKENIZER, ask("hello"))
    assert set(found) == {None, "hello"}
    assert found[0] is None or found[-1] is None
    sizes = {"max_length": 16, "stride": 4, "max_question": 64}
    _, windows, pieces = question_rows(TOKENIZER, [ask("hello")], **sizes)
    (place,) = np.flatnonzero(pieces[0].starts == CONTEXT.index("hello"))
    shown = [window.first <= place < window.first + window.count for window in windows]
    assert [answer is not None for answer in found] == shown


def test_an_answer_that_is_cut_is_not_there() -> None:
    """An answer that no window holds whole is labelled [CLS] in each window."""
    assert set(labelled(TOKENIZER, ask(CONTEXT))) == {None}


def test_a_question_without_an_answer_says_cls() -> None:
    question = Question("q", "hello?", CONTEXT, is_impossible=True)
    assert set(labelled(TOKENIZER, question)) == {None}


def test_an_answer_without_a_piece_is_passed_over() -> None:
    context = "the \u200b world"  # The tokenizer removes the zero-width space.
    question = Question("q", "hello?", context, (Answer("\u200b", 4), Answer("world", 6)))
    assert labelled(TOKENIZER, question) == ["world"]


def test_questions_of_which_nothing_is_known_are_left_out() -> None:
    unknown = Question("q", "hello?", CONTEXT)
    source = question_examples(TOKENIZER, [unknown, ask("hello"), unknown])
    assert source.num_examples == 1
    _, y, _ = source.batch(0, 0)
    assert y["start"].tolist() != [0]
    for nothing in ([], [unknown]):
        with pytest.raises(DataError, match="no answers to train on"):
            question_examples(TOKENIZER, nothing)


def test_long_questions_are_cut_or_leave_no_room() -> None:
    question = Question("q", "hello " * 40, CONTEXT, (Answer("the", 0),))
    source = question_examples(TOKENIZER, [question], max_question=5, max_length=100)
    x, _, _ = source.batch(0, 0)
    assert x["segment_ids"][0].tolist().index(1) == 5 + 2
    with pytest.raises(ValueError, match=r"max_length=30 leaves no room.*question of 40"):
        question_examples(TOKENIZER, [question], max_length=30)


def test_rows_name_their_questions() -> None:
    questions = [ask("hello"), ask("un", "un a"), ask("mask"), Question("e", "hello?", "")]
    rows, windows, pieces = question_rows(
        TOKENIZER, questions, max_length=16, stride=4, max_question=9
    )
    assert len(rows) == len(windows)
    assert sorted({window.source for window in windows}) == [0, 1, 2, 3]
    assert pieces[0] is pieces[2]  # Each text is tokenised once.
    assert [len(each) for each in pieces[1:]] == [2, len(pieces[0]), 0]
    for index, window in enumerate(windows):
        assert rows[index].tolist() == window.ids
    assert windows[-1].count == 0


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a byte-level BPE tokenizer that was learned on a few texts."""
    folder: Path = tmp_path_factory.mktemp("bytes")
    learners.byte_level(folder)
    return Tokenizer.from_preset(folder)


LETTERS = "abunwd .,éÜ中国あ👩‍👧\u0301"


@settings(max_examples=200, deadline=None)
@given(data=st.data(), context=st.text(alphabet=LETTERS, min_size=1, max_size=30))
@pytest.mark.parametrize("family", ["wordpiece", "bytes"])
def test_labels_hold_the_answer(
    byte_level: Tokenizer, family: str, data: st.DataObject, context: str
) -> None:
    """The labelled pieces cover the whole answer, and each of them is needed."""
    tokenizer = TOKENIZER if family == "wordpiece" else byte_level
    start = data.draw(st.integers(0, len(context) - 1))
    answer = context[start : data.draw(st.integers(start + 1, len(context)))]
    question = ask(answer, context, start)
    (found,) = labelled(tokenizer, question, max_length=200)
    _, _, (pieces,) = question_rows(
        tokenizer, [question], max_length=200, stride=1, max_question=64
    )
    stop = start + len(answer)
    spans = list(zip(pieces.starts.tolist(), pieces.ends.tolist(), strict=True))
    touched = [(a, b) for a, b in spans if a < stop and b > start]
    if not touched:
        assert found is None
        return
    assert found == context[touched[0][0] : touched[-1][1]]
    exact = {start for start, _ in spans} >= {start} and {end for _, end in spans} >= {stop}
    if exact and answer.strip() == answer:
        assert found == answer


CHOICES = Choices(
    ["hello", "the world", "un"],
    [["a", "the mask"], ["wanted", "un"], ["mask", "world wanted"]],
    [1, 0, 1],
    ["c.jsonl:1", "c.jsonl:2", "c.jsonl:5"],
)


def test_choices_stand_side_by_side() -> None:
    source = choice_examples(TOKENIZER, CHOICES, seed=None, max_length=9, multiple_of=1)
    x, y, weights = source.batch(0, 0)
    assert y["choice"].tolist() == [1, 0, 1]
    assert y["choice"].dtype == np.int32
    assert weights["choice"].tolist() == [1.0] * 3
    assert x["token_ids"].shape[:2] == (3, 2)
    for row, (prompt, options) in enumerate(zip(CHOICES.prompts, CHOICES.options, strict=True)):
        for column, option in enumerate(options):
            expected = TOKENIZER.encode(prompt, option)
            length = len(expected)
            assert x["token_ids"][row, column, :length].tolist() == expected.ids
            assert x["segment_ids"][row, column, :length].tolist() == expected.segment_ids
            assert x["padding_mask"][row, column].sum() == length


def test_choices_without_a_prompt_stand_alone_whatever_is_beside_them() -> None:
    """An option without a prompt is encoded as a single text, in any batch."""
    mixed = Choices(["", "hello", ""], [["a", "un"], ["the", "a"], ["mask", "wanted"]])
    rows, size = choice_rows(TOKENIZER, mixed, max_length=9)
    assert size == 2
    expected = [
        *(TOKENIZER.encode(text) for text in ("a", "un")),
        *(TOKENIZER.encode("hello", text) for text in ("the", "a")),
        *(TOKENIZER.encode(text) for text in ("mask", "wanted")),
    ]
    assert [rows[number].tolist() for number in range(6)] == [each.ids for each in expected]
    assert rows.segment_ids.tolist() == list(
        chain.from_iterable(each.segment_ids for each in expected)
    )
    none, _ = choice_rows(TOKENIZER, Choices([""], [["a", "un"]]), max_length=9)
    assert [none[number].tolist() for number in range(2)] == [each.ids for each in expected[:2]]


def test_choices_that_are_no_use() -> None:
    """Rows with different numbers of options and data without answers are refused."""
    uneven = Choices(["a", "b"], [["a", "b"], ["a", "b", "c"]], [0, 1], CHOICES.places[:2])
    with pytest.raises(
        DataError, match=r"c.jsonl:2: all rows need the same number .* 3 options, and 2"
    ):
        choice_examples(TOKENIZER, uneven)
    for nothing in (Choices(["a"], [["a", "b"]]), Choices([], [], [])):
        with pytest.raises(DataError, match="no answers to train on"):
            choice_examples(TOKENIZER, nothing)
