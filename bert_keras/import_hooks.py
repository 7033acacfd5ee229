"""Loaders that do something while a module is executed ("when imported" hooks, as of PEP 369)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def find_spec(name: str, path: Any, target: Any) -> ModuleSpec | None:
    """Search a module as the import system does."""
    for finder in tuple(sys.meta_path):
        search = getattr(finder, "find_spec", None)
        spec = search and search(name, path, target)
        if spec is not None:
            return spec
    return None


class WatchedLoader:
    """The loader of a module, which executes the module inside a context manager.

    Args:
        loader: the module's own loader.
        around: called with the module; returns the context manager.
    """

    def __init__(self, loader: Any, around: Callable[[ModuleType], AbstractContextManager[None]]):
        self._loader, self._around = loader, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # sources, resources and all else a loader is asked for

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that the loader makes."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module as its loader does. The module keeps its own loader."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            spec.loader = module.__loader__ = self._loader
        with self._around(module):
            self._loader.exec_module(module)
