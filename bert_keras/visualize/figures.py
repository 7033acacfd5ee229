"""Figures of Matplotlib: attention, maps of texts, and scores of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras.escaping import printable
from bert_keras.visualize.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of Okabe & Ito (2008), which people with any kind of colour vision can tell apart; and
# marks, so that more labels than colours differ too.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#5b6475")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
FOR, AGAINST, BLUE = "#1668b8", "#d36f0c", "#1668b8"
_INK, _SOFT, _LINE = "#1d2330", "#5b6475", "#d5dae3"
_FAINTEST = 0.02  # a probability below this has no line
_MOST_NAMES = 20  # texts that are written beside their points
_MOST_LABELS = 24  # labels in a legend
_MAP_WIDTH, _MAP_HEIGHT = 560.0, 390.0  # of the axes of a map, in typographic points
_SHOWN = 44  # characters of a text in a figure
_LINE_LENGTH = 84  # characters of tokens in a line


def attention_figure(
    labels: Sequence[str],
    shown: np.ndarray,
    attentions: np.ndarray,
    chosen: tuple[int, int | None],
    title: str,
    note: str,
) -> Figure:
    """Draw lines between tokens on the left, and small pictures of all heads on the right.

    Args:
        labels: the tokens.
        shown: probabilities of the lines, [from, to].
        attentions: probabilities of all heads, [layers, heads, from, to]; NaN for a pruned head.
        chosen: layer and head of the lines; None for the mean of the heads.
        title: layer and head as text.
        note: a sentence below the title, or "".
    """
    layers, heads, length, _ = attentions.shape
    tile = min(0.5, 5.2 / heads)
    height = max(0.235 * length + 0.9, tile * layers + 1.2, 3.0)
    figure = new_figure(4.8 + tile * heads, height)
    lines, overview = figure.subplots(1, 2, width_ratios=(4.4, tile * heads + 0.4))
    _draw_lines(lines, labels, shown)
    lines.set_title(f"{title}\n{note}" if note else title, fontsize=10, color=_INK)
    _draw_overview(overview, attentions, chosen)
    return figure


def _draw_lines(axes: Any, labels: Sequence[str], shown: np.ndarray) -> None:
    """Draw tokens in two columns, and a curve for each probability above the faintest."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for place, label in enumerate(labels):
        text = _cut(label, 18)
        for x, side in ((-0.03, "right"), (1.03, "left")):
            axes.text(
                *(x, place, text), ha=side, va="center", fontsize=9, color=_INK, parse_math=False
            )
    curve = (Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4)
    for (start, end), value in np.ndenumerate(shown):
        if value < _FAINTEST:
            continue
        path = Path([(0, start), (0.5, start), (0.5, end), (1, end)], curve)
        style = {"facecolor": "none", "edgecolor": BLUE, "alpha": min(1.0, 0.9 * float(value))}
        axes.add_patch(PathPatch(path, linewidth=0.6 + 2.4 * float(value), **style))
    axes.set_xlim(-0.75, 1.75)
    axes.set_ylim(len(labels) - 0.4, -1.3)
    for x, side, name in ((-0.03, "right", "from"), (1.03, "left", "to")):
        axes.text(x, -0.9, name, ha=side, va="center", fontsize=8, color=_SOFT)
    axes.set_axis_off()


