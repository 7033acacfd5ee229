"""Question answering: splits by article, thresholds, and the official format."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bert_keras.data import Question
from bert_keras.errors import DataError
from bert_keras.features import END, START
from bert_keras.predictor import Answer
from bert_keras.training.tasks.question_answering import values_of


def _squad(folder: Path, articles: int = 2) -> str:
    data = [
        {
            "title": f"t{a}",
            "paragraphs": [
                {
                    "context": f"a b c {'abcd'[p]}",
                    "qas": [
                        {
                            "id": f"{a}{p}",
                            "question": "a ?",
                            "answers": [{"text": "b", "answer_start": 2}],
                        }
                    ],
                }
                for p in range(2)
            ],
        }
        for a in range(articles)
    ]
    path = folder / "squad.json"
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    return str(path)


def _asked(id_: str, text: str = "b") -> Question:
    from bert_keras.data import Answer as Right

    right = (Right(text, "a b c".index(text)),) if text else ()
    return Question(id_, "a ?", "a b c", right, is_impossible=not text, place=f"f: data[{id_}]")


def _answers(*found: tuple[str, float]) -> list[Answer]:
    return [Answer(text, 0, len(text), 0.5, null) for text, null in found]


def test_no_article_is_on_both_sides(tmp_path: Path, kind, capsys) -> None:
    made = kind("question_answering")
    data = made.read(_squad(tmp_path))
    assert "2 articles, 4 paragraphs, 4 questions" in capsys.readouterr().out
    train, validation = made.split(data, 0.1)
    assert ([q.id for q in train], [q.id for q in validation]) == (["00", "01"], ["10", "11"])
    assert [q.id for q in made.take(data, [2, 0])] == ["10", "00"]
    # questions of one article stay in one part
    assert made.split(made.take(data, [0, 1]), 0.5)[0] == []


def test_questions_without_a_place_are_parted_by_text(kind) -> None:
    data = [Question(str(i), "q", "ab"[i // 2]) for i in range(4)]
    train, validation = kind("question_answering").split(data, 0.5)
    assert ([q.id for q in train], [q.id for q in validation]) == (["0", "1"], ["2", "3"])


def test_examples_and_model(kind, tokenizer, encoder) -> None:
    made = kind("question_answering", no_answer=True)
    assert made.labels([_asked("0")]) is None
    assert set(made.build(encoder, None).output) == {START, END}
    options = {"segments": True, "batch_size": 2, "multiple_of": 8, "seed": None}
    data = [_asked("0"), _asked("1", "")]
    x, y, _ = made.examples(tokenizer, data, None, **options).batch(0, 0)
    assert (y[START].tolist(), y[END].tolist()) == ([5, 0], [5, 0])
    assert x["token_ids"].shape == (2, 8)


def test_what_always_answers_learns_no_silence(kind, capsys) -> None:
    data = [_asked("0"), _asked("1", "")]
    assert kind("question_answering", no_answer=True).trainable_examples(data) == data
    assert capsys.readouterr().out == ""
    assert kind("question_answering").trainable_examples(data) == data[:1]
    assert capsys.readouterr().out.startswith("1 questions without an answer are not learned")


def test_what_can_be_measured(kind, capsys) -> None:
    unknown = Question("7", "q", "c", place="f")
    with pytest.raises(DataError, match="No question has an answer"):
        kind("question_answering").check([unknown], None)
    assert capsys.readouterr().out == ""
    kind("question_answering", no_answer=True).check([_asked("0"), _asked("1", ""), unknown], None)
    assert capsys.readouterr().out == "1 questions of 3 are not measured: without an answer\n"
    kind("question_answering").check([_asked("0"), _asked("1", ""), unknown], None)
    assert capsys.readouterr().out.startswith("2 questions of 3 are not measured: ")


@pytest.mark.parametrize("values", [{}, {"language": "zh"}, {"no_answer": True}], ids=str)
def test_only_what_is_known_is_measured(values: dict, kind, predictor) -> None:
    """An answer that is not in the context still counts as right, as in the official evaluation."""
    lost = Question("1", "a ?", "a b c", place="f", lost=("d",))
    data = [_asked("0"), lost, Question("2", "a ?", "a b c", place="f")]
    if not values:
        data.append(_asked("3", ""))
    answers = _answers(*[("b", -9.0)] * len(data))
    found = kind("question_answering", **values).evaluate(predictor(predict_answers=answers), data)
    assert found.metrics["exact"] == 50.0
    assert [each.right for each in found.worst] == ["d"]
    assert len(found.predictions) == len(data)


def test_exact_match_and_f1(kind, predictor, tmp_path: Path) -> None:
    data = [_asked("0"), _asked("1")]
    found = kind("question_answering").evaluate(
        predictor(predict_answers=_answers(("b", 9), ("b c", 9))), data
    )
    assert list(found.metrics) == ["f1", "exact"]
    assert found.metrics["exact"] == 50.0
    assert found.metrics["f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    (worst,) = found.worst
    assert (worst.text, worst.right, worst.answered) == ("a ? [a b c]", "b", "b c")
    kind("question_answering").write(tmp_path / "p.json", data, found.predictions)
    assert json.loads((tmp_path / "p.json").read_text()) == {"0": "b", "1": "b c"}


def test_worst_are_those_that_the_official_rules_call_wrong(kind, predictor) -> None:
    data = [_asked("0"), _asked("1"), _asked("2", "a b")]
    answers = _answers(("The B.", -9.0), ("c", -9.0), ("b", -9.0))
    found = kind("question_answering").evaluate(predictor(predict_answers=answers), data)
    # the official evaluation ignores articles such as "a"
    assert [each.answered for each in found.worst] == ["c"]
    made = kind("question_answering", {"best_f1_thresh": 0.0}, no_answer=True)
    answers = [Answer("b", 0, 1, 0.9, null) for null in (0.5, 4.0, 2.0)]
    worst = made.evaluate(predictor(predict_answers=answers), data).worst
    assert [each.answered for each in worst] == [""] * 3
    sure = [1 / (1 + math.exp(-null)) for null in (4.0, 2.0, 0.5)]
    assert [each.score for each in worst] == pytest.approx(sure)


def test_what_a_folder_says_of_answers(kind) -> None:
    made = kind("question_answering", {"best_f1_thresh": -2.5}, no_answer=True, max_answer=7)
    sizes = {"stride": 4, "max_question": 4, "max_pieces": 7}
    assert made.options == {**sizes, "null_threshold": -2.5}
    values = {"stride": 4, "max_question": 4, "max_answer": 7, "no_answer": True}
    assert values_of(made.options) == (values, {"best_f1_thresh": -2.5})
    assert kind("question_answering", max_answer=7).options == sizes
    assert values_of(sizes) == (values | {"no_answer": False}, {})


def test_no_answer_by_the_best_threshold(kind, predictor) -> None:
    """The best threshold accepts the two most confident answers and rejects the third."""
    data = [_asked("0"), _asked("1"), _asked("2", "")]
    answers = predictor(predict_answers=_answers(("b", -3.0), ("b", -2.0), ("c", 1.0)))
    made = kind("question_answering", no_answer=True)
    found = made.evaluate(answers, data)
    assert found.predictions == [("0", "b"), ("1", "b"), ("2", "")]
    assert found.metrics["f1"] == found.metrics["exact"] == found.metrics["NoAns_f1"] == 100.0
    assert found.metrics["best_f1_thresh"] == -2.0
    assert not found.worst
    wrong = made.evaluate(
        predictor(predict_answers=_answers(("b", -3.0), ("b", 1.0), ("c", -5.0))), data
    )
    assert ("", "c") in {(each.right, each.answered) for each in wrong.worst}
    assert "total" not in " ".join(found.metrics)


def test_predictions_use_the_threshold_of_dev(kind) -> None:
    class PredictorConfig:
        def predict_answers(self, *_, null_threshold=None, **__):
            self.threshold = null_threshold
            return _answers(("b", 0.0))

    predictor, measured = PredictorConfig(), {"best_f1_thresh": -2.5}
    made = kind("question_answering", measured, no_answer=True)
    assert made.predict(predictor, [_asked("0")]) == [("0", "b")]
    assert predictor.threshold == -2.5
    made = kind("question_answering", {}, no_answer=True)  # a model without a measured threshold
    made.predict(predictor, [_asked("0")])
    assert predictor.threshold == 0.0
    kind("question_answering", measured).predict(predictor, [_asked("0")])
    assert predictor.threshold is None


def test_other_examples_are_measured_with_the_threshold_of_dev(kind, predictor) -> None:
    data = [_asked("0"), _asked("1"), _asked("2", "")]
    answers = predictor(predict_answers=_answers(("b", -3.0), ("b", -2.0), ("c", 1.0)))
    found = kind("question_answering", {"best_f1_thresh": -2.5}, no_answer=True).evaluate(
        answers, data
    )
    assert found.predictions == [("0", "b"), ("1", ""), ("2", "")]
    assert found.metrics["f1"] == pytest.approx(200 / 3)
    assert (found.metrics["best_f1"], found.metrics["best_f1_thresh"]) == (100.0, -2.0)


def test_where_no_answer_is_best_there_is_none(kind, predictor) -> None:
    """If no answer at all is best, the threshold rejects all answers.

    The official script gives a threshold of 0 here, which would accept all of these scores.
    """
    data = [_asked("0"), _asked("1"), _asked("2", ""), _asked("3", "")]
    answers = predictor(
        predict_answers=_answers(("b", -3.0), ("b", -2.0), ("c", -9.0), ("c", -8.0))
    )
    found = kind("question_answering", no_answer=True).evaluate(answers, data)
    assert found.metrics["f1"] == found.metrics["best_f1"] == 50.0
    assert {answer for _, answer in found.predictions} == {""}
    again = kind("question_answering", found.stored, no_answer=True).evaluate(answers, data)
    assert again.predictions == found.predictions


def test_chinese_is_compared_by_characters(kind, predictor) -> None:
    from bert_keras.data import Answer as Right

    data = [Question("0", "谁", "我是中国人", (Right("中国人", 2),))]
    found = kind("question_answering", language="zh").evaluate(
        predictor(predict_answers=_answers(("中国", 0))), data
    )
    assert found.metrics["f1"] == pytest.approx(80.0)
