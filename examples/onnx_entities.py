"""Find entities with an exported ONNX model and a client that does not need bert_keras.

python -m examples.onnx_entities saved_models/tagger-onnx/1  (the folder that `bert-keras export
tagger --format onnx` writes; `entity_client.py` is the client)
"""

from __future__ import annotations

from collections.abc import Sequence

import bert_keras as bk
from examples import program
from examples.entity_client import EntityFinder


def main(arguments: Sequence[str] | None = None) -> None:
    """Find the entities of one text with the exported model, and print them."""
    folder = "saved_models/tagger-onnx/1"
    asked = program.arguments(__doc__, arguments, data=folder, model="tagger")
    text = "Mia lives in Rome."
    if asked.quick:
        tokens = program.model([text])
        names = ["O", "B-PER", "B-LOC"]
        tagger = bk.TokenClassifier.from_preset(tokens, labels=names)
        words = ["Mia", "lives", "in", "Rome", "."]
        tags = ["B-PER", "O", "O", "B-LOC", "O"]
        tagger.fit([words] * 64, [tags] * 64, epochs=3, learning_rate=asked.rate, verbose=0)
        asked.data = f"{program.folder()}/tagger-onnx"
        bk.export.runtime_model(tagger, tagger.tokenizer, asked.data)
    for label, start, end, score in EntityFinder(asked.data)(text):
        print(f"{start}-{end} {label} ({score:.2f}): {text[start:end]}")


if __name__ == "__main__":
    main()
