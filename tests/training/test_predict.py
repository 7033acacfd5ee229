"""The program `predict`: predictions for unlabelled examples, in the official formats."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_keras import Predictor
from bert_keras.training import predict as module
from bert_keras.training import pretrain
from bert_keras.training.finetune_recipe import TASK_NAMES
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
    "text_ranking": ("test.jsonl", '{"text": "good", "pair": "bad"}\n'),
    "token_classification": ("test.txt", "Ada\nis\n\nRome\n"),
    "question_answering": ("test.json", json.dumps(_SQUAD)),
    "multiple_choice": ("test.jsonl", '{"prompt": "the", "options": ["good", "bad"]}\n'),
}


_FORM = "form=official"


def test_all_tasks_are_tested() -> None:
    assert set(_FILES) == set(TASK_NAMES)


def test_predictions_need_no_metrics(finetuned, tmp_path: Path, call, monkeypatch) -> None:
    run, found = finetuned("text_classification"), importlib.util.find_spec
    lacking = ("scipy", "sklearn")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in lacking else found(name)
    )
    (tmp_path / "test.jsonl").write_text('{"text": "x"}\n')
    done = call(main, str(run), "test.jsonl", "out=answers", "form=official")
    assert done.code == 0, done.err
    assert "answering" in done.err


@pytest.mark.parametrize("task", _FILES)
def test_the_official_form_of_every_task(
    task: str, finetuned, tmp_path: Path, call: Callable
) -> None:
    name, text = _FILES[task]
    (tmp_path / name).write_text(text)
    done = call(main, str(finetuned(task)), name, "out=new/answers", "form=official")
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
        (("test.jsonl", _FORM), 2, "out= is missing"),
        ((_FORM, "out=a"), 2, "form=official reads exactly one file. Received: 0 inputs"),
        (("test.jsonl", "out=test.jsonl", _FORM), 2, "is an input"),
        (("test.jsonl", "out=folder", _FORM), 2, "folder is a folder"),
        (("test.jsonl", "out=gap.tsv", _FORM), 2, "gap.tsv exists. Choose another file"),
        (("nowhere.jsonl", "out=a", _FORM), 3, "nowhere.jsonl"),
        (("test.jsonl", "out=gap.tsv/a", _FORM), 5, "File exists: 'gap.tsv'"),
        (("test.jsonl", "out=a", "text=sentence", _FORM), 3, "no key 'sentence'"),
        (
            ("gap.tsv", "out=a", "header=false", "text=0", _FORM),
            3,
            "gap.tsv:2: a blank line before",
        ),
        (("data=test.jsonl",), 2, "The key data= was removed"),
        (("test.jsonl", "form=glue"), 2, "form must be rows or official"),
        (("test.jsonl", "out=a.xlsx"), 2, "out= must end with .csv, .jsonl, .tsv"),
        (("test.jsonl", "out=folder.csv"), 2, "folder.csv is a folder"),
        (("test.jsonl", "out=test.jsonl"), 2, "test.jsonl exists"),
        (("test.jsonl", "out=test.jsonl", "overwrite=true"), 2, "is an input"),
        (("nowhere.csv",), 3, "nowhere.csv"),
        (("test.jsonl", "text=sentence"), 3, "test.jsonl:1: no 'sentence'"),
        (("gap.tsv", "text=nothing"), 3, "no column 'nothing'"),
        (("gap.tsv", "quoting=maybe"), 2, "quoting must be auto, true or false"),
        (("",), 2, "An input is empty"),
        (("a.json",), 2, "a.json: a benchmark's own format is read with form=official"),
        (("test.jsonl", "null_threshold=x"), 2, "null_threshold must be a number"),
        (("test.jsonl", "max_length=2"), 2, "max_length"),
        (("test.jsonl", "--max-length", "8"), 2, "Received: --max-length. Write max_length=VALUE"),
    ],
)
def test_bad_input(values, code, message, finetuned, tmp_path: Path, call: Callable) -> None:
    (tmp_path / "test.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "gap.tsv").write_text("good\n\nbad\n")
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    done = call(main, str(finetuned("text_classification")), *values)
    assert done.code == code, done.err
    assert done.err.startswith("error: ")
    assert message in done.err
    names = {"test.jsonl", "gap.tsv", "folder", "folder.csv", "a.json"}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize(
    ("out", "message"),
    [("/dev/full", "No space left on device: '/dev/full'"), ("a" * 300, "File name too long")],
)
def test_what_cannot_be_written(out: str, message: str, finetuned, tmp_path, call) -> None:
    (tmp_path / "test.jsonl").write_text('{"text": "x"}\n')
    done = call(main, str(finetuned("text_classification")), "test.jsonl", f"out={out}", _FORM)
    assert done.code == 5, done.err
    assert message in done.err
    assert Path("/dev/full").is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["test.jsonl"]


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Predict with a fine-tuned model")
    for key in module._DEFAULTS:
        assert f"{key}=" in done.out


def test_a_text(finetuned, call: Callable) -> None:
    run = str(finetuned("text_classification"))
    done = call(main, run, "the film was good", "a = b is no key")
    assert done.code == 0, done.err
    first, second = map(json.loads, done.out.splitlines())
    assert first["label"] in ("good", "bad")
    assert set(second) == {"label", "score"}


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_table_of_labels(ending: str, finetuned, tmp_path: Path, call: Callable) -> None:
    """The written table can be read again, whatever characters the texts contain."""
    texts = ["good, or not?", 'a "quoted" film', "two\nlines", "tab\there"]
    with (tmp_path / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["review", "label"], *([text, "?"] for text in texts)])
    run = finetuned("text_classification")
    done = call(main, str(run), "reviews.csv", "text=review", f"out=new/labels.{ending}")
    assert done.code == 0, done.err
    assert "4 predictions: " in done.out
    written = tmp_path / "new" / f"labels.{ending}"
    with written.open(encoding="utf-8", newline="") as file:
        if ending == "jsonl":
            found = [json.loads(line) for line in file]
        else:
            found = list(csv.DictReader(file, delimiter=csv_separator(ending)))
    assert [row["text"] for row in found] == texts
    expected = Predictor.from_preset(run).predict_scores(texts)
    for row, scores in zip(found, expected, strict=True):
        probabilities = {name: float(row[f"p_{name}"]) for name in ("bad", "good")}
        assert list(probabilities.values()) == pytest.approx(scores.tolist(), abs=1e-5)
        assert row["label"] == max(probabilities, key=lambda name: probabilities[name])
        assert float(row["score"]) == pytest.approx(scores.max(), abs=1e-5)
    again = call(main, str(run), "reviews.csv", "text=review", f"out=new/labels.{ending}")
    assert again.code == 2
    again = (str(run), "reviews.csv", "text=review", f"out=new/labels.{ending}", "overwrite=true")
    assert call(main, *again).code == 0


def csv_separator(ending: str) -> str:
    return {"csv": ",", "tsv": "\t"}[ending]


_ROWS = {
    "token_classification": ({"text": "Ada is in Rome"}, {"text", "entities"}),
    "question_answering": (
        {"question": "who is in Rome ?", "context": "Ada is in Rome"},
        {"question", "context", "text", "start", "end", "score", "null_score"},
    ),
    "multiple_choice": (
        {"prompt": "the", "options": ["good", "bad"]},
        {"prompt", "options", "index", "text", "score"},
    ),
    "multi_label_classification": ({"text": "good bad"}, {"text", "labels"}),
    "text_classification": ({"text": "good"}, {"text", "label", "score", "p_bad", "p_good"}),
    "text_regression": ({"text": "good", "pair": "bad"}, {"text", "pair", "score"}),
    "sentence_similarity": ({"text": "good", "pair": "bad"}, {"text", "pair", "score"}),
    "pair_classification": ({"text": "good", "pair": "bad"}, {"text", "pair", "label", "score"}),
    "retrieval": ({"text": "good", "pair": "bad"}, {"text", "pair", "score"}),
    "text_ranking": ({"text": "good", "pair": "bad"}, {"text", "pair", "score"}),
}


@pytest.mark.parametrize("task", _FILES)
def test_rows_of_every_task(task: str, finetuned, tmp_path: Path, call: Callable) -> None:
    row, columns = _ROWS[task]
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    for ending in ("jsonl", "csv"):
        done = call(main, str(finetuned(task)), "rows.jsonl", f"out=answers.{ending}")
        assert done.code == 0, done.err
    found = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(found) == 2
    assert columns <= set(found[0])
    assert {name: found[0][name] for name in row} == row
    with (tmp_path / "answers.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == list(found[0])
    for name, value in found[0].items():
        cell = table[0][name]
        assert (cell if isinstance(value, str) or value is None else json.loads(cell)) == (
            "" if value is None else value
        )


def test_tables_of_questions_and_choices(finetuned, tmp_path: Path, call: Callable) -> None:
    (tmp_path / "q.csv").write_text("q,c\nwho is in Rome ?,Ada is in Rome\n")
    asked = ("q.csv", "question=q", "context=c", "out=a.jsonl")
    assert call(main, str(finetuned("question_answering")), *asked).code == 0
    (answer,) = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert answer["text"] in "Ada is in Rome"
    (tmp_path / "c.csv").write_text("p,a,b\nthe,good,bad\n")
    done = call(main, str(finetuned("multiple_choice")), "c.csv", "prompt=p", "options=a,b")
    assert done.code == 0, done.err
    assert json.loads(done.out)["text"] in ("good", "bad")


def test_masks_are_filled_by_a_pretraining_run(tiny: str, tmp_path: Path, call: Callable) -> None:
    assert call(pretrain.main, tiny, "out=run", "steps=2").code == 0
    done = call(main, "run", "a [MASK]")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer, "no answer to a text with a mask"
    (tmp_path / "rows.csv").write_text("text\na [MASK]\n")
    done = call(main, "run", "rows.csv", "text=text")
    assert json.loads(done.out) == answer


def test_dtype_and_device_of_the_command_line(finetuned, call: Callable, monkeypatch) -> None:
    run = str(finetuned("text_classification"))
    opened, real = [], Predictor.from_preset

    def from_preset(*args, **options) -> Predictor:
        opened.append(real(*args, **options))
        return opened[-1]

    monkeypatch.setattr(Predictor, "from_preset", from_preset)
    done = call(main, run, "good", "precision=bfloat16", "device=cpu:0")
    assert done.code == 0, done.err
    assert opened[0].device == "cpu"
    assert opened[0].encoder.dtype_policy.name == "bfloat16"
    for word, known in (("precision=half", "mixed_bfloat16"), ("device=gpu:99", "cpu:0")):
        done = call(main, run, "good", word)
        assert done.code == 2
        assert known in done.err


def test_long_texts_are_counted_or_read_in_windows(finetuned, tmp_path: Path, call) -> None:
    run = str(finetuned("text_classification"))
    long = f"good {'the film was ' * 20} bad"
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"text": t}) + "\n" for t in [long, "x"])
    )
    told = "1 of 2 texts is longer than 32 tokens; the rest of it is not read. long_texts="
    answers = {}
    for words in ([], ["long_texts=truncate"], ["long_texts=windows"], ["out=rows.csv"]):
        done = call(main, run, "rows.jsonl", *words)
        assert done.code == 0, done.err
        assert (told in done.err) == (words in ([], ["out=rows.csv"]))
        answers[" ".join(words)] = done.out
    assert answers[""] == answers["long_texts=truncate"] != answers["long_texts=windows"]
    for word, message in (
        ("stride=4", "`stride` is for long_texts="),
        ("long_texts=window", "must be None or one of"),
    ):
        done = call(main, run, "rows.jsonl", word)
        assert done.code == 2
        assert message in done.err
    done = call(main, str(finetuned("token_classification")), "x", "long_texts=windows")
    assert done.code == 2
    assert "long_texts= is for text classification" in done.err


def test_entities_by_aggregation(finetuned, call: Callable) -> None:
    """The command line has the entities of `predict_entities`, or says why it has none."""
    run, text = finetuned("token_classification"), "Ada is in Rome."
    predictor = Predictor.from_preset(run)
    for aggregation in ("none", "first"):
        done = call(main, str(run), text, f"aggregation={aggregation}")
        assert done.code == 0, done.err
        expected = predictor.predict_entities(text, aggregation=aggregation)
        found = json.loads(done.out)
        assert [each["label"] for each in found] == [entity.label for entity in expected]
        assert [each["start"] for each in found] == [entity.start for entity in expected]
    for task, word, message in (
        ("token_classification", "aggregation=mean", "one of none, simple, first, average, max"),
        ("text_classification", "aggregation=max", "is for token classification alone"),
        ("text_classification", "null_threshold=1", "is for question answering alone"),
    ):
        done = call(main, str(finetuned(task)), text, word)
        assert done.code == 2
        assert message in done.err
