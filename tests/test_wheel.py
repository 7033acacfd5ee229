"""The distributions: their files, and the wheel in its own environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
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
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the source distribution and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    build = ("build", "-t", "sdist", "-t", "wheel", "-d", str(folder))
    subprocess.run([sys.executable, "-m", "hatchling", *build], cwd=_ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def _package_files() -> set[str]:
    files = {path for path in (_ROOT / "bert_keras").rglob("*") if path.is_file()}
    names = {path.relative_to(_ROOT).as_posix() for path in files if path.suffix != ".pyc"}
    assert {"bert_keras/py.typed", "bert_keras/serving/page/index.html"} <= names
    return names


def test_what_the_wheel_holds(wheel: Path) -> None:
    """It has every file of the package, its metadata, and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == _package_files()
    metadata = {name.partition(".dist-info/")[2] for name in names if ".dist-info/" in name}
    expected = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert metadata == expected


def test_what_the_source_distribution_holds(dist: Path) -> None:
    """It has the package and the files that describe it: no tests, no data, no benchmarks."""
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
    names = {member.name.partition("/")[2] for member in members}
    described = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "SECURITY.md"}
    made = {".gitignore", "PKG-INFO", "pyproject.toml"}
    assert names == _package_files() | described | made
    assert max(member.size for member in members) < 500_000


@one_backend
def test_the_package_index_accepts_the_distributions(dist: Path) -> None:
    """Metadata are valid, and the README can be shown."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir())]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


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
