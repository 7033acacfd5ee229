"""Exactness and speed of the in-graph tokenizer, beside the tokenizer in Python.

    python -m benchmarks.in_graph --data DIR [--out in_graph.json]

DIR holds bert_vocabs/, blns/, golden_tokenization/, enwiki/ and zh_corpus/. Both engines of the
in-graph tokenizer tokenize every text with Google's vocabularies. "cased" is the uncased vocabulary
without lower-casing. They also tokenize all 1,112,064 code points, each in the text
"a<cp>b <cp>E". The ids are compared with those of the tokenizer in Python.

The speed is measured on the two corpora, in batches of 256 lines. tensorflow-text's
FastBertTokenizer, which is not exact, and the tokenizer in Python are measured too. All take turns,
and the table shows medians of five rounds. The exit code is 1 if any ids differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tensorflow_text
from rich.console import Console
from rich.table import Table

from benchmarks import report
from bert_keras import Tokenizer
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

ENGINES = {"fast": False, "portable": True}
BATCH, ROUNDS, TIMED = 256, 5, 2_000_000  # lines of a batch, rounds, bytes of each corpus
_CORPORA = {"enwiki": "uncased", "zh_corpus": "chinese"}


def vocabulary(data: Path, name: str) -> list[str]:
    """Return the entries of one of Google's vocabularies.

    Args:
        data: the folder of --data.
        name: "uncased" or "chinese".
    """
    text = (data / "bert_vocabs" / f"bert-base-{name}-vocab.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def texts_of(data: Path, name: str) -> list[str]:
    """Return all texts of a source.

    Args:
        data: the folder of --data.
        name: "code points", or the name of a folder in `data`.
    """
    if name == "code points":
        points = [*range(0xD800), *range(0xE000, 0x110000)]
        return [f"a{chr(point)}b {chr(point)}E" for point in points]
    if name == "blns":
        return json.loads((data / "blns" / "blns.json").read_text(encoding="utf-8"))
    if name == "golden_tokenization":
        return [
            json.loads(line)["text"]
            for path in sorted((data / name).glob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        ]
    paths = sorted((data / name).rglob("*.txt"))
    return [line for path in paths for line in path.read_text(encoding="utf-8").split("\n")]


def differences(
    tokenizer: Tokenizer, engines: dict[str, InGraphTokenizer], texts: Sequence[str]
) -> dict[str, int]:
    """Return the number of texts that each engine cuts differently from Python, by engine."""
    counts = dict.fromkeys(engines, 0)
    for start in range(0, len(texts), 2048):
        batch = texts[start : start + 2048]
        expected = tokenizer.text_ids(batch)
        lengths = np.array([len(ids) for ids in expected])
        ids = np.array([number for row in expected for number in row], np.int32)
        for name, engine in engines.items():
            rows = engine.tokenize(tf.constant(batch, tf.string))
            is_same = np.array_equal(rows.row_lengths().numpy(), lengths)
            if not (is_same and np.array_equal(rows.flat_values.numpy(), ids)):
                pairs = zip(rows.to_list(), expected, strict=True)
                counts[name] += sum(one != other for one, other in pairs)
    return counts


def speeds(
    cut: dict[str, Callable[[Any], Any]], texts: Sequence[str], console: Console
) -> dict[str, float]:
    """Measure the speed of each tokenizer, in megabytes of UTF-8 per second.

    Args:
        cut: functions that tokenize a batch, by name.
        texts: lines of a corpus, of which the first `TIMED` bytes are used.
        console: where the figures are printed.
    """
    sizes = np.cumsum([len(text.encode()) for text in texts])
    texts = texts[: int(np.searchsorted(sizes, TIMED)) + 1]
    size = sum(len(text.encode()) for text in texts) / 1e6
    batches = [list(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
    ready = [tf.constant(batch) for batch in batches]
    times: dict[str, list[float]] = {name: [] for name in cut}
    for turn in range(ROUNDS + 1):
        for name, run in cut.items():
            begin = time.perf_counter()
            for batch in batches if name == "Python" else ready:
                run(batch)
            if turn:  # the first turn traces the graph, and is not counted
                times[name].append(time.perf_counter() - begin)
    console.print({name: f"{size / statistics.median(each):.1f}" for name, each in times.items()})
    return {name: size / statistics.median(each) for name, each in times.items()}


def peers(words: list[str], tokenizer: Tokenizer) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield name and function of each tokenizer that the engines are compared with."""
    peer = tensorflow_text.FastBertTokenizer(
        vocab=words, token_out_type=tf.int32, lower_case_nfd_strip_accents=tokenizer.lowercase
    )
    yield "FastBertTokenizer", tf.function(peer.tokenize, reduce_retracing=True)
    yield "Python", tokenizer.text_ids


def main() -> None:
    """Compare the ids, measure the speed, print tables, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.in_graph", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of the texts")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    words = {name: vocabulary(options.data, name) for name in ("uncased", "chinese")}
    tokenizers = {
        "uncased": Tokenizer(words["uncased"]),
        "cased": Tokenizer(words["uncased"], lowercase=False),
        "chinese": Tokenizer(words["chinese"]),
    }
    engines = {
        kind: {
            name: InGraphTokenizer(tokenizer, portable=portable, special_tokens_in_text=False)
            for name, portable in ENGINES.items()
        }
        for kind, tokenizer in tokenizers.items()
    }
    rows = []
    for name in ("blns", "golden_tokenization", "code points", *_CORPORA):
        texts = texts_of(options.data, name)
        for kind in [_CORPORA[name]] if name in _CORPORA else tokenizers:
            counts = differences(tokenizers[kind], engines[kind], texts)
            rows.append({"texts": name, "vocabulary": kind, "count": len(texts), "differ": counts})
            console.print(rows[-1])
    table = Table("MB/s", *ENGINES, "FastBertTokenizer", "Python")
    measured = {}
    for name, kind in _CORPORA.items():
        cut: dict[str, Any] = {key: engine.tokenize for key, engine in engines[kind].items()}
        cut |= dict(peers(words[kind], tokenizers[kind]))
        measured[name] = speeds(cut, texts_of(options.data, name), console)
        table.add_row(name, *(f"{measured[name][key]:.1f}" for key in cut))
    console.print(table)
    report.write(
        options.out,
        "python -m benchmarks.in_graph --data DIR",
        ("tensorflow", "tensorflow-text", "tokenizers"),
        exactness=rows,
        megabytes_per_second=measured,
    )
    sys.exit(any(any(row["differ"].values()) for row in rows))


if __name__ == "__main__":
    main()
