"""Search sentences: the nearest of 1,000 texts to a question, by their vectors.

python -m examples.search_sentences sentences.txt  (one text per line)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

import bert_keras as bk
from examples import program

MODEL = "hf://sentence-transformers/all-MiniLM-L6-v2"
PEOPLE = "A nurse,A baker,A pilot,A farmer,A judge,A singer,A miner,A diver,A guard,A clerk"
DEEDS = "sells,paints,repairs,counts,hides,finds,cleans,draws,moves,wants"
THINGS = "a red boat,old maps,the clock,ten eggs,a piano,wet shoes,silver coins,bread,a kite,lamps"


def main(arguments: Sequence[str] | None = None) -> None:
    """Encode 1,000 texts once, and print the three that are nearest to a question."""
    asked = program.arguments(__doc__, arguments, data="sentences.txt", model=MODEL)
    parts = (PEOPLE.split(","), DEEDS.split(","), THINGS.split(","))
    texts = [" ".join(words) + "." for words in product(*parts)]
    if asked.quick:
        asked.model = program.model(texts)
    elif Path(asked.data).is_file():
        texts = Path(asked.data).read_text(encoding="utf-8").splitlines()[:1_000]
    model = bk.Predictor.from_preset(asked.model, batch_size=64)
    start = time.perf_counter()
    vectors = model.encode(texts)  # keep them: np.save("vectors.npy", vectors)
    print(f"{len(texts):,} texts in {time.perf_counter() - start:.1f} seconds: {vectors.shape}")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    question = model.encode(["Who repairs a piano?"])[0]
    scores = vectors @ (question / np.linalg.norm(question))
    for number in np.argsort(-scores)[:3]:
        print(f"{scores[number]:.3f} {texts[number]}")


if __name__ == "__main__":
    main()
