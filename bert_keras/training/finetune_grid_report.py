"""Report of a grid of tried values: the ranking, a table, a picture, and a JSON file."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from bert_keras import file_io
from bert_keras.escaping import markdown
from bert_keras.training.best_checkpoint import (
    higher_is_better_value,
    scores_of,
    selection_metric,
    summary,
)
from bert_keras.training.finetune_grid import Grid, GridPoint, shown
from bert_keras.training.plots import grid_picture
from bert_keras.training.pretrain_report import markdown_table
from bert_keras.training.progress import clock

PICTURE, SCORES = "grid.png", "grid.json"
_RANGE = "lowest to highest"  # column of report.md alone


@dataclasses.dataclass(frozen=True)
class GridResults:
    """Results of all points of a grid.

    Attributes:
        grid: the grid.
        results: for each point, the results of its seeds; see `finetune_seed.run_seed`.
        metric: name of the metric that selects the best point.
        best: index of the best point.
    """

    grid: Grid
    results: Sequence[Sequence[Mapping[str, Any]]]
    metric: str
    best: int

    @classmethod
    def of(cls, grid: Grid, results: Sequence[Sequence[Mapping[str, Any]]]) -> GridResults:
        """Rank the points of a grid, or its first points.

        The best point has the best mean of the metric over its seeds, and of equal points it is
        the first. A point with a seed that failed, or whose metric is not defined, ranks below all
        others.
        """
        metric = _metric_of(grid, results)
        ranks = [_rank(metric, of_point) for of_point in results]
        return cls(grid, results, metric, ranks.index(max(ranks)))

    @property
    def point(self) -> GridPoint:
        """The best point."""
        return self.grid.points[self.best]

    def described(self) -> str:
        """Return the tried values and the best ones as text, for the model card."""
        names = {name: ", ".join(map(shown, values)) for name, values in self.grid.tried().items()}
        tried = "; ".join(f"{name}: {values}" for name, values in names.items())
        return f"{tried}; chosen by {self.metric}: {self.point.label}"

    def table(self) -> Table:
        """Return the table for a terminal; the best point is bold."""
        *names, remark = self._head()
        names.remove(_RANGE)
        columns = [*(Column(name, no_wrap=True) for name in names), Column(remark, overflow="fold")]
        table = Table(*columns, title=self._title)
        for index, row in enumerate(self._rows()):
            cells = [cell for name, cell in zip(self._head(), row, strict=True) if name != _RANGE]
            table.add_row(*cells, style="bold" if index == self.best else "")
        return table

    def lines(self, pictures: Collection[str]) -> list[str]:
        """Return the lines of report.md: the table, remarks, and the picture if it was drawn."""
        rows = [tuple(map(markdown, row)) for row in self._rows()]
        rows[self.best] = tuple(f"**{cell}**" if cell else "" for cell in rows[self.best])
        lines = ["", "## Tried values", "", f"{self._title}. The best value is in bold."]
        lines += ["", *markdown_table(rows, tuple(map(markdown, self._head()))), ""]
        lines += [f"- {remark}" for remark in self.remarks()]
        if PICTURE in pictures:
            names = ", ".join(self.grid.names)
            lines += ["", f"![{markdown(self.metric)} by {markdown(names)}]({PICTURE})", ""]
            lines.append(
                "A large point is the mean of a value, its bar the standard deviation, and a small "
                "point one seed."
            )
        return lines

    def remarks(self) -> list[str]:
        """Return sentences on what the scores show, and what they do not show."""
        remarks: list[str] = []
        ranks = [_rank(self.metric, of_point) for of_point in self.results]
        missing, mean = ranks.pop(self.best)
        others = [other for other_missing, other in ranks if other_missing == missing]
        if others and math.isfinite(mean):
            difference = mean - max(others)
            spread = _deviation(self.results[self.best], self.metric)
            if spread is None:
                remarks.append(
                    "Each value has one seed. With seeds=3 the table shows which differences are "
                    "larger than those between seeds."
                )
            elif difference < spread:
                remarks.append(
                    f"The difference between the two best values, {difference:.4f}, is smaller "
                    f"than the standard deviation over the seeds of the best one, {spread:.4f}."
                )
        for name, values in self.grid.tried().items():
            value = self.point.values[name]
            if len(values) > 2 and isinstance(value, float | int) and not isinstance(value, bool):
                for end, word in ((min(values), "smallest"), (max(values), "largest")):
                    if value == end:
                        remarks.append(
                            f"{name}={shown(value)} is the {word} value that was tried. A "
                            f"{'smaller' if word == 'smallest' else 'larger'} one may be better; "
                            "the same folder trains it beside these."
                        )
        remarks.append(
            "The best value was chosen by these scores, so expect a worse score on other examples. "
            "Measure the model on a test file: `bert-keras evaluate`."
        )
        return remarks

    def draw(self, folder: Path) -> str:
        """Draw the scores by value into grid.png; return this name."""
        first, *others = self._drawn_names()
        scores: dict[str, dict[str, list[float]]] = {}
        best = ("", "")
        for index, (point, of_point) in enumerate(self._pairs()):
            label = ", ".join(f"{name}={shown(point.values[name])}" for name in others)
            value = shown(point.values[first])
            scores.setdefault(label, {})[value] = known_scores(of_point, self.metric)
            best = (label, value) if index == self.best else best
        grid_picture(scores, first, self.metric, best, folder / PICTURE)
        return PICTURE

    def write(self, folder: Path) -> None:
        """Write grid.json: the metric, and for each point its values, folder and seeds."""
        points = [
            {"values": dict(point.values), "folder": point.folder, "seeds": list(of_point)}
            for point, of_point in self._pairs()
        ]
        best = self.point.folder
        file_io.write_json(folder / SCORES, {"metric": self.metric, "best": best, "points": points})

    @property
    def _title(self) -> str:
        """Heading of the table."""
        seeds = max(map(len, self.results))
        of_seeds = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed each"
        return f"Validation {self.metric} by value, {of_seeds}"

    def _head(self) -> list[str]:
        """Return the names of the columns."""
        return [*self.grid.names, self.metric, _RANGE, "time", "remark"]

    def _rows(self) -> list[list[str]]:
        """Return the cells of the table, a row for each point."""
        rows = []
        for index, (point, of_point) in enumerate(self._pairs()):
            good = [result for result in of_point if "failed" not in result]
            known = known_scores(of_point, self.metric)
            spread = f"{min(known):.4f} to {max(known):.4f}" if len(known) > 1 else ""
            rows.append(
                [
                    *map(shown, point.values.values()),
                    summary(scores_of(good, self.metric)) if good else "-",
                    spread,
                    clock(sum(result["seconds"] for result in good)),
                    _remark(of_point, is_best=index == self.best),
                ]
            )
        return rows

    def _pairs(self) -> list[tuple[GridPoint, Sequence[Mapping[str, Any]]]]:
        """Return the points with their results."""
        return list(zip(self.grid.points, self.results, strict=False))

    def _drawn_names(self) -> list[str]:
        """Return the tried keys, the one with the most values first: it is the horizontal axis."""
        tried = self.grid.tried()
        return sorted(tried, key=lambda name: -len(tried[name]))


def known_scores(results: Sequence[Mapping[str, Any]], metric: str) -> list[float]:
    """Return the metric of the seeds that did not fail, without values that are not defined."""
    good = [result for result in results if "failed" not in result]
    return [
        value for value in scores_of(good, metric) if value is not None and math.isfinite(value)
    ]


def _metric_of(grid: Grid, results: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Return the metric that selects the best point; "score" where every seed failed."""
    every = [result for of_point in results for result in of_point if "failed" not in result]
    metrics = every[0]["metrics"] if every else {"score": None}
    return selection_metric(grid.points[0].recipe, metrics)


def _rank(metric: str, results: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """Return the rank of a point, higher is better: seeds without a score, and the mean."""
    values = [higher_is_better_value(metric, score) for score in known_scores(results, metric)]
    return len(values) - len(results), statistics.fmean(values) if values else -math.inf


def _deviation(results: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """Return the standard deviation over the seeds; None for fewer than two."""
    scores = known_scores(results, metric)
    return statistics.stdev(scores) if len(scores) > 1 else None


def _remark(results: Sequence[Mapping[str, Any]], *, is_best: bool) -> str:
    """Return the last cell of a row: the best point, seeds that failed or predict one label."""
    remarks = ["the best"] if is_best else []
    for verb, seeds in (
        ("failed", [result["seed"] for result in results if "failed" in result]),
        ("predicted one label", [result["seed"] for result in results if result.get("constant")]),
    ):
        if seeds:
            remarks.append(f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))} {verb}")
    return "; ".join(remarks)
