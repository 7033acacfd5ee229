"""Predictions for examples without labels, in the official forms."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_keras.training.finetune_recipe import KINDS
from bert_keras.training.predict import main

_SQUAD = {"data": [{"paragraphs": [{"context": "Ada is in Rome", "qas": []}]}]}
_SQUAD["data"][0]["paragraphs"][0]["qas"] = [{"id": "q7", "question": "who is in Rome ?"}]
_FILES = {
    "text_classification": ("test.jsonl", '{"text": "the film was good"}\n{"text": "x"}\n'),
    "multi_label_classification": ("test.jsonl", '{"text": "good bad"}\n'),
    "text_regression": ("test.jsonl", '{"text": "good", "pair": "bad"}\n'),
    "sentence_similarity": ("test.jsonl", '{"text": "good", "pair": "bad"}\n'),
    "pair_classification": ("test.jsonl", '{"text": "good", "pair": "bad"}\n'),
    "retrieval": ("test.jsonl", '{"text": "good", "pair": "bad"}\n{"text": "a", "pair": "film"}\n'),
    "token_classification": ("test.txt", "Ada\nis\n\nRome\n"),
    "question_answering": ("test.json", json.dumps(_SQUAD)),
    "multiple_choice": ("test.jsonl", '{"prompt": "the", "options": ["good", "bad"]}\n'),
}


def test_all_tasks_are_tested() -> None:
    assert set(_FILES) == set(KINDS)


def test_predictions_need_no_metrics(finetuned, tmp_path: Path, call, monkeypatch) -> None:
    run, found = finetuned("text_classification"), importlib.util.find_spec
    lacking = ("scipy", "sklearn")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in lacking else found(name)
    )
    (tmp_path / "test.jsonl").write_text('{"text": "x"}\n')
    done = call(main, str(run), "data=test.jsonl", "out=answers")
    assert done.code == 0, done.err
    assert "answering" in done.err


@pytest.mark.parametrize("task", _FILES)
def test_every_task(task: str, finetuned, tmp_path: Path, call: Callable) -> None:
    name, text = _FILES[task]
    (tmp_path / name).write_text(text)
    done = call(main, str(finetuned(task)), f"data={name}", "out=new/answers")
    assert done.code == 0, done.err
    written = (tmp_path / "new" / "answers").read_text()
    lines = written.splitlines()
    if task == "question_answering":
        answers = json.loads(written)
        assert list(answers) == ["q7"]
        assert answers["q7"] in "Ada is in Rome"
    elif task == "token_classification":
        assert [line.split(" ")[0] for line in lines] == ["Ada", "is", "", "Rome"]
        tags = {line.split(" ")[1] for line in lines if line}
        assert tags <= {"O", "B-LOC", "I-LOC", "B-PER", "I-PER"}
    else:
        assert lines[0] == "index\tprediction"
        assert [line.split("\t")[0] for line in lines[1:]] == list(map(str, range(len(lines) - 1)))
        answers = {line.split("\t")[1] for line in lines[1:]}
        if task == "text_classification":
            assert len(lines) == 3
            assert answers <= {"good", "bad"}
        elif task == "multiple_choice":
            assert answers <= {"0", "1"}
        elif task == "pair_classification":
            assert answers <= {"same", "other"}
        elif task == "retrieval":
            assert answers <= {"bad", "film"}
        elif task != "multi_label_classification":
            assert all(float(answer) == pytest.approx(float(answer)) for answer in answers)


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        (("data=test.jsonl",), 2, "out= is missing"),
        (("out=a",), 2, "data= is missing"),
        (("data=test.jsonl", "out=test.jsonl"), 2, "is what is read"),
        (("data=test.jsonl", "out=folder"), 2, "folder is a folder"),
        (("data=nowhere.jsonl", "out=a"), 3, "nowhere.jsonl"),
        (("data=test.jsonl", "out=gap.tsv/a"), 5, "File exists: 'gap.tsv'"),
        (("data=test.jsonl", "out=a", "text=sentence"), 3, "no key 'sentence'"),
        (("data=gap.tsv", "out=a", "header=false", "text=0"), 3, "gap.tsv:2: a blank line before"),
    ],
)
def test_bad_input(values, code, message, finetuned, tmp_path: Path, call: Callable) -> None:
    (tmp_path / "test.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "gap.tsv").write_text("good\n\nbad\n")
    (tmp_path / "folder").mkdir()
    done = call(main, str(finetuned("text_classification")), *values)
    assert done.code == code, done.err
    assert done.err.startswith("error: ")
    assert message in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"test.jsonl", "gap.tsv", "folder"}


@pytest.mark.parametrize(
    ("out", "message"),
    [("/dev/full", "No space left on device: '/dev/full'"), ("a" * 300, "File name too long")],
)
def test_what_cannot_be_written(out: str, message: str, finetuned, tmp_path, call) -> None:
    (tmp_path / "test.jsonl").write_text('{"text": "x"}\n')
    done = call(main, str(finetuned("text_classification")), "data=test.jsonl", f"out={out}")
    assert done.code == 5, done.err
    assert message in done.err
    assert Path("/dev/full").is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["test.jsonl"]


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Predicts with a fine-tuned model")
