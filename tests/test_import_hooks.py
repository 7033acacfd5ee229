"""Loaders that do something while a module is executed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bert_keras import import_hooks


class Finder:
    """Watches the module `watched`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextlib.contextmanager
    def around(self, module: ModuleType) -> Iterator[None]:
        self.told.append(f"{module.__name__} begins, {hasattr(module, 'VALUE')}")
        yield
        self.told.append(f"{module.__name__} ends, {hasattr(module, 'VALUE')}")

    def find_spec(self, name: str, path=None, target=None):
        if name != "watched":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        spec.loader = import_hooks.WatchedLoader(spec.loader, self.around)  # pyright: ignore
        return spec


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Finder]:
    (tmp_path / "watched.py").write_text("VALUE = 1\n")
    finder = Finder()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield finder
    sys.modules.pop("watched", None)


def test_the_module_is_executed_inside_the_context(finder: Finder) -> None:
    module = importlib.import_module("watched")
    assert module.VALUE == 1
    assert finder.told == ["watched begins, False", "watched ends, True"]


def test_the_module_keeps_its_own_loader(finder: Finder) -> None:
    module = importlib.import_module("watched")
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__
    assert finder.told


def test_a_spec_that_is_only_searched_for_has_the_loaders_methods(finder: Finder) -> None:
    spec = import_hooks.find_spec("watched", None, None)
    assert spec is not None
    assert spec.loader.get_source("watched") == "VALUE = 1\n"  # pyright: ignore
    assert finder.told == []
    assert import_hooks.find_spec("no_such_module", None, None) is None
