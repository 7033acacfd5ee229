"""The files of the page: complete, small, without addresses, and fit for a strict policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bert_keras.serving import openapi

PAGE = Path(__file__).parents[3] / "bert_keras" / "serving" / "page"
FILES = sorted(path for path in PAGE.iterdir() if path.is_file())
MOST_LINES = 400
# Namespaces are names, and nothing is loaded from them.
NAMESPACES = ("http://www.w3.org/2000/svg",)
_REFERENCES = {
    ".html": r"<(?:script|link|img)\s[^>]*?(?:src|href)=\"([^\"#]+)\"",
    ".js": r"(?m)(?:\bfrom|^import)\s+\"([^\"\n]+)\"|import\(\"([^\"\n]+)\"",
    ".css": r"(?:url\(|@import\s+)[\"']?([^\"')]+)",
    ".svg": r"href=\"([^\"#]+)\"",
}
# Ways to read text as HTML or code, and styles and scripts that the policy `default-src 'self'`
# forbids.
_UNSAFE = (
    *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser"),
    *("eval(", "new Function", "javascript:", "srcdoc", "setHTML", "createContextualFragment"),
)


def referenced(path: Path) -> set[str]:
    """Return the names of files that a file loads, without their folder."""
    matches = re.finditer(_REFERENCES[path.suffix], path.read_text(encoding="utf-8"))
    names = {match[match.lastindex or 1] for match in matches}
    return {re.sub(r"^/?static/|^\./", "", name) for name in names}


def test_the_page_is_one_flat_folder() -> None:
    """`/static/FILE` serves it; a folder inside would need another route."""
    assert all(path.is_file() for path in PAGE.iterdir())
    assert {path.suffix for path in FILES} == set(_REFERENCES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_loads_only_files_of_the_page(path: Path) -> None:
    missing = {name for name in referenced(path) if not (PAGE / name).is_file()}
    assert not missing


def test_every_file_is_loaded(tmp_path: Path) -> None:
    """The page and the list of requests at /docs load them."""
    described = tmp_path / "docs.html"
    described.write_text(openapi.html_page(), encoding="utf-8")
    loaded, new = set(), {"index.html", *referenced(described)}
    while new:
        loaded |= new
        new = set().union(*(referenced(PAGE / name) for name in new)) - loaded
    assert loaded == {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_names_no_other_server(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in NAMESPACES:
        text = text.replace(name, "")
    # A comment starts with "// "; an address without a scheme has no space.
    assert not re.findall(r"https?://\S+|[\"'(]//\w\S*", re.sub(r"(?m)^\s*(//|\*).*", "", text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_safe_and_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [word for word in _UNSAFE if word in text]
    assert len(text.splitlines()) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 120


def test_the_html_has_no_script_or_style_inside() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)


@pytest.mark.parametrize(
    ("name", "text", "files"),
    [
        ("a.html", '<script src="static/a.js"></script><a href="docs">', {"a.js"}),
        ("a.html", '<link rel="icon" href="/static/a.svg">', {"a.svg"}),
        ("a.js", 'import { b } from "./b.js";\nimport "./c.js";', {"b.js", "c.js"}),
        ("a.js", 'const way = side === "from" ? "d.js" : "e.js";', set()),
        ("a.css", "p { background: url('d.svg'); }", {"d.svg"}),
    ],
)
def test_the_reader_of_references(name: str, text: str, files: set[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert referenced(tmp_path / name) == files
