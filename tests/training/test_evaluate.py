"""The program `evaluate`: metrics of a fine-tuned model on a file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_keras.training.evaluate import main
from bert_keras.training.finetune_recipe import TASK_NAMES


@pytest.mark.parametrize("task", TASK_NAMES)
def test_what_the_run_was_measured_on_gives_the_same(
    task: str, finetuned, call: Callable, tmp_path: Path
) -> None:
    run = finetuned(task)
    card = json.loads((run / "run.json").read_text())
    done = call(main, str(run), f"data={card['recipe']['dev']}", "out=results")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "results" / "metrics.json").read_text())
    expected = json.loads((run / "metrics.json").read_text())["metrics"]
    assert found["metrics"] == pytest.approx(expected, nan_ok=True)
    assert found["examples"] > 0
    (predictions,) = (tmp_path / "results").glob("predictions.*")
    assert predictions.read_bytes() == (run / predictions.name).read_bytes()
    assert all(name in done.out for name in expected)


def test_a_run_has_a_place_for_results_and_a_model_needs_one(
    finetuned, tmp_path: Path, call: Callable
) -> None:
    run = shutil.copytree(finetuned("text_classification"), tmp_path / "run")
    rows = [{"sentence": "the film was good", "stars": "good"}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = ("data=test.jsonl", "text=sentence", "label=stars")
    done = call(main, str(run), *values)
    assert done.code == 0, done.err
    assert (run / "evaluation" / "test.jsonl" / "metrics.json").is_file()
    assert call(main, str(run), *values).code == 0
    (tmp_path / "other").mkdir()
    shutil.copyfile(tmp_path / "test.jsonl", tmp_path / "other" / "test.jsonl")
    done = call(main, str(run), "data=other/test.jsonl", *values[1:])
    assert done.code == 2
    assert "test.jsonl holds the results of test.jsonl, not of " in done.err
    best = run / "seed-0" / "best"
    done = call(main, str(best), "data=nowhere.jsonl")
    assert done.code == 2
    assert "the results have no folder" in done.err
    assert call(main, str(best), *values, "out=results").code == 0


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        (("data=nowhere.jsonl",), 3, "nowhere.jsonl"),
        (("data=test.jsonl", "label=gold"), 3, "no key 'gold'"),
        (("data=test.jsonl",), 3, "test.jsonl:1: unknown label 'dull'. The labels are bad, good"),
        (("data=good.jsonl", "out=test.jsonl"), 2, "test.jsonl is a file"),
        ((), 2, "data= is missing"),
    ],
)
def test_bad_input(values, code, message, finetuned, tmp_path: Path, call: Callable) -> None:
    (tmp_path / "test.jsonl").write_text('{"text": "x", "label": "dull"}\n')
    (tmp_path / "good.jsonl").write_text('{"text": "x", "label": "good"}\n')
    done = call(main, str(finetuned("text_classification")), *values)
    assert done.code == code, done.err
    assert done.err.startswith("error: ")
    assert message in done.err
    assert not (finetuned("text_classification") / "evaluation").exists()


def test_the_model_itself_is_not_written_over(finetuned, call: Callable, tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text('{"text": "x", "label": "good"}\n')
    run = finetuned("text_classification")
    before = (run / "metrics.json").read_bytes()
    assert call(main, str(run), "data=good.jsonl", f"out={run}").code == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").touch()
    done = call(main, str(run), "data=good.jsonl", "out=other")
    assert done.code == 2
    assert "other is the folder of a model" in done.err
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["run.json"]
    assert (run / "metrics.json").read_bytes() == before


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Measure a fine-tuned model")
