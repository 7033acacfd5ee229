"""Exit codes and messages of the training programs, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import ResourceError, UsageError
from bert_keras.training import PretrainRecipe, run
from bert_keras.training.training_loop import Stopped

_ROOT = Path(__file__).parents[2]
_PROGRAM = '''"""Does what it is told.

python -m program <what>
"""

import sys

from bert_keras.training.run import run


class Refused(ValueError):
    exit_code = 3


def program(arguments):
    what = arguments[0]
    if what == "refuse":
        error = Refused("corpus.txt, line 7: not UTF-8. Received: byte 0xff")
        error.add_note("Give a file in UTF-8.")
        raise error
    if what == "print":
        for number in range(100_000):
            print(number)
    if what == "keras":
        print("keras" in sys.modules or "tensorflow" in sys.modules)
    if what == "warn":
        from bert_keras.data import long_texts

        long_texts.warn("two texts are cut")
        return
    if what == "full":
        raise OSError(28, "No space left on device", "report.md")
    if what == "backend":
        raise ModuleNotFoundError("No module named 'jax'", name="jax")
    if what == "worker":
        raise BrokenPipeError
    if what == "code":
        return int(arguments[1])
    raise {"interrupt": KeyboardInterrupt, "memory": MemoryError, "bug": KeyError}.get(
        what, SystemExit
    )()


if __name__ == "__main__":
    run(program)
'''


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "program.py"
    path.write_text(_PROGRAM)
    return path


def _start(
    program: Path, *arguments: str, warnings: str = "error", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", warnings, str(program), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "BERT_KERAS_TRACEBACK": "", **environment},
        check=False,
    )


def test_an_error_with_an_exit_code_is_one_message(program: Path) -> None:
    done = _start(program, "refuse")

    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == (
        "error: corpus.txt, line 7: not UTF-8. Received: byte 0xff\nGive a file in UTF-8.\n"
    )


def test_the_traceback_is_there_for_the_asking(program: Path) -> None:
    done = _start(program, "refuse", BERT_KERAS_TRACEBACK="1")

    assert done.returncode == 3
    assert done.stderr.startswith("Traceback")
    assert "error: corpus.txt, line 7" in done.stderr


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [("interrupt", 130, "error: interrupted\n"), ("memory", 5, "error: out of memory\n")],
)
def test_interruption_and_memory(program: Path, what: str, code: int, message: str) -> None:
    done = _start(program, what)

    assert (done.returncode, done.stderr) == (code, message)


def test_a_warning_of_this_package_is_a_note(program: Path) -> None:
    done = _start(program, "warn", warnings="default")
    assert (done.returncode, done.stderr) == (0, "note: two texts are cut\n")


def test_a_warning_can_be_an_error(program: Path) -> None:
    done = _start(program, "warn")
    assert done.returncode == 1
    assert done.stderr.endswith("UserWarning: two texts are cut\n")


def test_a_backend_that_is_not_there(program: Path) -> None:
    done = _start(program, "backend")

    assert done.returncode == 2
    assert done.stderr.startswith("error: jax is not installed. Install with: pip install ")


def test_a_full_disk(program: Path) -> None:
    done = _start(program, "full")

    assert done.returncode == 5
    assert done.stderr.startswith(
        "error: [Errno 28] No space left on device: 'report.md'\nWhat was"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_output_that_is_full(program: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(program), "print"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "BERT_KERAS_TRACEBACK": ""},
            check=False,
        )
    assert done.returncode == 5
    assert done.stderr.startswith(
        "error: standard output cannot be written: No space left on device."
    )
    assert done.stderr.count("\n") == 2


def test_a_bug_keeps_its_traceback(program: Path) -> None:
    done = _start(program, "bug")

    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert "error:" not in done.stderr


@pytest.mark.parametrize("arguments", [("-h",), ("refuse", "--help")])
def test_help_is_the_docstring(program: Path, arguments: tuple[str, ...]) -> None:
    done = _start(program, *arguments)

    assert done.returncode == 0
    assert done.stdout == "Does what it is told.\n\npython -m program <what>\n"
    assert done.stderr == ""


def test_the_programs_code_is_the_exit_code(program: Path) -> None:
    assert _start(program, "code", "4").returncode == 4
    assert _start(program, "code", "0").returncode == 0
    assert _start(program, "nothing").returncode == 0


def test_nothing_heavy_is_imported_before_the_program_runs(program: Path) -> None:
    assert _start(program, "keras").stdout == "False\n"


def test_a_closed_pipe_is_quiet(program: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(program), "print"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_the_broken_pipe_of_a_worker_is_no_such_thing(program: Path) -> None:
    done = _start(program, "worker")

    assert done.returncode == 1
    assert "BrokenPipeError" in done.stderr


# === Programs that train


def _recipe(folder: str) -> PretrainRecipe:
    return PretrainRecipe(corpus="demo", steps=50, name="mine", out=folder)


def test_a_training_holds_its_folder(tmp_path: Path) -> None:
    seen = []

    def body(folder: Any) -> None:
        seen.append(folder.path)
        with pytest.raises(ResourceError, match="in use by"):
            run.train(_recipe(str(tmp_path)), body, is_quicktest=False)

    assert run.train(_recipe(str(tmp_path)), body, is_quicktest=False) == 0
    assert seen == [tmp_path]
    assert {path.name for path in tmp_path.iterdir()} == {"LOCK"}


def test_a_stopped_training_ends_with_the_code_of_its_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    def body(_: Any) -> None:
        raise Stopped("SIGTERM", 143)

    assert run.train(_recipe(str(tmp_path)), body, is_quicktest=False) == 143
    assert "Stopped by SIGTERM after a checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["", "named"])
def test_a_quick_test_without_a_folder_is_temporary(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folders = []
    run.train(_recipe(out), folders.append, is_quicktest=True)
    assert bool(folders[0].temporary) is not bool(out)
    assert (folders[0].path.parent == tmp_path / "temporary") is not bool(out)


def test_a_dry_run_checks_the_folder_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="is not the folder of a run"):
        run.check_folder(_recipe(str(tmp_path)))
    run.check_folder(_recipe(str(tmp_path / "new")))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
