"""Contenders of the startup benchmark, and its report."""

from __future__ import annotations

import io

from rich.console import Console

from benchmarks.contest import summary
from benchmarks.starters import STARTERS
from benchmarks.startup import ANSWER, IMPORT, STAGES, beyond, contenders, show


def test_every_contender_has_a_starter() -> None:
    found = contenders("preset")
    assert set(found) == set(STAGES)
    starters = {each.arguments["starter"] for programs in found.values() for each in programs}
    assert starters == set(STARTERS)
    for programs in found.values():
        assert len({each.name for each in programs}) == len(programs) == 8


def test_show() -> None:
    stages = {"base": 5.0, "import": 0.01, "names": 0.2}
    rounds = {
        "bert_keras, jax": [{**stages, "seconds": 5.21, "gigabytes": 0.5}],
        "transformers": [{**stages, "seconds": 10.42, "gigabytes": 0.5}],
    }
    found, screen = summary(rounds), io.StringIO()
    assert {name: round(seconds, 3) for name, seconds in beyond(found).items()} == {
        "bert_keras, jax": 0.21
    }
    show(IMPORT, found, 1, Console(file=screen, width=160))
    told = screen.getvalue()
    assert "reached by bert_keras, jax, 0.210 s" in told
    assert "0.50" in told


def test_a_peer_alone_is_shown() -> None:
    figures = {"import": 1.0, "open": 2.0, "first": 3.0, "seconds": 6.0, "gigabytes": 0.5}
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    for name in ("bert_keras, jax", "transformers"):
        show(ANSWER, summary({name: [figures]}), 1, console)
    show(ANSWER, {}, 1, console)
    assert screen.getvalue().count("6.00 - 6.00") == 2
