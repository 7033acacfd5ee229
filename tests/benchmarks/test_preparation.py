"""The report of text preparation has ratios to the peers and its target."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.preparation import HUB, LIBRARY, OURS, contenders, show, written


def _figures(speed: float) -> dict[str, dict[str, float]]:
    spread = {"median": speed, "least": speed, "most": speed}
    return dict.fromkeys(("megabytes_per_second", "tokens_per_second", "tokens"), spread)


def test_targets() -> None:
    screen = io.StringIO()
    found: dict[str, Any] = {OURS: _figures(12), LIBRARY: _figures(8), HUB: _figures(3)}
    assert show(found, "", Console(file=screen, width=200)) == {LIBRARY: 1.5, HUB: 4.0}
    assert "at least 1 x tokenizers: reached, 1.50." in screen.getvalue()
    assert f"at least 5 x {HUB}: missed, 4.00." in screen.getvalue()


def test_all_read_the_same(tmp_path: Path) -> None:
    found = contenders(tmp_path / "text.txt", tmp_path)
    assert {each.arguments["file"] for each in found} == {str(tmp_path / "text.txt")}
    assert [each.arguments.get("workers", 0) > 0 for each in found] == [True, False, False, False]


@pytest.mark.parametrize("quick", [True, False])
def test_text_of_documents(tmp_path: Path, quick: bool) -> None:
    text = written(tmp_path / "text.txt", quick=quick).read_text(encoding="utf-8")
    assert len(text.split("\n\n")) == 40 if quick else len(text.split("\n\n")) > 40
