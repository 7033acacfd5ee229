"""A Sphinx extension: the lists and code in the docstrings of this package, as reStructuredText.

Napoleon reads the sections of Google's style. Two forms need help:

- several values under `Returns:`, or below a line that ends with a colon, each as "name: text";
- code that is indented below an empty line.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

SECTIONS = (
    *("Args", "Attributes", "Example", "Examples", "Note", "Raises", "Returns", "Warns"),
    "Yields",
)
# The heading that the site shows above several returned values.
VALUES = "Returned values"
_ITEM = re.compile(r"(?:[\w|]+|\"[^\"]+\")(?:(?:,| or) (?:[\w ]+|\"[^\"]+\"))*: ")
_INPUTS = re.compile(r"(?:Inputs?|Outputs?)\b[^.]*: ?")


def converted(lines: list[str]) -> list[str]:
    """Return the lines of a docstring in the form that Napoleon reads."""
    result: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if _INPUTS.match(line) and result and result[-1].strip():
            result.append("")  # a paragraph of its own
        block = _block_below(lines, index)
        heading = line.removesuffix(":") if line.endswith(":") else ""
        index += 1
        if not block or _indent(line) or not line.strip():
            if block and not line.strip() and result and not _in_section(result):
                result += ["", "::", "", *block, ""]
                index += len(block)
            else:
                result.append(line)
            continue
        if heading == "Returns" and _is_list(block):
            result.append(f"{VALUES}:")
        elif heading and heading not in SECTIONS and _is_list(block):
            result += [line, "", *_bullets(block), ""]
            index += len(block)
        else:
            result.append(line)
    return result


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block_below(lines: list[str], index: int) -> list[str]:
    """Return the indented lines below a line, up to the next line without indentation."""
    block = []
    for line in lines[index + 1 :]:
        if not line.strip() or not _indent(line):
            break
        block.append(line)
    return block


def _in_section(result: list[str]) -> bool:
    """Return whether the last line without indentation is the heading of a section."""
    flush = [line for line in result if line.strip() and not _indent(line)]
    return bool(flush) and flush[-1].removesuffix(":") in (*SECTIONS, VALUES)


def _is_list(block: list[str]) -> bool:
    """Return whether a block has several items, each as "name: text"."""
    least = _indent(block[0])
    items = [line for line in block if _indent(line) == least]
    return len(items) > 1 and all(_ITEM.match(item.strip()) for item in items)


def _bullets(block: list[str]) -> list[str]:
    least = _indent(block[0])
    return [
        f"- {line.strip()}" if _indent(line) == least else f"  {line.strip()}" for line in block
    ]


def _convert(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Handle autodoc's event `autodoc-process-docstring` before Napoleon does."""
    del app, value, options
    lines[:] = converted(lines)
    if what == "property" and not any(line.rstrip(":") in SECTIONS for line in lines):
        _PROPERTIES[name] = list(lines)


def _restore(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Handle the same event after Napoleon, which reads "Values: of x" in a property as a type."""
    del app, what, value, options
    lines[:] = _PROPERTIES.pop(name, lines)


_PROPERTIES: dict[str, list[str]] = {}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension. Napoleon has the priority 500."""
    app.connect("autodoc-process-docstring", _convert, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
    return {"version": "1", "parallel_read_safe": True}
