"""The code of the pages about vectors prints what they say, and a table names all losses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bert_keras import features
from bert_keras.models.sentence_pairs import NAMED
from tests.markdown import blocks, run_python

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["sentence_vectors.md", "search_and_rank.md"]


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_the_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks((DOCS / name).read_text(encoding="utf-8"))
    run_python(found, str(DOCS / name))
    printed = "\n".join(block.text for block in found if block.language == "text")
    assert capsys.readouterr().out.strip() == printed
    assert (tmp_path / "my_vectors" / "model.safetensors").is_file()


def test_the_table_has_every_loss() -> None:
    text = (DOCS / "sentence_vectors.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| .* \| .* \| .*$", text, re.M))
    words = set(re.findall(r'`"(\w+)"`', "\n".join(named)))
    assert words >= {*NAMED, *features.SENTENCE_PAIR_LOSSES}
