"""Startup programs run through all their stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.starters import STARTERS, started


@pytest.mark.parametrize("starter", ["our_answer", "our_step"])
def test_ours(starter: str, tiny_preset: Path) -> None:
    found = started(starter, preset=str(tiny_preset))()
    assert list(found) == ["import", "open", "first", "seconds"]
    assert found["seconds"] == pytest.approx(sum(found.values()) - found["seconds"])


def test_importing() -> None:
    """The stage `names` reads all public names if no names are given.

    An unknown name is an error.
    """
    run = started("importing", base="json", package="bert_keras", names=())
    assert list(run()) == ["base", "import", "names", "seconds"]
    with pytest.raises(AttributeError, match="no_such_name"):
        started("importing", base="json", package="bert_keras", names=("no_such_name",))()


@pytest.mark.parametrize("starter", [name for name in STARTERS if name.startswith("transformers")])
def test_the_peer(starter: str, tiny_preset: Path, transformers) -> None:
    found = started(starter, preset=str(tiny_preset))()
    assert list(found) == ["import", "open", "first", "seconds"]
