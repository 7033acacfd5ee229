"""Fine-tuning with every point of a grid: folder, training, and removal of models that lose.

Each point is a fine-tuning run in a folder of its own, and the folder of the grid has the model of
the best point. So a grid that was interrupted goes on as its runs do.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.table import Column, Table

from bert_keras import escaping, file_io
from bert_keras.errors import NumericError, UsageError
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import machine
from bert_keras.training.dry_run import FLOAT
from bert_keras.training.finetune_data import Data, quicktest_recipe
from bert_keras.training.finetune_dry_run import (
    FinetunePlan,
    build_without_values,
    plan,
    table_of_facts,
)
from bert_keras.training.finetune_grid import KEY, OF_EXAMPLES, Grid, GridPoint, shown
from bert_keras.training.finetune_grid_report import PICTURE, SCORES, GridResults
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.finetune_report import finish
from bert_keras.training.finetune_seed import BEST, RESULT, run_seed, tokenizer_of
from bert_keras.training.progress import clock
from bert_keras.training.run_folder import QUICKTEST, FinetuneFolder, RunFolder
from bert_keras.training.tasks import FinetuningTask, task_of

_CHECKPOINTS = "checkpoints"


class GridFolder(FinetuneFolder):
    """Folder of a grid. It holds the best point's model and one folder per point.

    `run.json` has the recipe of the best point, and the tried values under `try`. Values may be
    added to a begun grid.

    Args:
        grid: the grid.
        temporary: a temporary folder in place of the recipe's, as for `RunFolder`.
    """

    card = ("recipe", KEY, "backend", "files", "versions")
    # The scores of points that were trained with other values could not be compared.
    overridable = ()

    def __init__(self, grid: Grid, temporary: str = ""):
        super().__init__(grid.points[0].recipe, temporary)
        self.grid = grid
        self._best: FinetuneFolder | None = None

    def of_point(self, point: GridPoint) -> FinetuneFolder:
        """Return the folder of a point."""
        return FinetuneFolder(self.recipe_of_point(point))

    def recipe_of_point(self, point: GridPoint) -> FinetuneRecipe:
        """Return the recipe of a point's run, which has a folder of its own."""
        return dataclasses.replace(point.recipe, out=str(self.given / point.folder))

    def of_seed(self, seed: int) -> Path:
        """Return the folder of a seed of the best point, which `keep` names."""
        assert self._best is not None
        return self._best.of_seed(seed)

    def keep(self, point: GridPoint) -> None:
        """Make a point the best one: run.json gets its recipe."""
        self._best = self.of_point(point)
        card = self._read()
        file_io.write_json(self.run, {**card, "recipe": self.values(point.recipe)})

    # === As for every run ===

    def check(self) -> None:
        """Check that the folder is, or may become, that of a grid.

        Raises:
            UsageError: it is something else, also a run without tried values; or the command has
                `override=`.
        """
        if override := self.grid.points[0].recipe.override:
            raise UsageError(
                f"override= cannot be used with {KEY}=: the scores of values that were trained "
                f"with other settings cannot be compared. Received: override={override}. Leave it "
                "out to go on with the grid, or pass out=FOLDER for a new grid."
            )
        super().check()
        if self.run.exists() and KEY not in self._read() and super().is_begun():
            raise UsageError(
                f"{self.path} holds a run without {KEY}=. Leave {KEY}= out to go on with it, or "
                "choose another folder with out=FOLDER."
            )

    def is_begun(self) -> bool:
        """Return whether a seed of a point has a checkpoint or a result."""
        return bool(_begun(self.path))

    def binding(self, names: Collection[str]) -> Collection[str]:
        """Return the names of values that must be as in run.json: all but the tried ones."""
        return [name for name in super().binding(names) if name not in self.grid.names]

    def inputs(self, recipe: FinetuneRecipe) -> dict[str, Any]:
        """Return the tried values and the digests of files that all points share."""
        inputs = super().inputs(recipe)
        files = {key: files for key, files in inputs["files"].items() if key not in self.grid.names}
        return {KEY: self.grid.tried(), "files": files}

    def changed_inputs(
        self, recipe: FinetuneRecipe, then: Mapping[str, Any], now: Mapping[str, Any]
    ) -> list[str]:
        """Return a line for each changed file, other tried key, and value that is left out."""
        lines = super().changed_inputs(recipe, then, now)
        before, names = sorted(then.get(KEY) or {}), sorted(self.grid.names)
        if before != names:
            lines.append(f"  {KEY}: {', '.join(before)} then, {', '.join(names)} now")
            return lines
        given = {point.folder for point in self.grid.points}
        begun = sorted(_begun(self.path) - given)
        return lines + [f"  {KEY}: {name} then, left out now" for name in begun]

    def claim(self, recipe: FinetuneRecipe, backend: str, versions: Mapping[str, str]) -> None:
        """Write run.json, or check that the grid in the folder is this one.

        Raises:
            UsageError: the folder holds another run, or something else.
        """
        self.check()
        best: dict[str, Any] = {}
        if self.run.exists() and self.is_begun():  # the model in the folder is of these values
            stored = self._read()["recipe"]
            best = {name: stored[name] for name in self.grid.names if name in stored}
        super().claim(dataclasses.replace(recipe, **best), backend, versions)


