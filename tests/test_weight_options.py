"""Options that say which weights are read: every command that opens checkpoints has them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer.main
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, SequenceClassifier, Tokenizer, cli, load_checkpoint
from bert_keras.checkpoints import open_checkpoint
from bert_keras.checkpoints.manifest import MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from bert_keras.training import finetuned_model, mine_negatives, predict, rank
from tests.contracts import TINY

OPTIONS = {
    name
    for name, parameter in inspect.signature(open_checkpoint).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
# Commands without the options -> the reason.
WITHOUT = {
    "prepare": "reads no weights",
    "recipes": "reads no weights",
    "push": "uploads files as they are",
    "serve-check": "opens exports alone",
    "fill-mask": "opens SavedModels alone",
    "pretrain": "its keys belong to the recipe; messages name `bert-keras convert`",
    "finetune": "its keys belong to the recipe; messages name `bert-keras convert`",
}
# Commands whose options are key=value -> the keys.
KEYS = {
    "predict": predict._DEFAULTS,
    "rank": rank._DEFAULTS,
    "mine-negatives": mine_negatives._DEFAULTS,
    "evaluate": finetuned_model._WEIGHTS,
}


def _commands() -> dict[str, Any]:
    """Return the options of every command: "convert", "visualize attention" and so on."""
    program: Any = typer.main.get_command(cli.app)
    commands: dict[str, Any] = {}
    for name, command in program.commands.items():
        inner = getattr(command, "commands", None)
        commands |= {f"{name} {each}": inner[each] for each in inner} if inner else {name: command}
    return {name: {option.name for option in each.params} for name, each in commands.items()}


@pytest.mark.parametrize(("command", "options"), _commands().items(), ids=_commands())
def test_every_command_that_opens_checkpoints_has_the_options(
    command: str, options: set[str]
) -> None:
    assert {"variant", "averages", "allow_pickle"} < OPTIONS
    if command not in WITHOUT:
        assert set(KEYS.get(command, options)) >= OPTIONS


def test_each_exception_is_a_command() -> None:
    assert not set(WITHOUT) - set(_commands())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose weights are there in two variants, and none of them plain."""
    folder = tmp_path_factory.mktemp("variants") / "model"
    SequenceClassifier(BertEncoder(TINY), labels=("neg", "pos")).save_to_preset(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "film"]
    Tokenizer(words).save_to_preset(folder)
    (folder / MANIFEST).unlink()  # it has no digests of the variants
    tensors = load_file(folder / WEIGHTS)
    half = {name: values.astype("float16") for name, values in tensors.items()}
    save_file(half, folder / "model.fp16.safetensors")
    (folder / WEIGHTS).rename(folder / "model.other.safetensors")
    (folder.parent / "data.csv").write_text("text,label\na good film,pos\nfilm,neg\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "model"),
        ("verify", "model", "whole"),
        ("convert", "model", "converted"),
        ("predict", "model", "a good film"),
        ("evaluate", "model", "data=data.csv", "out=measured"),
        ("visualize", "attention", "model", "a good film", "--out", "a.html"),
    ],
    ids=lambda words: words[0],
)
def test_the_message_names_an_option_of_the_command(
    words: tuple[str, ...], folder: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    if "whole" in words:
        load_checkpoint(folder, variant="fp16").save_to_preset("whole")
    done = call(*words)
    assert done.code == ArtifactError.exit_code
    option = ("variant=fp16",) if words[0] in KEYS else ("--variant", "fp16")
    assert " ".join(option) in done.err
    assert "`bert-keras convert FOLDER NEW --variant fp16` writes a copy" in done.err
    done = call(*words, *option)
    assert done.code == 0, done.err


def test_a_server_takes_the_options(folder: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("orjson")
    from bert_keras.serving.model_source import Options, open_model

    with pytest.raises(ArtifactError, match="--variant fp16"):
        open_model(str(folder), Options())
    assert open_model(str(folder), Options(variant="fp16")).task == "text_classification"
