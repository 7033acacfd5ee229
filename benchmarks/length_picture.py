"""The picture of `long_sequences`: time above, memory below, against length."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_COLOURS = {"tensorflow": "#d98032", "jax": "#4b8f5c", "torch": "#c44e2b", "": "#555555"}
_LINES = {"bert_keras": "-", "KerasHub": "--", "transformers": ":"}
_AXES = {"seconds": "seconds a step", "gigabytes": "peak memory (GiB)"}


def length_picture(rows: Sequence[Mapping[str, Any]], path: Path) -> Path | None:
    """Draws medians, with a bar from least to most, as a PNG; a column of panels for each mode.

    Args:
        rows: with "mode", "length", "program", and "seconds" and "gigabytes", each with "median",
            "least" and "most".
        path: of the PNG.

    Returns:
        The path; None where matplotlib is not installed, after saying so on stderr.
    """
    try:
        # Not pyplot, which would choose a backend for the whole process and keep the figure.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullLocator
    except ImportError:
        message = "No picture: matplotlib is not installed (pip install matplotlib)."
        print(message, file=sys.stderr)
        return None
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    names = list(dict.fromkeys(row["program"] for row in rows))
    lengths = sorted({row["length"] for row in rows})
    figure = Figure(figsize=(4.2 * max(len(modes), 1) + 2, 8), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(_AXES), max(len(modes), 1), sharex=True, sharey="row", squeeze=False
    )
    for axes_of_key, (key, label) in zip(panels, _AXES.items(), strict=True):
        axes_of_key[0].set_ylabel(label)
        for axes, mode in zip(axes_of_key, modes, strict=False):
            for name in names:
                found = [row for row in rows if (row["mode"], row["program"]) == (mode, name)]
                _curve(axes, sorted(found, key=lambda row: row["length"]), key, name)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=45)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
    for axes, mode in zip(panels[0], modes, strict=False):
        axes.set_title(mode, fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("tokens of a row")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
    return path


def _curve(axes: Any, rows: Sequence[Mapping[str, Any]], key: str, name: str) -> None:
    """One program's."""
    program, _, backend = name.partition(", ")
    medians = [row[key]["median"] for row in rows]
    below = [row[key]["median"] - row[key]["least"] for row in rows]
    above = [row[key]["most"] - row[key]["median"] for row in rows]
    axes.errorbar(
        [row["length"] for row in rows],
        medians,
        yerr=[below, above],
        color=_COLOURS.get(backend, _COLOURS[""]),
        linestyle=_LINES.get(program, "-."),
        linewidth=2 if program == "bert_keras" else 1.4,
        marker="o",
        markersize=3.5,
        capsize=2,
        label=name,
    )
