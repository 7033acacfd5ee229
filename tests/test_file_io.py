"""Atomic writes: after a kill at any moment, the old or the new folder exists."""

from __future__ import annotations

import ast
import contextlib
import errno
import fcntl
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bert_keras import file_io
from bert_keras.errors import ArtifactError, DataError, ResourceError
from bert_keras.file_io import one_writer

# This program loads the module from its file, so that Keras is not imported. It dies at a given
# disk operation, as by `kill -9`. It exits with 0 if there are fewer operations.
_KILLED_AT = """
import importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("atomic", sys.argv[1])
atomic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(atomic)
target, left = Path(sys.argv[2]), int(sys.argv[3])
def dying(call):
    def wrapper(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os._exit(137)
        return call(*args, **kwargs)
    return wrapper
for name in ("fsync", "rename", "replace", "mkdir", "rmdir", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
with atomic.new_folder(target) as folder:
    (folder / "a").write_text("new")
    atomic.write_text(folder / "b", "new")
"""


def _content(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("there_before", [False, True])
def test_killed_at_every_point(tmp_path, there_before):
    old, new = {"a": "old", "c": "old"}, {"a": "new", "b": "new"}
    outcomes = []
    for point in range(100):
        parent = tmp_path / f"{point}"
        parent.mkdir()
        target = parent / "target"
        if there_before:
            target.mkdir()
            for name, text in old.items():
                (target / name).write_text(text)
        arguments = [sys.executable, "-c", _KILLED_AT, file_io.__file__, str(target), str(point)]
        code = subprocess.run(arguments, check=False).returncode
        file_io.sweep(parent)
        assert [path.name for path in parent.iterdir()] in ([], ["target"])
        outcomes.append(_content(target) if target.exists() else {})
        if code == 0:
            break
        assert code == 137
    first = old if there_before else {}
    assert len(outcomes) > 8
    assert outcomes == sorted(outcomes, key=lambda content: content == new)
    assert outcomes[0] == first
    assert outcomes[-1] == new
    assert all(content in (first, new) for content in outcomes)


_ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "path",
    [*(_ROOT / "bert_keras/data").glob("*.py"), _ROOT / "bert_keras/predictor/files.py"],
    ids=lambda path: path.stem,
)
def test_readers_of_data_decide_about_keys_twice(path: Path) -> None:
    """Every call that parses JSON has a hook that sees all keys of an object."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.load", "json.loads"):
            assert "object_pairs_hook" in {word.arg for word in node.keywords}, node.lineno


def test_a_line_of_json() -> None:
    assert file_io.decode_json('{"a": [1]}\n', "f:1", DataError) == {"a": [1]}
    for line, message in (
        ('{"a": 1, "a": 2}', "f:1: 'a' is said twice"),
        ('{"a": {"b": 1, "b": 1}}', "f:1: 'b' is said twice"),
        ("{", "f:1: not JSON: .*Write valid JSON"),
        ("[" * 100_000, "f:1: not JSON"),
    ):
        with pytest.raises(DataError, match=message):
            file_io.decode_json(line, "f:1", DataError)


def test_new_folder_makes_parents_and_keeps_subfolders(tmp_path):
    with file_io.new_folder(tmp_path / "a" / "b") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("x")
        assert not (tmp_path / "a" / "b").exists()
    assert (tmp_path / "a" / "b" / "sub" / "file").read_text() == "x"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_the_block_leaves_the_old_folder(tmp_path, error):
    target = tmp_path / "target"
    for expected in ({}, {"a": "1"}):
        with contextlib.suppress(error), file_io.new_folder(target) as folder:
            (folder / "a").write_text("2")
            raise error
        assert (_content(target) if target.exists() else {}) == expected
        assert len(list(tmp_path.iterdir())) == len(expected)
        with file_io.new_folder(target) as folder:
            (folder / "a").write_text("1")


def test_leftovers_do_not_hinder(tmp_path):
    for name in (".tmp-target", ".old-target", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    with file_io.new_folder(tmp_path / "target") as folder:
        (folder / "b").write_text("new")
    assert _content(tmp_path / "target") == {"b": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_sweep(tmp_path):
    (tmp_path / ".tmp-x").mkdir()
    (tmp_path / ".tmp-y").write_text("half")
    (tmp_path / ".old-z").mkdir()
    (tmp_path / "other").write_text("")
    file_io.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "z"]


def test_remove_folder(tmp_path):
    for name in (".tmp-x", "x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("")
    file_io.remove_folder(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_write_text(tmp_path, monkeypatch):
    path = tmp_path / "file"
    file_io.write_text(path, "één\r\n")
    assert path.read_bytes() == "één\r\n".encode()

    def fail(descriptor):
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk on fire"):
        file_io.write_text(path, "two")
    assert path.read_bytes() == "één\r\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_told_with_the_file(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'file'}'"),
        file_io.new_file(tmp_path / "file"),
    ):
        raise full
    assert not list(tmp_path.iterdir())


def test_a_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("one")
    link.symlink_to(target)
    file_io.write_text(link, "two")
    assert link.is_symlink()
    assert target.read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        file_io.write_text(pipe, "three")
        assert read.result() == "three"
    assert pipe.is_fifo()


# === JSON from untrusted files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "expected a JSON object. Received: list"),
        (b"{", "not JSON"),
        (b"\xff{}", "not JSON"),
        (b'{"a": {"b": 0, "c": 1, "b": 0}}', "'b' is said twice"),
        (b"[" * 100_000, "deeper than any file"),
        (None, "no such file"),
    ],
)
def test_refused(content: bytes | None, message: str, tmp_path: Path):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"config.json: {message}"):
        file_io.read_object(path)


def test_a_missing_file_names_the_nearest(tmp_path: Path):
    best = tmp_path / "seed-0" / "best"
    best.mkdir(parents=True)
    assert "Add it" in file_io.missing_file(tmp_path / "config.json")
    (best / "config.json").touch()
    assert file_io.missing_file(tmp_path / "config.json").endswith(f"Did you mean {best}?")
    (tmp_path / "run.json").touch()
    told = file_io.missing_file(tmp_path / "config.json")
    assert "the run has no model yet" in told
    assert f"or name {best}, the best model so far." in told


def test_read(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"a": [{"b": 0}, {"b": 1}]}')
    assert file_io.read_object(path) == {"a": [{"b": 0}, {"b": 1}]}
    path.write_text("[1]")
    assert file_io.read_json(path) == [1]


def test_no_file_is_read_without_a_limit():
    root = Path(__file__).parents[1]
    sources = [path for name in ("bert_keras", "training") for path in (root / name).rglob("*.py")]
    whole = re.compile(r"json\.load\(|json\.loads\([^\n]*\.read_(text|bytes)\(")
    assert len(sources) > 200
    assert [str(path) for path in sources if whole.search(path.read_text())] == []


# === Locks: only one of two writers succeeds


def test_one_at_a_time(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a"), one_writer(tmp_path / "b"):
        with (
            pytest.raises(ResourceError, match="a: another process is writing it"),
            one_writer(tmp_path / "a"),
        ):
            pytest.fail("two hold it")
        assert len(list(tmp_path.iterdir())) == 2  # the failed attempt removes no lock file
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_left_hinders_nobody(tmp_path: Path) -> None:
    (tmp_path / ".a.lock").write_text("")
    with one_writer(tmp_path / "a"):
        pass


def test_a_lock_that_has_just_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        lock(descriptor, how)
        (tmp_path / ".a.lock").unlink()  # the holder ended after this process opened the file

    monkeypatch.setattr(fcntl, "flock", late)
    with (
        pytest.raises(ResourceError, match="has just written it"),
        one_writer(tmp_path / "a"),
    ):
        pytest.fail("two hold it")
