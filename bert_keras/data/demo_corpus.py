"""Demo corpus of the English texts in every CPython, so that a demonstration needs no download.

Documents are the help topics (`pydoc_data.topics`) and the docstrings of the standard library, one
document for each module. They are read from the source files by `ast`, and no module is imported
or run. Code, doctests, grammar, headings and signatures are left out. So is every paragraph that
came before, so that validation documents repeat nothing of the others.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from bert_keras import file_io
from bert_keras.errors import DataError

# Folders of tests, programs and bundled packages, which are not the library.
_SKIPPED = frozenset(
    (
        *("test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "pydoc_data"),
        *("site-packages", "dist-packages", "lib-dynload", "_bundled", "__phello__"),
        "__pycache__",
    )
)
# Words of a document at least. The hundred generated codecs have hardly two sentences each.
_MIN_WORDS = 40

_MARKUP = (
    (re.compile(r"^[ \t]*\.\. [\w-]+::.*$", re.M), ""),  # directives
    (re.compile(r"(?::[a-z]+)+:`~?([^`<]*?)(?:\s*<[^`>]*>)?`"), r"\1"),  # roles
    (re.compile(r"`([^`<>]+?)\s*<[^`>]*>`_+"), r"\1"),  # links
    (re.compile(r"``?([^`'\n]+?)(?:``?|')_*"), r"\1"),  # literals
    (re.compile(r"(?<![\w*])(\*{1,2})(?=\w)([^*\n]+?)(?<=\w)\1(?![\w*])"), r"\2"),  # emphasis
    (re.compile(r"::(?=\s|$)"), ":"),
    (re.compile(r"(?<=\S) {2,}"), " "),
)
# A list item or a line of a parameter table; the group is what is dropped.
_ITEM = re.compile(
    r"([*+•-] +|\(?(?:\d{1,2}|[a-z])[.)] +|[\w*][\w*./, ]{0,30}? +--? +"
    r"|[:@](?:param|type|arg|return|returns|rtype|raises|var|ivar)\b[^:]*: *)\S"
)
_UNDERLINE = re.compile(r"([=~*^#\"'+_-])\1{2,}$")
_DOCTEST = re.compile(r">>>( |$)|\$ |% ")
_WORD = re.compile(r"[(\"'\[]*[A-Za-z][a-z]*(?:['/-][A-Za-z]?[a-z]*)*[.,;:!?)\"'\]]*")
_SENTENCE_END = re.compile(r"[.!?][\"')]*$")
# Fields of a syntax tree that hold statements, or the parts of a statement that hold them.
_STATEMENT_FIELDS = frozenset(("body", "handlers", "orelse", "finalbody", "cases"))
_SHORT = 5  # words; a shorter line without a full stop is a heading or a label


def demo_documents() -> Iterator[list[str]]:
    """Yield the documents, each a list of paragraphs (a line of prose each), in a fixed order.

    Raises:
        DataError: this Python was installed without the source files of its library.
    """
    seen: set[str] = set()
    for texts in _texts():
        paragraphs: list[str] = []
        for paragraph in (paragraph for text in texts for paragraph in prose(text)):
            if paragraph not in seen:
                seen.add(paragraph)
                paragraphs.append(paragraph)
        if sum(len(paragraph.split()) for paragraph in paragraphs) >= _MIN_WORDS:
            yield paragraphs


def write_demo_corpus(path: str | os.PathLike[str]) -> Path:
    """Write the documents as UTF-8 text: a paragraph per line, a blank line between documents."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = ("".join(line + "\n" for line in paragraphs) for paragraphs in demo_documents())
    file_io.write_text(path, "\n".join(texts))
    return path


def prose(text: str) -> list[str]:
    """Return the paragraphs of English prose in a docstring or help topic, each as one line."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    paragraphs: list[str] = []
    for block, indented in _blocks(text):
        item = _ITEM.match(block)
        paragraph = block[item.end(1) :] if item else block
        if _is_prose(paragraph, strict=indented and not item):
            full_stop = "." * paragraph[-1].isalnum()
            paragraphs.append(paragraph[0].upper() + paragraph[1:] + full_stop)
    return paragraphs


def _blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the blocks of a text as one line each, and whether they are indented.

    A block ends at a blank line, a list item, a heading or a line with less indentation.
    """
    lines: list[str] = []
    indent = 0
    dropping = False
    for line in [*text.expandtabs().splitlines(), ""]:
        stripped = line.strip()
        margin = len(line) - len(line.lstrip())
        if _UNDERLINE.match(stripped):
            lines.clear()  # with the heading above it
            continue
        headed = lines and margin > indent and (lines[-1][-1] == ":" or " " not in lines[0])
        if lines and (not stripped or headed or margin < indent or _ITEM.match(stripped)):
            yield " ".join(lines), indent > 0
            lines.clear()
        dropping = bool(stripped) and (dropping or bool(_DOCTEST.match(stripped)))
        if stripped and not dropping:
            if not lines:
                indent = margin
            lines.append(stripped)


def _is_prose(text: str, *, strict: bool) -> bool:
    """Return whether most of a text is plain words; `strict` for indented text, maybe code."""
    words = text.split()
    if len(words) < 4 or not (text[0].isalpha() or text[0] in "\"'("):
        return False
    ends = bool(_SENTENCE_END.search(text)) or (text[-1] == ":" and not strict)
    if not ends and (strict or len(words) < _SHORT):
        return False
    plain = sum(bool(_WORD.fullmatch(word)) for word in words) / len(words)
    return plain >= (0.8 if strict else 0.7)


def _texts() -> Iterator[list[str]]:
    """Yield the texts of each document: the help topics by name, then the modules by path."""
    root = Path(sysconfig.get_path("stdlib"))
    sources = list(_sources(root))
    if not sources:
        raise DataError(
            f"{root}: the folder has no source files of Python's standard library, from which the "
            "demo corpus is made. Pass a text of your own: corpus=<file or folder>."
        )
    if importlib.util.find_spec("pydoc_data") is not None:  # some distributions leave it out
        from pydoc_data.topics import topics

        for name in sorted(topics):
            yield [topics[name]]
    for path in sources:
        try:
            yield list(_docstrings(ast.parse(path.read_bytes())))
        except SyntaxError:  # a template, not a module
            continue


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the library's modules under `folder`, in the order of their names."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.name in _SKIPPED:
            continue
        if entry.suffix == ".py":
            yield entry
        elif entry.is_dir():
            yield from _sources(entry)


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and functions, in the order of the source."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield text
    # Only these fields have definitions. Expressions, the largest part of a tree, are not visited.
    for field in node._fields:
        if field in _STATEMENT_FIELDS:
            for statement in getattr(node, field):
                yield from _docstrings(statement)
