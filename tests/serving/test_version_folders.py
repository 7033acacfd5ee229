"""Folders of numbered versions: names, base folders and fingerprints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bert_keras.export.runtimes import formats
from bert_keras.serving.version_folders import (
    SAVED_MODEL,
    fingerprint_of,
    is_base_folder,
    is_export,
    is_version,
    versions_in,
)


def write(folder: Path, file: str = SAVED_MODEL) -> Path:
    folder.mkdir(parents=True)
    (folder / file).write_text("1")
    return folder


def test_a_base_folder_has_numbered_exports(tmp_path: Path) -> None:
    write(tmp_path / "1")
    write(tmp_path / "12", formats.FILE)
    for name in ("02", "x", "3.tmp", "9" * 30):
        write(tmp_path / name)
    (tmp_path / "7").mkdir()  # no export
    assert sorted(versions_in(tmp_path)) == [1, 12]
    assert is_base_folder(tmp_path)
    assert not is_export(tmp_path)
    assert is_version(tmp_path / "12")
    assert not is_version(tmp_path / "7")
    assert not is_base_folder(tmp_path / "1")
    assert versions_in(tmp_path / "nothing") == []


@pytest.mark.parametrize("change", ["size", "time", "name"])
def test_a_fingerprint_tells_changes(tmp_path: Path, change: str) -> None:
    file = write(tmp_path / "1") / SAVED_MODEL
    (tmp_path / "1" / "link").symlink_to(tmp_path / "nothing")
    before = fingerprint_of(tmp_path)
    assert before == fingerprint_of(tmp_path)
    status = file.stat()
    if change == "size":
        file.write_text("12")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "time":
        os.utime(file, ns=(0, 1))
    else:
        file.rename(file.with_name("other"))
    assert fingerprint_of(tmp_path) != before
