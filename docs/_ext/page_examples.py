"""Examples of the reference pages: run them, and compare or store what they print.

A `python` block is an example. A `text` block directly below it is what the example prints. All
blocks of a page run in order in one namespace, in an empty folder. A comment above a block limits
it to one backend: `<!-- backend: tensorflow -->`. Such a block uses only the first block of its
page, which is the only other block that runs on that backend.

    python docs/_ext/page_examples.py docs/reference/metrics.md    store the outputs in the page
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(
    r"(?:<!-- backend: (?P<backend>\w+) -->\n\n?)?"
    r"```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
MAIN_BACKEND = "torch"


class Example(NamedTuple):
    """A block of a page.

    Attributes:
        code: the Python code.
        output: the output that the page shows, without the last line end; "" for none.
        line: number of the first line of the code in the page, from 1.
        backend: the only backend that can run it; "" for the others too.
        span: characters of the block and its output in the page.
    """

    code: str
    output: str
    line: int
    backend: str
    span: tuple[int, int]


def examples(page: str) -> list[Example]:
    """Return the examples of a page, in order."""
    return [
        Example(
            match["code"],
            (match["output"] or "").rstrip("\n"),
            page.count("\n", 0, match.start("code")) + 1,
            match["backend"] or "",
            match.span(),
        )
        for match in _BLOCK.finditer(page)
    ]


def run_page(page: str, where: str, backend: str) -> list[tuple[Example, str]]:
    """Run the examples of a page on a backend, and return them with what they printed.

    On another backend than `MAIN_BACKEND`, only the first block and the blocks for the backend run.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    results = []
    every = backend == MAIN_BACKEND
    for number, example in enumerate(examples(page)):
        is_for_it = example.backend == backend
        if not (is_for_it or (not example.backend and (every or number == 0))):
            continue
        printed = io.StringIO()
        # The empty lines make tracebacks show the line numbers of the page.
        source = "\n" * (example.line - 1) + example.code
        with contextlib.redirect_stdout(printed):
            exec(compile(source, where, "exec"), namespace)
        lines = [line.rstrip() for line in printed.getvalue().rstrip("\n").splitlines()]
        results.append((example, "\n".join(lines)))
    return results


def with_outputs(page: str, where: str, backend: str) -> str:
    """Return a page whose examples show what they print."""
    for example, printed in reversed(run_page(page, where, backend)):
        start, end = example.span
        mark = f"<!-- backend: {example.backend} -->\n\n" if example.backend else ""
        shown = f"\n```text\n{printed}\n```\n" if printed else ""
        page = f"{page[:start]}{mark}```python\n{example.code}```\n{shown}{page[end:]}"
    return page


def main(paths: list[str]) -> None:
    """Store the outputs of the examples in pages."""
    import keras

    for path in [Path(path).resolve() for path in paths]:
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page = with_outputs(page, str(path), keras.backend.backend())
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", MAIN_BACKEND)
    main(sys.argv[1:])
