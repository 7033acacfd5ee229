"""All kinds of pictures: one document, endings of files, notebooks, escaped texts."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import visualize
from bert_keras.errors import UsageError
from bert_keras.visualize import Picture
from bert_keras.visualize.picture import checked_ending, document, json_in_html
from tests.visualize.pictures import HOSTILE, TOKENIZER, classifier, one_backend

VECTORS = np.random.default_rng(0).normal(size=(3, 4))
PICTURES: dict[str, Any] = {
    "attention": lambda: visualize.attention(classifier(), TOKENIZER, HOSTILE),
    "embeddings": lambda: visualize.embeddings(VECTORS, [HOSTILE] * 3, [HOSTILE, "b", "$c$"]),
    "saliency": lambda: visualize.saliency(classifier(labels=[HOSTILE, "$"]), HOSTILE),
}


def test_every_function_is_tested() -> None:
    assert set(PICTURES) == {name for name in visualize.__all__ if name.islower()}


@pytest.fixture(params=PICTURES)
def picture(request: pytest.FixtureRequest) -> Picture:
    if request.param == "embeddings":
        pytest.importorskip("sklearn")
    return PICTURES[request.param]()


@one_backend
def test_a_file_by_its_ending(picture: Picture, tmp_path: Path) -> None:
    beginnings = {".html": b"<!DOCTYPE html>", ".png": b"\x89PNG", ".svg": b"<?xml"}
    for ending, beginning in beginnings.items():
        path = tmp_path / "new" / f"a{ending.upper()}"
        assert picture.save(path) == path
        assert path.read_bytes().startswith(beginning)
    first = (tmp_path / "new" / "a.SVG").read_bytes()
    picture.save(tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_bytes() == first
    for name in ("a.pdf", "a"):
        with pytest.raises(UsageError, match=r"ends in \.html, \.png or \.svg"):
            picture.save(tmp_path / name)
    assert not (tmp_path / "a.pdf").exists()


@one_backend
def test_a_theme(picture: Picture, tmp_path: Path) -> None:
    """The background of a PNG and an SVG follows the theme; the default is light."""
    from matplotlib.image import imread

    theme: Any
    for theme, background in ((None, "#ffffff"), ("light", "#ffffff"), ("dark", "#14171d")):
        corner = imread(picture.save(tmp_path / "a.png", theme=theme))[0, 0, :3]
        assert "#" + bytes(np.rint(255 * corner).astype(np.uint8)).hex() == background
        assert f"fill: {background}" in picture.save(tmp_path / "a.svg", theme=theme).read_text()
    wrong: Any = "black"
    for name in ("b.png", "b.html"):
        with pytest.raises(UsageError, match="`theme` must be 'light' or 'dark'"):
            picture.save(tmp_path / name, theme=wrong)
    with pytest.raises(UsageError, match="follows the light or dark setting of the browser"):
        picture.save(tmp_path / "b.html", theme="dark")
    with pytest.raises(UsageError, match="`theme` must be"):
        picture.figure(wrong)
    assert not list(tmp_path.glob("b.*"))


class _Elements(HTMLParser):
    """The names of a document's elements, and those of their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the names of an element and of its attributes."""
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


@one_backend
def test_a_document_is_whole_and_shows_text_as_text(picture: Picture) -> None:
    """No other file is needed, and no text becomes an element."""
    page = picture.html
    found = _Elements(page)
    assert not found.names & {"img", "b", "link", "iframe"}
    assert not found.attributes & {"src", "href", "onerror"}
    assert not re.findall(r"@import|url\(|https?://(?!www\.w3\.org)", page)
    assert "default-src 'none'" in page
    assert page.count("</script>") == 2
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    json.loads(data)


@one_backend
def test_a_notebook_shows_it_in_a_frame(picture: Picture) -> None:
    """The frame holds the document, and has no access to the notebook."""
    frame = picture._repr_html_()
    (inside,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.unescape(inside) == picture.html
    assert 'sandbox="allow-scripts"' in frame
    assert "allow-same-origin" not in frame
    assert frame.count("<") == 2


def test_json_in_html() -> None:
    values = {"a": "</script>\u2028<!--", "b": ["\ud800", "é"]}
    text = json_in_html(values)
    assert "<" not in text
    assert json.loads(text)["a"] == values["a"]
    text.encode("utf-8")
    with pytest.raises(ValueError, match="JSON"):
        json_in_html([float("nan")])


def test_document_without_data_has_no_script() -> None:
    page = document("a & <b>", "<p>text</p>", "saliency")
    assert "<title>a &amp; &lt;b&gt;</title>" in page
    assert "<p>text</p>" in page
    assert re.findall(r"<script>\s*</script>", page)


def test_endings() -> None:
    assert checked_ending(Path("a.b/c.PNG")) == ".png"
    with pytest.raises(UsageError, match="Received: no ending"):
        checked_ending(Path("a.b/c"))


def test_other_scripts_are_drawn_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    texts = ["猫が座った。", "القط", "👩‍👩‍👧 \x00\x07", "$x_1$ \\alpha"]
    picture = visualize.embeddings(np.eye(4), texts, ["_a", "$b", "猫", ""])
    assert picture.save(tmp_path / "a.png").stat().st_size > 1_000
