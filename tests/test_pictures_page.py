"""docs/pictures.md: its code runs, its commands work, its pictures are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bert_keras import Predictor
from tests.markdown import blocks, run_python
from tests.visualize.pictures import classifier, one_backend

PAGE = Path(__file__).parents[1] / "docs" / "pictures.md"
MOST_BYTES = 400_000  # of all pictures together


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has the model and the files that the page names."""
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    Predictor(classifier(labels=["negative", "positive"])).save_to_preset("my_classifier")
    Path("sentences.csv").write_text("sentence,theme\na b,x\nc d,y\ne,x\n", encoding="utf-8")
    Path("lines.txt").write_text("a\nb c\n", encoding="utf-8")
    return tmp_path


@one_backend
def test_the_code_prints_what_it_says(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = blocks(text)
    values = run_python(found, str(PAGE))
    (expected,) = [block.text for block in found if block.language == "text"]
    assert capsys.readouterr().out.strip().endswith(expected)
    assert values["strongest"] in values["tokenizer"].vocabulary
    for name in ("attention.html", "attention.png", "map.html", "saliency.html"):
        assert (folder / name).stat().st_size > 1_000


@one_backend
def test_the_commands_work(text: str, folder: Path, call) -> None:
    (block,) = [block for block in blocks(text) if block.language == "bash"]
    commands = [shlex.split(line) for line in block.text.splitlines()]
    assert len(commands) == 4
    for program, *words in commands:
        assert program == "bert-keras"
        done = call(*words)
        assert done.code == 0, done.err
        assert (folder / words[words.index("--out") + 1]).is_file()


def test_the_pictures_are_there_and_small(text: str) -> None:
    pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", text)
    assert len(pictures) == 5
    paths = {PAGE.parent / name for _, name in pictures}
    assert paths == set((PAGE.parent / "pictures").iterdir())
    assert sum(path.stat().st_size for path in paths) < MOST_BYTES
