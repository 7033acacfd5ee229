"""Uploads to the Hugging Face Hub: what is sent, and one message for each way to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Predictor,
    SentenceEncoder,
    SequenceClassifier,
    Tokenizer,
    cli,
    save_checkpoint,
)
from bert_keras.checkpoints import hub_upload, model_card
from bert_keras.checkpoints.hub_upload import push
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError, ResourceError, UsageError, message_of
from tests import hub_server
from tests.contracts import TINY
from tests.hub_server import Hub

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
TARGET, NAME = "hf://someone/model", "someone/model"
# Files of a run that are not uploaded.
OTHERS = (
    *("LOCK", "run.json", "report.md", "metrics.json", "predictions.tsv", ".hidden"),
    *("checkpoints/step-1/model.safetensors", "seed-0/best/config.json", "tensorboard/events"),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with hub_server.running() as hub:
        yield hub


@pytest.fixture
def hub(server: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """Return an empty stand-in of the Hub, which `huggingface_hub` then calls."""
    server.repositories.clear()
    server.refusals.clear()
    server.requests.clear()
    hub_server.connect(server, monkeypatch, tmp_path)
    return server


@pytest.fixture(scope="module")
def task() -> SequenceClassifier:
    return SequenceClassifier(
        BertEncoder(TINY), 2, labels=["bad", "good"], tokenizer=Tokenizer(WORDS)
    )


@pytest.fixture
def folder(task: SequenceClassifier, tmp_path: Path) -> Path:
    """Return the folder of a run: a checkpoint, and files that are not part of it."""
    path = tmp_path / "run"
    task.save_to_preset(path)
    for name in OTHERS:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("secret")
    return path


# === What is sent ===


def test_the_checkpoint_of_a_run_is_uploaded(hub: Hub, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert push(folder, TARGET, message="first") == f"{hub.endpoint}/{NAME}"
    files = hub.files(NAME)
    assert not set(OTHERS) & set(files)
    for name in (CONFIG, MANIFEST, WEIGHTS, "tokenizer.json"):
        assert files[name] == (folder / name).read_bytes()
    repository = hub.repositories[NAME]
    assert repository.payload.get("visibility", repository.payload.get("private")) in (
        "private",
        True,
    )
    assert repository.messages == ["first"]
    assert hub.objects  # the weights went by Git LFS
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_uploaded_card_names_its_repository(hub: Hub, folder: Path) -> None:
    push(folder, TARGET, private=False)
    text = hub.files(NAME)[model_card.CARD].decode()
    assert f'from_preset("{TARGET}")' in text
    assert model_card.is_own_text(text)
    payload = hub.repositories[NAME].payload
    assert payload.get("visibility", payload.get("private")) in ("public", False)


def test_a_model_comes_back_with_equal_outputs(hub: Hub, task: SequenceClassifier) -> None:
    predictor = Predictor(task, max_length=9)
    predictor.save_to_preset(TARGET, card={"license": "mit"})
    again = Predictor.from_preset(TARGET)
    assert again.max_length == 9
    np.testing.assert_array_equal(again.predict_scores(["a b"]), predictor.predict_scores(["a b"]))
    assert "license: mit" in hub.files(NAME)[model_card.CARD].decode()


def test_every_class_saves_to_the_hub(hub: Hub, task: SequenceClassifier) -> None:
    task.encoder.save_to_preset("hf://someone/encoder", private=False)
    task.save_to_preset("hf://someone/task")
    save_checkpoint(task, "hf://someone/function")
    assert set(hub.repositories) == {f"someone/{name}" for name in ("encoder", "task", "function")}
    payload = hub.repositories["someone/encoder"].payload
    assert payload.get("visibility", payload.get("private")) in ("public", False)
    with pytest.raises(UsageError, match="Only the format hugging_face is uploaded"):
        save_checkpoint(task, TARGET, format="keras_hub")


def test_a_branch(hub: Hub, folder: Path) -> None:
    push(folder, TARGET)
    hub.repositories[NAME].branches["main"] = {}
    address = push(folder, f"{TARGET}@v2")
    assert address == f"{hub.endpoint}/{NAME}/tree/v2"
    assert WEIGHTS in hub.files(NAME, "v2")
    assert not hub.files(NAME)
    push(folder, f"{TARGET}@v2")  # which exists now


def test_files_of_an_earlier_model_are_removed(hub: Hub, folder: Path) -> None:
    """Otherwise the classifier would be opened as the sentence encoder that it replaces."""
    encoder = SentenceEncoder(BertEncoder(TINY), tokenizer=Tokenizer(WORDS))
    encoder.save_to_preset(TARGET)
    hub.files(NAME)["notes.txt"] = b"mine"
    assert "modules.json" in hub.files(NAME)
    push(folder, TARGET)
    assert "modules.json" not in hub.files(NAME)
    assert hub.files(NAME)["notes.txt"] == b"mine"
    assert Predictor.from_preset(TARGET)(["a"])[0].label in ("bad", "good")


# === Model cards that a person wrote ===


def test_a_card_that_was_edited_on_the_hub_stays(hub: Hub, folder: Path) -> None:
    push(folder, TARGET)
    hub.files(NAME)[model_card.CARD] += b"More.\n"
    edited = hub.files(NAME)[model_card.CARD]
    push(folder, TARGET)
    assert hub.files(NAME)[model_card.CARD] == edited


def test_our_own_card_on_the_hub_is_renewed(
    hub: Hub, folder: Path, task: SequenceClassifier
) -> None:
    push(folder, TARGET)
    task.save_to_preset(folder, card={"title": "second"})
    push(folder, TARGET)
    assert b"# second" in hub.files(NAME)[model_card.CARD]


def test_a_card_that_was_edited_here_is_uploaded_as_it_is(hub: Hub, folder: Path) -> None:
    push(folder, TARGET)
    (folder / model_card.CARD).write_bytes(b"# Mine\n")
    push(folder, TARGET)
    assert hub.files(NAME)[model_card.CARD] == b"# Mine\n"


# === Errors ===


@pytest.mark.parametrize(
    ("call", "status", "said", "error", "message"),
    [
        ("POST /api/repos", 401, "no", UsageError, "does not accept the access token. Log in"),
        ("POST /api/repos", 403, "no right", UsageError, r"may not write there \(no right"),
        ("POST .*/commit/", 403, "no right", UsageError, "may not write there"),
        ("GET .*/tree/", 404, "", UsageError, "no such model repository or branch"),
        ("POST .*/batch", 413, "quota", ResourceError, "refuses a file as too large"),
        ("POST .*/commit/", 400, "odd name", ResourceError, r"refused the upload \(400\): odd"),
        ("PUT /objects/", 400, "bad", ResourceError, r"refused the upload \(400\)"),
    ],
)
def test_a_refused_upload(
    hub: Hub, folder: Path, call: str, status: int, said: str, error: Any, message: str
) -> None:
    hub.refusals[call] = status, said
    with pytest.raises(error, match=f"^{TARGET}: .*{message}"):
        push(folder, TARGET)
    hub.refusals.clear()
    push(folder, TARGET)


def test_a_failed_save_leaves_nothing_and_says_so(
    hub: Hub, task: SequenceClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hub.refusals["POST .*/commit/"] = 403, "no right"
    with pytest.raises(UsageError) as raised:
        task.save_to_preset(TARGET)
    assert not list(tmp_path.iterdir())
    assert "upload it later: bert-keras push FOLDER" in message_of(raised.value)


def test_without_a_token(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UsageError, match=r"needs an access token, and there is none. Log in with"):
        push(folder, TARGET)
    assert hub.requests == []


def test_a_wrong_token(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(UsageError, match="does not accept the access token"):
        push(folder, TARGET)


@pytest.mark.parametrize(
    "handle",
    ["model", "hf://model", "hf://a/b/c", "hf://a/../b", "s3://a/b", "hf://a/-b", "hf://a/b--c"],
)
def test_a_wrong_name(
    hub: Hub, folder: Path, task: SequenceClassifier, handle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"hf://organisation/name|hf://a/"):
        push(folder, handle)
    if "://" in handle:
        monkeypatch.setattr("bert_keras.checkpoints.folders.streaming", None)  # writes nothing
        with pytest.raises(UsageError):
            task.save_to_preset(handle)
    assert hub.requests == []


def test_without_a_network(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants as constants

    with hub_server.running() as other:
        closed = other.endpoint
    monkeypatch.setattr(constants, "ENDPOINT", closed)
    with pytest.raises(ResourceError, match=r"upload failed: ConnectError: .*Check the network"):
        push(folder, TARGET)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE=1 forbids it"):
        push(folder, TARGET)


def test_a_folder_without_a_checkpoint(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        push(tmp_path / "missing", TARGET)
    with pytest.raises(ArtifactError, match=r"no checkpoint with config.json and model.safetens"):
        push(tmp_path, TARGET)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=r"the run has no model yet. Repeat the command"):
        push(tmp_path, TARGET)
    assert hub.requests == []


def test_a_bug_is_no_message_for_users(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with pytest.raises(KeyError), hub_upload._explained(TARGET):
        raise KeyError("bug")


# === The command ===


def _command(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Run `bert-keras push` in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["bert-keras", "push", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_prints_one_line(
    hub: Hub,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert _command(monkeypatch, folder, TARGET, "--public", "--message", "first") == 0
    assert capfd.readouterr().out == f"{hub.endpoint}/{NAME}\n"
    assert hub.repositories[NAME].messages == ["first"]
    payload = hub.repositories[NAME].payload
    assert payload.get("visibility", payload.get("private")) in ("public", False)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert _command(monkeypatch, folder, TARGET) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("error: ") == 1
    assert "hf_other" not in printed.err
    hub.refusals["POST /api/repos"] = 500, "down"
    assert _command(monkeypatch, folder, TARGET) == 5


@pytest.mark.slow
def test_the_command_reads_the_settings_of_the_environment(
    hub: Hub, folder: Path, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
    }
    command = [sys.executable, "-m", "bert_keras", "push", str(folder), TARGET]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{hub.endpoint}/{NAME}\n"
    assert WEIGHTS in hub.files(NAME)
