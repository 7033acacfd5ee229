"""Random names with special characters, and their text in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bert_keras import escaping

# Markup of rich, Markdown and Matplotlib; line ends; and bytes of names that are not valid UTF-8.
PARTS = (
    *("[/x]", "[bold]", "[red", ":smile:", "|", "`", "```", "~~~", "[a](b)", "[a][b]", "![i](j)"),
    *("<b>", "&lt;", "$x$", "\\", "*", "_", "# ", "\n", "\r\n", "\udcff", "\ud800", "ä", "名"),
)
NAMES = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=6).map("".join)
_MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def shown_by_markdown(page: str) -> Iterator[str]:
    """Yield the text of each block of a page; fail if a block has anything but text."""
    for token in _MARKDOWN.parse(page):
        if token.type == "inline":
            assert {child.type for child in token.children or ()} <= {"text", "text_special"}
            yield "".join(child.content for child in token.children or ())
        elif token.type == "fence":
            yield token.content


def as_line(name: str) -> str:
    """Return a name as Markdown shows it in a line: single spaces, and U+FFFD for NUL."""
    return " ".join(escaping.printable(name).split()).replace("\0", "\ufffd")
