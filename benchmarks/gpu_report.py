"""What `gpu` says of its figures: shares of the measured peak, ratios, the table."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.programs import TRANSFORMERS
from benchmarks.roofline import PEAK, peak_of


def rows_of(found: dict[str, Any], operations: int) -> list[dict[str, Any]]:
    """Summaries as rows of the report, with shares of the measured peak, and ratios to the peer.

    Args:
        found: of programs and matrix products.
        operations: useful ones of a step.
    """
    peak = peak_of(found)
    seconds = {
        name: each["seconds_per_step"]["median"]
        for name, each in found.items()
        if not name.startswith(PEAK)
    }

    def peer(name: str) -> str | None:
        """The one with the same attention dropout."""
        ending = name.partition("attention")[2]
        same = [each for each in seconds if each.partition("attention")[2] == ending]
        return next((each for each in same if each.startswith(TRANSFORMERS)), None)

    return [
        {
            "program": name,
            "seconds_per_step": found[name]["seconds_per_step"],
            "tokens_per_second": found[name]["tokens_per_second"],
            "useful_flops_per_second": operations / median,
            "share_of_peak": operations / median / peak if peak else None,
            "gigabytes": found[name]["beyond"]["most"],
            "ratio": seconds[other] / median if (other := peer(name)) else None,
        }
        for name, median in seconds.items()
    ]


def show(rows: list[dict[str, Any]], title: str, console: Console) -> None:
    """The table of one size, length and mode."""
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
