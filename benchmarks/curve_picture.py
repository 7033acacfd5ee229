"""The picture of `pretraining_curve`: held-out loss over the time of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_COLOURS = ("#555555", "#c44e2b")


def curve_picture(curves: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """Draws the curves as a PNG.

    Args:
        curves: by name, points with "seconds" and "loss".
        path: of the PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (name, points), colour in zip(curves.items(), _COLOURS, strict=True):
        seconds, losses = ([point[key] for point in points] for key in ("seconds", "loss"))
        axes.plot(seconds, losses, color=colour, marker="o", ms=4, linewidth=1.8, label=name)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("held-out masked-token loss (nats)")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
