"""The README: its Python code runs, its commands are accepted, its folders exist.

The commands find a folder `wiki/` with text in `.txt` and `.gz` files.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bert_keras import cli
from tests import hub
from tests.markdown import PYTHON, Block, blocks, run_python

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
COMMANDS = [
    command.name or getattr(command.callback, "__name__", "")
    for command in cli.app.registered_commands
]
ON_A_MODEL = ("convert", "inspect", "verify", "predict")
PAGES = (README, ROOT / "docs" / "pretraining.md", ROOT / "docs" / "checkpoints.md")
SHELL = ("bash", "console", "sh", "shell")


def commands(found: list[Block]) -> list[list[str]]:
    """Return the commands of the shell blocks as lists of words.

    Prompts, comments and environment variables are removed.
    """
    words = []
    for block in found:
        if block.language not in SHELL or block.not_run is not None:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            prompt = line.lstrip().startswith("$ ")
            if block.language == "console" and not prompt:
                continue  # output of a command
            tokens = shlex.split(line.lstrip().removeprefix("$ "), comments=True)
            parts = " ".join(shlex.quote(token) for token in tokens).split(" '&&' ")
            words += [shlex.split(part) for part in parts if part]
    return [_without_variables(command) for command in words]


def _without_variables(command: list[str]) -> list[str]:
    """Remove NAME=value before a command, because the tests select the backend."""
    first = next((i for i, word in enumerate(command) if not re.match(r"[A-Z_]+=", word)), 0)
    return command[first:]


def check_command(command: list[str], extras: set[str]) -> list[str] | None:
    """Return a command that checks another one; None if there is nothing to run.

    Args:
        command: the words of the command.
        extras: the names that `pip install -e ".[…]"` accepts.
    """
    if command[0] == "pip" and command[1] == "install":
        asked = re.findall(r"\[([\w,-]+)\]", " ".join(command))
        unknown = {name for group in asked for name in group.split(",")} - extras
        assert not unknown, f"no such extras: {sorted(unknown)}"
        return None
    if command[0] in ("cd", "git", "pytest", "ruff", "pyright") or command[:2] == [
        "bash",
        ".ci/run",
    ]:
        return None
    if command[:2] == ["python", "-m"] and command[2].startswith("benchmarks."):
        path = ROOT / Path(*command[2].split("."))
        assert path.with_suffix(".py").is_file(), f"no such program: {command[2]}"
        return [sys.executable, *command[1:3], "--help"]
    if command[0] == "bert-keras":
        assert command[1] in COMMANDS, f"no such command: {command[1]}"
        if command[1] != "pretrain" or "--help" in command:
            return ["bert-keras", command[1], "--help"]
        return [*command, *(["--dry-run"] if "--dry-run" not in command else [])]
    raise AssertionError(f"mark the block as not run, or teach the tests: {shlex.join(command)}")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python code runs, and then the commands on its models.

    An offline cache of the hub has a tiny model as bert_base_uncased.
    """
    hub.offline_cache(tmp_path / "hub", monkeypatch, "bert_base_uncased")
    monkeypatch.chdir(tmp_path)
    found = blocks(page.read_text(encoding="utf-8"))
    run_python(found, str(page))
    # Next, run the commands that use a model which the Python code saved.
    if (tmp_path / "my_classifier").is_dir():
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "sst2").symlink_to(tmp_path / "my_classifier")
    (tmp_path / "reviews.csv").write_text("review\nthe film\n", encoding="utf-8")
    for command in commands(found):
        if command[:2] in (["bert-keras", name] for name in ON_A_MODEL):
            monkeypatch.setattr(sys, "argv", command)
            with pytest.raises(SystemExit) as end:
                cli.main()
            assert not end.value.code, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_blocks_are_accepted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands are accepted; programs run with --dry-run and write no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wiki").mkdir()
    text = "\n\n".join(f"The river {i} is long. It rises in the hills." for i in range(1_000))
    (tmp_path / "wiki" / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "wiki" / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    before = sorted(tmp_path.rglob("*"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = commands(blocks(page.read_text(encoding="utf-8")))
    assert found
    for command in found:
        instead = check_command(command, set(project()["optional-dependencies"]))
        if not instead or command[1] in ON_A_MODEL:  # test_python_blocks_run runs those commands
            continue
        if instead[0] == "bert-keras":
            monkeypatch.setattr(sys, "argv", instead)
            with pytest.raises(SystemExit) as end:
                cli.main()
            assert not end.value.code, shlex.join(command)
        else:
            run = subprocess.run(
                instead, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert run.returncode == 0, f"{shlex.join(command)}\n{run.stdout}{run.stderr}"
    assert sorted(tmp_path.rglob("*")) == before


def test_every_link_leads_somewhere() -> None:
    pages = [
        page
        for folder in ("docs", "examples", "saved_models")
        for page in (ROOT / folder).glob("*.md")
    ]
    for page in (README, *sorted(pages)):
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)[)#]", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_blocks_that_are_not_run_say_why_and_are_few(record_property: Any) -> None:
    found = blocks(README.read_text(encoding="utf-8"))
    code = [block for block in found if block.language in (*PYTHON, *SHELL)]
    left_out = [block for block in code if block.not_run is not None]
    record_property("readme blocks not run", len(left_out))
    assert all(block.not_run for block in left_out), "a block without a reason"
    assert len(left_out) <= len(code) // 3


def folders(page: Path) -> list[str]:
    """Return the folders in the page's folder tree, in order."""
    drawn = next(
        block
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.text.startswith("bert_keras/")
    )
    return [line.split()[0] for line in drawn.text.splitlines()]


def test_the_readme_draws_at_most_fifteen_folders() -> None:
    drawn = folders(README)
    assert len(drawn) <= 15
    assert not [path for path in drawn if not (ROOT / path).is_dir()]


def test_every_folder_has_a_line_in_contributing() -> None:
    files = [
        path for folder in ("bert_keras", "training") for path in (ROOT / folder).rglob("*.py")
    ]
    names = {f"{path.parent.relative_to(ROOT).as_posix()}/" for path in files}
    assert sorted(folders(ROOT / "CONTRIBUTING.md")) == sorted(names - {"bert_keras/"})


SAMPLE = """
# A sample

```python
x = 1
```

<!-- not run: needs a day -->

```python
x = 1 / 0
```

```text
x = 1 / 0
```

```bash
# a comment
pip install -e ".[tensorflow]" && pytest
KERAS_BACKEND=jax bert-keras pretrain demo \\
  steps=10
```

```console
$ cd checkout
what the command printed
```

```python
y = x + 1
```
"""


def test_sample_blocks() -> None:
    found = blocks(SAMPLE)
    languages = ["python", "python", "text", "bash", "console", "python"]
    assert [block.language for block in found] == languages
    assert [block.not_run for block in found] == [None, "needs a day", None, None, None, None]
    assert found[0].line == 5


def test_sample_python_shares_a_namespace() -> None:
    assert run_python(blocks(SAMPLE), "sample.md")["y"] == 2


def test_an_error_names_the_line_of_the_document() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_python(blocks("text\n\n```python\nx = 1\n1 / 0\n```\n"), "sample.md")
    assert caught.traceback[-1].lineno == 4  # line 5, counted from 0
    assert str(caught.traceback[-1].path).endswith("sample.md")


def test_sample_commands() -> None:
    assert commands(blocks(SAMPLE)) == [
        ["pip", "install", "-e", ".[tensorflow]"],
        ["pytest"],
        ["bert-keras", "pretrain", "demo", "steps=10"],
        ["cd", "checkout"],
    ]


def test_commands_are_checked() -> None:
    extras = {"tensorflow", "dev"}
    assert check_command(["pip", "install", "-e", ".[tensorflow,dev]"], extras) is None
    with pytest.raises(AssertionError, match="no such extras"):
        check_command(["pip", "install", "-e", ".[tensroflow]"], extras)
    with pytest.raises(AssertionError, match="no such program"):
        check_command(["python", "-m", "benchmarks.no_such_program"], extras)
    with pytest.raises(AssertionError, match="no such command"):
        check_command(["bert-keras", "no_such_command"], extras)
    with pytest.raises(AssertionError, match="mark the block"):
        check_command(["rm", "-r", "runs"], extras)
    with pytest.raises(AssertionError, match="not closed"):
        blocks("```python\nx = 1\n")


def test_pretraining_is_asked_for_its_plan() -> None:
    command = ["bert-keras", "pretrain", "demo", "steps=10"]
    expected = ["bert-keras", *command[1:], "--dry-run"]
    assert check_command(command, set()) == expected