def _draw_overview(axes: Any, attentions: np.ndarray, chosen: tuple[int, int | None]) -> None:
    """Draw the matrix of every head in one image, with a frame around the chosen ones."""
    from matplotlib.patches import Rectangle

    layers, heads, length, _ = attentions.shape
    size = length + max(1, length // 8)  # with the gap between two heads
    image = np.full((layers * size, heads * size), np.nan)
    for (layer, head), _ in np.ndenumerate(attentions[:, :, 0, 0]):
        top, left = layer * size, head * size
        image[top : top + length, left : left + length] = np.sqrt(attentions[layer, head])
    axes.imshow(image, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    middle = (length - 1) / 2
    axes.set_xticks([head * size + middle for head in range(heads)], range(heads), fontsize=8)
    axes.set_yticks([layer * size + middle for layer in range(layers)], range(layers), fontsize=8)
    axes.tick_params(length=0, colors=_SOFT)
    axes.set_xlabel("head", fontsize=9, color=_SOFT)
    axes.set_ylabel("layer", fontsize=9, color=_SOFT)
    axes.spines[:].set_visible(False)
    axes.set_anchor("N")
    for layer in range(layers):
        for head in range(heads):
            is_chosen = layer == chosen[0] and chosen[1] in (None, head)
            place = (head * size - 0.5, layer * size - 0.5)
            color, width = (AGAINST, 1.6) if is_chosen else (_LINE, 0.5)
            axes.add_patch(Rectangle(place, length, length, fill=False, ec=color, lw=width))


def map_figure(
    texts: Sequence[str], labels: Sequence[str] | None, coordinates: np.ndarray, summary: str
) -> Figure:
    """Draw texts as points; a label has a colour and a mark.

    Args:
        texts: the texts, which are written beside their points if they are few.
        labels: a label for each text, or None.
        coordinates: places [texts, 2].
        summary: the line below the map.
    """
    figure = new_figure(8, 6)
    axes = figure.subplots()
    names = list(dict.fromkeys(labels or ("",)))
    for number, name in enumerate(names):
        of_name = [labels is None or label == name for label in labels or [""] * len(texts)]
        x, y = coordinates[np.array(of_name)].T
        color, mark = style_of(number)
        drawn = axes.scatter(
            *(x, y), s=38, color=color, marker=mark, alpha=0.85, linewidths=0.5, edgecolors="white"
        )
        drawn.set_label(_escaped(name) if number < _MOST_LABELS else "_nolegend_")
    if labels is not None:
        legend = figure.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=9)
        for text in legend.get_texts():
            text.set_parse_math(False)
    points = _to_scale(axes, coordinates)
    if len(texts) <= _MOST_NAMES:
        _write_texts(axes, coordinates, points, texts)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(_LINE)
    axes.set_xlabel(summary, fontsize=9, color=_SOFT)
    return figure


def _to_scale(axes: Any, coordinates: np.ndarray) -> np.ndarray:
    """Give both axes one scale, so that distances in all directions compare.

    Returns:
        The places in the picture, in typographic points: [texts, 2].
    """
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    room = np.array([_MAP_WIDTH, _MAP_HEIGHT])
    scale = (room * (0.62, 0.9) / np.maximum(high - low, 1e-9)).min()
    begin = (low + high) / 2 - room / scale / 2
    axes.set_xlim(begin[0], begin[0] + room[0] / scale)
    axes.set_ylim(begin[1], begin[1] + room[1] / scale)
    return (coordinates - begin) * scale


def _write_texts(
    axes: Any, coordinates: np.ndarray, points: np.ndarray, texts: Sequence[str]
) -> None:
    """Write texts beside their points, on a side that is free. A text without room is left out.

    Args:
        axes: axes of the map.
        coordinates: places of the texts in the map [texts, 2].
        points: places in the picture, in typographic points [texts, 2].
        texts: the texts.
    """
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    for place, text in enumerate([_cut(text) for text in texts]):
        width = 4.6 * len(text)
        # Offset of the text, its alignment, and where it begins.
        sides = [(6, 0, "left", 0.0), (-6, 0, "right", -width)]
        sides += [(0, 10, "center", -width / 2), (0, -10, "center", -width / 2)]
        for right, up, alignment, begin in sides:
            left, middle = points[place] + (right + begin, up)
            box = (left, middle - 4.5, left + width, middle + 4.5)
            if _is_free(box, taken):
                axes.annotate(
                    *(text, coordinates[place]),
                    xytext=(right, up),
                    ha=alignment,
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                    color=_INK,
                    parse_math=False,
                )
                taken.append(box)
                break


def _is_free(box: Sequence[float], taken: Sequence[Sequence[float]]) -> bool:
    """Return whether a box (left, bottom, right, top) lies in the map and overlaps no other."""
    inside = box[0] > 0 and box[1] > 0 and box[2] < _MAP_WIDTH and box[3] < _MAP_HEIGHT
    return inside and not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
        for other in taken
    )


def style_of(number: int) -> tuple[str, str]:
    """Return the colour and the mark of a label: each pair is used once, until all are used."""
    round_, color = divmod(number, len(COLORS))
    return COLORS[color], MARKS[(color + round_) % len(MARKS)]


def signed_numbers(scores: np.ndarray) -> list[str]:
    """Return scores as text with signs, with as many decimals as the largest score needs."""
    largest = float(np.abs(scores).max(initial=0.0))
    decimals = min(9, max(0, 2 - math.floor(math.log10(largest)))) if largest > 0 else 0
    texts = []
    for score in scores.tolist():
        text = f"{abs(score):.{decimals}f}"
        sign = "" if not float(text) else "+" if score > 0 else "−"
        texts.append(sign + text)
    return texts


def saliency_figure(
    labels: Sequence[str],
    scores: np.ndarray,
    shares: np.ndarray,
    headline: str,
    how: str,
    note: str,
) -> Figure:
    """Draw tokens in lines, with a colour and a signed score each.

    Args:
        labels: the tokens.
        scores: score of each token [tokens].
        shares: scores from -1 to 1 [tokens], which choose the strength of the colour.
        headline: the title.
        how: name of the method.
        note: a sentence below the title, or "".
    """
    widths = [max(len(_cut(label)), 6) + 1.5 for label in labels]
    lines: list[list[tuple[int, float]]] = [[]]
    column = 0.0
    for place, width in enumerate(widths):
        if column and column + width > _LINE_LENGTH:
            lines.append([])
            column = 0.0
        lines[-1].append((place, column))
        column += width
    length = max(at + widths[place] for line in lines for place, at in line)
    figure = new_figure(max(4.0, 0.105 * length), 0.62 * len(lines) + (1.0 if note else 0.75))
    axes = figure.subplots()
    numbers = signed_numbers(scores)
    for row, line in enumerate(lines):
        for place, at in line:
            share = float(shares[place])
            color = FOR if share >= 0 else AGAINST
            axes.barh(row, widths[place] - 0.5, 0.52, at, color=color, alpha=0.62 * abs(share))
            style = {"ha": "center", "va": "center", "parse_math": False, "color": _INK}
            x = at + widths[place] / 2 - 0.25
            axes.text(x, row, _cut(labels[place]), fontsize=9, **style)
            axes.text(x, row + 0.4, numbers[place], fontsize=6.5, **style)
    axes.set_xlim(-0.5, max(length, 4.0 / 0.105))
    axes.set_ylim(len(lines) - 0.3, -0.5)
    key = f"blue, +: for the label; orange, −: against it; {how}"
    axes.set_title(
        f"{headline}\n{key}" + (f"\n{note}" if note else ""),
        fontsize=10,
        loc="left",
        parse_math=False,
    )
    axes.set_axis_off()
    return figure


def _cut(text: str, most: int = _SHOWN) -> str:
    """Return the beginning of a text in one line, as Matplotlib can draw it."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _escaped(name: str) -> str:
    """Return a name for a legend, which leaves out names that begin with an underscore."""
    return f" {_cut(name)}" if name.startswith("_") else _cut(name)
