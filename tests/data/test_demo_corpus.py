"""The demo corpus: English text that CPython ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.data import demo_corpus
from bert_keras.data.demo_corpus import demo_documents, prose, write_demo_corpus
from bert_keras.errors import DataError

_MODULE = '''"""Opens a drawer and tells what is in it.

{text}
"""

raise SystemExit("a module must not be executed")


class Drawer:
    """A drawer of the desk, which holds things in the order of their arrival."""

    def open(self):
        """Open the drawer with care."""


async def close():
    """Open the drawer with care."""
'''
_AROUND = ["It adds two numbers:", "That is it now."]
_LONG = "The things are small and many, and some of them are older than the desk itself. " * 3


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the standard library by a few modules without help topics. Return its folder."""
    files = {
        "desk.py": _MODULE.format(text=_LONG),
        "chair/__init__.py": _MODULE.format(text=_LONG.replace("desk", "chair")),
        "chair/test/leg.py": _MODULE.format(text="This is a test. " * 20),
        "site-packages/lamp.py": _MODULE.format(text="This is a package. " * 20),
        "short.py": '"""A module with very little to say."""',
        "broken.py": "def",
        "notes.txt": "This is no module at all.",
    }
    for name, text in files.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(demo_corpus.sysconfig, "get_path", lambda _: str(tmp_path / "lib"))
    monkeypatch.setattr(demo_corpus.importlib.util, "find_spec", lambda _: None)
    return tmp_path / "lib"


def test_a_document_is_a_module_in_the_order_of_its_source(library: Path) -> None:
    chair, desk = demo_documents()

    assert chair == [
        "Opens a drawer and tells what is in it.",
        _LONG.replace("desk", "chair").strip(),
        "A drawer of the desk, which holds things in the order of their arrival.",
        "Open the drawer with care.",
    ]
    assert desk == [_LONG.strip()]  # The other paragraphs repeat those of the first module.


def test_the_file_has_a_paragraph_per_line(library: Path, tmp_path: Path) -> None:
    path = write_demo_corpus(tmp_path / "new" / "demo.txt")

    assert path == tmp_path / "new" / "demo.txt"
    blocks = path.read_bytes().decode().split("\n\n")
    assert [block.rstrip("\n").split("\n") for block in blocks] == list(demo_documents())
    assert [other.name for other in path.parent.iterdir()] == ["demo.txt"]


def test_no_source_files_is_an_error(library: Path, tmp_path: Path) -> None:
    for path in library.rglob("*.py"):
        path.unlink()

    with pytest.raises(DataError, match="no source files of Python's standard library"):
        write_demo_corpus(tmp_path / "demo.txt")
    assert not (tmp_path / "demo.txt").exists()


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        (
            "One line\n  that goes on\nand on for a while.",
            ["One line that goes on and on for a while."],
        ),
        ("Return the name of the file", ["Return the name of the file."]),
        ("the first letter is made large.", ["The first letter is made large."]),
        ("Too short.", []),
        (
            "The heading of it all\n*********************\n\nThis is what stays.",
            ["This is what stays."],
        ),
        ("It adds two numbers:\n\n>>> add(1, 2)\n3\n\nThat is it now.", _AROUND),
        ("It adds two numbers:\n\n   total = add(first, second)\n\nThat is it now.", _AROUND),
        ("It adds two numbers:\n\n   stmt ::= 'add' number number\n\nThat is it now.", _AROUND),
        ("open(path, mode='r', *, encoding=None) -> file", []),
        (
            "* the first thing to do\n  is this one\n* the second thing is that",
            ["The first thing to do is this one.", "The second thing is that."],
        ),
        (
            "path -- the name of the file\n:param mode: how the file is opened",
            ["The name of the file.", "How the file is opened."],
        ),
        (
            "See :class:`~email.Message`, ``this`` and *that* for more of `it <http://x.org>`_.",
            ["See email.Message, this and that for more of it."],
        ),
        (
            ".. versionadded:: 3.2\n\nThis has been there since then::",
            ["This has been there since then:"],
        ),
        ("Two  spaces  are one  here.", ["Two spaces are one here."]),
        ("", []),
    ],
)
def test_prose(text: str, paragraphs: list[str]) -> None:
    """Only paragraphs of English sentences are kept, without code."""
    assert prose(text) == paragraphs


def test_what_this_python_ships() -> None:
    """The running Python gives a large demo corpus without repetitions or code."""
    found = list(demo_documents())
    paragraphs = [paragraph for document in found for paragraph in document]
    text = "\n".join(paragraphs)

    assert len(found) > 200
    assert len(text.split()) > 150_000
    assert len(paragraphs) == len(set(paragraphs))
    assert all(paragraph == " ".join(paragraph.split()) != "" for paragraph in paragraphs)
    assert ">>>" not in text
    letters = sum(character.isalpha() or character.isspace() for character in text)
    assert letters / len(text) > 0.9
