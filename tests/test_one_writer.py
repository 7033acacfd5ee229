"""Of two who write one thing, one does."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from bert_keras.errors import ResourceError
from bert_keras.one_writer import one_writer


def test_one_at_a_time(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a"), one_writer(tmp_path / "b"):
        with (
            pytest.raises(ResourceError, match="a: another process is writing it"),
            one_writer(tmp_path / "a"),
        ):
            pytest.fail("two hold it")
        assert len(list(tmp_path.iterdir())) == 2  # who waits takes no lock away
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_left_hinders_nobody(tmp_path: Path) -> None:
    (tmp_path / ".a.lock").write_text("")
    with one_writer(tmp_path / "a"):
        pass


def test_a_lock_that_has_just_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        lock(descriptor, how)
        (tmp_path / ".a.lock").unlink()  # its holder ended between opening and locking

    monkeypatch.setattr(fcntl, "flock", late)
    with (
        pytest.raises(ResourceError, match="has just written it"),
        one_writer(tmp_path / "a"),
    ):
        pytest.fail("two hold it")
