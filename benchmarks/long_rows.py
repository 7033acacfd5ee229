"""Peak memory and seconds of a row of 8,192 tokens, with attention in blocks and without.

    python -m benchmarks.long_rows [--length 8192] [--modes inference training] [--rounds 1]
        [--quick] [--only WORD …] [--out long_rows.json]

The model is like ModernBERT: every third layer is global, the others have a window of 64 tokens to
each side. Attention dropout is 0, and a batch is one row. Where a backend has no fused kernel,
global layers compute attention for a block of queries at a time
(`bert_keras/kernels/query_blocks.py`). These programs also run with all queries at once. Each
round runs in a new process, one after the other. Memory is counted beyond the process before the
model was built (`peak_memory.py`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS, OURS, Contender, contest, summary
from benchmarks.peak_memory import with_memory
from benchmarks.train_steppers import Round, rows

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
# Layers 0 and 3 are global.
SIZES = {"layers": 4, "width": 256, "heads": 4, "batch": 1, "vocabulary": 8_192, "steps": 1}
QUICK = {"layers": 2, "width": 32, "heads": 2, "batch": 1, "vocabulary": 1_000, "steps": 1}
QUICK_LENGTH = 2_304
LENGTH = 8_192
MODES = ("inference", "training")
# Options of `ours` by their words in a table, and the backends that they are measured on.
OPTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "": ({}, BACKENDS),
    "all queries at once": ({"in_blocks": False}, ("tensorflow",)),
    "without XLA": ({"jit_compile": False}, ("tensorflow",)),
    "without XLA, all queries at once": (
        {"jit_compile": False, "in_blocks": False},
        ("tensorflow",),
    ),
    "mixed_float16": ({"dtype": "mixed_float16"}, ("jax",)),
    "mixed_float16, all queries at once": (
        {"dtype": "mixed_float16", "in_blocks": False},
        ("jax",),
    ),
}


def ours(
    mode: str,
    size: Mapping[str, int],
    dtype: str = "float32",
    in_blocks: bool = True,
    jit_compile: bool = True,
) -> Round:
    """Prepare a contender whose rounds train `MaskedLM`, or compute vectors of an encoder.

    Args:
        mode: one of `MODES`.
        size: sizes of the model and the batch: `SIZES` with "length".
        dtype: a Keras dtype policy.
        in_blocks: False to compute the attention of all queries at once.
        jit_compile: whether XLA compiles on TensorFlow. PyTorch compiles nothing.
    """
    import keras

    from bert_keras import PRESETS, BertEncoder, MaskedLM, SentenceEncoder
    from bert_keras.kernels import query_blocks

    if not in_blocks:
        query_blocks.LONG = size["length"]
    config = PRESETS["modernbert_base"].replace(
        vocab_size=size["vocabulary"],
        hidden_size=size["width"],
        num_layers=size["layers"],
        num_heads=size["heads"],
        intermediate_size=3 * size["width"] // 2,
        max_positions=size["length"],
    )
    encoder = BertEncoder(config, dtype=dtype)
    examples = rows(size, 1)
    x = {"token_ids": examples["ids"], "padding_mask": np.ones_like(examples["ids"])}
    compiled = {"jit_compile": jit_compile and keras.backend.backend() != "torch"}
    if mode == "inference":
        sentences = SentenceEncoder(encoder, normalize=False)
        sentences.compile(**compiled)

        def step() -> None:
            sentences.predict_on_batch(x)

    else:
        task = MaskedLM(encoder)
        task.compile(keras.optimizers.AdamW(1e-4), **task.loss_and_metrics(), **compiled)
        places = {"mask_positions": examples["places"]}

        def step() -> None:
            task.train_on_batch({**x, **places}, {"mlm": examples["labels"]})

    step()

    def run() -> dict[str, float]:
        """Run the steps of a round; return the seconds of a step."""
        begin = time.perf_counter()
        for _ in range(size["steps"]):
            step()
        return {"seconds_per_step": (time.perf_counter() - begin) / size["steps"]}

    return run


def programs(mode: str, size: Mapping[str, int]) -> list[Contender]:
    """Return the contenders of a mode: each option on its backends.

    Args:
        mode: one of `MODES`.
        size: sizes of the model and the batch: `SIZES` with "length".
    """
    return [
        Contender(
            ", ".join(filter(None, (OURS, backend, words))),
            "benchmarks.long_rows:ours",
            {"mode": mode, "size": dict(size), **options},
            backend,
        )
        for words, (options, backends) in OPTIONS.items()
        for backend in backends
    ]


def show(summaries: Mapping[str, Any], title: str, console: Console) -> None:
    """Print the table of one mode."""
    table = Table("program", title=title)
    for heading in ("GiB", "prepared, GiB", "s/step"):
        table.add_column(heading, justify="right")
    for name, figures in summaries.items():
        cells = (figures[key]["median"] for key in ("beyond", "prepared", "seconds_per_step"))
        table.add_row(name, *(f"{value:.3f}" for value in cells))
    console.print(table)


def main() -> None:
    """Measure both modes, print tables, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_rows", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--length", type=int, default=LENGTH, help="tokens of the row")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one backend")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    words = options.only or (["torch"] if options.quick else [""])
    length = QUICK_LENGTH if options.quick else options.length
    size = {**(QUICK if options.quick else SIZES), "length": length}
    results = []
    for mode in options.modes:
        chosen = [each for each in programs(mode, size) if any(word in each.name for word in words)]
        figures = summary(
            contest([*map(with_memory, chosen)], options.rounds, console, together=False)
        )
        title = "{layers} layers, {width} wide, {heads} heads, 1 x {length}".format(**size)
        show(figures, f"{title}, {mode}", console)
        results.append({"mode": mode, "found": figures})
    report.write(
        options.out,
        report.command("long_rows", sys.argv[1:]),
        PACKAGES,
        sizes=size,
        results=results,
    )


if __name__ == "__main__":
    main()
