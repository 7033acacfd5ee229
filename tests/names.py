"""Names of any kind, and what Markdown makes of them."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bert_keras import escaping

# Markup of rich, of Markdown and of matplotlib, line ends, and bytes of names that are not UTF-8.
PARTS = (
    *("[/x]", "[bold]", "[red", ":smile:", "|", "`", "```", "~~~", "[a](b)", "[a][b]", "![i](j)"),
    *("<b>", "&lt;", "$x$", "\\", "*", "_", "# ", "\n", "\r\n", "\udcff", "\ud800", "ä", "名"),
)
NAMES = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=6).map("".join)
_MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def shown_by_markdown(page: str) -> Iterator[str]:
    """The text of each block of a page; anything but text in it is an error."""
    for token in _MARKDOWN.parse(page):
        if token.type == "inline":
            assert {child.type for child in token.children or ()} <= {"text", "text_special"}
            yield "".join(child.content for child in token.children or ())
        elif token.type == "fence":
            yield token.content


def as_line(name: str) -> str:
    """A name as a line of a page: blanks are one blank, and NUL is U+FFFD in Markdown."""
    return " ".join(escaping.printable(name).split()).replace("\0", "\ufffd")
