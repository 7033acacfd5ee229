"""Pictures of a run: its curves, confusion matrices, calibration, and lengths of its rows."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras import file_io
from bert_keras.features import PAIR_LOSSES
from bert_keras.metrics import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRAIN, _VALIDATION, _LINE = "#7f9fc4", "#c44e2b", "#555555"
# Losses that are trained beside masked tokens: their names in a picture.
_BESIDE = {"nsp": "next-sentence", "sop": "sentence-order", "rtd": "replaced-token"}


def loss_picture(
    metrics: Sequence[Mapping[str, float]],
    path: str | os.PathLike[str],
    entropy_floor: float | None = None,
) -> Path | None:
    """Draw the masked-token loss, and the accuracy of the loss beside it, as a PNG.

    Without a second loss, the lower panel shows the accuracy of the masked tokens.

    Args:
        metrics: records with "step" and, where measured, "mlm_loss", "nsp_accuracy", … and the
            same names with "val_" for validation documents.
        path: file of the PNG.
        entropy_floor: unigram entropy in nats, drawn as a line.

    Returns:
        The path; None without matplotlib, after a message on stderr.
    """
    try:
        from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

        figure, (above, below) = _figure(2, (9, 7), height_ratios=(3, 2))
    except ImportError:
        message = "No picture: matplotlib is not installed (pip install matplotlib)."
        print(message, file=sys.stderr)
        return None
    _curves(above, metrics, "mlm_loss" if _has(metrics, "mlm_loss") else "loss")
    if entropy_floor is not None:
        label = f"unigram entropy, {entropy_floor:.2f} nats"
        above.axhline(entropy_floor, color=_LINE, linestyle="--", linewidth=1.2, label=label)
    above.set_ylabel("masked-token loss (nats)")

    beside = next((name for name in _BESIDE if _has(metrics, f"{name}_accuracy")), "mlm")
    _curves(below, metrics, f"{beside}_accuracy")
    if beside in PAIR_LOSSES:
        below.axhline(0.5, color=_LINE, linestyle="--", linewidth=1.2, label="chance, 50 %")
    if beside == "rtd":
        steps, shares = _series(metrics, "rtd_share")
        if not steps:
            steps, shares = _series(metrics, "val_rtd_share")
        label = "finding no replaced token"
        below.plot(steps, [1 - share for share in shares], _LINE, ls="--", lw=1.2, label=label)
    below.set_ylabel(f"{_BESIDE.get(beside, 'masked-token')} accuracy")
    below.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    below.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    below.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    below.set_xlabel("step")
    figure.align_ylabels()

    for axes in (above, below):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _save(figure, path)
    return path


def _save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all: a full disk leaves no part of a file."""
    with file_io.new_file(path) as file:
        figure.savefig(file, format="png")


def _curves(axes: Axes, metrics: Sequence[Mapping[str, float]], name: str) -> None:
    """Draw a metric in training and on validation documents, with the last value in the legend."""
    steps, values = _series(metrics, name)
    if steps:
        marker = "o" if len(steps) == 1 else None  # one point makes no line
        axes.plot(steps, values, color=_TRAIN, linewidth=1.4, marker=marker, label="training")
    steps, values = _series(metrics, f"val_{name}")
    if steps:
        last = f"{100 * values[-1]:.1f} %" if "accuracy" in name else f"{values[-1]:.2f}"
        label = f"validation documents, last {last}"
        axes.plot(steps, values, color=_VALIDATION, linewidth=2, marker="o", ms=4, label=label)


def _has(metrics: Sequence[Mapping[str, float]], name: str) -> bool:
    """Return whether a value was logged in training or on validation documents."""
    return bool(_series(metrics, name)[0] or _series(metrics, f"val_{name}")[0])


def _series(metrics: Sequence[Mapping[str, float]], name: str) -> tuple[list[float], list[float]]:
    """Return the steps and the values of the records that have the metric."""
    records = [record for record in metrics if record.get(name) is not None]
    return [record["step"] for record in records], [record[name] for record in records]


# === Pictures of fine-tuning ===


_MOST_COLORS = 10  # number of colours in the palette "tab10"
_MOST_BARS = 60  # of a histogram
_MOST_NAMES = 30  # number of labels whose names fit beside a matrix
_MEAN = "mean and standard deviation; small points: seeds"
_MOST_CHARACTERS = 80  # of the values below an axis, in one line


