"""The program `pretrain`: from the command line to the report, and error messages."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import load_checkpoint
from bert_keras.data import demo_corpus
from bert_keras.resume import RunLock
from bert_keras.training import dry_run, pretrain_setup
from bert_keras.training.pretrain import main
from bert_keras.training.pretrain_recipe import known_recipes

INTERVALS = 6  # the number of logging intervals in the recipe `tiny`
FILES = {"run.json", "metrics.jsonl", "speed.jsonl", "report.md", "loss.png", "model.safetensors"}


@pytest.fixture(scope="session")
def part_of_demo() -> list[list[str]]:
    return list(islice(demo_corpus.demo_documents(), 0, None, 5))


@pytest.fixture
def quick_demo(part_of_demo: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the demo corpus by a fifth of it, which is collected once."""

    def documents() -> Iterator[list[str]]:
        return iter(part_of_demo)

    for module in (demo_corpus, dry_run, pretrain_setup):
        monkeypatch.setattr(module, "demo_documents", documents)


def _records(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def _contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# === Whole runs


@pytest.mark.usefixtures("quick_demo")
@pytest.mark.parametrize(
    ("recipe", "exports"),
    [
        *((recipe, recipe == "demo") for recipe in known_recipes()),
        pytest.param("electra_demo", True, marks=pytest.mark.slow),
    ],
)
def test_quicktest_of_every_recipe(
    recipe: str, exports: bool, tmp_path: Path, call: Callable
) -> None:
    """The quick test of every recipe writes all files; `demo` and `electra_demo` also export."""
    if recipe != "demo" and keras.backend.backend() != "torch":
        pytest.skip("one backend for all recipes")
    exports = exports and importlib.util.find_spec("tensorflow_text") is not None
    done = call(main, recipe, "--quicktest", f"export={exports}", "out=run")
    assert done.code == 0, done.err
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} >= FILES
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert f"bert-keras pretrain {recipe} --quicktest" in report
    assert "of at best" in report
    assert report.count("[MASK]") == 10
    assert load_checkpoint(folder).count_params() > 0
    versions = folder / "saved_models" / f"{recipe}_quicktest"
    assert versions.exists() == exports
    if exports:
        assert (versions / "1" / "saved_model.pb").is_file()
        card = (versions / "1" / "assets.extra" / "model_card.md").read_text(encoding="utf-8")
        is_encoder = recipe == "electra_demo"
        assert ("A BertEncoder with" in card) is is_encoder
        assert ("SavedModel of the encoder: run/" in done.out) is is_encoder
        answer = done.out.partition("A fresh process loads it and fills masks:")[2]
        assert (answer.count("[MASK]") >= 5) is not is_encoder


@pytest.mark.parametrize(
    ("values", "measured"),
    [
        (
            "loss=mlm masking=whole_word optimizer=lamb gradient_accumulation_steps=2 "
            "output_bias=zero",
            {"mlm"},
        ),
        ("loss=sop masking=span precision=mixed_bfloat16 optimizer=muon", {"mlm", "sop"}),
        ("loss=nsp packed_length=80 loss_chunks=3 short_seq_prob=0.9", {"mlm", "nsp"}),
        ("loss=rtd generator_size=0.5", {"mlm", "rtd"}),
    ],
)
def test_values(values: str, measured: set[str], tiny: str, tmp_path: Path, call: Callable) -> None:
    done = call(main, tiny, "out=run", *values.split())
    assert done.code == 0, done.err
    records = _records(tmp_path / "run")
    assert [record["step"] for record in records] == [2, 4, 6, 8, 10, 12]
    names = {f"{name}_{what}" for name in measured for what in ("loss", "accuracy")}
    names |= {"rtd_share"} & {f"{name}_share" for name in measured}
    assert set(records[0]) == {"step", "loss", "learning_rate", *names}
    validation = {f"val_{name}" for name in ("loss", *names)}
    assert set(records[1]) == {*records[0], *validation}
    assert all(math.isfinite(value) for record in records for value in record.values())
    rates = [record["learning_rate"] for record in records]
    # the rate before each interval's first step, so the last is above 0
    assert 0 < rates[-1] < rates[1]
    shown = {name for name in ("NSP", "SOP", "RTD") if f"{name} accuracy" in done.out}
    assert shown == {name.upper() for name in measured - {"mlm"}}


