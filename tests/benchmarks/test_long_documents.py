"""Documents of equally many words, and a quick run that answers them in both ways."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.long_documents import QUICK, documents, made_up, measure, show, tiny_encoder


def test_documents_have_reviews_of_one_label() -> None:
    source, _ = made_up()
    texts, labels = documents(source, 6, QUICK, seed=0)
    assert (texts, labels) == documents(source, 6, QUICK, seed=0)
    assert labels == ["negative", "positive"] * 3
    for text, label in zip(texts, labels, strict=True):
        assert len(text.split()) == QUICK.words
        words = {"negative": {"bad", "poor"}, "positive": {"good", "fine"}}
        assert sum(text.count(word) for word in words[label]) == QUICK.reviews
        (other,) = words.keys() - {label}
        assert not words[other] & set(text.split())


@pytest.mark.slow
def test_a_quick_run() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=120)
    rows = measure(tiny_encoder, made_up(), QUICK, console)
    assert [row["read"] for row in rows] == ["truncate", "windows"] * 3
    assert all(0 <= row["accuracy"] <= 1 for row in rows)
    show(rows, console)
    assert screen.getvalue().count("documents, windows") >= 3