def curve_picture(
    curves: Mapping[int, Sequence[tuple[int, float, float]]], metric: str, path: Path
) -> None:
    """Draw the validation metric above and the training loss below, with a colour for each seed.

    Args:
        curves: by seed: step, loss and metric of every logging interval.
        metric: its name.
        path: file of the PNG.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure(2)
    above, below = axes
    for (seed, points), color in zip(curves.items(), _colors(len(curves)), strict=True):
        steps, losses, scores = zip(*points, strict=True)
        style = {"marker": "o", "color": color, "label": f"seed {seed}"}
        above.plot(steps, scores, ms=4, linewidth=1.6, **style)
        below.plot(steps, losses, ms=3, linewidth=1.2, **style)
    above.set_ylabel(f"validation {metric}", parse_math=False)
    below.set_ylabel("training loss")
    below.set_xlabel("step")
    below.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    handles, names = above.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False)
    for panel in axes:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def grid_picture(
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    axis: str,
    metric: str,
    best: tuple[str, str],
    path: Path,
) -> None:
    """Draw a metric by tried value: a point for each seed, and the mean with standard deviation.

    A line joins the means of three numbers or more.

    Args:
        scores: by series, and then by value: the metric of each seed. The name of a series has
            the values of all keys but the one on the horizontal axis; it may be empty.
        axis: key of the values.
        metric: its name.
        best: series and value of the best mean.
        path: file of the PNG.
    """
    values = list(dict.fromkeys(value for of_series in scores.values() for value in of_series))
    is_curve = False  # texts are in the order of the command line
    with contextlib.suppress(ValueError):
        values.sort(key=float)
        is_curve = len(values) > 2
    figure, panel = _figure(1)
    width = min(0.12, 0.6 / len(scores))
    colors = _colors(len(scores))
    for number, ((name, of_series), color) in enumerate(zip(scores.items(), colors, strict=True)):
        offset = (number - (len(scores) - 1) / 2) * width
        known = [value for value in values if of_series.get(value)]
        places = [values.index(value) + offset for value in known]
        for place, value in zip(places, known, strict=True):
            seeds = of_series[value]
            # Open points, one beside the other: equal scores stay visible.
            beside = place + width * np.linspace(0.4, 0.8, len(seeds))
            panel.plot(beside, seeds, "o", color=color, ms=5, mfc="none")
        means = [float(np.mean(of_series[value])) for value in known]
        spread = [np.std(x, ddof=1) if len(x := of_series[value]) > 1 else 0.0 for value in known]
        style: dict[str, Any] = {"color": color, "capsize": 4, "linewidth": 1.6}
        panel.errorbar(
            places, means, spread, fmt="o-" if is_curve else "o", ms=7, label=name or _MEAN, **style
        )
        if name == best[0] and best[1] in known:
            point = known.index(best[1])
            ring: dict[str, Any] = {"ms": 15, "mfc": "none", "mec": _VALIDATION, "mew": 2}
            panel.plot(places[point], means[point], "o", label="best mean", **ring)
    panel.set_xticks(range(len(values)), values, parse_math=False)
    if max(map(len, values)) * len(values) > _MOST_CHARACTERS:
        panel.tick_params("x", rotation=30)
    panel.set_xlim(-0.6, len(values) - 0.4)
    panel.set_xlabel(axis, parse_math=False)
    panel.set_ylabel(f"validation {metric}", parse_math=False)
    handles, names = panel.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def confusion_picture(names: Sequence[str], counts: np.ndarray, path: Path) -> None:
    """Draw a confusion matrix as a PNG.

    Args:
        names: names of the labels.
        counts: number of examples, [true label, predicted label].
        path: file of the PNG.
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
    axes.set_xlabel("predicted label")
    axes.set_ylabel("true label")
    _save(figure, path)