def _begun(path: Path) -> set[str]:
    """Return the folders of points in a grid's folder that have a checkpoint or a result."""
    names = (_CHECKPOINTS, RESULT)
    return {found.parts[-3] for name in names for found in path.glob(f"{KEY}-*/seed-*/{name}")}


def require_no_grid(folder: RunFolder) -> None:
    """Refuse a folder of a grid for a run without tried values.

    Raises:
        UsageError: the folder holds a grid.
    """
    if not folder.run.is_file() or not _begun(folder.path):
        return
    if tried := file_io.read_object(folder.run).get(KEY):
        words = " ".join(f"{name}={','.join(map(shown, tried[name]))}" for name in tried)
        raise UsageError(
            f'{folder.path} holds a grid. Give {KEY}="{words}" to go on with it, or choose another '
            "folder with out=FOLDER."
        )


# === Training ===


@dataclasses.dataclass(frozen=True)
class _Training:
    """The training of a point.

    Attributes:
        point: the point, whose recipe has the made-up examples of a quick test.
        recipe: its recipe, with a folder of its own.
        finetuning: task of the recipe.
        data: examples of the recipe.
        tokenizer: tokenizer of the encoder.
        folder: folder of the point.
    """

    point: GridPoint
    recipe: FinetuneRecipe
    finetuning: FinetuningTask
    data: Data
    tokenizer: Tokenizer
    folder: FinetuneFolder

    @property
    def seeds(self) -> range:
        """The seeds to train with."""
        return range(self.recipe.seed, self.recipe.seed + self.recipe.seeds)

    def run(self) -> list[dict[str, Any]]:
        """Train with every seed that has no result; return the results."""
        return [self.run_seed(seed) for seed in self.seeds]

    def run_seed(self, seed: int) -> dict[str, Any]:
        """Train with one seed, unless it has a result; return the result."""
        return run_seed(
            *(self.recipe, self.finetuning, self.data, self.tokenizer, seed),
            self.folder.of_seed(seed),
        )

    def is_done(self) -> bool:
        """Return whether every seed has a result."""
        return all((self.folder.of_seed(seed) / RESULT).is_file() for seed in self.seeds)

    def remove_models(self) -> None:
        """Remove models and checkpoints of all seeds; results and logs stay."""
        for folder in self.folder.path.glob("seed-*"):
            for name in (BEST, _CHECKPOINTS):
                if (folder / name).exists():
                    file_io.remove_folder(folder / name)
            file_io.sweep(folder)


def with_examples(grid: Grid, folder: GridFolder) -> Grid:
    """Return the grid of a quick test, with made-up examples and models in its folder."""
    made = folder.given / QUICKTEST
    points = [
        dataclasses.replace(point, recipe=quicktest_recipe(point.recipe, made))
        for point in grid.points
    ]
    for point in points:
        for name, value in point.values.items():
            if getattr(point.recipe, name) != value:
                raise UsageError(f"--quicktest makes its own {name}. Leave it out of {KEY}=.")
    return Grid(tuple(points))


def run_grid(grid: Grid, folder: GridFolder, command: str) -> None:
    """Train all points of a grid, and write model and report of the best one.

    Args:
        grid: the grid.
        folder: its folder.
        command: command line, for the report.

    Raises:
        UsageError, DataError, ArtifactError: before anything is trained.
        NumericError: at the end, if every seed of every point failed.
        Stopped: by a signal.
    """
    recipe, backend, versions = grid.points[0].recipe, keras.backend.backend(), machine.versions()
    folder.require_same(recipe, backend)
    trainings = _prepare(grid, folder)
    for training in trainings:
        training.folder.require_same(training.recipe, backend)
    folder.claim(recipe, backend, versions)
    for training in trainings:
        training.folder.path.mkdir(parents=True, exist_ok=True)
        training.folder.claim(training.recipe, backend, versions)
    results: list[list[dict[str, Any]]] = []
    for number, training in enumerate(trainings):
        done = ", trained before" if training.is_done() else ""
        _tell(f"{training.point.label} ({number + 1} of {len(trainings)}{done})")
        results.append(training.run())
        # The ranking of all points has no other best one among these.
        best = GridResults.of(grid, results).best
        for index in range(number + 1):
            if index != best:
                trainings[index].remove_models()
    ranking = GridResults.of(grid, results)
    while (seed := _seed_without_model(trainings[ranking.best], ranking)) is not None:
        training = trainings[ranking.best]
        _tell(f"{training.point.label}: its model was removed, so seed {seed} is trained again")
        (training.folder.of_seed(seed) / RESULT).unlink()
        training.run_seed(seed)
        results[ranking.best] = training.run()
        ranking = GridResults.of(grid, results)
    best = trainings[ranking.best]
    folder.keep(best.point)
    finish(
        *(best.point.recipe, best.finetuning, best.data, best.tokenizer),
        *(results[ranking.best], folder, command, ranking),
    )
    if all("failed" in result for of_point in results for result in of_point):
        raise NumericError(
            f"The training failed with every value and seed. Received: {results[0][0]['failed']}"
        )


