"""A picture of where the time of a step goes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.profile_picture import profile_picture
from benchmarks.step_profilers import CLOCK, KINDS


def test_the_picture(tmp_path: Path) -> None:
    figures = {kind: {"median": 10.0 + number} for number, kind in enumerate((*KINDS, CLOCK))}
    path = tmp_path / "pictures" / "profile.png"
    found = {"bert_keras, jax": figures, "KerasHub, jax": figures}
    profile_picture(found, KINDS, CLOCK, path)
    assert path.read_bytes().startswith(b"\x89PNG")
