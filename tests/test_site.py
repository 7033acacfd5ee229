"""The documentation site: its links, its docstrings, and (slow) a build without warnings."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from tests.test_reference import extension

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytest.importorskip("sphinx")
outside_pages = extension("outside_pages")
docstring_blocks = extension("docstring_blocks")


def _settings() -> dict[str, str]:
    """Return the table `outside_pages` of `conf.py`."""
    text = (DOCS / "conf.py").read_text(encoding="utf-8")
    table = re.search(r"^outside_pages = \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert table
    return dict(re.findall(r'"([\w/]+)": "([\w./]+)"', table[1]))


OUTSIDE = _settings()
PAGES = sorted(
    [*DOCS.rglob("*.md"), ROOT / "README.md", *(ROOT / path for path in OUTSIDE.values())]
)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as Git hosts make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", outside_pages.FENCE.sub("", page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere_in_a_clone(page: Path) -> None:
    broken = []
    for target, anchor in outside_pages.links(page.read_text(encoding="utf-8")):
        goal = page.parent / target
        if not goal.exists():
            broken.append(target)
            continue
        is_page = goal.suffix == ".md"
        if anchor and is_page and anchor[1:] not in anchors(goal.read_text(encoding="utf-8")):
            broken.append(target + anchor)
    assert not broken, f"{page.relative_to(ROOT)}: {broken}"


def test_every_outside_page_has_a_page_that_links_to_it() -> None:
    for name, path in OUTSIDE.items():
        assert (ROOT / path).is_file()
        assert f"](../{path})" in (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_menu() -> None:
    menus = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("index.md"))
    names = {page.stem for page in DOCS.rglob("*.md") if page.stem != "index"}
    assert not [name for name in names if f"\n{name}\n" not in menus]


def _resolved(text: str, source_url: str = "") -> str:
    return outside_pages.resolved(
        text,
        path="benchmarks/results/NOTES.md",
        shown_at="docs/benchmark_notes.md",
        pages={"examples/README.md": "docs/examples.md"},
        root=ROOT,
        source_url=source_url,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](../../docs/tasks.md#no-labels)", "[a](tasks.md#no-labels)"),
        ("[a](../../examples/README.md)", "[a](examples.md)"),
        ("![a](../../docs/inference.png)", "![a](inference.png)"),
        ("[a](../../LICENSE)", "[a](../LICENSE)"),
        ("[a](../../bert_keras)", "a"),
        ("[a](https://keras.io)", "[a](https://keras.io)"),
        ("[a](#here)", "[a](#here)"),
        ("```\n[a](../../LICENSE)\n```", "```\n[a](../../LICENSE)\n```"),
    ],
)
def test_links_of_outside_pages(text: str, expected: str) -> None:
    assert _resolved(text) == expected


def test_links_to_the_git_host() -> None:
    assert _resolved("[a](../../LICENSE)", "https://host/main/") == "[a](https://host/main/LICENSE)"
    assert (
        _resolved("[a](../../training)", "https://host/main") == "[a](https://host/main/training)"
    )
    assert _resolved("[a](../../docs/tasks.md)", "https://host/main") == "[a](tasks.md)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["Returns:", "    a: one.", "    b, c: two."],
            ["Returned values:", "    a: one.", "    b, c: two."],
        ),
        (["Returns:", "    The sum: a number."], ["Returns:", "    The sum: a number."]),
        (
            ["By loss:", '    "a": one', "        more.", '    "b": two.'],
            ["By loss:", "", '- "a": one', "  more.", '- "b": two.', ""],
        ),
        (["Text.", "Output: [batch]."], ["Text.", "", "Output: [batch]."]),
        (["Text.", "", "    code()", "End."], ["Text.", "", "::", "", "    code()", "", "End."]),
        (["Args:", "    a: one.", "    b: two."], ["Args:", "    a: one.", "    b: two."]),
    ],
)
def test_docstrings(lines: list[str], expected: list[str]) -> None:
    assert docstring_blocks.converted(lines) == expected


def broken_links(site: Path) -> list[str]:
    """Return the links of a built site to files or anchors that are not there."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    found = []
    for path, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            parts = urllib.parse.urlsplit(html.unescape(link))
            if parts.scheme or parts.netloc or link in ("", "#"):
                continue
            goal = (
                (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            )
            anchor = urllib.parse.unquote(parts.fragment)
            if not goal.exists() or (anchor and goal in ids and anchor not in ids[goal]):
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def test_a_broken_link_of_the_site_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y"><a href="#x">', encoding="utf-8")
    assert broken_links(tmp_path) == ["a.html: b.html#y"]
    (tmp_path / "b.html").write_text('<p id="y"><img src="c.png">', encoding="utf-8")
    assert broken_links(tmp_path) == ["b.html: c.png"]


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    """Every warning is an error. The site has each page, name and notebook, and no broken link."""
    for library in ("furo", "myst_nb", "sphinx_copybutton"):
        pytest.importorskip(library)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    environment = {**os.environ, "KERAS_BACKEND": "torch", "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-4_000:]
    for page in [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]:
        assert (tmp_path / page.relative_to(DOCS)).with_suffix(".html").is_file(), page
    assert not broken_links(tmp_path)
    text = (tmp_path / "reference" / "bert_keras.html").read_text(encoding="utf-8")
    assert 'id="bert_keras.SequenceClassifier"' in text
    assert "is_negated" in (tmp_path / "notebooks" / "first_fit.html").read_text(encoding="utf-8")
