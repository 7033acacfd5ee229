"""CMRC scores: cases computed by hand from the official definition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.metrics import question_answering
from bert_keras.metrics.question_answering import cmrc_scores


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("踢爆", ["踢", "爆"]),
        ("由韩国Nexon开发 2V2", ["由", "韩", "国", "nexon", "开", "发", "2v2"]),
        ("《泡泡堂》，2006年。", ["泡", "泡", "堂", "2006", "年"]),
        # Punctuation is removed without a space in its place.
        ("New York-Times", ["new", "yorktimes"]),
        ("3.5 and 10,000, ok.", ["3.5", "and", "10,000", ",", "ok", "."]),
        ("U.S. it's don't (A)", ["u.s.", "it", "'s", "do", "n't", "(", "a", ")"]),
        # The official list has this as two characters, so that it never matches one.
        ("……", ["……"]),
        ('1997–98 "sic."', ["1997", "–", "98", '"', "sic", ".", '"']),
        (" - ", []),
    ],
)
def test_segments(text: str, expected: list[str]) -> None:
    assert question_answering._segments(text) == expected


def f1(answers: list[str], prediction: str) -> float:
    return cmrc_scores([("q", answers)], {"q": prediction})["f1"]


def test_f1_is_of_the_longest_common_run() -> None:
    # 北京 is 2 of 4 characters in 北京大学, and 2 of 3 in 南北京.
    assert f1(["北京大学"], "南北京") == pytest.approx(100 * 2 * 2 / (4 + 3))
    # Only the longest common run of segments counts.
    assert f1(["北x京"], "北京") == pytest.approx(100 * 2 * 1 / (3 + 2))
    # An English word is one segment.
    assert f1(["Nexon公司"], "nexon") == pytest.approx(100 * 2 * 1 / (3 + 1))
    assert f1(["上海", "北京"], "北京") == 100
    assert f1(["北京"], "") == 0


def test_exact_match_knows_no_marks_and_no_case() -> None:
    questions = [("a", ["《跑跑》"]), ("b", ["Nexon"]), ("c", ["一 二"]), ("d", ["1,000"])]
    texts = {"a": "跑跑。", "b": " NEXON ", "c": "一二", "d": "1000"}
    found = cmrc_scores(questions, texts)
    assert found["exact"] == 50  # Exact match ignores neither inner spaces nor ASCII commas.
    assert found["average"] == (found["exact"] + found["f1"]) / 2


def test_missing_predictions_are_skipped_and_score_zero() -> None:
    with pytest.warns(UserWarning, match="1 of 2 questions have no prediction.*'b'"):
        found = cmrc_scores([("a", ["一"]), ("b", ["二"])], {"a": "一"})
    assert found == {"exact": 50, "f1": 50, "average": 50, "total": 2, "skipped": 1}


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' has no answer"):
        cmrc_scores([("a", [])], {"a": ""})
    with pytest.raises(ValueError, match="ids are not among"):
        cmrc_scores([("a", ["一"])], {"b": "一"})


@settings(deadline=None, derandomize=True, max_examples=500)
@given(st.text("一二三ab ,.-。", max_size=8), st.text("一二三ab ,.-。", max_size=8))
def test_f1_by_a_second_way(answer: str, prediction: str) -> None:
    first, second = question_answering._segments(answer), question_answering._segments(prediction)
    runs = {
        tuple(first[start:end])
        for start in range(len(first))
        for end in range(start, len(first) + 1)
    }
    common = max(
        (
            end - start
            for start in range(len(second))
            for end in range(start, len(second) + 1)
            if tuple(second[start:end]) in runs
        ),
        default=0,
    )
    expected = 200 * common / (len(first) + len(second)) if common else 0
    assert f1([answer], prediction) == pytest.approx(expected)


@pytest.mark.data
def test_the_right_answers_score_100(shared_data: Path) -> None:
    path = shared_data / "cmrc2018" / "cmrc2018_trial.json"
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    questions = [
        (question["id"], [answer["text"] for answer in question["answers"]])
        for page in data
        for part in page["paragraphs"]
        for question in part["qas"]
    ]
    found = cmrc_scores(questions, {question: answers[-1] for question, answers in questions})
    assert found["exact"] == found["f1"] == 100
    assert found["total"] == len(questions)
    # The first character of an answer has full precision and little recall.
    first = cmrc_scores(questions, {question: answers[0][:1] for question, answers in questions})
    assert first["exact"] < first["f1"] < 50
