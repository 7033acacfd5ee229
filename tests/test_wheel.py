"""The wheel, installed in its own environment: its files, the command and the recipes."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import keras
import pytest

_ROOT = Path(__file__).parents[1]
one_backend = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="one backend for all programs"
)
_MINE = """
from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(task="text_classification", epochs=1)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ("wheel", str(_ROOT), "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "-q", *build], check=True)
    (path,) = folder.glob("*.whl")
    return path


def test_what_the_wheel_holds(wheel: Path) -> None:
    """It has every file of the package, and nothing else."""
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {path for path in (_ROOT / "bert_keras").rglob("*") if path.is_file()}
    names = {path.relative_to(_ROOT).as_posix() for path in files if path.suffix != ".pyc"}
    assert {"bert_keras/py.typed", "bert_keras/serving/page/index.html"} <= names
    assert found == names


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with the wheel installed."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment)
    python = environment / "bin" / "python"
    install = ("install", "-q", "--no-deps", str(wheel))
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    # The dependencies come from the environment of the tests, but the package does not.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "needs.pth").write_text(sysconfig.get_path("purelib"))
    return environment


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs a program of the environment in an empty folder."""

    def run(*command: str) -> str:
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(environment / "bin" / command[0]), *command[1:]],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@one_backend
def test_the_command_runs_outside_a_checkout(run: Callable[..., str], environment: Path) -> None:
    where = run("python", "-c", "import bert_keras; print(bert_keras.__file__)")
    assert Path(where.strip()).is_relative_to(environment)
    assert "demo" in run("bert-keras", "recipes")


@pytest.mark.slow
@one_backend
def test_training_outside_a_checkout(run: Callable[..., str], tmp_path: Path) -> None:
    out = run("bert-keras", "pretrain", "demo", "--quicktest", "export=false", "out=runs/demo")
    assert "report" in out
    (tmp_path / "mine.py").write_text(_MINE)
    run("bert-keras", "finetune", "mine.py", "--quicktest", "out=runs/tuned")
    answer = run("bert-keras", "predict", "runs/tuned", "the film was good")
    assert '"label"' in answer
    assert {path.name for path in tmp_path.iterdir()} == {"mine.py", "runs"}
