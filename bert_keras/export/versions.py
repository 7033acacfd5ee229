"""Folders of models by name and version: <folder>/<name>/<version>/, as servers look for them."""

from __future__ import annotations

from pathlib import Path


def next_version(folder: str | Path) -> Path:
    """The folder of the next version of a model, numbered from 1; it is not made.

    Args:
        folder: of the model, with its versions in it; it need not exist.
    """
    folder = Path(folder)
    taken = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(taken, default=0) + 1)
