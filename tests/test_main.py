"""The process of `bert-keras`: closed pipes, signals, and warnings as errors, in every command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

import bert_keras
from bert_keras import BertEncoder, SequenceClassifier, Tokenizer, cli, file_io
from tests.contracts import TINY

_ROOT = Path(__file__).parents[1]


def _commands() -> list[tuple[str, ...]]:
    """Return every command of the program and of its groups, as the words that call it."""
    program: Any = typer.main.get_command(cli.app)
    names: list[tuple[str, ...]] = []
    for name, command in program.commands.items():
        inner = getattr(command, "commands", None)
        names += [(name, each) for each in inner] if inner else [(name,)]
    return names


def _start(*arguments: object, cwd: Path = _ROOT) -> subprocess.Popen[str]:
    """Start the program with warnings as errors; its output and messages are pipes."""
    command = [sys.executable, "-W", "error", "-m", "bert_keras", *map(str, arguments)]
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(command, text=True, cwd=cwd, env=environment, stdout=pipe, stderr=pipe)


def test_the_module_is_the_command() -> None:
    with _start("--version") as run:
        out, err = run.communicate()
    assert (run.returncode, out, err) == (0, f"bert-keras {bert_keras.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        pytest.param(("recipes",), marks=pytest.mark.slow),
        *(pytest.param((*words, "--help"), marks=pytest.mark.slow) for words in _commands()),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_gives_the_exit_code_of_a_shell(arguments: tuple[str, ...]) -> None:
    with _start(*arguments) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == ""
    assert run.returncode == 141


def _app(function: Callable[[], None]) -> typer.Typer:
    """Return a program of one command."""
    app = typer.Typer()
    app.command()(function)
    return app


def test_the_pipe_of_a_worker_is_no_closed_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer would end the program without a word."""

    def work() -> None:
        raise BrokenPipeError("of a worker")

    monkeypatch.setattr(cli, "app", _app(work))
    monkeypatch.setattr(sys, "argv", ["bert-keras"])
    with pytest.raises(BrokenPipeError, match="of a worker"):
        cli.main()


def test_sigterm_removes_unfinished_files(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        """Receive the signal while a file is written."""
        with file_io.new_file(tmp_path / "model") as file:
            file.write(b"half")
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(cli, "app", _app(work))
    before = signal.getsignal(signal.SIGTERM)
    done = call()
    assert (done.code, done.err) == (143, "error: ended by SIGTERM\n")
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


# === Every command, with warnings as errors ===


# Words of a command -> its arguments; in a folder with `model`, `other`, `text.txt` and `data.csv`.
_CALLS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("prepare",): ("corpus=text.txt", "out=corpus", "vocab_size=60", "workers=2"),
    ("pretrain",): ("demo", "--dry-run"),
    ("finetune",): ("sst2", "--quicktest"),
    ("recipes",): (),
    ("predict",): ("model", "a good film"),
    ("evaluate",): ("model", "data=data.csv", "out=measured"),
    ("visualize", "attention"): ("model", "a good film", "--out", "a.html"),
    ("visualize", "embeddings"): ("model", "data.csv", "--out", "b.html"),
    ("visualize", "saliency"): ("model", "a good film", "--out", "c.html"),
    ("convert",): ("model", "converted"),
    ("inspect",): ("model",),
    ("verify",): ("model", "other"),
    ("export",): ("model", "--format", "torch"),
}
# Commands that need what no test has here, with the reason.
_NOT_CALLED = {
    ("push",): "uploads to a server",
    ("serve",): "runs until a signal; tests/serving/test_server.py starts it",
    ("serve-check",): "needs an export; tests/test_cli_export.py calls it",
    ("fill-mask",): "needs an exported SavedModel",
}


def test_every_command_is_called_below() -> None:
    assert sorted([*_CALLS, *_NOT_CALLED]) == sorted(_commands())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, twice, and with texts."""
    folder = tmp_path_factory.mktemp("calls")
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "film"])
    model = SequenceClassifier(BertEncoder(TINY), labels=("neg", "pos"))
    for name in ("model", "other"):
        model.save_to_preset(folder / name)
        tokenizer.save_to_preset(folder / name)
    text = "".join(f"The cat number {i} sat here. It purred, and slept.\n\n" for i in range(60))
    (folder / "text.txt").write_text(text)
    (folder / "data.csv").write_text("text,label\n" + "a good film,pos\nfilm,neg\n" * 4)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("words", _CALLS, ids=" ".join)
def test_no_command_warns(words: tuple[str, ...], folder: Path) -> None:
    with _start(*words, *_CALLS[words], cwd=folder) as run:
        _, err = run.communicate()
    assert run.returncode == 0, err
