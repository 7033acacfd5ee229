"""Plots of benchmark results: loss over time, cost by length, parts of a step, speed by length."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE_COLOURS = ("#555555", "#c44e2b")


def curve_picture(curves: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """Plot validation loss over the seconds of training, as a PNG file.

    Args:
        curves: points with "seconds" and "loss", by the name of the curve.
        path: path of the PNG file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (name, points), colour in zip(curves.items(), _CURVE_COLOURS, strict=True):
        seconds, losses = ([point[key] for point in points] for key in ("seconds", "loss"))
        axes.plot(seconds, losses, color=colour, marker="o", ms=4, linewidth=1.8, label=name)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("validation masked-token loss (nats)")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


# === The plot of `long_sequences`: time above and memory below, by length ===


_LENGTH_COLOURS = {"tensorflow": "#d98032", "jax": "#4b8f5c", "torch": "#c44e2b", "": "#555555"}
_LINES = {"bert_keras": "-", "KerasHub": "--", "transformers": ":"}
_AXES = {"seconds": "seconds a step", "gigabytes": "peak memory (GiB)"}


def length_picture(rows: Sequence[Mapping[str, Any]], path: Path) -> Path | None:
    """Plot time and memory by length as a PNG file, with a column of panels for each mode.

    The points are medians, with bars from minimum to maximum.

    Args:
        rows: dicts with "mode", "length", "program", "seconds" and "gigabytes". The last two are
            dicts with "median", "least" and "most".
        path: path of the PNG file.

    Returns:
        The path; None if matplotlib is not installed, after a message on stderr.
    """
    try:
        # pyplot would choose a matplotlib backend for the whole process and keep the figure alive.
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
                points = [row for row in rows if (row["mode"], row["program"]) == (mode, name)]
                _curve(axes, sorted(points, key=lambda row: row["length"]), key, name)
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
    """Plot the medians of one program, with bars from minimum to maximum."""
    program, _, backend = name.partition(", ")
    medians = [row[key]["median"] for row in rows]
    below = [row[key]["median"] - row[key]["least"] for row in rows]
    above = [row[key]["most"] - row[key]["median"] for row in rows]
    axes.errorbar(
        [row["length"] for row in rows],
        medians,
        yerr=[below, above],
        color=_LENGTH_COLOURS.get(backend, _LENGTH_COLOURS[""]),
        linestyle=_LINES.get(program, "-."),
        linewidth=2 if program == "bert_keras" else 1.4,
        marker="o",
        markersize=3.5,
        capsize=2,
        label=name,
    )


# === The plot of `step_profile`: a bar for each program, divided by kind of operation ===


_PART_COLOURS = ("#2b5c8a", "#c44e2b", "#e0a030", "#8a8a8a", "#5b8f4d", "#b9c7d6")


def profile_picture(
    summaries: Mapping[str, Mapping[str, Any]], kinds: Sequence[str], clock: str, path: Path
) -> None:
    """Plot the median milliseconds of a step by kind of operation, as a PNG file.

    Args:
        summaries: figures of a `contest.summary`, by program: milliseconds of each kind of
            operation, and of the whole step.
        kinds: kinds of operations, in the order of the parts of a bar.
        clock: key of the milliseconds of the whole step by the clock, drawn as a mark.
        path: path of the PNG file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.9 + 0.5 * len(summaries)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    left = [0.0] * len(summaries)
    for kind, colour in zip(kinds, _PART_COLOURS, strict=True):
        widths = [figures[kind]["median"] for figures in summaries.values()]
        axes.barh(list(summaries), widths, left=left, color=colour, label=kind, height=0.7)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    marks = [figures[clock]["median"] for figures in summaries.values()]
    axes.scatter(marks, list(summaries), marker="|", s=260, color="black", label=clock, zorder=3)
    axes.invert_yaxis()  # the first program is on top
    axes.set_xlabel("milliseconds of a step, all threads together")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


# === The plot of `benchmarks.inference --sweep`: speed by text length and by batch size ===
# python -m benchmarks.pictures inference.json FILE.png


_PANELS = (
    ("length", "tokens_per_second", "tokens of each of 32 texts", "useful tokens/s"),
    ("batch", "texts_per_second", "sentences of a batch", "texts/s"),
)


def picture(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot speed by text length and by batch size, as a PNG file.

    bert_keras has solid lines, the other libraries have dashed lines.

    Args:
        results: "results" of a report of `benchmarks.inference`: figures by case and program.
        path: path of the PNG file.

    Raises:
        ValueError: the report was measured without --sweep.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(_PANELS))
    for axes, (kind, key, x_label, y_label) in zip(panels, _PANELS, strict=True):
        _curves(axes, curves(results, kind, key))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def curves(
    results: Mapping[str, Mapping[str, Any]], kind: str, key: str
) -> dict[str, list[tuple[int, float]]]:
    """Return the points (size, median) of each program.

    Args:
        results: figures by case and program.
        kind: first word of the names of the cases, such as "length" in "length 8".
        key: name of the figure, such as "tokens_per_second".

    Raises:
        ValueError: there are no such cases.
    """
    by_program: dict[str, list[tuple[int, float]]] = {}
    for case, rows in results.items():
        name, _, size = case.partition(" ")
        if name == kind and size.isdecimal():
            for program, figures in rows.items():
                by_program.setdefault(program, []).append((int(size), figures[key]["median"]))
    if not by_program:
        raise ValueError(f"The figures hold no {kind}s: measure with --sweep.")
    return by_program


def _curves(axes: Axes, curves_by_program: Mapping[str, list[tuple[int, float]]]) -> None:
    from matplotlib import colormaps
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    colours = colormaps["tab20"]
    for number, (program, points) in enumerate(curves_by_program.items()):
        sizes, values = zip(*points, strict=True)
        line = "-" if program.startswith("bert_keras") else "--"
        axes.plot(sizes, values, line, color=colours(number % 20), marker="o", ms=3, label=program)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Plot the report of `benchmarks.inference` that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pictures", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("figures", type=Path, help="what --out of benchmarks.inference wrote")
    parser.add_argument("picture", type=Path, help="the PNG file")
    options = parser.parse_args()
    report = json.loads(options.figures.read_text(encoding="utf-8"))
    picture(report["results"], options.picture)


if __name__ == "__main__":
    main()
