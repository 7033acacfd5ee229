"""Versions are counted from 1, and none is given twice."""

from __future__ import annotations

from pathlib import Path

from bert_keras.export.versions import next_version


def test_the_next_number(tmp_path: Path) -> None:
    assert next_version(tmp_path / "demo") == tmp_path / "demo" / "1"
    for name in ("2", "9", "10", "x", ".tmp-11"):
        (tmp_path / "demo" / name).mkdir(parents=True)
    assert next_version(str(tmp_path / "demo")) == tmp_path / "demo" / "11"
