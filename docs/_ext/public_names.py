"""The public names of the library: each name of an `__all__`, and the page that describes it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any, NamedTuple

LIBRARY = "bert_keras"


class Name(NamedTuple):
    """A public name.

    Attributes:
        package: the package or module whose `__all__` has it.
        name: the name.
        value: the object.
        home: the package whose page describes it. Another package only links to that page.
    """

    package: str
    name: str
    value: Any
    home: str

    @property
    def path(self) -> str:
        """Path of the name in its own package."""
        return f"{self.package}.{self.name}"


def public_packages() -> dict[str, list[str]]:
    """Return the `__all__` of each public package and module that has one, by its path."""
    found = {}
    library = importlib.import_module(LIBRARY)
    paths = [LIBRARY]
    # The programs start when they are imported as `__main__`, and have no public names.
    paths += [info.name for info in pkgutil.walk_packages(library.__path__, f"{LIBRARY}.")]
    for path in paths:
        if not any(part.startswith("_") for part in path.split(".")):
            names = getattr(_imported(path), "__all__", None)
            if names is not None:
                found[path] = list(names)
    return found


def _imported(path: str) -> Any:
    """Import a module; None if its framework is not the backend, or is not installed.

    The modules of `bert_keras.kernels` and `export.graph` import TensorFlow, JAX or PyTorch at
    their first line. None of them has an `__all__`.
    """
    try:
        return importlib.import_module(path)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == LIBRARY:
            raise
        return None


def public_names() -> list[Name]:
    """Return all public names, sorted by package. Each object has one home."""
    packages = public_packages()
    entries = [
        (package, name, getattr(importlib.import_module(package), name))
        for package in sorted(packages)
        for name in packages[package]
    ]
    places: dict[Any, list[str]] = {}
    for package, name, value in entries:
        places.setdefault(_identity(package, name, value), []).append(package)
    return [
        Name(package, name, value, _home(value, places[_identity(package, name, value)]))
        for package, name, value in entries
    ]


def _identity(package: str, name: str, value: Any) -> Any:
    """Return a key that the same class or function has in every package that exports it."""
    if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
        return id(value)
    return package, name  # a constant


def _home(value: Any, packages: list[str]) -> str:
    """Return the package to describe an object in: the top one, or the one that defines it."""
    defining = str(getattr(value, "__module__", ""))
    return min(
        packages,
        key=lambda package: (
            package != LIBRARY,
            not f"{defining}.".startswith(f"{package}."),
            package.count("."),
            package,
        ),
    )


def page_of(package: str) -> str:
    """Return the name of a package's page in `docs/reference/`, without its ending."""
    return package.removeprefix(f"{LIBRARY}.")
