"""Speed and memory on one GPU in bfloat16: bert_keras on JAX beside compiled transformers.

    python -m benchmarks.gpu [--sizes base large] [--lengths 512 128] [--modes training inference]
        [--rounds 5] [--quick] [--only WORD …] [--out gpu.json]

The models are BERT-base and BERT-large in mixed_bfloat16. Training is a step of masked language
modelling with AdamW (`train_steppers.py`). Inference computes the mean vector of each row
(`mean_vectors.py`). The peer is transformers with torch.compile and SDPA. It trains in autocast,
and infers with bfloat16 weights. It gets no padding mask, because all rows are full.

The programs take turns. Products of bfloat16 matrices of 8192 x 8192 are measured with them, and
their best median is the peak of the GPU. Useful FLOP/s are counted from the sizes (`report.py`) and
shown as a share of this peak. Memory is the peak of the allocators. The targets are half of the
peak, and 1.5 times the speed of the peer. The vectors of both libraries are compared with the same
weights.

bert_keras needs Keras, JAX, tokenizers and safetensors. If JAX has no GPU, a tiny model runs on
the processor, and PyTorch compiles nothing. Such a run only tests the program: its figures mean
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import MODULES, OURS, TRANSFORMERS, Contender, contest, summary
from benchmarks.mean_vectors import sharing, told
from benchmarks.peak_memory import with_memory
from benchmarks.report import PEAK, forward_flops, peak_of, peaks, training_flops
from benchmarks.train_steppers import at_length, predictions_of

# === Shares of the measured peak, ratios to the peer, and the table ===


def rows_of(summaries: dict[str, Any], operations: int) -> list[dict[str, Any]]:
    """Return a row of the report for each program.

    A row has the share of the measured peak and the ratio to the peer.

    Args:
        summaries: summary of the contest, of programs and matrix products.
        operations: useful floating-point operations of a step.
    """
    peak = peak_of(summaries)
    seconds = {
        name: each["seconds_per_step"]["median"]
        for name, each in summaries.items()
        if not name.startswith(PEAK)
    }

    def peer(name: str) -> str | None:
        """Return the name of the peer with the same attention dropout."""
        ending = name.partition("attention")[2]
        same = [each for each in seconds if each.partition("attention")[2] == ending]
        return next((each for each in same if each.startswith(TRANSFORMERS)), None)

    return [
        {
            "program": name,
            "seconds_per_step": summaries[name]["seconds_per_step"],
            "tokens_per_second": summaries[name]["tokens_per_second"],
            "useful_flops_per_second": operations / median,
            "share_of_peak": operations / median / peak if peak else None,
            "gigabytes": summaries[name]["beyond"]["most"],
            "ratio": seconds[other] / median if (other := peer(name)) else None,
        }
        for name, median in seconds.items()
    ]


def show(rows: list[dict[str, Any]], title: str, console: Console) -> None:
    """Print the table of one size, length and mode."""
    table = Table(title=title)
    table.add_column("program")
    headings = ("ms/step", "least - most", "tokens/s", "TFLOP/s", "of the peak", "GiB")
    for heading in (*headings, "ratio to the peer"):
        table.add_column(heading, justify="right")
    for row in rows:
        time, share, ratio = row["seconds_per_step"], row["share_of_peak"], row["ratio"]
        table.add_row(
            row["program"],
            f"{1e3 * time['median']:.2f}",
            f"{1e3 * time['least']:.2f} - {1e3 * time['most']:.2f}",
            f"{row['tokens_per_second']['median']:,.0f}",
            f"{row['useful_flops_per_second'] / 1e12:.2f}",
            "" if share is None else f"{100 * share:.1f} %",
            f"{row['gigabytes']:.2f}",
            "" if ratio is None else f"{ratio:.2f}",
        )
    console.print(table)


PACKAGES = ("bert-keras", "keras", "jax", "jaxlib", "torch", "transformers")
DTYPE = "mixed_bfloat16"
SIZES: dict[str, dict[str, int]] = {
    "base": {"layers": 12, "width": 768, "heads": 12, "batch": 64, "length": 512, "steps": 10},
    "large": {"layers": 24, "width": 1024, "heads": 16, "batch": 32, "length": 512, "steps": 10},
}
TINY = {
    "layers": 2,
    "width": 32,
    "heads": 2,
    "batch": 4,
    "length": 16,
    "steps": 2,
    "vocabulary": 128,
    "positions": 64,
}
_KIND = "import jax; device = jax.devices()[0]; print(device.platform, device.device_kind)"


def accelerator() -> str | None:
    """Return the name of JAX's device; None if it is a CPU or JAX is not installed."""
    done = subprocess.run(
        [sys.executable, "-c", _KIND], capture_output=True, text=True, check=False
    )
    platform, _, kind = (done.stdout.strip().splitlines() or [""])[-1].partition(" ")
    return kind if platform not in ("", "cpu") else None


