"""Recipes by name and by path; what is wrong with a file is said once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bert_keras.errors import UsageError
from bert_keras.training import recipe_files


@dataclasses.dataclass(frozen=True)
class _Recipe:
    name: str = ""


def _write(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"from types import SimpleNamespace\n{body}\n")
    return path


def test_known_names_are_sorted_and_leave_out_what_is_private(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "_c.py", "__init__.py", "d.txt"):
        (tmp_path / name).touch()
    assert recipe_files.known(tmp_path) == ["a", "b"]
    assert recipe_files.known(tmp_path / "nowhere") == []


def test_a_recipe_takes_the_name_of_its_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("builtins.dataclass_recipe", _Recipe, raising=False)
    _write(tmp_path, "mine.py", "recipe = dataclass_recipe()")
    _write(tmp_path, "named.py", "recipe = dataclass_recipe('other')")
    assert recipe_files.load("mine", _Recipe, tmp_path).name == "mine"
    assert recipe_files.load("named", _Recipe, tmp_path).name == "other"
    assert recipe_files.load(str(tmp_path / "mine.py"), _Recipe, Path("x")).name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnie", r"'mnie'. Did you mean 'mine'\? Known recipes: mine; or give the path"),
        ("nowhere/mine.py", "No such recipe file: nowhere/mine.py"),
    ],
)
def test_no_such_recipe(name: str, message: str, tmp_path: Path) -> None:
    _write(tmp_path, "mine.py", "")
    with pytest.raises(UsageError, match=message):
        recipe_files.load(name, _Recipe, tmp_path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("recipe = (", "line 2: not Python"),
        ("recipe = SimpleNamespace()", r"must define recipe = _Recipe\(…\). Received: recipe=name"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_bad_file_is_named(body: str, message: str, tmp_path: Path) -> None:
    path = _write(tmp_path, "mine.py", body)
    with pytest.raises(UsageError, match=rf"mine\.py.*{message}"):
        recipe_files.load(str(path), _Recipe, tmp_path)
