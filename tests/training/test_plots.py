"""Plots of a run."""

from __future__ import annotations

import errno
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bert_keras.metrics import calibration
from bert_keras.training.plots import (
    confusion_picture,
    curve_picture,
    grid_picture,
    length_picture,
    loss_picture,
    reliability_picture,
)

_METRICS = [
    {"step": 50, "loss": 9.0, "mlm_loss": 8.3, "nsp_accuracy": 0.5, "mlm_accuracy": 0.1},
    {"step": 100, "loss": 8.0, "mlm_loss": 7.3, "nsp_accuracy": 0.55, "mlm_accuracy": 0.12}
    | {"val_mlm_loss": 7.5, "val_nsp_accuracy": 0.56},
    {"step": 150, "loss": 7.0, "mlm_loss": 6.3, "nsp_accuracy": 0.6, "mlm_accuracy": 0.14},
]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list:
    """Return the list of figures that are saved."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    saved = []
    save = figure.savefig

    def record(self, *args, **kwargs):
        saved.append(self)
        return save(self, *args, **kwargs)

    monkeypatch.setattr(figure, "savefig", record)
    return saved


def _curves(axes) -> dict[str, list]:
    return {
        line.get_label(): [list(map(float, xy)) for xy in line.get_data()] for line in axes.lines
    }


def test_the_curves_of_a_run(tmp_path: Path, figures: list) -> None:
    path = loss_picture(_METRICS, tmp_path / "new" / "loss.png", entropy_floor=7.284)

    assert path == tmp_path / "new" / "loss.png"
    assert (tmp_path / "new" / "loss.png").read_bytes().startswith(b"\x89PNG")
    above, below = figures[0].axes
    assert _curves(above) == {
        "training": [[50, 100, 150], [8.3, 7.3, 6.3]],
        "validation documents, last 7.50": [[100], [7.5]],
        "unigram entropy, 7.28 nats": [[0, 1], [7.284, 7.284]],
    }
    assert _curves(below) == {
        "training": [[50, 100, 150], [0.5, 0.55, 0.6]],
        "validation documents, last 56.0 %": [[100], [0.56]],
        "chance, 50 %": [[0, 1], [0.5, 0.5]],
    }
    assert (above.get_ylabel(), below.get_ylabel(), below.get_xlabel()) == (
        "masked-token loss (nats)",
        "next-sentence accuracy",
        "step",
    )


def test_without_pairs_the_second_panel_is_the_mlm_accuracy(tmp_path: Path, figures: list) -> None:
    metrics = [{"step": 1, "loss": 3.0, "mlm_accuracy": 0.25}]
    loss_picture(metrics, tmp_path / "loss.png")

    above, below = figures[0].axes
    assert _curves(above) == {"training": [[1], [3.0]]}
    assert _curves(below) == {"training": [[1], [0.25]]}
    assert below.get_ylabel() == "masked-token accuracy"


def test_replaced_tokens(tmp_path: Path, figures: list) -> None:
    metrics = [
        {"step": step, "mlm_loss": 3.0, "rtd_accuracy": 0.9, "rtd_share": 0.125} for step in (1, 2)
    ]
    loss_picture(metrics, tmp_path / "loss.png")
    below = figures[0].axes[1]
    assert below.get_ylabel() == "replaced-token accuracy"
    assert _curves(below) == {
        "training": [[1, 2], [0.9, 0.9]],
        "finding no replaced token": [[1, 2], [0.875, 0.875]],
    }


def test_sentence_order_and_missing_values(tmp_path: Path, figures: list) -> None:
    loss_picture([{"step": 1, "mlm_loss": None, "sop_accuracy": 0.5}], tmp_path / "a.png")  # pyright: ignore[reportArgumentType]
    loss_picture([], tmp_path / "b.png")

    assert figures[0].axes[1].get_ylabel() == "sentence-order accuracy"
    assert list(figures[0].axes[0].lines) == []
    assert (tmp_path / "b.png").stat().st_size > 0


def test_without_matplotlib_a_message_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)

    assert loss_picture(_METRICS, tmp_path / "loss.png") is None
    assert "matplotlib is not installed (pip install matplotlib)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# === Plots have the expected size, even with undefined values


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
    assert above.get_ylabel() == "validation accuracy"
    assert _size(tmp_path / "curve.png") == (960, 720)


@pytest.mark.parametrize("count", [2, 40])
def test_confusion_of_few_and_of_many_labels(count: int, tmp_path: Path) -> None:
    counts = np.eye(count, dtype=int)
    counts[0] = 0  # a label without examples
    names = ["$", "$$", *(f"$label_{i}$ %" for i in range(count - 2))]
    confusion_picture(names, counts, tmp_path / "c.png")
    assert _size(tmp_path / "c.png") == (960, 720)


def test_a_reliability_diagram_shows_every_bin(tmp_path: Path, figures: list) -> None:
    reliability_picture(calibration([0.95, 0.95, 0.55], [1, 0, 1]), tmp_path / "r.png")
    above, below = figures[0].axes
    heights = [patch.get_height() for patch in above.patches]
    assert [heights[5], heights[9]] == [1.0, 0.5]
    assert [patch.get_height() for patch in below.patches] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    points = next(line for line in above.lines if line.get_marker() == "o")
    np.testing.assert_allclose(points.get_data(), [[0.55, 0.95], [1.0, 0.5]])
    assert figures[0].get_suptitle() == "expected calibration error 0.450"
    assert _size(tmp_path / "r.png") == (960, 720)


def test_lengths_beside_their_limit(tmp_path: Path, figures: list) -> None:
    length_picture(np.array([3, 3, 5, 9]), 5, tmp_path / "l.png")
    length_picture(np.array([*range(1, 300), 5_000]), 16, tmp_path / "m.png")
    axes, other = (figure.axes[0] for figure in figures)
    bars = {round(bar.get_x() + 0.5): bar.get_height() for bar in axes.patches if bar.get_height()}
    assert bars == {3: 2, 5: 1, 9: 1}
    assert [line.get_label() for line in axes.lines] == [
        "max_length=5: 25.0% of the rows are longer"
    ]
    assert axes.lines[0].get_xdata()[0] == 5.5
    assert sum(bar.get_height() for bar in other.patches) == 300
    assert len(other.patches) <= 62
    limits = [round(bar.get_x(), 6) for bar in other.patches]
    assert other.lines[0].get_xdata()[0] in limits
    assert "; the last bar: " in other.get_xlabel()
    assert "last bar" not in axes.get_xlabel()


def test_a_grid_shows_seeds_means_and_spread(tmp_path: Path, figures: list) -> None:
    scores = {
        "batch_size=16": {"5e-05": [0.6], "1e-05": [0.2, 0.4]},
        "batch_size=32": {"1e-05": []},
    }
    best = ("batch_size=16", "5e-05")
    grid_picture(scores, "learning_rate", "f1", best, tmp_path / "g.png")
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1e-05", "5e-05"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("learning_rate", "validation f1")
    seeds, _, *_ = axes.lines
    assert seeds.get_ydata().tolist() == [0.2, 0.4]
    means = axes.containers[0].lines[0]
    np.testing.assert_allclose(means.get_ydata().astype(float), [0.3, 0.6])
    (bars,) = axes.containers[0].lines[2]
    np.testing.assert_allclose(
        np.diff(bars.get_segments()[0][:, 1]), 2 * np.std([0.2, 0.4], ddof=1)
    )
    ring = next(line for line in axes.lines if line.get_label() == "best mean")
    assert ring.get_ydata() == [0.6]
    names = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert set(names) == {"best mean", "batch_size=16", "batch_size=32"}
    places = [line.get_xdata() for line in axes.lines[:1]]
    assert len(set(places[0].tolist())) == 2  # seeds with equal scores are beside each other
    assert axes.containers[0].lines[0].get_linestyle() == "None"  # two values are no curve
    grid_picture({"": {"b": [0.1], "a": [0.2]}}, "encoder", "f1", ("", "a"), tmp_path / "h.png")
    assert [x.get_text() for x in figures[1].axes[0].get_xticklabels()] == ["b", "a"]
    for labels, style in (("123", "-"), ("abc", "None")):
        best = ("", labels[0])
        grid_picture({"": {label: [0.1] for label in labels}}, "x", "f1", best, tmp_path / "i.png")
        assert figures[-1].axes[0].containers[0].lines[0].get_linestyle() == style


_PICTURES: dict[str, Callable[[Path], object]] = {
    "loss": lambda path: loss_picture(_METRICS, path),
    "curve": lambda path: curve_picture({0: [(1, 1.0, 0.5)]}, "f1", path),
    "grid": lambda path: grid_picture({"": {"1": [0.5]}}, "epochs", "f1", ("", "1"), path),
    "confusion": lambda path: confusion_picture(["a", "b"], np.eye(2, dtype=int), path),
    "reliability": lambda path: reliability_picture(calibration([0.5], [True]), path),
    "lengths": lambda path: length_picture(np.array([3]), 8, path),
}


@pytest.mark.parametrize("name", _PICTURES)
def test_a_full_disk_leaves_no_part_of_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "picture.png"
    _PICTURES[name](path)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG")

    def full(_: Figure, file: Any, **__: Any) -> None:
        file.write(b"\x89PNG, and no more")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="No space") as caught:
        _PICTURES[name](path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
