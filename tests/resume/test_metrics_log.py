"""The same records give the same bytes."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from bert_keras.errors import ArtifactError, ResourceError
from bert_keras.resume import MetricsLog


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
        path.write_bytes(whole + b'{"step": 4, "lo')  # killed while writing
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
        with pytest.raises(ArtifactError, match=r"metrics\.jsonl:2: no record"):
            log.records()


def test_a_full_disk(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match=r"metrics\.jsonl.*No space left"):
        MetricsLog(tmp_path / "metrics.jsonl").append({"step": 1})
