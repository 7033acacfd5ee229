"""Common part of the comparison: train on 2,000 sentences of SST-2, then label the dev set."""

from __future__ import annotations

import argparse
import csv
import inspect
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from examples import program


def rows(path: Path) -> tuple[list[str], list[int]]:
    """Return the sentences and the labels, 0 or 1, of a GLUE file with label, tab, sentence."""
    with path.open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file, "excel-tab", quoting=csv.QUOTE_NONE)
    return [text for _, text in lines], [int(label) for label, _ in lines]


def made_up() -> Path:
    """Write made-up sentences as GLUE files, and return their folder."""
    lines = [f"{n % 2}\ta {word} film" for n, word in enumerate(["dull", "fine"] * 20)]
    folder = program.folder()
    for name in ("glue_train.tsv", "glue_dev.tsv"):
        (folder / name).write_text("\n".join(["label\tsentence", *lines]), encoding="utf-8")
    return folder


def run(learn: Callable[..., Any], arguments: Sequence[str] | None = None) -> None:
    """Run one contender, and print its lines of code, seconds and accuracy on dev.

    Args:
        learn: function of the contender. It takes a model, training texts, labels and dev texts,
            and returns the predicted labels of dev.
        arguments: arguments of the command line; None for `sys.argv`.
    """
    parser = argparse.ArgumentParser(description=inspect.getdoc(learn))
    parser.add_argument("data", nargs="?", default="../shared/data/sst2", type=Path)
    parser.add_argument("--model", default="hf://sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and of the training")
    parser.add_argument("--quick", action="store_true", help="a tiny model on made-up text")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.data, asked.model = made_up(), program.model(["a fine dull film"])
    texts, labels = rows(asked.data / "glue_train.tsv")
    drawn = random.Random(asked.seed).sample(range(len(texts)), min(2_000, len(texts)))
    texts, labels = [texts[n] for n in drawn], [labels[n] for n in drawn]
    dev_texts, dev_labels = rows(asked.data / "glue_dev.tsv")
    keras.utils.set_random_seed(asked.seed)
    start, busy = time.perf_counter(), time.process_time()
    found = learn(asked.model, texts, labels, dev_texts)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    accuracy = sum(map(int.__eq__, map(int, found), dev_labels)) / len(dev_labels)
    code = [line for line in inspect.getsource(learn).partition('"""\n')[2].splitlines() if line]
    print(
        f"{len(code)} lines, {seconds:.0f} seconds ({busy:.0f} of processors), accuracy "
        f"{accuracy:.4f}"
    )
