"""Base of all pictures: one HTML document, and the same content as PNG or SVG."""

from __future__ import annotations

import abc
import dataclasses
import html
import importlib.resources
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bert_keras import file_io
from bert_keras.errors import UsageError
from bert_keras.escaping import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".html", ".png", ".svg")
ThemeName = Literal["light", "dark"]


@dataclasses.dataclass(frozen=True)
class Palette:
    """Colours of a figure. `heat` is the name of a Matplotlib colormap, from 0 to 1."""

    background: str
    ink: str
    soft: str
    line: str
    blue: str
    orange: str
    heat: str


# The colours of assets/common.css and assets/saliency.css.
PALETTES = {
    "light": Palette("#ffffff", "#1d2330", "#5b6475", "#d5dae3", "#1668b8", "#d36f0c", "Blues"),
    "dark": Palette("#14171d", "#e6e9ef", "#a3acbb", "#343b47", "#408cd8", "#de7a20", "Blues_r"),
}

# The browser refuses every request of the document, even if a text in it were read as HTML.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


class Picture(abc.ABC):
    """A picture that a notebook shows, and that `save` writes as HTML, PNG or SVG.

    Attributes:
        height: height of the picture in a notebook, in pixels.
    """

    height = 480

    @property
    @abc.abstractmethod
    def html(self) -> str:
        """The picture as one HTML document, which needs no other file and no network."""

    @abc.abstractmethod
    def figure(self, theme: ThemeName = "light") -> Figure:
        """Return the picture as a new Matplotlib figure.

        Args:
            theme: "light" or "dark".

        Raises:
            UsageError: another theme.
        """

    def save(self, path: str | os.PathLike[str], theme: ThemeName | None = None) -> Path:
        """Write the picture as HTML, PNG or SVG, as the ending of the file name says.

        A file of that name is replaced. Missing folders are made.

        Args:
            path: the file to write: .html, .png or .svg.
            theme: "light" or "dark" for a PNG or SVG; None for "light". An HTML file follows the
                setting of the browser and takes no theme.

        Returns:
            The path.

        Raises:
            UsageError: another ending or theme, or a theme for an HTML file.
        """
        target = file_io.expanded(path)
        ending = checked_ending(target, theme)
        target.parent.mkdir(parents=True, exist_ok=True)
        if ending == ".html":
            file_io.write_text(target, self.html)
            return target
        with drawing():
            figure = self.figure(theme or "light")
            # An SVG with a date would differ each time.
            options: dict[str, Any] = {"metadata": {"Date": None}} if ending == ".svg" else {}
            with file_io.new_file(target) as file:
                figure.savefig(file, format=ending.removeprefix("."), **options)
        return target

    def _repr_html_(self) -> str:
        """Return the picture for a notebook, in a frame of its own.

        The frame keeps the styles and scripts of several pictures apart. It may run the picture's
        script, and has no access to the notebook.
        """
        return (
            f'<iframe sandbox="allow-scripts" title="{html.escape(type(self).__name__)}" '
            f'style="width: 100%; height: {self.height}px; border: 0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def checked_ending(path: Path, theme: str | None = None) -> str:
    """Return the ending of a file name in lower case.

    Raises:
        UsageError: another ending or theme, or a theme for an HTML file.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(
            f"{path}: a picture ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}. "
            f"Received: {path.suffix or 'no ending'}. Name the file with one of these endings."
        )
    if theme is not None:
        palette_of(theme)
        if ending == ".html":
            raise UsageError(
                f"{path}: an HTML file follows the light or dark setting of the browser. Leave "
                "`theme` out, or write a .png or .svg file."
            )
    return ending


def palette_of(theme: str) -> Palette:
    """Return the colours of a theme; raise `UsageError` for an unknown one."""
    if theme not in PALETTES:
        raise UsageError(f"`theme` must be 'light' or 'dark'. Received: theme={theme!r}")
    return PALETTES[theme]


def document(title: str, body: str, name: str, data: Mapping[str, Any] | None = None) -> str:
    """Return an HTML document with the style and the script of a kind of picture inside.

    Args:
        title: title of the document, as plain text.
        body: content of the document, as HTML.
        name: name of the files with style and script in the folder `assets`.
        data: JSON values for the script; None for a picture without a script. Texts in them may
            hold any characters.
    """
    return _DOCUMENT.format(
        policy=_POLICY,
        title=html.escape(printable(title)),
        style=_asset("common.css") + _asset(f"{name}.css"),
        body=body,
        data=json_in_html(data or {}),
        script=_asset(f"{name}.js") if data is not None else "",
    )


def json_in_html(values: Any) -> str:
    """Return values as JSON that cannot end the HTML element around it."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    # In JSON, "<" is only in strings, where the escape means the same character.
    return printable(text).replace("<", "\\u003c")


def escaped(text: str) -> str:
    """Return the HTML of a text, for elements and for quoted attributes."""
    return html.escape(printable(text))


def _asset(name: str) -> str:
    """Return the text of a file in the folder `assets`."""
    path = importlib.resources.files("bert_keras.visualize").joinpath("assets", name)
    return path.read_text(encoding="utf-8")


@contextmanager
def drawing() -> Iterator[None]:
    """Set Matplotlib options: fonts for more scripts, and the same SVG each time.

    Matplotlib draws a box for a character that no font has. Its warnings are silenced.
    """
    import warnings

    import matplotlib

    options: Any = {"font.family": _fonts(), "svg.hashsalt": "bert_keras"}
    with matplotlib.rc_context(options), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _fonts() -> list[str]:
    """Return Matplotlib's default font, and an installed font for Chinese, Japanese and Korean."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    others = [name for name in sorted(installed) if "CJK" in name or "WenQuanYi" in name]
    return ["DejaVu Sans", *others[:1]]


def new_figure(width: float, height: float, palette: Palette) -> Figure:
    """Return an empty figure of this size in inches, which leaves no state in `pyplot`."""
    # Not pyplot, which would choose a backend for the whole process and keep the figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(width, height), dpi=120, layout="constrained", facecolor=palette.background
    )
    FigureCanvasAgg(figure)
    return figure
