"""A picture of where the time of a step goes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.profile_picture import profile_picture
from benchmarks.step_profilers import KINDS


def test_the_picture(tmp_path: Path) -> None:
    figures = {kind: {"median": 10.0 + number} for number, kind in enumerate(KINDS)}
    path = tmp_path / "pictures" / "profile.png"
    profile_picture({"bert_keras, jax": figures, "KerasHub, jax": figures}, KINDS, path)
    assert path.read_bytes().startswith(b"\x89PNG")
