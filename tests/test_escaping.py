"""Text with markup or invalid characters through every function that writes it."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from rich.table import Table

from bert_keras import escaping, file_io
from bert_keras.errors import UsageError
from tests.names import NAMES, PARTS, as_line, shown_by_markdown

ROOT = Path(__file__).parents[1]


@given(NAMES)
def test_markdown_shows_a_name_as_it_is(name: str) -> None:
    page = f"| a | b |\n| --- | --- |\n| {escaping.markdown(name)} | second |\n"
    assert [text.strip() for text in shown_by_markdown(page)] == ["a", "b", as_line(name), "second"]
    assert list(shown_by_markdown(f"# x{escaping.markdown(name)}.")) == [f"x{as_line(name)}."]


@given(NAMES)
def test_a_block_of_markdown_ends_where_it_should(name: str) -> None:
    page = "\n".join([*escaping.markdown_block(name), "", "after"])
    block, after = shown_by_markdown(page)
    assert block.splitlines() == escaping.printable(name.replace("\0", "\ufffd")).splitlines()
    assert after == "after"


@given(NAMES)
def test_json_keeps_a_name(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.getbasetemp() / "names.json"
    written = name.encode("utf-16", "surrogatepass")  # two adjacent surrogates are one character
    file_io.write_json(path, {"name": name})
    assert json.loads(path.read_bytes())["name"].encode("utf-16", "surrogatepass") == written
    file_io.write_text(path, json.dumps({"name": name}, ensure_ascii=False))
    assert json.loads(path.read_bytes())["name"].encode("utf-16", "surrogatepass") == written


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@given(name=NAMES)
def test_a_console_prints_a_name_as_it_is(encoding: str, name: str) -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", file)
        escaping.escape_streams()
        console = escaping.console(width=1_000)
        table = Table(name, title=name, caption=name)
        table.add_row(name)
        console.print(name, table)
        print(name)
    file.flush()
    printed = file.buffer.getvalue().decode(encoding)
    for part in PARTS:
        if part in name and part.strip() and part.isascii() and part.isprintable():
            # `rich` counts a tab as zero columns wide, so it may cut the two cells of the table.
            assert printed.count(part) >= (3 if "\t" in name else 5)


def test_a_reader_that_is_gone_does_not_end_the_process() -> None:
    class Pipe(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    console = escaping.console()
    console.file = Pipe()
    with pytest.raises(BrokenPipeError):
        console.print("a")


def test_what_an_encoding_lacks_becomes_an_escape_of_json() -> None:
    text = json.dumps("é😀\udcff", ensure_ascii=False)
    assert json.loads(text.encode("ascii", "bert_keras.json_escape")) == "é😀\udcff"
    assert escaping.utf8("é\udcff") == b"\xc3\xa9\\udcff"
    escaping.require_utf8("é", "name=")
    with pytest.raises(UsageError, match=r"name= must be a name in UTF-8.*Received: a\\udcff"):
        escaping.require_utf8(Path("a\udcff"), "name=")
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("utf-8", "bert_keras.json_escape")


def _calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module == "rich.markup":
            yield node.lineno, "rich.markup"


def test_text_leaves_by_one_door() -> None:
    """Only `escaping` makes consoles, and only `file_io` writes text files.

    `bert-keras fill-mask` is exempt, because it imports nothing of this package.
    """
    found = []
    for folder in ("bert_keras", "training"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name in ("escaping.py", "fill_mask.py"):
                continue
            for line, call in _calls(path):
                name = call.partition("(")[0]
                is_markup = name.endswith(("Console", "rich.markup", "from_markup", "rich.print"))
                is_markup |= name.endswith("TextColumn") and "markup=False" not in call
                if is_markup or (name.endswith(".write_text") and "file_io" not in name):
                    found.append(f"{path.relative_to(ROOT)}:{line}: {call:.60}")
    assert not found, "\n".join(found)
