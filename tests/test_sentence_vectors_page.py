"""docs/sentence_vectors.md: its code prints what it says, and its table names all losses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bert_keras import features
from bert_keras.models.sentence_pairs import NAMED
from tests.markdown import blocks, run_python

PAGE = Path(__file__).parents[1] / "docs" / "sentence_vectors.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(TEXT)
    run_python(found, str(PAGE))
    printed = "\n".join(block.text for block in found if block.language == "text")
    assert capsys.readouterr().out.strip() == printed
    assert (tmp_path / "my_vectors" / "model.safetensors").is_file()


def test_the_table_has_every_loss() -> None:
    named = set(re.findall(r"^\| .* \| .* \| .*$", TEXT, re.M))
    words = set(re.findall(r'`"(\w+)"`', "\n".join(named)))
    assert words >= {*NAMED, *features.SENTENCE_PAIR_LOSSES}
