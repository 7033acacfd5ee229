"""SST-2 with bert_keras.

python -m examples.compare_sst2.ours ../shared/data/sst2 --model FOLDER
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.compare_sst2.job import run


def learn(model: str, texts: list[str], labels: list[int], dev: list[str]) -> Any:
    """Fine-tune a model with bert_keras, and label the sentences of dev."""
    import bert_keras as bk

    classifier = bk.SequenceClassifier.from_preset(model, labels=["negative", "positive"])
    classifier.fit(texts, labels, epochs=3)
    return classifier.predict(dev).argmax(-1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison with bert_keras."""
    run(learn, arguments)


if __name__ == "__main__":
    main()
