"""Figures of Matplotlib: colours and marks, numbers with signs, texts that do not overlap."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.visualize import figures
from bert_keras.visualize.figures import COLORS, MARKS, signed_numbers, style_of
from bert_keras.visualize.picture import PALETTES, drawing

LIGHT = PALETTES["light"]


def test_numbers_have_signs_and_equal_decimals() -> None:
    assert signed_numbers(np.array([0.5, -0.25, 0.0])) == ["+0.500", "−0.250", "0.000"]
    assert signed_numbers(np.array([123.4, -1e-9])) == ["+123", "0"]
    assert signed_numbers(np.array([2e-5, -1e-5])) == ["+0.0000200", "−0.0000100"]
    assert signed_numbers(np.zeros(2)) == ["0", "0"]
    assert signed_numbers(np.zeros(0)) == []


def test_every_label_has_a_style_of_its_own() -> None:
    styles = [style_of(number) for number in range(len(COLORS) * len(MARKS))]
    assert len(set(styles)) == len(styles)
    assert len({color for color, _ in styles[: len(COLORS)]}) == len(COLORS)


def _texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_map_writes_few_texts_where_there_is_room() -> None:
    places = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    assert _texts(figures.map_figure(["a", "b", "c"], None, places, "", LIGHT)) == ["a", "b", "c"]
    crowded = figures.map_figure(["word " * 6] * 12, None, np.zeros((12, 2)), "", LIGHT)
    assert 1 <= len(_texts(crowded)) < 12
    many = figures.map_figure(["a"] * 40, None, np.zeros((40, 2)), "", LIGHT)
    assert _texts(many) == []


def test_a_map_has_one_scale() -> None:
    figure = figures.map_figure(
        ["a", "b"], ["x", "y"], np.array([[0.0, 0.0], [9.0, 1.0]]), "", LIGHT
    )
    (axes,) = figure.axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert left < 0
    assert right > 9
    assert (right - left) / (top - bottom) == pytest.approx(560 / 390)


def test_attention_draws_each_probability_above_the_faintest() -> None:
    attentions = np.zeros((1, 2, 3, 3), np.float32)
    attentions[0, :, :, 0] = 0.99
    attentions[0, :, :, 1] = 0.01
    figure = figures.attention_figure(
        ["a", "b", "c"], attentions[0, 0], attentions, (0, None), "layer 0", "cut", LIGHT
    )
    lines, overview = figure.axes
    assert len(lines.patches) == 3
    assert len(overview.patches) == 2
    assert lines.get_title() == "layer 0\ncut"


def test_attention_without_lines_says_so() -> None:
    attentions = np.full((1, 1, 60, 60), 1 / 60, np.float32)
    figure = figures.attention_figure(
        ["a"] * 60, attentions[0, 0], attentions, (0, 0), "layer 0, head 0", "", LIGHT
    )
    assert not figure.axes[0].patches
    assert "every probability\nis below 0.02" in _texts(figure)


def _is_inside(figure, artist) -> bool:
    """Return whether an artist lies in its figure, with a tolerance of two pixels."""
    figure.draw_without_rendering()
    box, page = artist.get_window_extent(), figure.bbox
    return box.x0 >= page.x0 - 2 and box.x1 <= page.x1 + 2


def test_the_title_of_a_short_text_is_whole() -> None:
    scores = np.zeros(3)
    title = "a label with a name that is rather long: 91.2%"
    how = "integrated gradients from [MASK]"
    figure = figures.saliency_figure(["a"] * 3, scores, scores, title, how, "note", LIGHT)
    (axes,) = figure.axes
    assert axes.get_title(loc="left").startswith(title)
    assert _is_inside(figure, axes._left_title)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "name",
    ["x", "a label with a long name for category ", "長い名前" * 9],
    ids=["short", "long", "wide"],
)
def test_the_legend_is_whole(name: str) -> None:
    labels = [f"{n % 30} {name}" for n in range(60)]
    figure = figures.map_figure(["a"] * 60, labels, np.eye(60)[:, :2], "60 texts", LIGHT)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 24
    with drawing():
        assert _is_inside(figure, legend)
    assert figure.axes[0].get_xlabel() == "60 texts; the legend has 24 of 30 labels"


def test_saliency_breaks_lines() -> None:
    scores = np.linspace(-1, 1, 60)
    figure = figures.saliency_figure(["token"] * 60, scores, scores, "good: 50 %", "how", "", LIGHT)
    (axes,) = figure.axes
    rows = {round(patch.get_y(), 3) for patch in axes.patches}  # pyright: ignore[reportAttributeAccessIssue]
    assert len(rows) > 3
    assert len(axes.texts) == 120
