"""The export of a pretrained model, and its test in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bert_keras import BertEncoder, ElectraPretrainer, MaskedLM
from bert_keras import export as library
from bert_keras.errors import ResourceError
from bert_keras.training import last_steps
from bert_keras.training.last_steps import ask, export_model, exported_part
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_report import FilledMask
from tests.contracts import TINY

RECIPE = PretrainRecipe(corpus="demo", name="mine", steps=50, sequence_length=64)
EXAMPLES = [FilledMask(f"text {number} [MASK]", "word", []) for number in range(7)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Replace export and child processes by stubs; return the recorded processes.

    The first process ends with exit code 0, the next with 1, and so on.
    """
    calls: list[dict[str, Any]] = []

    def saved_model(
        task: Any, tokenizer: Any, path: Path, *, max_length: int, ids_only: bool
    ) -> Path:
        assert max_length == RECIPE.sequence_length
        assert ids_only == (not tokenizer.has_graph)
        path.mkdir(parents=True)
        return path

    def start(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        calls.append({"command": command, **options})
        return subprocess.CompletedProcess(command, len(calls) - 1)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(library, "saved_model", saved_model)
    monkeypatch.setattr(subprocess, "run", start)
    return calls


def _export(examples: list[FilledMask]) -> Path | None:
    task: Any = SimpleNamespace(answers_texts=True, has_graph=True)
    weights = Path("model.safetensors")
    if not weights.exists():
        weights.write_bytes(b"a model")
    path = export_model(task, task, RECIPE, weights, Path("exported.json"))
    if path is not None:
        ask(path, examples)
    return path


def test_a_fresh_process_is_asked(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The process runs without this backend, and finds the library from any folder."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    path = Path("saved_models", "mine", "1")
    assert _export(EXAMPLES) == path
    assert "SavedModel: saved_models/mine/1/" in capsys.readouterr().out
    (call,) = asked
    _, *command = call["command"]
    texts = [f"text {number} [MASK]" for number in range(5)]
    assert command == ["-m", "bert_keras", "fill-mask", str(path), "--trust", *texts]
    assert "KERAS_BACKEND" not in call["env"]
    assert call["env"]["CUDA_VISIBLE_DEVICES"] == "-1"
    root, elsewhere = call["env"]["PYTHONPATH"].split(os.pathsep)
    assert Path(root, "training", "fill_mask.py").is_file()
    assert elsewhere == "elsewhere"


def test_of_electra_the_encoder_is_exported() -> None:
    encoder = BertEncoder(TINY.replace(pooler=False, family="electra"))
    assert exported_part(ElectraPretrainer(encoder)) is encoder
    task = MaskedLM(encoder)
    assert exported_part(task) is task


def test_nothing_to_ask(asked: list[dict[str, Any]]) -> None:
    assert _export([]) == Path("saved_models", "mine", "1")
    assert not asked


def test_the_fresh_process_fails(asked: list[dict[str, Any]]) -> None:
    _export(EXAMPLES)
    with pytest.raises(ResourceError, match=r"saved_models/mine/1: .*exit code 1"):
        _export(EXAMPLES)


def test_another_model_is_exported_anew(asked: list[dict[str, Any]]) -> None:
    assert _export([]) == Path("saved_models", "mine", "1")
    Path("model.safetensors").write_bytes(b"trained again")
    assert _export([]) == Path("saved_models", "mine", "2")


def test_a_model_is_exported_once(asked: list[dict[str, Any]]) -> None:
    assert _export([]) == _export([]) == Path("saved_models", "mine", "1")
    Path("saved_models", "mine", "1").rmdir()
    Path("saved_models", "mine", "4").mkdir()
    assert _export([]) == Path("saved_models", "mine", "5")


def test_without_tensorflow(
    asked: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(last_steps.importlib.util, "find_spec", lambda _: None)
    assert _export(EXAMPLES) is None
    assert capsys.readouterr().out.startswith("No SavedModel: it needs TensorFlow. Install ")
    assert not (tmp_path / "saved_models").exists()


def test_a_folder_inside_the_run_is_named_relative_to_it(
    asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    task: Any = SimpleNamespace(answers_texts=True, has_graph=True)
    run = tmp_path / "run"
    run.mkdir()
    weights, record = run / "model.safetensors", run / "exported.json"
    weights.write_bytes(b"a model")
    paths = [export_model(task, task, RECIPE, weights, record, run / "saved_models") for _ in "12"]
    assert paths == [run / "saved_models" / "mine" / "1"] * 2
    assert json.loads(record.read_text())["saved_model"] == "saved_models/mine/1"
    # Older versions recorded the whole path.
    record.write_text(record.read_text().replace("saved_models", str(run / "saved_models")))
    assert export_model(task, task, RECIPE, weights, record, run / "saved_models") == paths[0]


@pytest.mark.usefixtures("asked")
def test_a_tokenizer_without_a_graph_is_no_reason_to_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    task: Any = SimpleNamespace(answers_texts=True, has_graph=True)
    tokenizer: Any = SimpleNamespace(has_graph=False)
    path = export_model(task, tokenizer, RECIPE, tmp_path / "none", tmp_path / "exported.json")
    assert path is not None
    assert capsys.readouterr().out == f"SavedModel, which takes ids: {path}/\n"
