"""An earlier commit is unpacked completely. A commit that does not exist is named in the error."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import contest

if not shutil.which("git") or not (contest.HERE / ".git").exists():
    pytest.skip("not a checkout of git", allow_module_level=True)


def test_a_commit(tmp_path: Path) -> None:
    found = contest.unpacked("HEAD", tmp_path / "before")
    listed = ["git", "ls-tree", "-r", "--name-only", "HEAD", "bert_keras/"]
    names = subprocess.run(listed, cwd=contest.HERE, capture_output=True, text=True, check=True)
    assert names.stdout
    assert all((found / name).is_file() for name in names.stdout.splitlines())


def test_no_such_commit(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--before=nothing: git has no such commit here"):
        contest.unpacked("nothing", tmp_path / "before")
