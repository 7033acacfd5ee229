"""Classify reviews: from a CSV file with the columns text and label to a model that labels texts.

python -m examples.classify_reviews reviews.csv
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bert_keras as bk
from examples import program


def read_table(path: str) -> Any:
    """Return the columns of a CSV file, as a DataFrame if pandas is installed, else as lists."""
    try:
        import pandas as pd
    except ImportError:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {name: [row[name] for row in rows] for name in rows[0]}
    return pd.read_csv(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a classifier, and print the labels of the first three reviews."""
    asked = program.arguments(__doc__, arguments, data="reviews.csv", model="bert_base_uncased")
    if asked.quick:
        rows = [f"A {word} film.,{word}" for word in ("good", "bad") * 100]
        asked.data = program.file("reviews.csv", ["text,label", *rows])
        asked.model = program.model(rows)
    table = read_table(asked.data)
    texts, labels = table["text"], table["label"]
    classifier = bk.SequenceClassifier.from_preset(asked.model, labels=sorted(set(labels)))
    classifier.fit(texts, labels, validation_split=0.1, epochs=3, learning_rate=asked.rate)
    for text, answer in zip(texts[:3], classifier.predict_labels(texts[:3]), strict=True):
        print(f"{answer.label} ({answer.score:.2f}): {text}")
    classifier.save_to_preset("review_classifier")


if __name__ == "__main__":
    main()
