"""A Sphinx extension: pages and files of the repository that are not below `docs/`.

The pages link to such files by their relative path, so that the links work in a clone and on a Git
host. In the site,

- a page of `outside_pages` takes the place of a page below `docs/`, and links lead there;
- other files and folders have the address `source_url/PATH`, if there is a `source_url`;
- without one, a file is copied into the site, and a link to a folder becomes its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def outside_code(page: str, change: Callable[[str], str]) -> str:
    """Return a page whose text, but not its code blocks, is changed."""
    parts, end = [], 0
    for fence in FENCE.finditer(page):
        parts += [change(page[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(page[end:])])


def links(page: str) -> list[tuple[str, str]]:
    """Return the targets of a page's relative links: (path, "#anchor" or "")."""
    found: list[tuple[str, str]] = []

    def collect(text: str) -> str:
        found.extend((match[3], match[4] or "") for match in LINK.finditer(text))
        return text

    outside_code(page, collect)
    return found


def resolved(
    page: str, *, path: str, shown_at: str, pages: Mapping[str, str], root: Path, source_url: str
) -> str:
    """Return a page whose links lead to places in the site.

    Args:
        page: the text of the page.
        path: path of the page in the repository, from which its links lead.
        shown_at: path of the page in the site's sources, such as "docs/examples.md".
        pages: path in the repository -> path in the site's sources.
        root: the repository.
        source_url: address of the repository's files on a Git host, or "".
    """

    def link(match: re.Match[str]) -> str:
        image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        goal = normpath(str(PurePosixPath(path).parent / target))
        goal = pages.get(goal, goal)
        here = str(PurePosixPath(shown_at).parent)
        is_page = goal.startswith("docs/") and goal.endswith((".md", ".ipynb"))
        if image or is_page:
            return f"{image}[{text}]({relpath(goal, here)}{anchor})"
        if source_url:
            return f"[{text}]({source_url.rstrip('/')}/{goal}{anchor})"
        if (root / goal).is_dir():
            return text
        return f"[{text}]({relpath(goal, here)})"

    return outside_code(page, lambda text: LINK.sub(link, text))


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Handle Sphinx's event `source-read`."""
    source = Path(app.srcdir)
    if app.env.doc2path(docname).suffix != ".md":
        return
    pages = {path: f"docs/{name}.md" for name, path in app.config.outside_pages.items()}
    path = app.config.outside_pages.get(docname)
    if path is not None:
        content[0] = (source.parent / path).read_text(encoding="utf-8")
        app.env.note_dependency(source.parent / path)
    content[0] = resolved(
        content[0],
        path=path or f"docs/{docname}.md",
        shown_at=f"docs/{docname}.md",
        pages=pages,
        root=source.parent,
        source_url=app.config.source_url,
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension and its two settings."""
    app.add_config_value("outside_pages", {}, "env", [dict])
    app.add_config_value("source_url", "", "env", [str])
    app.connect("source-read", _read)
    return {"version": "1", "parallel_read_safe": True}
