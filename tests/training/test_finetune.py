"""The program `finetune`: from the command line to the report, and error messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import keras
import pytest

from bert_keras import load_checkpoint
from bert_keras.predictor import Predictor
from bert_keras.resume import RunLock
from bert_keras.training.finetune import main
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import TASK_NAMES, known_finetunings
from bert_keras.training.finetune_report import summary
from bert_keras.training.run_folder import QUICKTEST, recipe_of
from bert_keras.training.tasks import task_of

FILES = {"run.json", "report.md", "curve.png", "metrics.json", "config.json", "model.safetensors"}


def _json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("task", TASK_NAMES)
def test_every_task(task: str, finetuned: Callable[[str], Path]) -> None:
    """The saved model reproduces the metrics of the report."""
    folder = finetuned(task)
    assert {path.name for path in folder.iterdir()} >= FILES
    assert (folder / "confusion.png").exists() == (
        task in ("text_classification", "pair_classification", "token_classification")
    )
    recipe = recipe_of(folder)
    assert recipe is not None
    assert (folder / "reliability.png").exists() == task_of(recipe).has_confidences
    assert (folder / "lengths.png").exists()
    kind = task_of(recipe, _json(folder / "metrics.json")["metrics"])
    assert (folder / f"predictions.{kind.extension}").stat().st_size
    card = _json(folder / "metrics.json")
    assert card["metrics"] == _json(folder / f"seed-{card['seed']}" / "result.json")["metrics"]
    predictor = Predictor.from_preset(folder)
    assert predictor.max_length == recipe.max_length
    assert predictor.options == kind.options
    found = kind.evaluate(predictor, Data.read(recipe, kind).validation)
    assert dict(found.metrics) == pytest.approx(card["metrics"], nan_ok=True)
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert f"{task}.py --quicktest" in report
    for value in card["metrics"].values():
        assert f"| {summary([value])} |" in report


def test_several_seeds(finetuned: Callable[[str], Path]) -> None:
    folder = finetuned("text_classification")
    losses = [(folder / f"seed-{seed}" / "metrics.jsonl").read_text() for seed in (0, 1)]
    assert losses[0] != losses[1]
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "seeds 0, 1." in report
    assert "±" in report


def test_more_seeds_extend_a_run_and_nothing_is_trained_twice(
    finetuned, finetuning, tmp_path: Path, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(finetuned("text_regression"), tmp_path / "scores")
    _move(folder, finetuned("text_regression"))
    command = (finetuning("text_regression"), "--quicktest", f"out={folder}")
    before = (folder / "seed-0" / "result.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(keras.Model, "fit", None)
        done = call(main, *command)
        assert done.code == 0, done.err
    done = call(main, *command, "seeds=2")
    assert done.code == 0, done.err
    assert (folder / "seed-0" / "result.json").read_bytes() == before
    assert _json(folder / "seed-1" / "result.json")["steps"] > 0
    assert "±" in done.out
    done = call(main, *command, "seeds=2", "learning_rate=2e-3")
    assert done.code == 2
    assert "\n  learning_rate: 0.001 then, 0.002 now\n" in done.err


def _move(folder: Path, old: Path) -> None:
    """Replace the old paths of the quick test's files in a copied run folder."""
    card = folder / "run.json"
    card.write_text(card.read_text().replace(str(old), str(folder)))


def test_a_seed_that_fails_is_named(finetuned, finetuning, tmp_path, call: Callable) -> None:
    folder = shutil.copytree(finetuned("text_classification"), tmp_path / "labels")
    _move(folder, finetuned("text_classification"))
    failed = {"seed": 1, "failed": "The loss is nan | at step 3."}
    (folder / "seed-1" / "result.json").write_text(json.dumps(failed))
    done = call(main, finetuning("text_classification"), "--quicktest", f"out={folder}", "seeds=2")
    assert done.code == 0, done.err
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert r"**Seed 1 failed**: The loss is nan \| at step 3." in report
    assert "seed 0." in report
    assert "failed" in done.out


def test_all_seeds_fail(finetuning, tmp_path: Path, call: Callable) -> None:
    values = ("learning_rate=1e30", "warmup=0", "clip_norm=0", "schedule=constant", "epochs=3")
    done = call(main, finetuning("text_classification"), "--quicktest", "out=run", *values)
    assert done.code == 6
    assert "The training failed with every seed. Received: At step" in done.err
    assert "finite" in _json(tmp_path / "run" / "seed-0" / "result.json")["failed"]
    assert not (tmp_path / "run" / "model.safetensors").exists()


