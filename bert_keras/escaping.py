"""Escaping of text from outside for consoles, Markdown and UTF-8 files.

Names of files, runs and labels may contain anything: brackets that `rich` reads as markup,
characters that Markdown reads as syntax, and lone surrogates. Those stand for the bytes of a file
name that is not UTF-8 (PEP 383), and cannot be encoded.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from bert_keras.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

_HANDLER = "bert_keras.json_escape"
# Characters to escape in Markdown. Brackets make a link only if one pair follows another, and "_"
# within a word is no emphasis. So "[MASK]" and "top_k" stay as they are.
_MARKDOWN = re.compile(r"([\\`*<>|#~$&]|(?<=\])[(\[]|(?<![^\W_])_|_(?![^\W_]))")
_BACKTICKS = re.compile("`+")
_SURROGATES = re.compile("[\ud800-\udfff]")


def _json_escape(error: UnicodeError) -> tuple[str, int]:
    r"""Replace characters that an encoding lacks by the escapes of JSON, such as "\udcff"."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_HANDLER, _json_escape)


def utf8(text: str) -> bytes:
    r"""Encode a text in UTF-8. A lone surrogate becomes an escape, such as "\udcff".

    In a JSON string, the escape means the same character.
    """
    return text.encode("utf-8", _HANDLER)


def printable(text: str) -> str:
    r"""Return the text with an escape, such as "\udcff", for each lone surrogate."""
    return utf8(text).decode()


def require_utf8(path: object, what: str) -> None:
    """Refuse a path that UTF-8 cannot encode, because not all libraries can write to it.

    Args:
        path: name or path.
        what: name of the argument, for the message.

    Raises:
        UsageError: if the path has a lone surrogate.
    """
    if _SURROGATES.search(str(path)):
        raise UsageError(
            f"{what} must be a name in UTF-8: not all libraries write to others. "
            f"Received: {printable(str(path))}"
        )


def escape_streams() -> None:
    """Make standard output and standard error accept every character in any encoding.

    A character that the encoding lacks is written as a JSON escape.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):  # closed, or detached
                stream.reconfigure(errors=_HANDLER)


def print_line(text: object, *, stderr: bool = False) -> None:
    """Print a text. Characters that the output cannot encode become JSON escapes.

    Args:
        text: the text.
        stderr: True to print on standard error instead of standard output.
    """
    stream = sys.stderr if stderr else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(str(text).encode(encoding, _HANDLER).decode(encoding), file=stream)


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console of `rich` that prints strings as they are, without markup or emoji.

    If the reader of its output has gone, it raises `BrokenPipeError`, as `print` does. A console of
    `rich` would end the process.

    Args:
        stderr: True to print on standard error instead of standard output.
        width: number of columns; None for that of the terminal.
    """
    from rich.console import Console

    class PlainConsole(Console):
        """Console that raises `BrokenPipeError` instead of ending the process."""

        def on_broken_pipe(self) -> None:
            """Raise an error instead of ending the process."""
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    return PlainConsole(stderr=stderr, width=width, **options)


def markdown(text: str) -> str:
    """Return a line of Markdown that shows the text as it is, also in a cell of a table."""
    return _MARKDOWN.sub(r"\\\1", " ".join(printable(text).split()))


def markdown_block(text: str) -> list[str]:
    """Return the lines of a code block that shows the text as it is."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *printable(text).splitlines(), fence]
