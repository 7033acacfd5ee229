"""Tables of texts to vectors: ratios to the peers, shares of the peak, what was aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.embedders import Case
from benchmarks.inference_cases import PARAGRAPHS, SENTENCES, SINGLE
from benchmarks.programs import OURS
from benchmarks.roofline import forward_flops

# At least so many times the texts a second of a peer, as it is fastest (ONNX Runtime is with texts
# sorted by length); a single text no later than the best of all.
TARGETS = {"sentence-transformers": 1.5, "onnxruntime": 1.1}


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
    """A table for each case that is not of the sweep, and what of it was aimed at.

    Args:
        results: of `by_case`.
        cases: what was measured.
        console: where it is printed.
        peak: FLOP/s of matrix products.
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
        told = [f"x {peer}" for peer in next(iter(all_ratios.values()), {})]
        headings = (rate[0], "least - most", rate[1], "of the peak", *told, "difference", "GiB")
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
    """Share of the peak's FLOP/s with which a program does what the texts need.

    Of single texts: what they need on average, in the median's milliseconds.
    """
    if case.one_by_one:
        texts_per_second = 1000 / row["p50"]["median"]
    else:
        texts_per_second = row["texts_per_second"]["median"]
    return texts_per_second * case.operations / len(case.texts) / peak


def operations_of(config: Mapping[str, Any], length: int) -> int:
    """Floating-point operations that a text of so many tokens needs; `config`: of a config.json."""
    sizes = {
        "layers": config["num_hidden_layers"],
        "width": config["hidden_size"],
        "inner": config["intermediate_size"],
    }
    return forward_flops({**sizes, "batch": 1, "length": length})


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
