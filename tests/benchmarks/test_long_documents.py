"""Documents of equally many words, and a quick run that answers them in both ways."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.long_documents import QUICK, documents, made_up, measure, show, tiny_encoder


def test_most_sentences_of_a_document_have_its_label() -> None:
    reviews, _ = made_up()
    texts, labels = documents(reviews, 40, QUICK, seed=0)
    assert (texts, labels) == documents(reviews, 40, QUICK, seed=0)
    assert labels == ["negative", "positive"] * 20
    shares = []
    for text, label in zip(texts, labels, strict=True):
        assert len(text.split()) == QUICK.words
        words = {"negative": ("bad", "poor"), "positive": ("good", "fine")}
        counts = {name: sum(map(text.count, those)) for name, those in words.items()}
        shares.append(counts[label] / sum(counts.values()))
    assert 0.6 < sum(shares) / len(shares) < 0.75


@pytest.mark.slow
def test_a_quick_run() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=120)
    rows = measure(tiny_encoder, made_up(), QUICK, console)
    assert [row["read"] for row in rows] == ["truncate", "windows"] * 3
    assert all(0 <= row["accuracy"] <= 1 for row in rows)
    show(rows, console)
    assert screen.getvalue().count("documents, windows") >= 3
