"""The picture of `step_profile`: a bar for each program, a part of it for each kind of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_COLOURS = ("#2b5c8a", "#c44e2b", "#e0a030", "#8a8a8a", "#5b8f4d", "#b9c7d6")


def profile_picture(
    found: Mapping[str, Mapping[str, Any]], kinds: Sequence[str], clock: str, path: Path
) -> None:
    """Draws the medians as a PNG.

    Args:
        found: by program, a summary of milliseconds for each kind and of the whole.
        kinds: of operations, in the order of their parts.
        clock: the whole, by the clock: a mark beside the parts.
        path: of the PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.9 + 0.5 * len(found)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    left = [0.0] * len(found)
    for kind, colour in zip(kinds, _COLOURS, strict=True):
        widths = [figures[kind]["median"] for figures in found.values()]
        axes.barh(list(found), widths, left=left, color=colour, label=kind, height=0.7)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    marks = [figures[clock]["median"] for figures in found.values()]
    axes.scatter(marks, list(found), marker="|", s=260, color="black", label=clock, zorder=3)
    axes.invert_yaxis()  # the first on top
    axes.set_xlabel("milliseconds of a step, all threads together")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
