"""Fenced code blocks of Markdown pages, for tests that run them.

A comment above a block exempts it: `<!-- not run: reason -->`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

PYTHON = ("python", "py")


class Block(NamedTuple):
    """A fenced code block: its language, text, first line, and the reason why it is not run."""

    language: str
    text: str
    line: int
    not_run: str | None


def blocks(markdown: str) -> list[Block]:
    """Yield the fenced code blocks of a Markdown text, in order."""
    found: list[Block] = []
    fence, language, start, above = "", "", 0, ""
    lines = markdown.splitlines()
    for number, line in enumerate(lines, 1):
        mark = re.match(r"\s*(`{3,}|~{3,})\s*([\w+-]*)", line)
        if not fence and mark:
            fence, language, start = mark[1], mark[2].lower(), number
        elif fence and line.strip() == fence:
            reason = re.fullmatch(r"<!--\s*not run:\s*(.*?)\s*-->", above)
            text = "\n".join(lines[start : number - 1])
            found.append(Block(language, text, start + 1, reason[1] if reason else None))
            fence, above = "", ""
        elif not fence and line.strip():
            above = line.strip()
    assert not fence, f"line {start}: the block is not closed"
    return found


def run_python(found: list[Block], where: str) -> dict[str, Any]:
    """Run the Python blocks in order in one namespace, and return the namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        if block.language in PYTHON and block.not_run is None:
            # The empty lines make tracebacks show the line numbers of the page.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, where, "exec"), namespace)
    return namespace
