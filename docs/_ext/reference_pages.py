"""A Sphinx extension: signatures and docstrings for the pages in `docs/reference/`.

Such a page is written by hand. It has a heading for each public name of one package, and below it
an example. The site puts the signature, the docstring and the members of the name there. At the end
of the page it adds links to the names that another page describes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from public_names import LIBRARY, Name, page_of, public_names
from sphinx.application import Sphinx

FOLDER = "reference/"
# Keras calls these. Their arguments are described by the class.
OF_KERAS = (
    *("build", "build_from_config", "compile_from_config", "compute_output_shape"),
    *("compute_output_spec", "from_config", "get_config", "get_layer"),
)


class Section(NamedTuple):
    """A part of a page: its heading ("" before the first), and the Markdown below it."""

    heading: str
    text: str


def sections(page: str) -> list[Section]:
    """Return the parts of a page, which begin with a heading of the second level."""
    parts = re.split(r"^## +(.+?) *$", _without_fences(page), flags=re.MULTILINE)
    if len(parts) == 1:
        return [Section("", page)]
    found, start = [], 0
    for heading in parts[1::2]:
        line = f"## {heading}"
        end = page.index(line, start)
        found.append(page[start:end])
        start = end + len(line)
    texts = [*found, page[start:]]
    return [Section(h.strip("`"), t) for h, t in zip(["", *parts[1::2]], texts, strict=True)]


def _without_fences(page: str) -> str:
    """Return a page whose code has no line that looks like a heading."""
    return re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)


def as_rst(markdown: str) -> Iterator[str]:
    """Yield the reStructuredText of paragraphs and code blocks."""
    fence = ""
    for line in markdown.strip().splitlines():
        if line.startswith("```") and not fence:
            fence = line.removeprefix("```").strip() or "text"
            yield from (f".. code-block:: {fence}", "")
        elif line.startswith("```"):
            fence = ""
            yield ""
        elif not line.startswith("<!--"):
            yield f"   {line}" if fence else line


def members_of(value: type, documented: dict[Any, Name]) -> tuple[list[str], dict[str, Name]]:
    """Return the members of a class to describe, and those that another page describes.

    Only members with a docstring of the library count. Keras describes its own.

    Args:
        value: the class.
        documented: all classes that have a section.
    """
    own: list[str] = []
    others: dict[str, Name] = {}
    seen: set[str] = set()
    for base in value.__mro__:
        if not base.__module__.startswith(LIBRARY):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            is_method = inspect.isroutine(member) or isinstance(
                member, (property, classmethod, staticmethod)
            )
            if name in OF_KERAS or not is_method or not getattr(member, "__doc__", None):
                continue
            if base is not value and base in documented:
                others[name] = documented[base]
            else:
                own.append(name)
    return own, others


def directive(name: Name, example: str, documented: dict[Any, Name]) -> str:
    """Return the reStructuredText of a name: signature, docstring, example, members."""
    value = name.value
    body = ["", *as_rst(example)]
    if inspect.ismodule(value):
        return "\n".join(body)
    if inspect.isclass(value):
        own, others = members_of(value, documented)
        head = [f".. autoclass:: {name.path}"]
        head += [f"   :members: {', '.join(own)}"] if own else []
        if others:
            body += ["", f"Inherited: {', '.join(_link(other, base) for other, base in others.items())}."]
    elif callable(value) and hasattr(value, "__code__"):
        head = [f".. autofunction:: {name.path}"]
    else:
        head = [f".. py:data:: {name.path}"]
    return "\n".join([*head, *(f"   {line}" if line else "" for line in body)])


def _link(member: str, base: Name) -> str:
    return f":py:obj:`{member} <{base.home}.{base.name}.{member}>`"


def with_reference(page: str, package: str) -> str:
    """Return a page with the signature and docstring of each name, and links to the other names."""
    names = public_names()
    documented = {
        name.value: name
        for name in names
        if name.package == name.home and inspect.isclass(name.value)
    }
    here = {name.name: name for name in names if name.package == package}
    (_, start), *rest = sections(page)
    parts = [start, _rst(f".. py:module:: {package}\n   :no-index-entry:")]
    for heading, text in rest:
        name = here.get(heading)
        if name is None:  # such as a class of `errors`, which has no `__all__`
            parts.append(f"## {heading}\n{text}")
        else:
            parts.append(f"## {heading}\n\n{_rst(directive(name, text, documented))}")
    elsewhere = [name for name in here.values() if name.home != package]
    if elsewhere:
        parts.append("## Names of other pages\n")
        parts.append("This package also exports these names:\n")
        parts += [
            f"- [`{name.name}`]({page_of(name.home)}.md#{name.name.lower()})" for name in elsewhere
        ]
    return "\n".join(parts) + "\n"


def _rst(text: str) -> str:
    return f"````{{eval-rst}}\n{text}\n````\n"


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Handle Sphinx's event `source-read`."""
    del app
    if docname.startswith(FOLDER) and docname != f"{FOLDER}index":
        page = docname.removeprefix(FOLDER)
        package = LIBRARY if page == LIBRARY else f"{LIBRARY}.{page}"
        content[0] = with_reference(content[0], package)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _read)
    return {"version": "1", "parallel_read_safe": True}
