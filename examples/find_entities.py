"""Find entities: train on words with tags, then find names and their positions in a text.

python -m examples.find_entities train.conll  (each line has a word and its tag, with a blank line
between sentences; `bert-keras finetune conll2003` is the full training program)
"""

from __future__ import annotations

from collections.abc import Sequence

import bert_keras as bk
from bert_keras.data import label_names, read_conll
from examples import program


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a tagger, and print the entities of one text."""
    asked = program.arguments(__doc__, arguments, data="train.conll", model="bert_base_cased")
    if asked.quick:
        names = [(first, city) for first in ("Anna", "Paul", "Mia") for city in ("Rome", "Oslo")]
        sentence = "{} B-PER\nlives O\nin O\n{} B-LOC\n. O\n"
        asked.data = program.file("train.conll", [sentence.format(*pair) for pair in names * 20])
        asked.model = program.model(["Anna Paul Mia lives in Rome Oslo ."])
    sentences = read_conll(asked.data)
    labels = label_names(sentences)  # "O" comes first
    tagger = bk.TokenClassifier.from_preset(asked.model, labels=labels)
    tagger.fit(sentences.words, sentences.tags, epochs=3, learning_rate=asked.rate, verbose=2)
    text = "Mia lives in Rome."
    for entity in tagger.predict_entities([text])[0]:
        assert entity.text == text[entity.start : entity.end]
        print(f"{entity.start}-{entity.end} {entity.label} ({entity.score:.2f}): {entity.text}")
    tagger.save_to_preset("tagger")


if __name__ == "__main__":
    main()
