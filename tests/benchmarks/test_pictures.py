"""Picture of the time that each part of a step takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.pictures import curves, picture, profile_picture
from benchmarks.step_profilers import CLOCK, KINDS


def test_the_picture(tmp_path: Path) -> None:
    figures = {kind: {"median": 10.0 + number} for number, kind in enumerate((*KINDS, CLOCK))}
    path = tmp_path / "pictures" / "profile.png"
    found = {"bert_keras, jax": figures, "KerasHub, jax": figures}
    profile_picture(found, KINDS, CLOCK, path)
    assert path.read_bytes().startswith(b"\x89PNG")


# === The picture has a curve for each program, with the points of the sweep alone ===


def _figures(value: float) -> dict[str, Any]:
    return {key: {"median": value} for key in ("texts_per_second", "tokens_per_second")}


RESULTS = {
    "sentences": {"bert_keras, jax": _figures(9)},
    **{
        f"{kind} {size}": {"bert_keras, jax": _figures(size), "transformers": _figures(2 * size)}
        for kind in ("length", "batch")
        for size in (8, 16)
    },
}


def test_curves() -> None:
    assert curves(RESULTS, "length", "tokens_per_second") == {
        "bert_keras, jax": [(8, 8), (16, 16)],
        "transformers": [(8, 16), (16, 32)],
    }


def test_picture(tmp_path: Path) -> None:
    path = tmp_path / "pictures" / "speeds.png"
    picture(RESULTS, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_figures_without_a_sweep(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="hold no lengths: measure with --sweep"):
        picture({"sentences": RESULTS["sentences"]}, tmp_path / "speeds.png")
