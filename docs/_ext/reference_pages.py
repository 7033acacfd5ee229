"""A Sphinx extension: signatures and docstrings for the pages in `docs/reference/`.

Such a page is written by hand. It has a heading for each public name of one package, and below it
an example. The site adds the signature, the docstring and the members of the name below the
example. At the end of the page it adds links to the names that another page describes.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from types import FunctionType
from typing import Any, NamedTuple

import keras
from public_names import LIBRARY, Name, page_of, public_names
from sphinx.application import Sphinx
from sphinx.util import inspect as sphinx_inspect

FOLDER = "reference/"
# Keras calls these. Their arguments are described by the class.
OF_KERAS = (
    *("build", "build_from_config", "compile_from_config", "compute_output_shape"),
    *("compute_output_spec", "from_config", "get_config", "get_layer"),
)
METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)
# Docstrings of methods that Keras describes, and of earlier names.
NOT_DESCRIBED = ("Keras: ", "Raise an error that names")


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


def members_of(value: type, documented: dict[Any, Name]) -> tuple[list[str], dict[str, Name]]:
    """Return the members of a class to describe, and those that another section describes.

    Only members with a docstring of the library count. Keras describes its own, also where a class
    overrides them.

    Args:
        value: the class.
        documented: all classes that have a section.
    """
    own: list[str] = []
    others: dict[str, Name] = {}
    bases = [base for base in value.__mro__ if base.__module__.startswith(LIBRARY)]
    for base in bases:
        for name, member in vars(base).items():
            if name.startswith("_") or name in OF_KERAS or name in (*own, *others):
                continue
            if not isinstance(member, METHODS) or not member.__doc__:
                continue
            if member.__doc__.startswith(NOT_DESCRIBED):
                continue
            # The base class nearest to `base` that has a section.
            heirs = [c for c in bases[1:] if c in documented and issubclass(c, base)]
            if base is not value and heirs:
                others[name] = documented[heirs[-1]]
            else:
                own.append(name)
    return own, others


def directive(name: Name, documented: dict[Any, Name]) -> str:
    """Return the reStructuredText of a name: its signature, docstring and members."""
    value = name.value
    if not inspect.isclass(value):
        kind = "autofunction" if inspect.isroutine(value) else "py:data"
        return f".. {kind}:: {name.path}"
    own, others = members_of(value, documented)
    lines = [f".. autoclass:: {name.path}"]
    lines += [f"   :members: {', '.join(own)}"] if own else []
    if others:
        links = ", ".join(_link(member, base) for member, base in others.items())
        lines += ["", f"   Inherited: {links}."]
    return "\n".join(lines)


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
        if (
            name is None or name.home != package or inspect.ismodule(name.value)
        ):  # described elsewhere
            parts.append(f"## {heading}\n{text}")
        else:
            reference = _rst(directive(name, documented))
            is_described = inspect.isclass(name.value) or inspect.isroutine(name.value)
            both = (text, reference) if is_described else ("", reference + text)
            parts.append(f"## {heading}\n{both[0]}\n{both[1]}")
    headings = [section.heading for section in rest]
    elsewhere = [
        name for name in here.values() if name.home != package and name.name not in headings
    ]
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


def _signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, arguments: str, result: str
) -> tuple[str, str] | None:
    """Handle autodoc's event `autodoc-process-signature`: read `__init__`, and not `__new__`.

    Keras's `__new__` takes any arguments.
    """
    del app, name, options, arguments
    if what != "class" or not issubclass(value, keras.Operation | keras.optimizers.Optimizer):
        return None
    signature = sphinx_inspect.signature(value.__init__, bound_method=True)
    return sphinx_inspect.stringify_signature(signature, unqualified_typehints=True), result


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-signature", _signature)
    return {"version": "1", "parallel_read_safe": True}
