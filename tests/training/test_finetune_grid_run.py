"""Fine-tuning with a grid: the best model, resuming, added values, removed models."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
from rich.console import Console

from bert_keras import load_checkpoint
from bert_keras.errors import ArtifactError, NumericError, UsageError
from bert_keras.predictor import Predictor
from bert_keras.training import best_checkpoint, evaluate
from bert_keras.training import finetune_grid_run as module
from bert_keras.training.finetune import main
from bert_keras.training.finetune_grid import Grid, GridPoint
from bert_keras.training.finetune_grid_report import PICTURE, SCORES
from bert_keras.training.finetune_grid_run import GridFolder, print_grid_plan, run_grid
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.finetune_seed import BEST, RESULT
from bert_keras.training.run_folder import QUICKTEST, FinetuneFolder, recipe_of
from tests.processes import kill, start_training, wait_until

_TRIED = "try=learning_rate=1e-4,3e-2 patience=0"
_LOSER, _WINNER = (f"try-learning_rate-{rate}+patience-0" for rate in ("0.0001", "0.03"))
one_backend = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="one backend: a grid calls the runs of every backend"
)


def _command(recipe: str, folder: Path | str, *values: str) -> list[str]:
    return [recipe, "--quicktest", f"out={folder}", "epochs=3", _TRIED, *values]


@pytest.fixture(scope="module")
def whole(finetuning, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an uninterrupted grid of two learning rates."""
    folder = tmp_path_factory.mktemp("whole") / "grid"
    assert main(_command(finetuning("text_regression"), folder)) == 0
    return folder


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _scores(folder: Path) -> list[Any]:
    points = _json(folder / SCORES)["points"]
    results = [(point["values"], seed) for point in points for seed in point["seeds"]]
    return [(values, seed["seed"], seed["metrics"], seed["step"]) for values, seed in results]


def _check_same(folder: Path, whole: Path) -> None:
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert _scores(folder) == _scores(whole)
    for name in (_LOSER, _WINNER):
        logs = [run / name / "seed-0" / "metrics.jsonl" for run in (folder, whole)]
        assert logs[0].read_bytes() == logs[1].read_bytes()
    files = [sorted(path.relative_to(run) for path in run.rglob("*")) for run in (folder, whole)]
    assert files[0] == files[1]


@one_backend
def test_the_folder_is_that_of_a_run_with_the_best_values(whole: Path, call: Callable) -> None:
    best = _json(whole / SCORES)["best"]
    assert best == _WINNER
    recipe = recipe_of(whole)
    assert recipe is not None
    assert (recipe.learning_rate, recipe.patience, recipe.out) == (3e-2, 0, str(whole))
    of_seed = whole / best / "seed-0"
    model = load_checkpoint(of_seed / BEST).get_weights()
    saved = load_checkpoint(whole).get_weights()
    assert all((a == b).all() for a, b in zip(saved, model, strict=True))
    metrics = _json(whole / "metrics.json")["metrics"]
    assert metrics == _json(of_seed / RESULT)["metrics"]
    assert Predictor.from_preset(whole).predict_scores(["a good film"]).shape == (1, 1)
    done = call(evaluate.main, str(whole), f"data={recipe.train}", "out=measured")
    assert done.code == 0, done.err
    assert _json(Path("measured", "metrics.json"))["metrics"] == pytest.approx(metrics)
    report = (whole / "report.md").read_text(encoding="utf-8")
    for told in ("## Tried values", f"({PICTURE})", "with learning_rate=0.03 patience=0", _TRIED):
        assert told in report
    assert "chosen by spearman" in (whole / "README.md").read_text(encoding="utf-8")


@one_backend
def test_a_value_that_lost_has_no_model(whole: Path, call: Callable) -> None:
    files = {path.name for path in (whole / _LOSER / "seed-0").iterdir()}
    assert files == {"metrics.jsonl", "speed.jsonl", RESULT}
    assert (whole / _WINNER / "seed-0" / BEST).is_dir()
    recipe = recipe_of(whole / _LOSER)
    assert recipe is not None
    assert recipe.learning_rate == 1e-4
    done = call(evaluate.main, str(whole / _LOSER), "data=x.tsv")
    assert done.code == 4
    assert f"Name {whole}." in done.err
    with pytest.raises(ArtifactError, match="keeps the model of the best value alone"):
        load_checkpoint(whole / _LOSER)


