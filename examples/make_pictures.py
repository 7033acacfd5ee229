"""Draw docs/pictures/ from SST-2: python -m examples.make_pictures glue_train.tsv --model DIR."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import keras

import bert_keras as bk
from examples import program

MODEL, TO = "hf://sentence-transformers/all-MiniLM-L6-v2", Path("docs", "pictures")
CAT = "The cat sat on the mat because it was tired."
REVIEW = "The plot is thin and the jokes are stale, but the actors are wonderful."
THEMES = {
    "weather": "Snow fell on the hills.|Fog hides the harbour.|A storm brings hail.|Rain by noon.",
    "food": "Rye bread and butter.|The soup needs salt.|Basil and tomatoes.|Roast fish with lemon.",
    "music": "The choir sings Bach.|A cello solo.|The drummer keeps time.|An album of ten songs.",
    "sport": "The keeper saves a shot.|A goal in the final.|The marathon is over.|Our team won.",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn from 2,000 reviews, and write three pictures."""
    asked = program.arguments(__doc__, arguments, data="glue_train.tsv", model=MODEL)
    asked.model = program.model([CAT, REVIEW]) if asked.quick else asked.model
    lines = ["", *["0\ta dull film", "1\ta fine film"] * 8]
    lines = lines if asked.quick else Path(asked.data).read_text("utf-8").splitlines()
    rows = random.Random(0).sample(lines[1:], min(2_000, len(lines) - 1))
    keras.utils.set_random_seed(0)
    model = bk.SequenceClassifier.from_preset(asked.model, labels=["negative", "positive"])
    texts = {text: theme for theme, line in THEMES.items() for text in line.split("|")}
    encoder = bk.Predictor.from_preset(asked.model)
    print(bk.visualize.attention(encoder, None, CAT).save(TO / "attention.png"))
    print(bk.visualize.embeddings(encoder, [*texts], [*texts.values()]).save(TO / "map.png"))
    model.fit([row[2:] for row in rows], [int(row[0]) for row in rows], epochs=3, verbose=0)
    print(bk.visualize.saliency(model, REVIEW).save(TO / "saliency.png"))


if __name__ == "__main__":
    main()
