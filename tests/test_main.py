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


# Runs a module as a program and sends a signal to the process when a module is imported.
_INTERRUPTED = """
import runpy, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

# The children of a background job ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
runpy.run_module(sys.argv[2], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("imported", "program"),
    [("bert_keras.cli", "bert_keras"), ("bert_keras.training.run", "training.prepare")],
)
def test_an_interrupt_while_modules_are_imported(imported: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, imported, program],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize(
    "path", sorted((_ROOT / "training").glob("[!_]*.py")), ids=lambda p: p.stem
)
def test_each_program_of_a_clone_imports_within_the_block(path: Path) -> None:
    """An import at the margin would show a traceback after Ctrl-C."""
    lines = path.read_text(encoding="utf-8").splitlines()
    imports = [line for line in lines if line.startswith(("from ", "import "))]
    assert imports == ["from bert_keras import hooks"]
    assert "with hooks.ending_at_interrupt():" in lines


def test_an_interrupt_of_the_command(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", _app(work))
    assert call().code == 130
    monkeypatch.setattr(cli, "quiet", work)  # outside of Typer's own handler
    done = call()
    assert (done.code, done.err) == (130, "error: interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_output_is_named() -> None:
    command = [sys.executable, "-W", "error", "-m", "bert_keras", "--version"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 5
    assert done.stderr.startswith("error: standard output cannot be written: No space left")


# === Every command, with warnings as errors ===


# Words of a command -> its arguments; in a folder with `model`, `other`, `text.txt` and `data.csv`.
_CALLS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("prepare",): ("corpus=text.txt", "out=corpus", "vocab_size=60", "workers=2"),
    ("pretrain",): ("demo", "--dry-run"),
    ("finetune",): ("sst2", "--quicktest"),
    ("mine-negatives",): ("model", "pairs.csv", "out=mined.csv", "num_negatives=1"),
    ("recipes",): (),
    ("predict",): ("model", "a good film"),
    ("rank",): ("model", "a good film", "text.txt"),
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
    (folder / "pairs.csv").write_text("text,pair\na,good film\nfilm,a film\ngood,a good\n")
    (folder / "data.csv").write_text("text,label\n" + "a good film,pos\nfilm,neg\n" * 4)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("words", _CALLS, ids=" ".join)
def test_no_command_warns(words: tuple[str, ...], folder: Path) -> None:
    with _start(*words, *_CALLS[words], cwd=folder) as run:
        _, err = run.communicate()
    assert run.returncode == 0, err
