"""Speed from a text file to a token store, beside the tokenizers library and KerasHub.

    python -m benchmarks.preparation [--text FILE] [--vocab-size 16000] [--rounds 3] [--quick]
        [--out preparation.json]

FILE has a paragraph per line and a blank line between documents. Without it, the text is English
documentation in CPython. The vocabulary is first trained on the text. bert_keras reads the file,
splits paragraphs into sentences, tokenises them and writes the store. The other libraries tokenise
paragraphs that are already in memory. KerasHub's preprocessing also packs and masks them
(`preparers.py`). Each program runs in a process of its own, and the programs take turns. The table
shows medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import OURS, Contender, contest, summary
from bert_keras import Tokenizer, data
from bert_keras.data import demo_documents

PACKAGES = ("bert-keras", "keras-hub", "tensorflow", "tensorflow-text", "tokenizers")
LIBRARY, HUB = "tokenizers", "KerasHub, preprocessing"
HUB_TOKENIZER = "KerasHub, tokenizer"
TARGETS = {LIBRARY: 1.0, HUB: 5.0}  # bert_keras is to be at least so many times as fast
_QUICK_DOCUMENTS = 40


def contenders(text: Path, tokenizer: Path) -> list[Contender]:
    """Return bert_keras, the tokenizers library, and KerasHub with and without preprocessing.

    Args:
        text: the text file.
        tokenizer: folder of the tokenizer that all of them use.
    """
    arguments: dict[str, Any] = {"file": str(text), "tokenizer": str(tokenizer)}
    workers = {"workers": os.cpu_count() or 1}
    return [
        Contender(OURS, "benchmarks.preparers:ours", arguments | workers),
        Contender(LIBRARY, "benchmarks.preparers:tokenizers", arguments),
        Contender(HUB_TOKENIZER, "benchmarks.preparers:keras_hub", arguments, "tensorflow"),
        Contender(HUB, "benchmarks.preparers:keras_hub", arguments | {"masks": True}, "tensorflow"),
    ]


def written(path: Path, *, quick: bool) -> Path:
    """Write the English documentation in CPython as a text file, and return its path.

    Args:
        path: path of the new file.
        quick: whether to write only the first documents.
    """
    documents = list(demo_documents())[: _QUICK_DOCUMENTS if quick else None]
    path.write_text("\n\n".join("\n".join(lines) for lines in documents), encoding="utf-8")
    return path


def show(summaries: dict[str, Any], title: str, console: Console) -> dict[str, float]:
    """Print the table and targets, and return the speed of bert_keras relative to each peer."""
    table = Table(title=title)
    for heading in ("program", "MB/s", "least - most", "M tokens/s", "tokens", "ours / this"):
        table.add_column(heading, justify="left" if heading == "program" else "right")
    speeds = {name: each["megabytes_per_second"] for name, each in summaries.items()}
    ratios = {
        name: speeds[OURS]["median"] / speed["median"]
        for name, speed in speeds.items()
        if name != OURS
    }
    for name, each in summaries.items():
        table.add_row(
            name,
            f"{speeds[name]['median']:.2f}",
            f"{speeds[name]['least']:.2f} - {speeds[name]['most']:.2f}",
            f"{each['tokens_per_second']['median'] / 1e6:.2f}",
            f"{each['tokens']['median']:,.0f}",
            f"{ratios[name]:.2f}" if name in ratios else "",
        )
    console.print(table)
    for name, least in TARGETS.items():
        if name in ratios:
            reached = "reached" if ratios[name] >= least else "missed"
            console.print(f"Target, at least {least:g} x {name}: {reached}, {ratios[name]:.2f}.")
    return ratios


def main() -> None:
    """Measure all contenders, print a table, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.preparation", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--text", type=Path, help="the text file")
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="little text, one round")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    rounds = 1 if options.quick else options.rounds
    size = 2_000 if options.quick else options.vocab_size
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        text = options.text or written(scratch / "text.txt", quick=options.quick)
        tokenizer = Tokenizer.train(data.read(text), vocab_size=size)
        tokenizer.save_to_preset(scratch)
        summaries = summary(contest(contenders(text.resolve(), scratch), rounds, console))
        megabytes = text.stat().st_size / 1e6
    cores = os.cpu_count()
    ratios = show(summaries, f"{megabytes:.1f} MB of text, {cores} cores, {rounds} rounds", console)
    words = ["python -m benchmarks.preparation", *(["--text FILE"] if options.text else [])]
    sizes = ["--quick"] if options.quick else [f"--vocab-size {size}", f"--rounds {rounds}"]
    command = " ".join([*words, *sizes])
    report.write(
        options.out, command, PACKAGES, megabytes=megabytes, times_as_fast=ratios, results=summaries
    )


if __name__ == "__main__":
    main()