def test_averaged_weights_are_saved_also_when_only_the_end_is_missing(
    tiny: str, tmp_path: Path, call: Callable
) -> None:
    """The averaged weights are saved again from the last checkpoint.

    Checkpoints have the weights before averaging, because the training continues from these.
    """
    command = (tiny, "out=run", "ema_momentum=0.9", "precision=mixed_float16")
    assert call(main, *command).code == 0
    averaged = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run" / "model.safetensors").unlink()
    assert call(main, *command).code == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == averaged


def test_a_model_learns(tiny: str, tmp_path: Path, call: Callable) -> None:
    """On sentences in a fixed word order, the model is better than the token frequencies."""
    words = [f"{a}{b}" for a in "bdfg" for b in "aeiou"]
    rng = np.random.default_rng(0)
    lines = [
        [
            " ".join(words[(start + i) % 20] for i in range(8)) + " ."
            for start in rng.integers(0, 20, 8)
        ]
        for _ in range(60)
    ]
    text = tmp_path / "ordered.txt"
    text.write_text("\n\n".join("\n".join(document) for document in lines))
    values = "vocab_size=30 steps=150 log_every=50 evaluate_every=3 batch_size=16 dropout=0"
    done = call(main, tiny, "out=run", f"corpus={text}", "learning_rate=3e-3", *values.split())
    assert done.code == 0, done.err
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    (entropy,) = re.findall(r"loss of at best ([\d.]+) nats", report)
    assert _records(tmp_path / "run")[-1]["val_mlm_loss"] < float(entropy) - 0.5


def test_numbers_that_are_not_finite(tiny: str, tmp_path: Path, call: Callable) -> None:
    done = call(main, tiny, "out=run", "learning_rate=1e30", "warmup_steps=0", "clip_norm=0")
    assert done.code == 6
    assert "finite" in done.err or "The loss is" in done.err
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_validation_text_smaller_than_a_batch(tiny: str, tmp_path: Path, call: Callable) -> None:
    """All validation text is measured, during the training and in the report."""
    values = (
        "validation_split=0.1",
        "batch_size=32",
        "steps=2",
        "evaluate_every=1",
        "eval_examples=64",
    )
    done = call(main, tiny, *values, "out=run")
    assert done.code == 0, done.err
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    pairs = re.search(r"on (\d+) pairs", report)
    assert pairs is not None
    assert 1 < int(pairs[1]) < 32
    assert "val_loss" in _records(tmp_path / "run")[-1]


# === Errors and dry runs, without training


@pytest.mark.parametrize("recipe", known_recipes())
def test_dry_run(recipe: str, tmp_path: Path, call: Callable, tiny: str) -> None:
    text = Path(tiny).with_name("text.txt")
    done = call(main, recipe, "--dry-run", f"corpus={text}", "validation_split=0.2")
    assert done.code == 0
    for word in ("parameters", "iB", "training time", "passes over the text", f"runs/{recipe}"):
        assert word in done.out
    assert not list(tmp_path.iterdir())


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Pretrain a BERT from text")


def _write_bad_files(folder: Path) -> None:
    (folder / "latin.txt").write_bytes("A line.\n\nÜber uns.\n".encode("latin-1"))
    (folder / "empty.txt").touch()
    (folder / "one.txt").write_text("This is the only sentence of it all.\n")
    (folder / "no_text").mkdir()
    (folder / "no_text" / "picture.png").write_bytes(b"\x89PNG")
    (folder / "pieces.txt").write_text("[PAD]\n[UNK]\nthe\n")
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("Do not write over me.")
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{}")


