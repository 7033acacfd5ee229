"""Matplotlib figures of attention, maps of texts, and scores of tokens."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras.escaping import printable
from bert_keras.visualize.picture import Palette, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of Okabe & Ito (2008), for people with any kind of colour vision. Marks tell labels apart
# if there are more labels than colours.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#7a8496")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_FAINTEST = 0.02  # a probability below this has no line
_MOST_TEXTS = 20  # more texts are not written beside their points
_MOST_LABELS = 24  # labels in a legend
_LEGEND_WIDTH = 105  # columns of text in a row of a legend
_MAP_WIDTH, _MAP_HEIGHT = 560.0, 390.0  # of the axes of a map, in typographic points
_SHOWN = 44  # characters of a text in a figure
_LINE_LENGTH = 84  # columns of tokens in a line
_COLUMN, _TITLE_COLUMN = 0.105, 0.075  # inches of a column in a line of tokens, and in a title


def attention_figure(
    labels: Sequence[str],
    shown: np.ndarray,
    attentions: np.ndarray,
    chosen: tuple[int, int | None],
    title: str,
    note: str,
    palette: Palette,
) -> Figure:
    """Draw lines between tokens on the left, and small pictures of all heads on the right.

    Args:
        labels: the tokens.
        shown: probabilities of the lines, [from, to].
        attentions: probabilities of all heads, [layers, heads, from, to]; NaN for a pruned head.
        chosen: layer and head of the lines; None for the mean of the heads.
        title: layer and head as text.
        note: a sentence below the title, or "".
        palette: the colours.
    """
    layers, heads, length, _ = attentions.shape
    tile = min(0.5, 5.2 / heads)
    height = max(0.235 * length + 0.9, tile * layers + 1.2, 3.0)
    figure = new_figure(4.8 + tile * heads, height, palette)
    lines, overview = figure.subplots(1, 2, width_ratios=(4.4, tile * heads + 0.4))
    _draw_lines(lines, labels, shown, palette)
    lines.set_title(f"{title}\n{note}" if note else title, fontsize=10, color=palette.ink)
    _draw_overview(overview, attentions, chosen, palette)
    return figure


def _draw_lines(axes: Any, labels: Sequence[str], shown: np.ndarray, palette: Palette) -> None:
    """Draw tokens in two columns, and a curve for each probability from `_FAINTEST`."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for place, label in enumerate(labels):
        text = _cut(label, 18)
        for x, side in ((-0.03, "right"), (1.03, "left")):
            style = {"ha": side, "va": "center", "color": palette.ink, "parse_math": False}
            axes.text(x, place, text, fontsize=9, **style)
    curve = (Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4)
    for (start, end), value in np.ndenumerate(shown):
        if value < _FAINTEST:
            continue
        path = Path([(0, start), (0.5, start), (0.5, end), (1, end)], curve)
        style = {
            "facecolor": "none",
            "edgecolor": palette.blue,
            "alpha": min(1.0, 0.9 * float(value)),
        }
        axes.add_patch(PathPatch(path, linewidth=0.6 + 2.4 * float(value), **style))
    if shown.max() < _FAINTEST:
        message = f"every probability\nis below {_FAINTEST}"
        axes.text(0.5, 1, message, ha="center", va="center", fontsize=8, color=palette.soft)
    axes.set_xlim(-0.75, 1.75)
    axes.set_ylim(len(labels) - 0.4, -1.3)
    for x, side, name in ((-0.03, "right", "from"), (1.03, "left", "to")):
        axes.text(x, -0.9, name, ha=side, va="center", fontsize=8, color=palette.soft)
    axes.set_axis_off()


