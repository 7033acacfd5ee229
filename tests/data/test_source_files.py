"""Files of a path, a folder or a glob, and their names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_keras.data.source_files import find_files, recorded_names
from bert_keras.errors import DataError


def _write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")


def _names(folder: Path, *sources: str | Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in find_files(list(sources))]


def test_a_folder_gives_its_text_files_sorted(tmp_path: Path) -> None:
    _write(tmp_path, "b.txt", "a/z.jsonl", "a/B.TXT.GZ", "a/c.gz", "d.jsonl.gz", "readme.md", "x")
    _write(tmp_path, ".hidden.txt", ".git/a.txt", "a/.checkpoints/a.txt")
    expected = ["a/B.TXT.GZ", "a/c.gz", "a/z.jsonl", "b.txt", "d.jsonl.gz"]
    assert _names(tmp_path, tmp_path) == expected
    assert find_files(str(tmp_path)) == find_files([tmp_path])


def test_hidden_is_judged_below_the_folder_only(tmp_path: Path) -> None:
    """A hidden folder that the user names is read."""
    _write(tmp_path, ".cache/a.txt")
    assert _names(tmp_path, tmp_path / ".cache") == [".cache/a.txt"]


def test_globs_take_any_ending_and_folders_if_they_match_nothing_else(tmp_path: Path) -> None:
    _write(tmp_path, "wiki/AB/w_2", "wiki/AA/w_1", "wiki/AA/w_0", "books/AA/b.txt", "a[1].txt")
    assert _names(tmp_path, tmp_path / "wiki" / "**" / "w_*") == [
        "wiki/AA/w_0",
        "wiki/AA/w_1",
        "wiki/AB/w_2",
    ]
    assert _names(tmp_path, tmp_path / "books" / "*") == ["books/AA/b.txt"]
    assert _names(tmp_path, tmp_path / "a[1].txt") == ["a[1].txt"]


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    _write(tmp_path, "b.txt", "a.txt", "c/d.txt")
    sources = [tmp_path / "c", tmp_path / "b.txt", tmp_path / "a.t?t"]
    assert _names(tmp_path, *sources) == ["c/d.txt", "b.txt", "a.txt"]


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "b.txt")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_files("~/b.txt") == [tmp_path / "b.txt"]


@pytest.mark.parametrize(
    ("make", "source", "message"),
    [
        (None, "nothing.txt", r"nothing\.txt: no such file or folder"),
        (None, "*.txt", r"\*\.txt: no file matches"),
        (
            lambda p: _write(p, "d/x.md", "d/y"),
            "d",
            r"d: the folder has no text files. Received: 2 files",
        ),
        (lambda p: (p / "d").mkdir(), "d", "d: the folder has no text files. Received: 0 files"),
        (lambda p: (p / "d").mkdir(), "?", "d: the folder has no text files"),
        (lambda p: os.mkfifo(p / "pipe"), "pipe", "pipe: not a regular file or folder"),
    ],
)
def test_sources_without_files(
    tmp_path: Path, make: Callable[[Path], object] | None, source: str, message: str
) -> None:
    if make:
        make(tmp_path)
    with pytest.raises(DataError, match=message):
        find_files(tmp_path / source)


def test_no_source_and_a_file_named_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No file is named. Received: \[\]"):
        find_files([])
    _write(tmp_path, "a.txt", "b.txt")
    with pytest.raises(DataError, match=r"a\.txt: this file is also named as"):
        find_files([tmp_path / "a.txt", tmp_path / "*.txt"])
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    with pytest.raises(DataError, match=r"link\.txt: this file is also named as .*b\.txt"):
        find_files(tmp_path)


def test_a_home_folder_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "wiki").mkdir()
    files = [tmp_path / "wiki" / name for name in ("a.txt", "b.txt")]
    for file in files:
        file.write_text("x")
    # A shell replaces "~" before the program sees it.
    for source in ("~/wiki", "~/wiki/*.txt", ["~/wiki/a.txt", "~/wiki/b.txt"], tmp_path / "wiki"):
        assert find_files(source) == files
        assert recorded_names(files, source) == ("~/wiki/a.txt", "~/wiki/b.txt")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert recorded_names(files, tmp_path / "wiki") == tuple(map(str, files))
    monkeypatch.setenv("HOME", "/")
    assert recorded_names(files, tmp_path / "wiki") == tuple(map(str, files))


def test_a_name_of_text_that_is_no_file_is_named(tmp_path: Path) -> None:
    _write(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match=r"pipe\.txt: not a regular file, or a link to none"):
        find_files(tmp_path)
    (tmp_path / "pipe.txt").unlink()
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"gone\.txt: not a regular file, or a link to none"):
        find_files(tmp_path)
    (tmp_path / "gone.txt").unlink()
    os.mkfifo(tmp_path / "pipe")  # no name of a text
    assert find_files(tmp_path) == [tmp_path / "a.txt"]


def test_the_glob_of_a_folder_with_brackets_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "part [1]").mkdir()
    _write(tmp_path / "part [1]", "a.txt")
    with pytest.raises(DataError, match="has characters of a glob in its name: write") as error:
        find_files(tmp_path / "part [1]" / "*.txt")
    advice = str(error.value).partition("write ")[2].partition(". Check")[0]
    assert find_files(advice) == [tmp_path / "part [1]" / "a.txt"]
    assert find_files(tmp_path / "part [1]") == [tmp_path / "part [1]" / "a.txt"]
