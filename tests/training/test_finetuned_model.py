"""Opening fine-tuned models: run folders, plain checkpoints, and invalid folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.training import finetuned_model
from bert_keras.training.finetuned_model import open_finetuned, require_apart
from bert_keras.training.run_folder import QUICKTEST


def _open(*arguments: object):
    return open_finetuned([str(each) for each in arguments], "predict", ("data",))


def test_a_run_brings_its_values(finetuned: Callable[[str], Path]) -> None:
    opened = _open(
        finetuned("text_classification"), "data=x", "max_length=16", "precision=mixed_bfloat16"
    )
    of_weights = finetuned_model._WEIGHTS
    assert opened.program_values == {"data": "x", "out": "", "device": ""} | of_weights
    assert (opened.recipe.text, opened.recipe.max_length) == ("text", 16)
    assert opened.predictor.max_length == 16
    assert opened.predictor.encoder.dtype_policy.name == "mixed_bfloat16"
    assert opened.labels == ["bad", "good"]
    assert set(opened.finetuning.measured) >= {"accuracy", "f1"}


def test_the_model_is_on_the_device_of_the_command_line(finetuned) -> None:
    opened = _open(finetuned("text_classification"), "data=x", "device=CPU:0")
    assert opened.predictor.device == "cpu"
    assert opened.predictor.predict_scores(["good"]).shape == (1, 2)


@pytest.mark.parametrize(
    "task",
    [
        "multi_label_classification",
        "text_regression",
        "token_classification",
        "question_answering",
        "sentence_similarity",
        "pair_classification",
    ],
)
def test_a_plain_checkpoint_is_known_by_its_class(task: str, finetuned) -> None:
    opened = _open(finetuned(task) / "seed-0" / "best", "data=x")
    assert opened.recipe.task == task
    assert opened.recipe.max_length == 32  # the length of the training
    assert (opened.labels is None) == (
        task in ("text_regression", "question_answering", "sentence_similarity")
    )
    assert opened.finetuning.measured == {}


def test_what_cannot_be_opened(finetuned, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="the model is a BertEncoder, which is not fine-tuned"):
        _open(finetuned("text_classification") / QUICKTEST / "encoder", "data=x")
    with pytest.raises(ArtifactError, match="nowhere"):
        _open(tmp_path / "nowhere", "data=x")
    with pytest.raises(UsageError, match="`max_length` must be from 3 to 64"):
        _open(finetuned("text_classification"), "data=x", "max_length=65")
    (tmp_path / "run.json").write_text((finetuned("text_classification") / "run.json").read_text())
    with pytest.raises(UsageError, match="the run has not begun"):
        _open(tmp_path, "data=x")
    (tmp_path / "seed-0" / "checkpoints").mkdir(parents=True)
    with pytest.raises(UsageError, match="the run has not ended"):
        _open(tmp_path, "data=x")
    (tmp_path / "run.json").write_text(json.dumps({"recipe": {"corpus": "demo"}}))
    with pytest.raises(ArtifactError, match="not of a fine-tuning run"):
        _open(tmp_path, "data=x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "The model is missing. Write: bert-keras predict RUN"),
        (("data=x",), "The model is missing"),
        (("nowhere", "--fast"), "Unknown flag. Received: --fast"),
        (("nowhere", "dta=x"), "Unknown key. Received: 'dta=x'. Did you mean 'data'"),
        (("nowhere", "epochs=3"), "Unknown key"),
        (("nowhere", "data=x", "max_length=1.5"), "max_length must be a whole number"),
        (("nowhere", "data=x", "device=gpu:99"), "`device` must be a device that .* has here: cpu"),
    ],
)
def test_bad_command_lines(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _open(*arguments)


def test_data_is_needed(finetuned) -> None:
    with pytest.raises(UsageError, match="data= is missing"):
        _open(finetuned("text_classification"))


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    shutil.copy(__file__, tmp_path / "a")
    require_apart(tmp_path / "b", [str(tmp_path / "a")])
    with pytest.raises(UsageError, match="is an input"):
        require_apart(tmp_path / "x" / ".." / "a", [str(tmp_path / "a")])