BAD = [
    # Invalid texts.
    ("corpus=latin.txt", 3, r"latin\.txt:3: not UTF-8"),
    ("corpus=empty.txt", 3, r"empty\.txt: no text"),
    ("corpus=one.txt", 3, r"gives? at most|[Dd]ocument"),
    ("corpus=no_text", 3, "no_text: the folder has no text files"),
    ("corpus=nowhere.txt", 3, r"nowhere\.txt: no such file or folder"),
    ("corpus=nowhere*.txt", 3, r"nowhere\*\.txt: no file matches"),
    ("batch_size=100_000", 3, "fewer examples than one batch"),
    # Invalid vocabularies.
    ("vocab=pieces.txt", 3, r"pieces\.txt: .*lacks \[CLS\], \[SEP\], \[MASK\]"),
    ("vocab=nowhere.txt", 2, r"nowhere\.txt: no such file"),
    ("vocab_size=100_000", 3, r"at most [\d,]+ vocabulary entries.*vocab_size=100,000"),
    # Invalid values.
    ("steps=ten", 2, "steps must be a whole number. Received: 'ten'"),
    ("stpes=12", 2, "Unknown key. Received: 'stpes=12'. Did you mean 'steps'"),
    ("steps=13", 2, "steps must be a multiple of log_every=2, such as"),
    (
        "config=bert_tiny",
        2,
        "config must be a JSON file or a name .*Did you mean 'bert_tiny_uncased'",
    ),
    ("--dryrun", 2, "Unknown flag. Received: --dryrun. Did you mean"),
    ("oops", 2, "Expected key=value behind the first word. Received: 'oops'"),
    # Invalid folders.
    ("out=mine", 2, r"mine is not the folder of a run: it has no run\.json but thesis\.txt"),
    ("out=one.txt", 2, r"one\.txt is a file"),
    ("out=broken", 2, r"run\.json cannot be read"),
    ("out=one.txt/run", 5, "cannot be written"),
]


@pytest.mark.parametrize(("argument", "code", "message"), BAD)
def test_bad_input(
    argument: str, code: int, message: str, tiny: str, tmp_path: Path, call: Callable
) -> None:
    _write_bad_files(tmp_path)
    before = _contents(tmp_path)
    out = [] if argument.startswith("out=") else ["out=run"]
    done = call(main, tiny, argument, *out)
    _check_refused(done, code, message)
    left = {path: data for path, data in _contents(tmp_path).items() if path in before}
    assert left == before
    new = {path.relative_to(tmp_path).parts for path in _contents(tmp_path) if path not in before}
    assert {parts[0] for parts in new} <= {"run"}
    assert {parts[1] for parts in new if parts[1:]} <= {"LOCK", "run.json", "corpus"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "The recipe is missing"),
        (("steps=2",), "The recipe is missing"),
        (("dmeo",), "There is no recipe of that name. Received: 'dmeo'. Did you mean 'demo'"),
        (("nowhere.py",), r"There is no recipe file nowhere\.py"),
    ],
)
def test_bad_recipe(
    arguments: tuple[str, ...], message: str, tmp_path: Path, call: Callable
) -> None:
    _check_refused(call(main, *arguments), 2, message)
    assert not list(tmp_path.iterdir())


def _check_refused(done: Any, code: int, message: str) -> None:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    _, found = f"\n{done.err}".split("\nerror: ")
    assert re.search(message, found, re.DOTALL), found


def test_after_bad_text_the_folder_is_not_lost(tiny: str, tmp_path: Path, call: Callable) -> None:
    """After an error before the training, the folder can be used with corrected values."""
    assert call(main, tiny, "out=run", "corpus=nowhere.txt").code == 3
    assert call(main, tiny, "out=run", "batch_size=100_000").code == 3
    assert (tmp_path / "run" / "corpus").is_dir()
    assert call(main, tiny, "out=run", "batch_size=90_000").code == 3
    done = call(main, tiny, "out=run", "vocab_size=301")
    _check_refused(done, 2, "vocab_size: 300 then, 301 now")


def test_one_folder_has_one_run(tiny: str, tmp_path: Path, call: Callable) -> None:
    with RunLock(tmp_path / "run"):
        _check_refused(call(main, tiny, "out=run"), 5, "run: in use by pid")


def test_tensorboard(
    tiny: str, tmp_path: Path, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (main, tiny, "out=run", "tensorboard=true")
    with monkeypatch.context() as without:
        without.setattr(importlib.util, "find_spec", lambda _: None)
        _check_refused(call(*command), 2, "tensorboard=true needs tensorboard")
    assert not list(tmp_path.iterdir())
    pytest.importorskip("tensorboard")
    assert call(*command).code == 0
    files = list((tmp_path / "run" / "tensorboard").rglob("events.out.tfevents.*"))
    assert {file.parent.name for file in files} == {"train", "validation"}
    assert b"mlm_accuracy" in b"".join(file.read_bytes() for file in files)
