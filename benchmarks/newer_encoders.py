"""Seconds and peak memory of ModernBERT and MPNet, in training and inference, beside transformers.

    python -m benchmarks.newer_encoders [--shape modernbert|mpnet] [--lengths 512 2048]
        [--modes inference training] [--rounds 3] [--quick] [--only WORD …] [--out newer.json]

The models have the published sizes of the base models and random weights. bert_keras runs on each
backend, and transformers with and without `torch.compile`. Its ModernBERT uses SDPA; its MPNet has
no such variant. Training is a step of masked language modelling with AdamW, also with gradient
checkpointing. All lengths have the same number of tokens in a batch, and the rows are full.

The programs take turns, and each round runs in a new process. Memory is counted beyond the process
before the model was built (`peak_memory.py`).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.contest import TRANSFORMERS, Contender, contenders, contest, summary
from benchmarks.long_sequences import rows_of, show
from benchmarks.peak_memory import with_memory
from benchmarks.train_steppers import SHAPES, at_length

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "transformers")
MODES = ("inference", "training")
CHECKPOINTED = "gradients checkpointed"
# Warner et al., 2024, Table 4; Song et al., 2020. A batch has 2,048 tokens.
SIZES: dict[str, dict[str, int]] = {
    "modernbert": {"layers": 22, "width": 768, "heads": 12, "inner": 1152},
    "mpnet": {"layers": 12, "width": 768, "heads": 12, "inner": 3072},
}
BATCH = {"batch": 1, "length": 2048, "steps": 2}
QUICK = {"layers": 4, "width": 64, "heads": 2, "inner": 96}
LENGTHS = {"modernbert": (512, 2048), "mpnet": (128, 512)}  # MPNet has 512 positions


def programs(shape: str, mode: str, length: int, *, quick: bool = False) -> list[Contender]:
    """Return the contenders; those with gradient checkpointing come last.

    Args:
        shape: a key of `SIZES`.
        mode: one of `MODES`.
        length: tokens of a row.
        quick: whether to use a tiny model.
    """
    sizes = at_length({**(QUICK if quick else SIZES[shape]), **BATCH}, length)
    usual = contenders(mode, sizes, shape=shape)
    peer = usual[-1]
    compiled = {**peer.arguments, "compiled": True}
    usual.append(replace(peer, name=f"{TRANSFORMERS}, compiled", arguments=compiled))
    if mode == "inference":
        return usual
    checkpointed = {"checkpointed": True, "option": CHECKPOINTED}
    return [*usual, *contenders(mode, sizes, shape=shape, **checkpointed)]


def main() -> None:
    """Measure all lengths and modes, print tables and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.newer_encoders", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--shape", choices=tuple(SHAPES), default="modernbert")
    parser.add_argument("--lengths", type=int, nargs="+", default=[])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tiny model, PyTorch, one round")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    quick, shape = options.quick, options.shape
    words = options.only or (["torch", TRANSFORMERS] if quick else [""])
    rounds = 1 if quick else options.rounds
    results: list[dict[str, Any]] = []
    for length in options.lengths or LENGTHS[shape]:
        for mode in options.modes:
            chosen = [
                with_memory(each)
                for each in programs(shape, mode, length, quick=quick)
                if any(word in each.name for word in words)
                and not (quick and ("compiled" in each.name or CHECKPOINTED in each.name))
            ]
            figures = summary(contest(chosen, rounds, console, together=False))
            rows: list[dict[str, Any]] = []
            for is_checkpointed in (False, True):  # each kind is compared with its peers
                names = [name for name in figures if (CHECKPOINTED in name) is is_checkpointed]
                rows += rows_of(mode, length, {name: figures[name] for name in names})
            show(rows, f"{shape}, rows of {length}, {mode}, {rounds} rounds", console)
            results += rows
            report.write(
                options.out,
                report.command("newer_encoders", sys.argv[1:]),
                PACKAGES,
                sizes={**(QUICK if quick else SIZES[shape]), **BATCH},
                results=results,
            )


if __name__ == "__main__":
    main()
