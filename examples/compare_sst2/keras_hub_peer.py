"""SST-2 with KerasHub, which opens the same folder of the Hugging Face hub.

python -m examples.compare_sst2.keras_hub_peer ../shared/data/sst2 --model FOLDER
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.compare_sst2.job import run


def learn(model: str, texts: list[str], labels: list[int], dev: list[str]) -> Any:
    """Fine-tune a model with KerasHub, and label the sentences of dev."""
    import keras_hub

    classifier = keras_hub.models.TextClassifier.from_preset(model, num_classes=2)
    classifier.preprocessor.sequence_length = 128
    classifier.fit(texts, labels, epochs=3)
    return classifier.predict(dev).argmax(-1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison with KerasHub."""
    run(learn, arguments)


if __name__ == "__main__":
    main()
