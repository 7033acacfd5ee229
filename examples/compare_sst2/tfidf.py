"""SST-2 with scikit-learn: TF-IDF of words and pairs of words, and a logistic regression.

python -m examples.compare_sst2.tfidf ../shared/data/sst2 --model FOLDER
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.compare_sst2.job import run


def learn(_: str, texts: list[str], labels: list[int], dev: list[str]) -> Any:
    """Fit a logistic regression over TF-IDF, and label the sentences of dev."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    classifier = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression())
    classifier.fit(texts, labels)
    return classifier.predict(dev)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison with scikit-learn."""
    run(learn, arguments)


if __name__ == "__main__":
    main()
