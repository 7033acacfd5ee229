"""Names with special characters in everything that the training programs print and write."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bert_keras.data import Corpus
from bert_keras.export import export_folder
from bert_keras.tokenizers import Coverage
from bert_keras.training import (
    dry_run,
    evaluate,
    finetune,
    finetune_report,
    predict,
    prepare,
    pretrain,
    pretrain_report,
    progress,
)
from bert_keras.training.finetune_grid import Grid, GridPoint
from bert_keras.training.finetune_grid_report import GridResults
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_report import FilledMask, Report
from bert_keras.training.run_folder import FinetuneFolder
from bert_keras.training.tasks import Evaluation, HardExample
from tests.names import NAMES, as_line, shown_by_markdown

_ONE_FOLDER = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_RECIPE = PretrainRecipe(corpus="demo", name="x", steps=50, sequence_length=64)
NOT_UTF8 = os.fsdecode(b"b\xffd.txt")


def _report(name: str) -> Report:
    numbers = dict.fromkeys(
        (
            *("documents", "tokens", "validation_documents", "validation_tokens", "vocab_size"),
            *("unknown_share", "padding_share", "masks_per_row", "entropy", "cross_entropy"),
            *("mlm_loss", "mlm_accuracy", "mlm_targets", "parameters", "steps"),
            *("tokens_per_second", "waiting_share", "wall_seconds", "peak_memory"),
        ),
        1,
    )
    texts: dict[str, Any] = {"recipe": name, "command": "x", "date": "now", "backend": "jax"}
    return Report(
        **numbers,
        **texts,
        versions={"keras": "3"},
        machine={},
        settings={"corpus": name},
        attention=name,
        filled=[FilledMask(name, name, [(name, 0.5), ("b", 0.25)])],
    )


@_ONE_FOLDER
@given(name=NAMES)
def test_the_report_of_a_pretraining(name: str, tmp_path: Path) -> None:
    pretrain_report.print_summary(_report(name))
    page = pretrain_report.write_report(tmp_path / "report.md", _report(name)).read_text(
        encoding="utf-8"
    )
    assert _heading(page) == f"{as_line(name)}: pretraining report"
    _require_whole_tables(page)


def _heading(page: str) -> str:
    (heading,) = shown_by_markdown(page.partition("\n")[0])
    return heading


def _require_whole_tables(page: str) -> None:
    """Assert that all rows of each table have the same number of cells."""
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1, block


@_ONE_FOLDER
@given(name=NAMES)
def test_the_report_of_a_fine_tuning(name: str, tmp_path: Path) -> None:
    result = {"seed": 0, "metrics": {name: 0.5}, "step": 1, "steps": 2, "seconds": 1.0}
    failed = {"seed": 1, "failed": name}
    recipe = FinetuneRecipe(task="text_classification", name=name or "x", train=name)
    point = GridPoint({"encoder": name}, dataclasses.replace(recipe, encoder=name, metric=name))
    trained: Any = SimpleNamespace(
        recipe=recipe,
        data=SimpleNamespace(train=[], validation=[]),
        results=[result, failed],
        good=[result],
        best=result,
        metric=name,
        folder=FinetuneFolder(dataclasses.replace(recipe, out=str(tmp_path))),
        command="x",
        grid=GridResults.of(Grid((point,)), [[result, failed]]),
        evaluation=Evaluation({name: 0.5}, [], [HardExample(1.0, name, name, name)]),
        pictures={"curve.png"},
        calibration=None,
        lengths=None,
    )
    steps = {step.name: step for step in finetune_report.STEPS}
    steps["report"].run(trained)
    steps["summary"].run(trained)
    _require_whole_tables((tmp_path / "report.md").read_text(encoding="utf-8"))


@given(name=NAMES)
@settings(max_examples=30, deadline=None)
def test_what_is_printed(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dry_run, "matrix_product_speed", lambda: 1e9)
        patch.setattr(dry_run, "_text_bytes", lambda _: 1_000)
        patch.setattr(dry_run, "check_validation_split", lambda _: None)
        dry_run.print_plan(dataclasses.replace(_RECIPE, name=name, out=name, corpus=name or "x"))
    counts = dict.fromkeys(("documents", "sentences", "tokens", "text_bytes"), 1)
    counts |= dict.fromkeys(("unknown_tokens", "dropped_sentences", "dropped_documents"), 1)
    corpus: Any = SimpleNamespace(manifest={"counts": counts}, coverage=Coverage(1, 1))
    prepare._print_summary(
        prepare.Prepared({name: corpus}, 1.0, 1.0), {"out": name, "workers": 1, "vocab": name}
    )
    with progress.Progress(3) as display:
        display.note(name)
        display.aside(1, 2, name)
    with progress.task(name) as show:
        show(1, 2, name)


@_ONE_FOLDER
@given(name=NAMES)
def test_a_model_card(name: str, tmp_path: Path) -> None:
    encoder = SimpleNamespace(config=SimpleNamespace(family="bert", num_layers=1, hidden_size=8))
    predictor: Any = SimpleNamespace(
        task=SimpleNamespace(
            options={"labels": [name, "b"]}, count_params=lambda: 1, encoder=encoder
        ),
        max_length=8,
        tokenizer=SimpleNamespace(vocab_size=5),
        options={"key": name, "prompt": name},
    )
    # the parent folder has the model's name, the folder its version
    parent = SimpleNamespace(name=name)
    path: Any = SimpleNamespace(name=name, absolute=lambda: SimpleNamespace(parent=parent))
    export_folder.write_card(predictor, tmp_path, path, {"run": (["ids"], ["label"])})
    assert len((tmp_path / export_folder.LABELS).read_text(encoding="utf-8").splitlines()) >= 2
    assert _heading((tmp_path / export_folder.CARD).read_text(encoding="utf-8")) == as_line(name)


# === Whole programs


@pytest.fixture
def odd_file(text_file: Path, tmp_path: Path) -> Path:
    """Return a text file whose name is not valid UTF-8."""
    path = tmp_path / NOT_UTF8
    try:
        path.write_bytes(text_file.read_bytes())
    except OSError:
        pytest.skip("this platform has no such names")
    return path


def test_a_corpus_whose_name_is_not_utf8(odd_file: Path, tmp_path: Path, call: Callable) -> None:
    values = ("layout=sentences", "vocab_size=300", "workers=1", "validation_split=0.2")
    done = call(prepare.main, f"corpus={odd_file}", "out=[bold]", *values)
    assert done.code == 0, done.err
    assert "[bold]: ready" in done.out
    manifest = Corpus.open(tmp_path / "[bold]" / "train", verify=True).manifest
    assert manifest["origin"]["files"][0]["name"] == odd_file.as_posix()
    text = (tmp_path / "[bold]" / "train" / "manifest.json").read_bytes().decode("utf-8")
    assert r"b\udcffd.txt" in text


def test_a_run_whose_name_is_markup(tiny: str, odd_file: Path, call: Callable) -> None:
    values = ("name=[/x]$|`", f"corpus={odd_file}", "steps=2")
    done = call(pretrain.main, tiny, "--dry-run", *values)
    assert done.code == 0, done.err
    assert "[/x]$|`: the plan" in done.out
    done = call(pretrain.main, tiny, *values)
    assert done.code == 0, done.err
    folder = Path("runs") / "[/x]$|`"
    assert (folder / "report.md").read_text(encoding="utf-8").startswith(r"# [/x]\$\|\`: pre")
    assert json.loads((folder / "run.json").read_bytes())["recipe"]["corpus"] == str(odd_file)


def test_examples_whose_name_is_not_utf8(
    finetuned: Callable, finetuning: Callable, tmp_path: Path, call: Callable
) -> None:
    run = finetuned("text_classification")
    odd = tmp_path / os.fsdecode(b"b\xffd.jsonl")
    odd.write_bytes((run / ".quicktest" / "train.jsonl").read_bytes())
    values = (f"train={odd}", f"dev={odd}", f"encoder={run / '.quicktest' / 'encoder'}")
    more = ("out=[/x]", "name=[/x]", "max_length=32", "epochs=1")
    done = call(finetune.main, finetuning("text_classification"), *values, *more)
    assert done.code == 0, done.err
    done = call(evaluate.main, "[/x]", f"data={odd}", "out=[/y]")
    assert done.code == 0, done.err
    assert r"b\udcffd.jsonl" in "".join(done.out.split())
    assert json.loads(Path("[/y]", "metrics.json").read_bytes())["data"] == str(odd)
    done = call(predict.main, "[/x]", str(odd), f"out={odd}.tsv")
    assert done.code == 0, done.err
    assert Path(f"{odd}.tsv").is_file()


@pytest.mark.parametrize("key", ["name", "out"])
def test_a_folder_that_not_all_libraries_can_write(
    key: str, tiny: str, tmp_path: Path, call: Callable
) -> None:
    """The name is refused before the training, because some libraries cannot write it."""
    done = call(pretrain.main, tiny, f"{key}={NOT_UTF8}")
    assert done.code == 2
    assert rf"error: {key}= must be a name in UTF-8" in done.err
    assert r"b\udcffd.txt" in done.err
    assert not list(tmp_path.iterdir())


def test_a_terminal_of_ascii(tiny: str, call: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", file)
    done = call(pretrain.main, tiny, "--dry-run", "name=ä名")
    assert done.code == 0, done.err
    assert rb"\u00e4\u540d: the plan" in file.buffer.getvalue()
