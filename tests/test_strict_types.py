"""pyright's strict list in pyproject.toml: every module that works without Keras is on it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.test_architecture import LIBRARY, Import, imports, module_of, read, sources

# Libraries without complete type hints. pyright cannot infer types in modules that import them.
UNTYPED = (
    *("grain", "h5py", "jax", "keras", "keras_hub", "matplotlib", "nncf", "onnx", "onnxruntime"),
    *("openvino", "scipy", "sklearn", "tensorflow", "tensorflow_text", "tf2onnx", "torch"),
)
# Folder or file that is not on the list -> the reason.
EXCEPTIONS: dict[str, str] = {}


def imported(item: Import, modules: Mapping[str, object]) -> list[str]:
    """Return the modules of the library that an import executes: the module and its packages."""
    parts = item.target.split(".")
    places = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return [place for place in places if place in modules]


def is_of_untyped(item: Import) -> bool:
    """Return whether an import is of a library in `UNTYPED`."""
    return item.target.partition(".")[0] in UNTYPED


def modules_without_keras(found: Mapping[str, Sequence[Import]]) -> set[str]:
    """Return the modules that never import a library in `UNTYPED`, even indirectly.

    This includes imports inside functions.

    Args:
        found: module -> its imports.
    """
    loads: set[str] = set()
    while (
        more := {
            module
            for module, items in found.items()
            for item in items
            if not item.lazy and (is_of_untyped(item) or loads.intersection(imported(item, found)))
        }
        - loads
    ):
        loads |= more
    return {
        module
        for module, items in found.items()
        if module not in loads
        and not any(
            is_of_untyped(item) or loads.intersection(imported(item, found)) for item in items
        )
    }


def is_below(path: Path, places: Sequence[str]) -> bool:
    """Return whether a path or one of its parent folders is in `places`."""
    return any(place.as_posix() in places for place in (path, *path.parents))


def strict_list() -> list[str]:
    """Return the setting `strict` of pyright."""
    return tomllib.loads(read(Path("pyproject.toml")))["tool"]["pyright"]["strict"]


def paths_without_keras() -> list[Path]:
    """Return the files of the library that work without Keras."""
    paths = {module_of(path): path for path in sources(LIBRARY)}
    found = {
        module: [item for item in imports(read(path)) if not item.typing]
        for module, path in paths.items()
    }
    return sorted(paths[module] for module in modules_without_keras(found))


def test_the_strict_list_is_complete() -> None:
    places = [*strict_list(), *EXCEPTIONS]
    missing = [str(path) for path in paths_without_keras() if not is_below(path, places)]
    assert not missing, f"add to `strict` in pyproject.toml: {', '.join(missing)}"


def test_every_entry_is_needed() -> None:
    entries = [*strict_list(), *EXCEPTIONS]
    assert len(set(entries)) == len(entries)
    assert strict_list() == sorted(strict_list())
    files = sources(LIBRARY)
    assert not [entry for entry in entries if not any(is_below(path, [entry]) for path in files)]
    twice = [entry for entry in EXCEPTIONS if is_below(Path(entry), strict_list())]
    assert not twice, f"now strict, so no exception any more: {twice}"


@pytest.mark.parametrize(
    ("source", "is_free"),
    [
        ("import json", True),
        ("import keras", False),
        ("from keras import ops", False),
        ("def f():\n  import torch", False),
        ("import bert_keras.free", True),
        ("from bert_keras.layers import core", False),
        ("from bert_keras.layers import Dense", False),
        ("def f():\n  from bert_keras.layers import core", False),
        ("from bert_keras import program", True),
    ],
)
def test_the_finder_of_modules(source: str, is_free: bool) -> None:
    texts = {
        "bert_keras.free": "",
        "bert_keras.layers": "from bert_keras.layers import core",
        "bert_keras.layers.core": "import keras",
        "bert_keras.new": source,
        "bert_keras.program": "def main():\n  import bert_keras.layers",
    }
    free = modules_without_keras({name: imports(text) for name, text in texts.items()})
    assert "bert_keras.free" in free
    assert "bert_keras.program" not in free
    assert ("bert_keras.new" in free) is is_free
