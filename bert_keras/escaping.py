"""Text from outside, made safe for consoles, Markdown and UTF-8 files.

Names of files, runs and labels may hold anything: brackets that `rich` reads as markup, characters
that Markdown reads as syntax, and halves of surrogate pairs, which stand for the bytes of a file
name that is not UTF-8 (PEP 383) and cannot be encoded.
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
# Brackets make a link only where one pair follows another, and "_" is no emphasis within a word:
# "[MASK]" and "top_k" stay as they are.
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
    r"""Encode a text; a half of a surrogate pair becomes an escape, such as "\udcff".

    Within a string of JSON the escape has the same meaning as the character.
    """
    return text.encode("utf-8", _HANDLER)


def printable(text: str) -> str:
    r"""Return the text with an escape for each half of a surrogate pair, such as "\udcff"."""
    return utf8(text).decode()


def require_utf8(path: object, what: str) -> None:
    """Refuse a name that UTF-8 cannot encode, for the libraries that cannot write there.

    Args:
        path: the name or path.
        what: the argument that it is of, for the message.

    Raises:
        UsageError: there is half of a surrogate pair in it.
    """
    if _SURROGATES.search(str(path)):
        raise UsageError(
            f"{what} must be a name in UTF-8: not all libraries write to others. "
            f"Received: {printable(str(path))}"
        )


def escape_streams() -> None:
    """Let standard output and standard error take every character, whatever their encoding is.

    A character that the encoding lacks is written as an escape of JSON.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):  # closed, or detached
                stream.reconfigure(errors=_HANDLER)


def print_line(text: object) -> None:
    """Print a text; characters that standard output cannot encode become escapes of JSON."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(str(text).encode(encoding, _HANDLER).decode(encoding))


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console of `rich` that prints strings as they are, without markup or emoji.

    Where nobody reads what it prints any more, it raises `BrokenPipeError`, as `print` does; that
    of `rich` would end the process.

    Args:
        stderr: whether it prints on standard error instead of standard output.
        width: columns; None for those of the terminal.
    """
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
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
