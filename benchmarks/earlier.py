"""An earlier commit of this package, to be measured beside the files as they lie here."""

from __future__ import annotations

import subprocess
from pathlib import Path

BEFORE = "f489339"  # the last commit without kernels of its own
HERE = Path(__file__).parents[1]


def unpacked(commit: str, folder: Path) -> Path:
    """The repository at a commit, in a new folder.

    Raises:
        SystemExit: git has no such commit.
    """
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    done = subprocess.run(
        ["git", "archive", "--output", str(archive), commit],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"--before={commit}: git has no such commit here: {done.stderr.strip()}")
    subprocess.run(["tar", "-x", "-f", str(archive), "-C", str(folder)], check=True)
    return folder