@one_backend
def test_a_finished_grid_is_not_trained_again(
    whole: Path, finetuning, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _scores(whole)
    (whole / "model.safetensors").unlink()
    monkeypatch.setattr(keras.Model, "fit", None)
    done = call(main, *_command(finetuning("text_regression"), whole))
    assert done.code == 0, done.err
    assert "(2 of 2, trained before)" in done.err
    assert "Validation spearman by value, one seed each" in done.out
    assert (whole / "model.safetensors").is_file()
    assert _scores(whole) == before


class _Stop(best_checkpoint.KeepBest):
    """Callback that stops the second training after its first interval."""

    trainings = 0

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        type(self).trainings += epoch == 0
        if self.trainings == 2:
            signal.raise_signal(signal.SIGTERM)


@one_backend
def test_an_interrupted_grid_goes_on_exactly(
    whole: Path, finetuning, tmp_path: Path, call: Callable
) -> None:
    command = _command(finetuning("text_regression"), "grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_keras.training.finetune_seed.KeepBest", _Stop)
        done = call(main, *command)
    assert done.code == 143
    folder = tmp_path / "grid"
    assert (folder / _LOSER / "seed-0" / RESULT).is_file()
    assert not (folder / _WINNER / "seed-0" / RESULT).exists()
    done = call(main, *command)
    assert done.code == 0, done.err
    assert "(1 of 2, trained before)" in done.err
    _check_same(folder, whole)


@pytest.mark.slow
@one_backend
@pytest.mark.parametrize("value", [_LOSER, _WINNER])
def test_a_killed_grid_goes_on_exactly(value: str, whole: Path, finetuning, tmp_path: Path) -> None:
    folder = tmp_path / "grid"
    command = _command(finetuning("text_regression"), folder)
    log = folder / value / "seed-0" / "metrics.jsonl"
    with start_training("finetune", *command, folder=tmp_path) as process:
        wait_until(process, lambda: log.exists() and bool(log.read_bytes()))
        kill(process)
    assert not (log.parent / RESULT).exists(), "killed too late: this tests nothing"
    assert main(command) == 0
    _check_same(folder, whole)


@one_backend
def test_another_grid_in_the_folder_is_refused(
    whole: Path, finetuning, tmp_path: Path, call: Callable
) -> None:
    recipe = finetuning("text_regression")
    for tried, message in (
        ("learning_rate=3e-2 patience=0", f"try: {_LOSER} then, left out now"),
        ("learning_rate=1e-4,3e-2 dropout=0.1", "try: learning_rate, patience then, dropout, lea"),
    ):
        done = call(main, recipe, "--quicktest", f"out={whole}", "epochs=3", f"try={tried}")
        assert done.code == 2
        assert message in done.err
    done = call(main, *_command(recipe, whole, "batch_size=2"))
    assert done.code == 2
    assert "batch_size: 4 then, 2 now" in done.err
    done = call(main, recipe, "--quicktest", f"out={whole}", "epochs=3")
    assert done.code == 2
    assert 'holds a grid. Give try="learning_rate=0.0001,0.03 patience=0" to go on' in done.err
    (tmp_path / "run" / "seed-0").mkdir(parents=True)
    (tmp_path / "run" / "seed-0" / RESULT).write_text("{}")
    card = {key: value for key, value in _json(whole / "run.json").items() if key != "try"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(card))
    done = call(main, *_command(recipe, "run"))
    assert done.code == 2
    assert "holds a run without try=. Leave try= out" in done.err


@one_backend
def test_a_dry_run_shows_the_grid_and_writes_nothing(
    whole: Path, finetuning, tmp_path: Path, call: Callable
) -> None:
    made = whole / QUICKTEST
    files = [f"train={made / 'train.jsonl'}", f"encoder={made / 'encoder'}", "max_length=32"]
    words = [finetuning("text_regression"), *files, "out=grid", "seeds=2", "--dry-run"]
    done = call(main, *words, "try=epochs=2,5")
    assert done.code == 0, done.err
    for told in ("2 values, 2 seeds of each", "The grid", "together", "checkpoints"):
        assert told in done.out
    rows = [line.replace(" ", "").split("│") for line in done.out.splitlines() if "│" in line]
    steps = {row[1]: int(row[2]) for row in rows if row[1] in ("2", "5", "together")}
    assert steps["together"] == steps["2"] + steps["5"]
    assert 2 * steps["5"] == 5 * steps["2"]
    done = call(main, *words[:3], *words[4:], "try=max_length=32,999")
    assert done.code == 2
    assert "max_length=999, of try=" in done.err
    assert not list(tmp_path.iterdir())


@one_backend
def test_a_value_that_does_not_fit_is_refused_before_any_training(
    whole: Path, finetuning, tmp_path: Path, call: Callable
) -> None:
    made = whole / QUICKTEST
    files = [f"train={made / 'train.jsonl'}", f"encoder={made / 'encoder'}", "max_length=32"]
    words = [finetuning("text_regression"), *files, "out=grid"]
    for tried in ("layers=0|7", "layer_decay=0,0.9 freeze=true"):
        done = call(main, *words, f"try={tried}")
        assert done.code == 2, done.err
        assert tried.partition("=")[0] in done.err
        assert not list(tmp_path.glob("grid/try-*"))
    done = call(main, words[0], "--quicktest", "try=encoder=a,b")
    assert done.code == 2
    assert "--quicktest makes its own encoder. Leave it out of try=." in done.err


# === Without training: every seed has the score that a test gives it


class _Scores:
    """Stand-in for the training of seeds and for the last steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path):
        self.scores: dict[tuple[float, int], float | str] = {}
        self.trained: list[tuple[float, int]] = []
        self.finished: list[tuple[float, list[int]]] = []
        self.out = folder
        monkeypatch.setattr(module.Data, "read", lambda *_: SimpleNamespace())
        monkeypatch.setattr(module, "tokenizer_of", lambda *_: None)
        monkeypatch.setattr(module, "build_without_values", lambda *_: None)
        monkeypatch.setattr(module, "run_seed", self._run_seed)
        monkeypatch.setattr(module, "finish", self._finish)

    def _run_seed(self, recipe: FinetuneRecipe, *others: Any) -> dict[str, Any]:
        seed, folder = others[-2:]
        if (folder / RESULT).is_file():
            return _json(folder / RESULT)
        self.trained.append((recipe.learning_rate, seed))
        for name in (BEST, "checkpoints"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        score = self.scores[recipe.learning_rate, seed]
        result: dict[str, Any] = {"seed": seed, "metrics": {"accuracy": score}}
        result = {"seed": seed, "failed": score} if isinstance(score, str) else result
        (folder / RESULT).write_text(json.dumps(result))
        return result

    def _finish(self, recipe: FinetuneRecipe, *others: Any) -> None:
        results, folder, *_ = others[-4:]
        seeds = [result["seed"] for result in results]
        self.finished.append((recipe.learning_rate, seeds))
        for result in results:
            assert "failed" in result or (folder.of_seed(result["seed"]) / BEST).is_dir()

    def run(self, *rates: float, seeds: int = 1) -> None:
        """Run a grid of learning rates in the folder."""
        recipes = [
            FinetuneRecipe(
                task="text_classification", learning_rate=rate, out=str(self.out), seeds=seeds
            )
            for rate in rates
        ]
        points = [GridPoint({"learning_rate": recipe.learning_rate}, recipe) for recipe in recipes]
        self.out.mkdir(exist_ok=True)
        grid = Grid(tuple(points))
        run_grid(grid, GridFolder(grid), "the command")

    def models(self) -> set[str]:
        """Return the folders of points and seeds that have a model."""
        return {"/".join(path.parts[-3:-1]) for path in self.out.glob(f"try-*/seed-*/{BEST}")}


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Scores:
    return _Scores(monkeypatch, tmp_path / "grid")


def test_models_of_values_that_lose_are_removed_at_once(scores: _Scores) -> None:
    scores.scores = {(0.1, 0): 0.5, (0.2, 0): 0.9, (0.3, 0): 0.7}
    most = []
    train = scores._run_seed

    def counted(*arguments: Any) -> dict[str, Any]:
        result = train(*arguments)
        most.append(len(scores.models()))
        return result

    module.run_seed = counted
    scores.run(0.1, 0.2, 0.3)
    assert most == [1, 2, 2]
    assert scores.models() == {"try-learning_rate-0.2/seed-0"}
    assert not list(scores.out.glob("try-learning_rate-0.1/seed-0/checkpoints"))
    assert scores.finished == [(0.2, [0])]
    assert len(list(scores.out.glob(f"try-*/seed-0/{RESULT}"))) == 3


def test_added_values_are_trained_beside_the_others(scores: _Scores) -> None:
    scores.scores = {(0.1, 0): 0.5, (0.2, 0): 0.4, (0.3, 0): 0.9}
    scores.run(0.1, 0.2)
    assert _json(scores.out / "run.json")["recipe"]["learning_rate"] == 0.1
    scores.run(0.3, 0.1, 0.2)
    assert scores.trained == [(0.1, 0), (0.2, 0), (0.3, 0)]
    assert scores.finished[-1] == (0.3, [0])
    assert scores.models() == {"try-learning_rate-0.3/seed-0"}
    assert _json(scores.out / "run.json")["recipe"]["learning_rate"] == 0.3
    assert _json(scores.out / "run.json")["try"] == {"learning_rate": [0.3, 0.1, 0.2]}
    with pytest.raises(UsageError, match=r"try-learning_rate-0\.3 then, left out now"):
        scores.run(0.1, 0.2)


def test_run_json_has_the_values_of_the_model_until_there_is_another(
    scores: _Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores.scores = {(0.1, 0): 0.5, (0.2, 0): 0.9}
    scores.run(0.1, 0.2)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_seed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scores.run(0.1, 0.2, 0.3)
    assert _json(scores.out / "run.json")["recipe"]["learning_rate"] == 0.2


def test_a_value_that_wins_by_more_seeds_is_trained_again(scores: _Scores, capsys) -> None:
    """Its model was removed when it had lost."""
    scores.scores = {(0.1, 0): 0.9, (0.1, 1): 0.1, (0.2, 0): 0.8, (0.2, 1): 0.8}
    scores.run(0.1, 0.2)
    assert scores.models() == {"try-learning_rate-0.1/seed-0"}
    scores.run(0.1, 0.2, seeds=2)
    assert scores.trained == [(0.1, 0), (0.2, 0), (0.1, 1), (0.2, 1), (0.2, 0)]
    assert "so seed 0 is trained again" in capsys.readouterr().err
    assert scores.finished[-1] == (0.2, [0, 1])
    assert scores.models() == {f"try-learning_rate-0.2/seed-{seed}" for seed in (0, 1)}


def test_every_training_fails(scores: _Scores) -> None:
    scores.scores = {(0.1, 0): "The loss is nan.", (0.2, 0): "The loss is inf."}
    with pytest.raises(NumericError, match=r"every value and seed\. Received: The loss is nan"):
        scores.run(0.1, 0.2)
    assert len(scores.finished) == 1  # which writes the report


@pytest.mark.parametrize("words", [["override=epochs"], ["override=epochs", "--dry-run"]])
def test_override_is_refused(tmp_path: Path, finetuning, call: Callable, words: list[str]) -> None:
    """Values that were trained with other settings cannot be compared."""
    given = [finetuning("text_classification"), "train=x.tsv", "encoder=x", "out=grid", _TRIED]
    done = call(main, *given, *words)
    assert done.code == 2
    assert "override= cannot be used with try=" in done.err
    assert "pass out=FOLDER for a new grid" in done.err
    assert not list(tmp_path.iterdir())
    done = call(main, *given[:-1], "try=override=epochs")
    assert "try= cannot have override: it is for a run without try=" in done.err


def test_a_refused_grid_leaves_no_run(tmp_path: Path, finetuning, call: Callable) -> None:
    """Nothing is recorded before the examples have been read."""
    for tried in ([_TRIED], []):
        done = call(
            main, finetuning("text_classification"), "train=x.tsv", "encoder=x", "out=run", *tried
        )
        assert done.code == 3
        assert "x.tsv" in done.err
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["LOCK"]


def test_a_grid_that_did_not_begin_may_change(scores: _Scores) -> None:
    """A command with bad files is corrected in the same folder, also without tried values."""
    recipe = FinetuneRecipe(task="text_classification", out=str(scores.out))
    grid = Grid((GridPoint({"epochs": 3}, recipe),))
    scores.out.mkdir()
    GridFolder(grid).claim(recipe, "torch", {})
    plain = FinetuneFolder(recipe)
    module.require_no_grid(plain)
    plain.claim(recipe, "torch", {})
    assert "try" not in _json(scores.out / "run.json")
    GridFolder(grid).check()


def test_the_plan_counts_what_is_left(scores: _Scores, monkeypatch: pytest.MonkeyPatch) -> None:
    scores.scores = {(0.1, 0): 0.9}
    scores.run(0.1)
    recipes = [
        FinetuneRecipe(task="text_classification", learning_rate=rate, out=str(scores.out))
        for rate in (0.1, 0.2)
    ]
    grid = Grid(tuple(GridPoint({"learning_rate": r.learning_rate}, r) for r in recipes))
    estimates = SimpleNamespace(
        examples=(10, 5),
        labels=None,
        lengths=[3],
        steps=7,
        parameters=100,
        memory=2**30,
        seconds=60,
    )
    monkeypatch.setattr(module, "plan", lambda *_: estimates)
    monkeypatch.setattr(module, "table_of_facts", lambda *_: module.Table("", "", ""))
    screen = io.StringIO()
    print_grid_plan(grid, GridFolder(grid), console=Console(file=screen, width=200))
    lines = [" ".join(line.replace("│", " ").split()) for line in screen.getvalue().splitlines()]
    assert "0.1 21 1.0 GiB 1:00 trained before" in lines
    assert "0.2 21 1.0 GiB 1:00" in lines
    assert any(line.startswith("together 21 1.0 GiB about 1:00") for line in lines)