def programs(mode: str, sizes: Mapping[str, int], *, on_gpu: bool) -> list[Contender]:
    """Return bert_keras on JAX, and transformers.

    Args:
        mode: "training" or "inference". For training each program comes twice, with attention
            dropout 0.1, as published, and 0.
        sizes: sizes of the model and the batch, as for `train_steppers.sizes_of`.
        on_gpu: whether the programs run on a GPU; transformers is compiled only there.
    """
    common = {"size": dict(sizes), "dtype": DTYPE}
    peer = {**common, "compiled": on_gpu, "masked": False}
    title = f"{TRANSFORMERS}, compiled" if on_gpu else TRANSFORMERS
    place = MODULES[mode]
    if mode == "inference":
        return [
            Contender(OURS, f"{place}:ours", common, "jax"),
            Contender(title, f"{place}:transformers", peer),
        ]
    contenders = []
    for rate in (0.1, 0.0):
        ending, kind = f", attention dropout {rate:g}", {"attention_dropout": rate}
        contenders.append(Contender(OURS + ending, f"{place}:ours", {**common, **kind}, "jax"))
        contenders.append(Contender(title + ending, f"{place}:transformers", {**peer, **kind}))
    return contenders


def flops(mode: str, sizes: Mapping[str, int]) -> int:
    """Return the useful floating-point operations of a step."""
    if mode == "inference":
        return forward_flops(sizes)
    return training_flops(sizes, predictions_of(sizes["length"]))


def kernels(sizes: Mapping[str, int], folder: Path, console: Console) -> Any:
    """Return the attention kernels that bert_keras reports; None if the process failed."""
    path = folder / "kernels.json"
    arguments = {"size": dict(sizes), "dtype": DTYPE, "told": str(path)}
    teller = Contender("kernels", "benchmarks.train_steppers:tell_kernels", arguments, "jax")
    contest([teller], 1, console)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def measure(
    mode: str, sizes: Mapping[str, int], options: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Measure one size, length and mode, print its table, and return a part of the report."""
    on_gpu, rounds = options.device is not None, options.rounds
    runners = programs(mode, sizes, on_gpu=on_gpu)
    runners = [each for each in runners if any(word in each.name for word in options.only)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if mode == "inference":
            runners = sharing(runners, folder, console)
        products = peaks(DTYPE, ("jax", "torch"), 0 if on_gpu else 256)
        every = [*map(with_memory, runners), *products]
        summaries = summary(contest(every, rounds, console, together=False))
        peer = next((each.name for each in runners if each.name.startswith(TRANSFORMERS)), "")
        apart = told(runners, peer, folder) if mode == "inference" else {}
    rows = rows_of(summaries, flops(mode, sizes))
    title = "{layers} layers, {width} wide, {batch} x {length}".format(**sizes)
    show(rows, f"{title}, {mode}, {DTYPE}, {rounds} rounds", console)
    measured = {name: each for name, each in summaries.items() if name.startswith(PEAK)}
    for name, each in measured.items():
        console.print(f"{name}: {each['flops_per_second']['median'] / 1e12:.2f} TFLOP/s")
    for name, value in apart.items():
        console.print(f"{name}: vectors differ from the peer's by {value:.1e} at most")
    return {
        "mode": mode,
        "sizes": dict(sizes),
        "useful_flops": flops(mode, sizes),
        "peaks": measured,
        "differences": apart,
        "results": rows,
    }


def main() -> None:
    """Measure all sizes, lengths and modes, print tables, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--sizes", nargs="+", choices=tuple(SIZES), default=list(SIZES))
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 128], help="of rows")
    parser.add_argument("--modes", nargs="+", choices=tuple(MODULES), default=list(MODULES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one size, length and round")
    parser.add_argument("--only", nargs="*", default=[""], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    # The processes share the memory of the GPU, and JAX would reserve three quarters of it.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    options.device = accelerator()
    cases = [at_length(SIZES[size], length) for size in options.sizes for length in options.lengths]
    if options.device is None:
        console.print("JAX has no GPU here: a tiny model on the processor, to see that it works.")
        cases = [at_length(TINY, TINY["length"])]
    if options.quick:
        cases, options.rounds = cases[:1], 1
    with tempfile.TemporaryDirectory() as folder:
        attention = kernels(cases[0], Path(folder), console)
    console.print("attention kernels:", attention)
    results = [measure(mode, sizes, options, console) for sizes in cases for mode in options.modes]
    report.write(
        options.out,
        report.command("gpu", sys.argv[1:]),
        PACKAGES,
        accelerator=options.device,
        kernels=attention,
        results=results,
    )


if __name__ == "__main__":
    main()
