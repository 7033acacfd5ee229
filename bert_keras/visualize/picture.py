"""Base of all pictures: one HTML document, and the same content as PNG or SVG."""

from __future__ import annotations

import abc
import html
import importlib.resources
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_keras import file_io
from bert_keras.errors import UsageError
from bert_keras.escaping import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".html", ".png", ".svg")

# The document loads nothing: a browser refuses every request, also one of a text in the picture.
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
    def figure(self) -> Figure:
        """Return the picture as a new figure of Matplotlib."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture. The ending of the file's name decides: .html, .png or .svg.

        A file of that name is replaced. Missing folders are made.

        Args:
            path: the file to write.

        Returns:
            The path.

        Raises:
            UsageError: another ending.
        """
        target = file_io.expanded(path)
        ending = checked_ending(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        if ending == ".html":
            file_io.write_text(target, self.html)
            return target
        with drawing():
            figure = self.figure()
            # Without the date, the same picture gives the same bytes.
            options: dict[str, Any] = {"metadata": {"Date": None}} if ending == ".svg" else {}
            with file_io.new_file(target) as file:
                figure.savefig(file, format=ending.removeprefix("."), **options)
        return target

    def _repr_html_(self) -> str:
        """Return the picture for a notebook, in a frame of its own.

        Styles, names and scripts of several pictures in one notebook do not meet. The frame may run
        the picture's script, and has no access to the notebook.
        """
        return (
            f'<iframe sandbox="allow-scripts" title="{html.escape(type(self).__name__)}" '
            f'style="width: 100%; height: {self.height}px; border: 0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def checked_ending(path: Path) -> str:
    """Return the ending of a file's name in lower case.

    Raises:
        UsageError: there is no picture with this ending.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(
            f"{path}: a picture ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}. "
            f"Received: {path.suffix or 'no ending'}. Name the file with one of these endings."
        )
    return ending


def document(title: str, body: str, name: str, data: Mapping[str, Any] | None = None) -> str:
    """Return an HTML document with the style and the script of a kind of picture inside.

    Args:
        title: title of the document, as plain text.
        body: content of the document, as HTML.
        name: name of the files with style and script in the folder `assets`.
        data: JSON values that the script reads. Texts in them may hold anything.
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
    # "<" appears in strings alone, where the escape means the same character.
    return printable(text).replace("<", "\\u003c")


def escaped(text: str) -> str:
    """Return a text as HTML that shows it, in elements and in quoted attributes."""
    return html.escape(printable(text))


def _asset(name: str) -> str:
    """Return the text of a file in the folder `assets`."""
    path = importlib.resources.files("bert_keras.visualize").joinpath("assets", name)
    return path.read_text(encoding="utf-8")


@contextmanager
def drawing() -> Iterator[None]:
    """Set Matplotlib's options for figures of any text, and for the same SVG each time.

    Characters that no font has are drawn as boxes, without a warning for each.
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


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, which leaves no state in `pyplot`."""
    # Not pyplot, which would choose a backend for the whole process and keep the figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
