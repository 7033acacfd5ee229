"""The report of a grid: the ranking, the table, remarks and files."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bert_keras.training.finetune_grid import Grid, GridPoint
from bert_keras.training.finetune_grid_report import PICTURE, SCORES, GridResults, known_scores
from bert_keras.training.finetune_recipe import FinetuneRecipe

_Scores = dict[float, list[float | str | None]]


def _grid(*rates: float, sizes: tuple[int, ...] = (), metric: str = "") -> Grid:
    points = []
    for size in sizes or (32,):
        for rate in rates:
            recipe = FinetuneRecipe(
                task="text_regression", learning_rate=rate, batch_size=size, metric=metric
            )
            values = {"batch_size": size} if sizes else {}
            points.append(GridPoint({**values, "learning_rate": rate}, recipe))
    return Grid(tuple(points))


def _result(seed: int, metric: str, score: float | str | None) -> dict[str, Any]:
    if isinstance(score, str):
        return {"seed": seed, "failed": score}
    return {"seed": seed, "metrics": {metric: score}, "seconds": 61.0, "step": 1, "steps": 2}


def _ranked(scores: _Scores, metric: str = "spearman", chosen: str = "") -> GridResults:
    results = [
        [_result(seed, metric, score) for seed, score in enumerate(of_point)]
        for of_point in scores.values()
    ]
    return GridResults.of(_grid(*scores, metric=chosen), results)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({1e-5: [0.5, 0.7], 2e-5: [0.9, 0.1], 5e-5: [0.6, 0.5]}, 1e-5),  # the mean of the seeds
        ({1e-5: [0.5], 2e-5: [0.5]}, 1e-5),  # the first of equal ones
        ({1e-5: ["nan", 0.99], 2e-5: [0.1, 0.1]}, 2e-5),  # no seed failed
        ({1e-5: [None, 0.99], 2e-5: [0.1, 0.1]}, 2e-5),  # the metric is defined
        ({1e-5: ["nan", "nan"], 2e-5: ["nan", 0.1]}, 2e-5),
        ({1e-5: ["nan"], 2e-5: ["nan"]}, 1e-5),
        ({1e-5: [math.nan], 2e-5: [-0.5]}, 2e-5),
    ],
)
def test_the_best_point(scores: _Scores, best: float) -> None:
    assert _ranked(scores).point.values == {"learning_rate": best}


def test_the_least_error_is_the_best() -> None:
    scores: _Scores = {1e-5: [0.5], 2e-5: [0.1], 5e-5: [0.3]}
    ranked = _ranked(scores, "mean_squared_error", "mean_squared_error")
    assert ranked.point.values == {"learning_rate": 2e-5}
    assert ranked.metric == "mean_squared_error"


def test_the_best_of_the_first_points_stays_the_best_where_it_wins() -> None:
    """So models may be removed while later points are not trained."""
    results = [[_result(0, "f1", score)] for score in (0.5, 0.7, 0.6)]
    grid = _grid(1e-5, 2e-5, 5e-5)
    assert [GridResults.of(grid, results[:count]).best for count in (1, 2, 3)] == [0, 1, 1]


def _shown(ranked: GridResults) -> str:
    screen = io.StringIO()
    Console(file=screen, width=120).print(ranked.table())
    return screen.getvalue()


def test_the_table_and_the_lines() -> None:
    results = [[_result(0, "f1", 0.25), _result(1, "f1", 0.75)], [_result(0, "f1", 1.0)]]
    results[1][0]["constant"] = True
    results[1].append(_result(1, "f1", "The loss is nan."))
    ranked = GridResults.of(_grid(1e-5, 2e-5), results)
    table = _shown(ranked)
    for told in ("0.5000 ± 0.3536", "2:02", "the best", "seed 1 failed; seed 0 predicted one"):
        assert told in table
    lines = ranked.lines([PICTURE])
    assert "| **1e-05** | **0.5000 ± 0.3536** | **0.2500 to 0.7500** | **2:02** |" in lines[7]
    assert "| 2e-05 | 1.0000 |" in lines[8]
    assert f"![f1 by learning_rate]({PICTURE})" in lines
    assert not any(PICTURE in line for line in ranked.lines(()))
    assert ranked.described() == "learning_rate: 1e-05, 2e-05; chosen by f1: learning_rate=1e-05"


def test_what_the_scores_show() -> None:
    one = " ".join(_ranked({1e-5: [0.5], 2e-5: [0.7], 5e-5: [0.6]}).remarks())
    assert "Each value has one seed. With seeds=3" in one
    assert "was tried" not in one
    near = " ".join(_ranked({1e-5: [0.5, 0.7], 2e-5: [0.5, 0.68], 5e-5: [0.1, 0.1]}).remarks())
    assert "two best values, 0.0100, is smaller than the standard deviation" in near
    assert "learning_rate=1e-05 is the smallest value that was tried. A smaller one" in near
    far = " ".join(_ranked({1e-5: [0.1, 0.2], 2e-5: [0.3, 0.2], 5e-5: [0.8, 0.9]}).remarks())
    assert "smaller than" not in far
    assert "learning_rate=5e-05 is the largest value that was tried. A larger one" in far
    alone = _ranked({1e-5: [0.5]}).remarks()
    failed = _ranked({1e-5: ["nan"], 2e-5: ["nan"]}).remarks()
    for remarks in (alone, failed):
        assert [line.split(",")[0] for line in remarks] == [
            "The best value was chosen by these scores"
        ]


def test_values_that_all_failed_are_in_the_table() -> None:
    ranked = _ranked({1e-5: ["nan", "nan"]})
    assert ranked.metric == "score"
    assert "seeds 0, 1 failed" in _shown(ranked)
    assert known_scores(ranked.results[0], "score") == []


def test_the_files(tmp_path: Path) -> None:
    grid = _grid(1e-5, 2e-5, sizes=(16, 32))
    results = [[_result(0, "f1", score), _result(1, "f1", None)] for score in (0.1, 0.2, 0.4, 0.3)]
    ranked = GridResults.of(grid, results)
    ranked.write(tmp_path)
    stored = json.loads((tmp_path / SCORES).read_text())
    assert stored["metric"] == "f1"
    assert stored["best"] == "try-batch_size-32+learning_rate-1e-05"
    assert [point["values"] for point in stored["points"]] == [dict(p.values) for p in grid.points]
    assert stored["points"][0]["seeds"] == results[0]
    assert ranked.draw(tmp_path) == PICTURE
    assert (tmp_path / PICTURE).read_bytes().startswith(b"\x89PNG")
