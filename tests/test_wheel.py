"""The wheel, installed in its own environment: the command and the recipes work."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import keras
import pytest

_ROOT = Path(__file__).parents[1]
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
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"bert_keras"}
    assert "bert_keras/py.typed" in names
    for path in (_ROOT / "bert_keras").rglob("*.py"):
        assert path.relative_to(_ROOT).as_posix() in names


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend for all programs")
def test_the_command_runs_outside_a_checkout(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    install = ("install", "-q", "--no-deps", str(wheel))
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    # The dependencies come from the environment of the tests, but the package does not.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "needs.pth").write_text(sysconfig.get_path("purelib"))
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*command: str) -> str:
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(environment / "bin" / command[0]), *command[1:]],
            cwd=empty,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = run("python", "-c", "import bert_keras; print(bert_keras.__file__)")
    assert Path(where.strip()).is_relative_to(environment)
    assert "demo" in run("bert-keras", "recipes")
    out = run("bert-keras", "pretrain", "demo", "--quicktest", "export=false", "out=runs/demo")
    assert "report" in out
    (empty / "mine.py").write_text(_MINE)
    run("bert-keras", "finetune", "mine.py", "--quicktest", "out=runs/tuned")
    answer = run("bert-keras", "predict", "runs/tuned", "the film was good")
    assert '"label"' in answer
    assert {path.name for path in empty.iterdir()} == {"mine.py", "runs"}