def _prepare(grid: Grid, folder: GridFolder) -> list[_Training]:
    """Read the examples of all points, and check their models. Nothing is written."""
    tokenizers: dict[str, Tokenizer] = {}
    trainings: list[_Training] = []
    for point, data in zip(grid.points, _read(grid), strict=True):
        recipe = folder.recipe_of_point(point)
        finetuning = task_of(recipe)
        if recipe.encoder not in tokenizers:
            tokenizers[recipe.encoder] = tokenizer_of(recipe)
        tokenizer = tokenizers[recipe.encoder]
        of_point = folder.of_point(point)
        training = _Training(point, recipe, finetuning, data, tokenizer, of_point)
        if not training.is_done():
            try:
                build_without_values(recipe, finetuning, data, tokenizer)
            except UsageError as error:
                error.add_note(f"This is with {point.label}, of {KEY}=.")
                raise
        trainings.append(training)
    return trainings


def _read(grid: Grid) -> list[Data]:
    """Return the examples of each point; points with the same examples share them."""
    read: dict[tuple[Any, ...], Data] = {}
    for point in grid.points:
        key = _examples_key(point)
        if key not in read:
            read[key] = Data.read(point.recipe, task_of(point.recipe))
    return [read[_examples_key(point)] for point in grid.points]


def _examples_key(point: GridPoint) -> tuple[Any, ...]:
    """Return the values that choose the examples, of those that may be tried."""
    return tuple(getattr(point.recipe, name) for name in OF_EXAMPLES)


def _seed_without_model(training: _Training, ranking: GridResults) -> int | None:
    """Return a seed of the best point whose model was removed when the point had lost."""
    for result in ranking.results[ranking.best]:
        path = training.folder.of_seed(result["seed"]) / BEST
        if "failed" not in result and not path.exists():
            return result["seed"]
    return None


def _tell(line: str) -> None:
    """Print a line about the progress on stderr; ignore the error if stderr is closed."""
    with contextlib.suppress(OSError):
        escaping.console(stderr=True).print(line)


# === Dry run ===


def print_grid_plan(grid: Grid, folder: GridFolder, *, console: Console | None = None) -> None:
    """Print what `bert-keras finetune` would do with a grid, and its costs; write nothing.

    Raises:
        UsageError, DataError, ArtifactError: as for `finetune_dry_run.plan`.
    """
    console = console or escaping.console()
    plans: list[FinetunePlan] = []
    for point, data in zip(grid.points, _read(grid), strict=True):
        try:
            plans.append(plan(point.recipe, data))
        except UsageError as error:
            error.add_note(f"This is with {point.label}, of {KEY}=.")
            raise
    recipe, seeds = grid.points[0].recipe, grid.points[0].recipe.seeds
    facts = table_of_facts(recipe, plans[0])
    count = len(plans) * seeds
    facts.add_row("trainings", f"{count:,}", f"{len(plans):,} values, {seeds} seeds of each")
    facts.add_row("the best value", "by its mean", recipe.metric or "the first metric of the task")
    # Weights, and two checkpoints with weights and two moments; of the best value and another one.
    most = 2 * seeds * 7 * FLOAT * max(estimates.parameters for estimates in plans)
    remark = "most at a time; models and checkpoints of values that lose are removed"
    facts.add_row("disk", f"about {machine.gibibytes(most)}", remark)
    names = ", ".join([grid.points[0].folder, *(["…"] * (len(plans) > 1)), SCORES, PICTURE])
    facts.add_row("run folder", str(folder.given), f"{names}, and the files of a run")
    columns = [*grid.names, "steps", "memory", "training time", "remark"]
    table = Table(*(Column(name, overflow="fold") for name in columns), title="The grid")
    left_steps, left_seconds = 0, 0.0
    for point, estimates in zip(grid.points, plans, strict=True):
        steps = estimates.steps * point.recipe.epochs * seeds
        of_point = folder.of_point(point)
        numbers = range(point.recipe.seed, point.recipe.seed + seeds)
        is_done = all((of_point.of_seed(seed) / RESULT).is_file() for seed in numbers)
        if not is_done:
            left_steps, left_seconds = left_steps + steps, left_seconds + estimates.seconds
        cost = machine.gibibytes(estimates.memory), clock(estimates.seconds)
        remark = "trained before" if is_done else ""
        table.add_row(*map(shown, point.values.values()), f"{steps:,}", *cost, remark)
    table.add_section()
    blanks = [""] * (len(grid.names) - 1)
    most_memory = machine.gibibytes(max(estimates.memory for estimates in plans))
    total = f"{left_steps:,}", most_memory, f"about {clock(left_seconds)}"
    table.add_row("together", *blanks, *total, "on this CPU, from its matrix product")
    console.print(facts)
    console.print(table)