def reliability_picture(calibration: Calibration, path: Path) -> None:
    """Draw the accuracy of predictions by their probability, and the number of predictions.

    Args:
        calibration: the bins, of `metrics.calibration`.
        path: file of the PNG.
    """
    figure, axes = _figure(2, height_ratios=(3, 1))
    above, below = axes
    count = len(calibration.counts)
    centres, width = (np.arange(count) + 0.5) / count, 0.92 / count
    style = {"color": _LINE, "linestyle": "--", "linewidth": 1.2}
    above.plot([0, 1], [0, 1], label="perfect calibration", **style)
    above.bar(centres, calibration.accuracy, width, color=_TRAIN, label="accuracy in the bin")
    known = calibration.counts > 0
    points = calibration.confidence[known], calibration.accuracy[known]
    above.plot(*points, "o", color=_VALIDATION, ms=5, label="mean probability in the bin")
    above.set_ylabel("accuracy")
    above.set_ylim(0, 1.02)
    below.bar(centres, calibration.counts, width, color=_TRAIN)
    below.set_ylabel("predictions")
    below.set_xlabel("probability of the prediction")
    below.set_xlim(0, 1)
    figure.suptitle(f"expected calibration error {calibration.error:.3f}", fontsize=11)
    above.legend(frameon=False, loc="upper left")
    for panel in axes:
        panel.grid(alpha=0.25)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def reliability_lines(calibration: Calibration, name: str) -> list[str]:
    """Return the lines of a report on the reliability diagram in the file `name`."""
    error, count = f"{calibration.error:.4f}", int(calibration.counts.sum())
    return [
        *("", "## Reliability", ""),
        f"Expected calibration error: **{error}** of {count:,} predictions in "
        f"{len(calibration.counts)} bins (Guo et al., 2017). It is the mean difference between "
        "the probability of a prediction and the accuracy. 0 is perfect calibration.",
        "",
        f"![Reliability diagram: the expected calibration error is {error}]({name})",
    ]


def length_picture(lengths: np.ndarray, limit: int, path: Path) -> None:
    """Draw a histogram of rows by their number of tokens, with a line at the maximum length.

    Args:
        lengths: number of tokens of each row, int [rows].
        limit: maximum number of tokens; a longer row is cut off.
        path: file of the PNG.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure(1)
    most = max(2 * limit, int(np.percentile(lengths, 99)))
    is_open = bool((lengths > most).any())
    shown = np.minimum(lengths, most)
    step = max(1, -(-int(shown.max()) // _MOST_BARS))
    # The line at the limit is between two bars.
    edges = np.arange((limit + 1) % step - step, int(shown.max()) + step + 1, step) - 0.5
    axes.hist(shown, edges, color=_TRAIN, edgecolor="white", linewidth=0.4)
    longer = float(np.mean(lengths > limit))
    label = f"max_length={limit}: {longer:.1%} of the rows are longer"
    axes.axvline(limit + 0.5, color=_VALIDATION, linestyle="--", linewidth=1.6, label=label)
    last = f"; the last bar: {int(edges[-2] + 0.5):,} or more" if is_open else ""
    axes.set_xlabel(f"tokens in a row, with special tokens{last}")
    axes.set_ylabel("rows")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25, axis="y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    _save(figure, path)


def length_lines(lengths: np.ndarray, limit: int, name: str) -> list[str]:
    """Return the lines of a report on the histogram in the file `name`; see `length_picture`."""
    longer = int((lengths > limit).sum())
    share = f"{longer:,} of {len(lengths):,} training rows ({longer / len(lengths):.1%})"
    return [
        *("", "## Lengths", ""),
        f"{share} have more tokens than max_length={limit}. The median is "
        f"{int(np.median(lengths)):,} tokens, the largest number {int(lengths.max()):,}.",
        "",
        f"![Histogram of the training rows by tokens: {share} exceed {limit}]({name})",
    ]


def _colors(count: int) -> list[Any]:
    """Return `count` different colours of Matplotlib."""
    from matplotlib import colormaps

    if count <= _MOST_COLORS:
        return list(colormaps["tab10"].colors[:count])  # pyright: ignore[reportAttributeAccessIssue]
    return [colormaps["turbo"](share) for share in np.linspace(0.05, 0.95, count)]


def _figure(panels: int, size: tuple[int, int] = (8, 6), **options: Any) -> tuple[Any, Any]:
    """Return a Matplotlib figure of a size in inches, and its axes, one panel above the other.

    `options` are those of `Figure.subplots`.
    """
    # Not pyplot, which would choose a backend for the whole process and keep the figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(panels, sharex=panels > 1, **options)
