"""Pictures of a run: of the size they should be, also with what cannot be drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bert_keras.training.finetune_plot import confusion_picture, curve_picture

_PNG = b"\x89PNG\r\n\x1a\n"


def _size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(_PNG)
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def test_curves_also_where_a_metric_is_not_defined(tmp_path: Path) -> None:
    curves = {0: [(1, 0.9, 0.1), (2, 0.5, math.nan)], 1: [(1, 0.8, math.nan)]}
    curve_picture(curves, "spearman", tmp_path / "curve.png")
    assert _size(tmp_path / "curve.png") == (960, 720)


@pytest.mark.parametrize("count", [1, 3, 25])
def test_every_seed_has_a_colour_of_its_own_and_a_name(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **kw: [figures.append(self), save(self, *args, **kw)]
    )
    curves = {seed: [(10, 0.9, 0.1), (20, 0.5, 0.2)] for seed in range(count)}
    curve_picture(curves, "accuracy", tmp_path / "curve.png")
    above, below = figures[0].axes
    colors = [[line.get_color() for line in axes.lines] for axes in (above, below)]
    assert colors[0] == colors[1]
    assert len(set(colors[0])) == count
    (legend,) = figures[0].legends
    assert [text.get_text() for text in legend.get_texts()] == [f"seed {n}" for n in range(count)]
    assert [line.get_color() for line in legend.get_lines()] == colors[0]
    assert above.get_ylabel() == "accuracy on dev"
    assert _size(tmp_path / "curve.png") == (960, 720)


@pytest.mark.parametrize("count", [2, 40])
def test_confusion_of_few_and_of_many_labels(count: int, tmp_path: Path) -> None:
    counts = np.eye(count, dtype=int)
    counts[0] = 0  # a label that no example has
    names = ["$", "$$", *(f"$label_{i}$ %" for i in range(count - 2))]
    confusion_picture(names, counts, tmp_path / "c.png")
    assert _size(tmp_path / "c.png") == (960, 720)
