"""The picture of `benchmarks.inference --sweep`: speeds by length and by batch.

python -m benchmarks.inference_plot inference.json FILE.png
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = (
    ("length", "tokens_per_second", "tokens of each of 32 texts", "useful tokens/s"),
    ("batch", "texts_per_second", "sentences of a batch", "texts/s"),
)


def picture(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draws a report's sweep as a PNG: ours as full lines, peers as broken ones.

    Raises:
        ValueError: it was measured without --sweep.
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
    """The points of each program, (size, median), of the cases "length 8", "length 16" and so on.

    Raises:
        ValueError: there are no such cases.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for case, rows in results.items():
        name, _, size = case.partition(" ")
        if name == kind and size.isdecimal():
            for program, figures in rows.items():
                found.setdefault(program, []).append((int(size), figures[key]["median"]))
    if not found:
        raise ValueError(f"The figures hold no {kind}s: measure with --sweep.")
    return found


def _curves(axes: Axes, found: Mapping[str, list[tuple[int, float]]]) -> None:
    from matplotlib import colormaps
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    colours = colormaps["tab20"]
    for number, (program, points) in enumerate(found.items()):
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
    """Draws."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.inference_plot", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("figures", type=Path, help="what --out of benchmarks.inference wrote")
    parser.add_argument("picture", type=Path, help="the PNG file")
    options = parser.parse_args()
    told = json.loads(options.figures.read_text(encoding="utf-8"))
    picture(told["results"], options.picture)


if __name__ == "__main__":
    main()