BAD = [
    (("train=nowhere.tsv",), 3, r"nowhere\.tsv"),
    (("train=rows.xyz",), 2, "the ending '.xyz' stands for no known format"),
    (("train=rows.jsonl", "label=gold"), 3, "rows.jsonl: lines 1, 2, 3 and 1 more: no key 'gold'"),
    (("train=bad.jsonl",), 3, "bad.jsonl:2: neither JSON nor lines of JSON"),
    (("train=rows.jsonl", "labels=a,c"), 3, "unknown label 'b'. The labels are a, c"),
    (("train=rows.jsonl", "encoder=nowhere"), 4, "nowhere"),
    (("epochs=ten",), 2, "epochs must be a whole number. Received: 'ten'"),
    (("epoch=1",), 2, "Unknown key. Received: 'epoch=1'. Did you mean 'epochs'"),
    (("--quick",), 2, "Unknown flag. Received: --quick. Did you mean"),
    (("train=",), 2, "train= is missing"),
    (("encoder=",), 2, "encoder= is missing"),
    (("out=mine",), 2, r"mine is not the folder of a run: it has no run\.json but thesis\.txt"),
    (("out=rows.jsonl",), 2, "rows.jsonl is a file"),
]


@pytest.mark.parametrize(("values", "code", "message"), BAD)
def test_bad_input(
    values, code: int, message: str, finetuned, finetuning, tmp_path: Path, call: Callable
) -> None:
    rows = "".join(json.dumps({"text": t, "label": t}) + "\n" for t in "abab")
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "bad.jsonl").write_text("{\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    given = {value.partition("=")[0] for value in values}
    encoder = finetuned("text_classification") / QUICKTEST / "encoder"
    defaults = {"train": "rows.jsonl", "encoder": encoder, "out": "run", "dev": "rows.jsonl"}
    more = [f"{key}={value}" for key, value in defaults.items() if key not in given]
    done = call(main, finetuning("text_classification"), *values, *more)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    _, found = f"\n{done.err}".split("\nerror: ")
    assert message.replace("\\", "") in found
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"thesis.txt"}
    # No training began, so the same command can be repeated with a corrected value.
    assert not (tmp_path / "run" / "seed-0").exists() or "encoder" in given


def test_values_that_do_not_fit_the_encoder(finetuned, finetuning, call: Callable) -> None:
    encoder = finetuned("text_classification") / QUICKTEST / "encoder"
    train = finetuned("text_classification") / QUICKTEST / "train.jsonl"
    command = (finetuning("text_classification"), f"train={train}", f"encoder={encoder}", "out=run")
    done = call(main, *command, "max_length=65")
    assert done.code == 2
    assert "`max_length` must be from 3 to 64" in done.err
    done = call(main, *command, "max_length=8", "layer_decay=0.9", "freeze=true")
    assert done.code == 2
    assert "layer_decay" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "The recipe is missing. Write: bert-keras finetune RECIPE"),
        (("seeds=3",), "The recipe is missing. Write: bert-keras finetune RECIPE"),
        (("nowhere",), "There is no recipe of that name. Received: 'nowhere'. Known recipes: "),
        (("nowhere.py",), "There is no recipe file nowhere.py. Correct the path, or name a"),
    ],
)
def test_bad_recipe(words: tuple[str, ...], message: str, call: Callable, tmp_path: Path) -> None:
    done = call(main, *words)
    assert done.code == 2
    assert done.err.startswith(f"error: {message}")
    assert not list(tmp_path.iterdir())


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Fine-tune a model")


def test_one_folder_has_one_run(finetuning, tmp_path: Path, call: Callable) -> None:
    with RunLock(tmp_path / "run"):
        done = call(main, finetuning("text_classification"), "--quicktest", "out=run")
    assert done.code == 5
    assert "in use by pid" in done.err
    assert not (tmp_path / "run" / QUICKTEST).exists()


def test_no_teacher_to_be_near_to(finetuned, finetuning, call: Callable) -> None:
    made = finetuned("text_classification") / QUICKTEST
    files = (f"train={made / 'train.jsonl'}", f"encoder={made / 'encoder'}", "max_length=32")
    for value in ("hidden=1", "alpha=0.9", "temperature=4"):
        done = call(main, finetuning("text_classification"), *files, "out=run", value)
        assert done.code == 2
        assert f"{value} needs a teacher to compare with. Name one with teacher=HANDLE" in done.err


