"""Pictures of a fine-tuning run: the metric over the steps, and what was taken for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_MOST_COLORS = 10  # of the palette that is made to tell lines apart
_MOST_NAMES = 30  # that fit beside a matrix


def curve_picture(
    curves: Mapping[int, Sequence[tuple[int, float, float]]], metric: str, path: Path
) -> None:
    """Draw the metric on dev above and the training loss below, a colour for each seed, as a PNG.

    Args:
        curves: by seed: step, loss and metric of every report.
        metric: its name.
        path: of the PNG.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure(2)
    above, below = axes
    for (seed, points), color in zip(curves.items(), _colors(len(curves)), strict=True):
        steps, losses, scores = zip(*points, strict=True)
        style = {"marker": "o", "color": color, "label": f"seed {seed}"}
        above.plot(steps, scores, ms=4, linewidth=1.6, **style)
        below.plot(steps, losses, ms=3, linewidth=1.2, **style)
    above.set_ylabel(f"{metric} on dev", parse_math=False)
    below.set_ylabel("training loss")
    below.set_xlabel("step")
    below.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    handles, names = above.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False)
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


def _colors(count: int) -> list[Any]:
    """Return as many different colours."""
    from matplotlib import colormaps

    if count <= _MOST_COLORS:
        return list(colormaps["tab10"].colors[:count])  # pyright: ignore[reportAttributeAccessIssue]
    return [colormaps["turbo"](share) for share in np.linspace(0.05, 0.95, count)]


def _figure(panels: int) -> tuple[Any, Any]:
    # Not pyplot, which would choose a backend for the whole process and keep the figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(panels, sharex=panels > 1)
