"""Pictures of a fine-tuning run: the metric over the steps, and what was taken for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_LOSS = "#7f9fc4"
_MOST_NAMES = 30  # that fit beside a matrix


def curve_picture(
    curves: Mapping[int, Sequence[tuple[int, float, float]]], metric: str, path: Path
) -> None:
    """Draws the metric on dev above and the training loss below, a line for each seed, as a PNG.

    Args:
        curves: by seed: step, loss and metric of every report.
        metric: its name.
        path: of the PNG.
    """
    figure, axes = _figure(2)
    above, below = axes
    for seed, points in curves.items():
        steps, losses, scores = zip(*points, strict=True)
        above.plot(steps, scores, marker="o", ms=4, linewidth=1.6, label=f"seed {seed}")
        below.plot(steps, losses, marker="o", ms=3, color=_LOSS, linewidth=1.2)
    above.set_ylabel(metric, parse_math=False)
    below.set_ylabel("training loss")
    below.set_xlabel("step")
    above.legend(frameon=False)
    for each in axes:
        each.grid(alpha=0.25)
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png")


def confusion_picture(names: Sequence[str], counts: np.ndarray, path: Path) -> None:
    """Draws how often each label was taken for each, as a PNG.

    Args:
        names: of the labels.
        counts: [right label, answered label].
        path: of the PNG.
    """
    figure, axes = _figure(1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(names) <= _MOST_NAMES:
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right", parse_math=False)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        for (row, column), count in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count:,}", ha="center", va="center", color=color)
    axes.set_xlabel("answered")
    axes.set_ylabel("right")
    figure.savefig(path, format="png")


def _figure(panels: int) -> tuple[Any, Any]:
    # Not pyplot, which would choose a backend for the whole process and keep the figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(panels, sharex=panels > 1)