def test_a_folder_of_pretraining_is_left_alone(
    finetuned, finetuning, tmp_path: Path, call: Callable
) -> None:
    made = finetuned("text_classification") / QUICKTEST
    files = (f"train={made / 'train.jsonl'}", f"encoder={made / 'encoder'}", "out=run")
    (tmp_path / "run").mkdir()
    card = json.dumps({"recipe": {"corpus": "demo"}, "backend": "jax", "versions": {}})
    (tmp_path / "run" / "run.json").write_text(card)
    done = call(main, finetuning("text_classification"), *files)
    assert done.code == 2
    assert "not of a fine-tuning run" in done.err
    assert (tmp_path / "run" / "run.json").read_text() == card


def test_a_test_writes_over_nothing(finetuning, tmp_path: Path, call: Callable) -> None:
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "train.jsonl").write_text("mine")
    done = call(main, finetuning("text_classification"), "--quicktest", "out=mine")
    assert done.code == 2
    assert "is not the folder of a run" in done.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["data"]


def test_what_the_encoder_cannot_be_read_by(finetuned, finetuning, call: Callable) -> None:
    made = finetuned("text_classification") / QUICKTEST
    files = (f"train={made / 'train.jsonl'}", f"encoder={made / 'encoder'}", "max_length=32")
    done = call(
        main, finetuning("text_classification"), *files, "out=run", "representation=concat_last_4"
    )
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "encoder=" in done.err


def test_a_student_and_its_teacher(finetuned, finetuning, tmp_path: Path, call: Callable) -> None:
    teacher = finetuned("text_classification")
    values = ("layers=0", "hidden=1", "alpha=0.9")
    command = (finetuning("text_classification"), "--quicktest", "out=student", *values)
    done = call(main, *command, f"teacher={teacher}")
    assert done.code == 0, done.err
    student = load_checkpoint(tmp_path / "student")
    assert type(student) is type(load_checkpoint(teacher))
    done = call(main, *command[:2], "out=other", f"teacher={finetuned('token_classification')}")
    assert done.code == 2
    assert "must be tasks of one class" in done.err
    done = call(main, *command[:2], "out=third", "layers=5")
    assert done.code == 2
    assert "layers=5: " in done.err


@pytest.mark.parametrize(
    "values",
    [
        ("representation=mix", "layer_decay=0.9"),
        ("lora=2",),
        ("unfreeze_every=1", "schedule=slanted_triangular", "warmup=0"),
        ("freeze=true", "class_weights=balanced"),
        ("packing=true", "representation=mix", "lora=2", "class_weights=balanced"),
    ],
    ids="+".join,
)
def test_other_ways_to_train(values: tuple[str, ...], finetuning, call: Callable) -> None:
    done = call(main, finetuning("text_classification"), "--quicktest", "out=run", *values)
    assert done.code == 0, done.err


def test_tags_of_several_sentences_in_a_row(finetuning, tmp_path: Path, call: Callable) -> None:
    done = call(
        main,
        finetuning("token_classification"),
        "--quicktest",
        "out=run",
        "packing=true",
        "epochs=1",
    )
    assert done.code == 0, done.err
    assert "packing" in (tmp_path / "run" / "report.md").read_text()
    assert type(load_checkpoint(tmp_path / "run")).__name__ == "TokenClassifier"


def test_a_random_field_over_tags(finetuning, tmp_path: Path, call: Callable) -> None:
    done = call(
        main, finetuning("token_classification"), "--quicktest", "out=run", "crf=true", "epochs=1"
    )
    assert done.code == 0, done.err
    assert load_checkpoint(tmp_path / "run").options["crf"]


# Recipes that differ from others only in numbers and files; test_real_recipes.py reads their files.
_ALIKE = ("chnsenticorp", "cola", "lcqmc", "rte", "sick", "sick_relatedness", "snli", "trec")
_ALIKE += ("weibo_ner", "wikigold", "wnut17")


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend for all recipes")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in _ALIKE)) for n in known_finetunings()],
)
def test_quicktest_of_every_recipe(name: str, tmp_path: Path, call: Callable) -> None:
    """The quick test of every recipe writes all files.

    It runs on one backend. `test_every_task` runs each task on all of them.
    """
    done = call(main, name, "--quicktest", "out=run")
    assert done.code == 0, done.err
    assert {path.name for path in (tmp_path / "run").iterdir()} >= FILES
    recipe = recipe_of(tmp_path / "run")
    assert recipe is not None
    assert bool(recipe.teacher) == name.endswith("_distilled")