def _draw_overview(
    axes: Any, attentions: np.ndarray, chosen: tuple[int, int | None], palette: Palette
) -> None:
    """Draw the matrix of every head in one image, with a frame around the chosen ones."""
    from matplotlib.patches import Rectangle

    layers, heads, length, _ = attentions.shape
    size = length + max(1, length // 8)  # with the gap between two heads
    image = np.full((layers * size, heads * size), np.nan)
    for layer, head in np.ndindex(layers, heads):
        top, left = layer * size, head * size
        image[top : top + length, left : left + length] = np.sqrt(attentions[layer, head])
    axes.set_facecolor("none")
    axes.imshow(image, cmap=palette.heat, vmin=0, vmax=1, interpolation="nearest")
    middle = (length - 1) / 2
    axes.set_xticks([head * size + middle for head in range(heads)], range(heads), fontsize=8)
    axes.set_yticks([layer * size + middle for layer in range(layers)], range(layers), fontsize=8)
    axes.tick_params(length=0, colors=palette.soft)
    axes.set_xlabel("head", fontsize=9, color=palette.soft)
    axes.set_ylabel("layer", fontsize=9, color=palette.soft)
    axes.spines[:].set_visible(False)
    axes.set_anchor("N")
    for layer, head in np.ndindex(layers, heads):
        is_chosen = layer == chosen[0] and chosen[1] in (None, head)
        corner = (head * size - 0.5, layer * size - 0.5)
        color, width = (palette.orange, 1.6) if is_chosen else (palette.line, 0.5)
        axes.add_patch(Rectangle(corner, length, length, fill=False, ec=color, lw=width))


def map_figure(
    texts: Sequence[str],
    labels: Sequence[str] | None,
    coordinates: np.ndarray,
    summary: str,
    palette: Palette,
) -> Figure:
    """Draw texts as points; a label has a colour and a mark.

    Args:
        texts: the texts, which are written beside their points if they are few.
        labels: a label for each text, or None.
        coordinates: places [texts, 2].
        summary: the line below the map.
        palette: the colours.
    """
    figure = new_figure(8, 6, palette)
    axes = figure.subplots()
    label_of_text = [""] * len(texts) if labels is None else labels
    names = list(dict.fromkeys(label_of_text))
    for number, name in enumerate(names):
        x, y = coordinates[[label == name for label in label_of_text]].T
        color, mark = style_of(number)
        style = {"color": color, "marker": mark, "alpha": 0.85, "edgecolors": palette.background}
        points = axes.scatter(x, y, s=38, linewidths=0.5, **style)
        points.set_label(_legend_name(name) if number < _MOST_LABELS else "_nolegend_")
    if labels is not None:
        _add_legend(figure, names, palette)
    if len(names) > _MOST_LABELS:
        summary = f"{summary}; the legend has {_MOST_LABELS} of {len(names):,} labels"
    places = _to_scale(axes, coordinates)
    if len(texts) <= _MOST_TEXTS:
        _write_texts(axes, coordinates, places, texts, palette)
    axes.set_facecolor("none")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(palette.line)
    axes.set_xlabel(summary, fontsize=9, color=palette.soft)
    return figure


def _add_legend(figure: Figure, names: Sequence[str], palette: Palette) -> None:
    """Add a legend of the labels, in as many columns as fit above the map."""
    widest = max(_width(_legend_name(name)) for name in names[:_MOST_LABELS])
    columns = max(1, min(5, _LEGEND_WIDTH // (widest + 7)))  # 7 for the mark and the gaps
    options = {"loc": "outside upper center", "frameon": False, "labelcolor": palette.ink}
    legend = figure.legend(ncols=columns, fontsize=9, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _to_scale(axes: Any, coordinates: np.ndarray) -> np.ndarray:
    """Give both axes one scale, so that distances in all directions can be compared.

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
    axes: Any,
    coordinates: np.ndarray,
    places: np.ndarray,
    texts: Sequence[str],
    palette: Palette,
) -> None:
    """Write texts beside their points, on a side that is free. A text without room is left out.

    Args:
        axes: axes of the map.
        coordinates: places of the texts in the map [texts, 2].
        places: places in the picture, in typographic points [texts, 2].
        texts: the texts.
        palette: the colours.
    """
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    options = {"textcoords": "offset points", "va": "center", "parse_math": False}
    for place, point, text in zip(places, coordinates, map(_cut, texts), strict=True):
        width = 4.6 * _width(text)
        # Offset of the text, its alignment, and where it begins.
        sides = [(6, 0, "left", 0.0), (-6, 0, "right", -width)]
        sides += [(0, 10, "center", -width / 2), (0, -10, "center", -width / 2)]
        for right, up, alignment, begin in sides:
            left, middle = place[0] + right + begin, place[1] + up
            box = (left, middle - 4.5, left + width, middle + 4.5)
            if _is_free(box, taken):
                style = {"ha": alignment, "fontsize": 8, "color": palette.ink, **options}
                axes.annotate(text, point, xytext=(right, up), **style)
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
    """Return the colour and the mark of label `number`; the first 64 labels differ."""
    round_, color = divmod(number, len(COLORS))
    return COLORS[color], MARKS[(color + round_) % len(MARKS)]


def signed_numbers(scores: np.ndarray) -> list[str]:
    """Return scores as text with signs, and three digits for the largest score."""
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
    palette: Palette,
) -> Figure:
    """Draw tokens in lines, with a colour and a signed score each.

    Args:
        labels: the tokens.
        scores: score of each token [tokens].
        shares: scores from -1 to 1 [tokens], which choose the strength of the colour.
        headline: the title.
        how: name of the method.
        note: a sentence below the title, or "".
        palette: the colours.
    """
    texts = [_cut(label) for label in labels]
    widths = [max(_width(text), 6) + 1.5 for text in texts]
    places = _places_in_lines(widths)
    titles = [_cut(headline, _LINE_LENGTH)]
    titles += [f"blue, +: for the label; orange, −: against it; {how}", *([note] if note else [])]
    length = max(left + width for (_, left), width in zip(places, widths, strict=True))
    size = max(_COLUMN * length, _TITLE_COLUMN * max(map(_width, titles)))
    num_lines = places[-1][0] + 1
    figure = new_figure(size, 0.62 * num_lines + 0.25 * (len(titles) + 1), palette)
    axes = figure.subplots()
    style = {"ha": "center", "va": "center", "parse_math": False, "color": palette.ink}
    drawn = zip(places, widths, texts, signed_numbers(scores), shares.tolist(), strict=True)
    for (line, left), width, text, number, share in drawn:
        color = palette.blue if share >= 0 else palette.orange
        axes.barh(line, width - 0.5, 0.52, left, color=color, alpha=0.62 * abs(share))
        middle = left + width / 2 - 0.25
        axes.text(middle, line, text, fontsize=9, **style)
        axes.text(middle, line + 0.4, number, fontsize=6.5, **style)
    axes.set_xlim(-0.5, size / _COLUMN)
    axes.set_ylim(num_lines - 0.3, -0.5)
    title = {"loc": "left", "parse_math": False, "color": palette.ink}
    axes.set_title("\n".join(titles), fontsize=10, **title)
    axes.set_axis_off()
    return figure


def _places_in_lines(widths: Sequence[float]) -> list[tuple[int, float]]:
    """Return the line and the first column of each token; a line has at most `_LINE_LENGTH`."""
    places: list[tuple[int, float]] = []
    line, column = 0, 0.0
    for width in widths:
        if column and column + width > _LINE_LENGTH:
            line, column = line + 1, 0.0
        places.append((line, column))
        column += width
    return places


def _width(text: str) -> int:
    """Return the columns of a text: a Chinese, Japanese or Korean character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _cut(text: str, most: int = _SHOWN) -> str:
    """Return the beginning of a text in one line, without control characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _legend_name(name: str) -> str:
    """Return a name for a legend. Matplotlib would leave out a name with an underscore first."""
    return f" {_cut(name)}" if name.startswith("_") else _cut(name)
