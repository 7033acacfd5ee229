"""The code in a Markdown page, to be run: its fenced blocks.

A block runs unless an HTML comment right above it says why not: `<!-- not run: reason -->`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

PYTHON = ("python", "py")


class Block(NamedTuple):
    """A fenced block of code: its language, text, the line it begins on, why it is not run."""

    language: str
    text: str
    line: int
    not_run: str | None


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order."""
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
    """Runs the Python blocks one after the other in one namespace, which is returned."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        if block.language in PYTHON and block.not_run is None:
            # The empty lines make a traceback name the line of the document.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, where, "exec"), namespace)
    return namespace
