"""docs/sharing.md: its code and commands run against a stand-in of the Hub."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from bert_keras import cli
from bert_keras.checkpoints.model_card import ModelCard
from tests import hub_server
from tests.hub_server import TOKEN
from tests.markdown import blocks, run_python

PAGE = Path(__file__).parents[1] / "docs" / "sharing.md"


def _block(text: str, language: str) -> str:
    """Return the first block of a language."""
    return next(block.text for block in blocks(text) if block.language == language)


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with hub_server.running() as hub:
        hub_server.connect(hub, monkeypatch, tmp_path)
        run_python(blocks(text), str(PAGE))
        front = (tmp_path / "film_model" / "README.md").read_text().split("---")[1]
        assert f"---{front}---" in text
        capfd.readouterr()
        for command in _block(text, "bash").splitlines():
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert ended.value.code == 0
        printed = capfd.readouterr().out.replace(hub.endpoint, "https://huggingface.co")
        assert printed.rstrip("\n") == _block(text, "text")
        assert TOKEN not in printed
        assert "trial" in hub.repositories["organisation/film"].branches


def test_the_table_has_every_fact_of_a_card() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| key of `card=` |")[2]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.M)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert keys == set(ModelCard.__dataclass_fields__)
