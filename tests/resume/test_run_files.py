"""Files of a run folder: the lock of its one writer, and its metrics."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bert_keras.errors import ArtifactError, ResourceError
from bert_keras.resume import MetricsLog, RunLock

# Script of another run: it takes the lock and forks a worker. Stubs for bert_keras's packages let
# it start without Keras.
_OTHER_RUN = """
import os, sys, time, types
for name in ("bert_keras", "bert_keras.resume"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [os.path.join(sys.argv[1], *name.split("."))]
from bert_keras.resume.run_files import RunLock
with RunLock(sys.argv[2]):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_a_second_run_is_refused(tmp_path):
    run = tmp_path / "runs" / "1"
    with RunLock(run):
        with (
            pytest.raises(ResourceError, match=f"1: in use by pid {os.getpid()} on this machine "),
            RunLock(run),
        ):
            pass
        with pytest.raises(ResourceError, match="in use by pid"):
            RunLock(run).__enter__()
    with RunLock(run), RunLock(tmp_path / "runs" / "2"):
        pass


def test_a_lock_that_is_held_is_not_entered_again(tmp_path):
    lock = RunLock(tmp_path)
    with lock, pytest.raises(RuntimeError, match="already held"):
        lock.__enter__()
    with lock:
        pass


def test_a_killed_run_is_taken_over_though_its_worker_lives(tmp_path):
    """The lock of a killed run is taken over, even if its worker process is still alive."""
    root = Path(__file__).parents[2]
    arguments = [sys.executable, "-c", _OTHER_RUN, str(root), str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        worker = int(other.stdout.readline())
        try:
            with pytest.raises(ResourceError, match=f"pid {other.pid} "), RunLock(tmp_path):
                pass
            other.kill()
            other.wait()
            os.kill(worker, 0)
            assert f'"pid": {other.pid}' in (tmp_path / "LOCK").read_text()
            with RunLock(tmp_path):
                assert f'"pid": {os.getpid()}' in (tmp_path / "LOCK").read_text()
        finally:
            os.kill(worker, signal.SIGKILL)


def test_the_file_does_not_name_the_host(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "the-host")
    with RunLock(tmp_path):
        text = (tmp_path / "LOCK").read_text()
        assert set(json.loads(text)) == {"pid", "machine", "start"}
        assert "the-host" not in text
        monkeypatch.setattr(socket, "gethostname", lambda: "a-node")
        holder = rf"by pid {os.getpid()} on another machine \([0-9a-f]{{8}}\) since 20"
        with pytest.raises(ResourceError, match=holder), RunLock(tmp_path):
            pass


def test_a_lock_of_an_older_version(tmp_path):
    card = {"pid": 7, "host": "a-node", "start": "2024-05-06 07:08:09 +0000"}
    with RunLock(tmp_path):
        (tmp_path / "LOCK").write_text(json.dumps(card))
        holder = "by pid 7 on a-node since 2024-05-06"
        with pytest.raises(ResourceError, match=holder), RunLock(tmp_path):
            pass
    (tmp_path / "LOCK").write_text(json.dumps(card))  # This is the lock file of a killed run.
    with RunLock(tmp_path):
        assert "a-node" not in (tmp_path / "LOCK").read_text()


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', "[]", '{"pid": 1, "machine": 2}'])
def test_an_unreadable_card_is_no_obstacle(tmp_path, text):
    """A lock file with unreadable content is still respected."""
    with RunLock(tmp_path):
        (tmp_path / "LOCK").write_text(text)
        with pytest.raises(ResourceError, match="in use by another process"), RunLock(tmp_path):
            pass


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "run").write_text("")
    with (
        pytest.raises(ResourceError, match="run/LOCK: cannot be written"),
        RunLock(tmp_path / "run"),
    ):
        pass


# === The same records give the same bytes ===


def test_lines(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.offset == 0
    log.append({"mlm_loss": 0.1, "step": 10, "loss": np.float32(0.1), "done": False})
    log.append({"step": np.int64(20), "loss": float("nan"), "note": "é", "nsp": np.inf, "x": None})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines == [
        '{"step": 10, "done": false, "loss": 0.10000000149011612, "mlm_loss": 0.1}',
        '{"step": 20, "loss": null, "note": "\\u00e9", "nsp": null, "x": null}',
    ]
    assert log.offset == (tmp_path / "metrics.jsonl").stat().st_size


def test_cut_and_go_on_gives_the_same_bytes(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    offsets = [0]
    for step in range(4):
        log.append({"step": step, "loss": step / 3})
        offsets.append(log.offset)
    whole = path.read_bytes()
    for done, offset in enumerate(offsets):
        path.write_bytes(whole + b'{"step": 4, "lo')  # The run was killed while it wrote a line.
        resumed = MetricsLog(path)
        resumed.cut(offset)
        assert path.read_bytes() == whole[:offset]
        for step in range(done, 4):
            resumed.append({"step": step, "loss": step / 3})
        assert path.read_bytes() == whole


def test_cut_refuses_a_file_of_another_run(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.cut(0)
    assert not path.exists()
    with pytest.raises(ArtifactError, match=r"metrics\.jsonl: 7 bytes.*Received: a file of 0"):
        log.cut(7)
    log.append({"step": 1})
    with pytest.raises(ArtifactError, match="no record ends at byte 5"):
        log.cut(5)
    assert path.read_text() == '{"step": 1}\n'


def test_records_are_read_back(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.records() == []
    log.append({"loss": 0.5, "step": 1})
    log.append({"loss": float("nan"), "step": 2})
    assert log.records() == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": None}]
    for line in (b'{"ste', b"5", b'{"step": "\xff"}'):
        (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + line)
        with pytest.raises(ArtifactError, match=r"metrics\.jsonl:2: the line is not a record"):
            log.records()


def test_a_full_disk(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match=r"metrics\.jsonl.*No space left"):
        MetricsLog(tmp_path / "metrics.jsonl").append({"step": 1})
