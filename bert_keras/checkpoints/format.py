"""How the names and layouts of another library's tensors follow from our variables' paths.

A format is two tables: *modules* (whole layer paths, `#` for the block's number) and *leaves*
(what a layer calls its variables, and whether the matrix lies the other way round). The same rows
serve reading and writing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_BLOCK = re.compile(r"(?<=block_)\d+")


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One kind of variable in the other format.

    Attributes:
        name: the other library's word for it.
        transposed: whether its axes are in reverse order there.
    """

    name: str
    transposed: bool = False

    def convert(self, array: np.ndarray) -> np.ndarray:
        """From our layout to theirs, or back: the same turn."""
        return np.ascontiguousarray(array.T) if self.transposed else array


@dataclasses.dataclass(frozen=True)
class Entry:
    """A variable of ours and the tensor it is stored in."""

    variable: Any
    tensor: str
    leaf: Leaf

    @property
    def path(self) -> str:
        """The variable's path, its name in this package."""
        return self.variable.path

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape in the other format."""
        shape = tuple(self.variable.shape)
        return shape[::-1] if self.leaf.transposed else shape


@dataclasses.dataclass(frozen=True)
class NameTable:
    """The names of one format.

    Attributes:
        modules: our layer paths -> theirs; `#` stands for the block's number.
        leaves: our variable names -> theirs.
        separator: between the parts of their names.
    """

    modules: Mapping[str, str]
    leaves: Mapping[str, Leaf]
    separator: str = "."

    def entries(self, variables: Iterable[Any], prefixes: Mapping[str, str]) -> list[Entry]:
        """Every variable with the tensor it is stored in.

        Args:
            variables: Keras variables with paths.
            prefixes: what their names begin with, by the beginning of our path; the row ""
                stands for every other path.

        Raises:
            ValueError: the tables have no row for a variable.
        """
        return [self._entry(variable, prefixes) for variable in variables]

    def knows(self, path: str) -> bool:
        """Whether there is a row for the variable of this path."""
        module, _, leaf = path.rpartition("/")
        return self.module(module) is not None and leaf in self.leaves

    def our_modules(self, tensor: str) -> list[str]:
        """Our layer paths that one of their tensors, its prefix removed, can belong to."""
        module = tensor.rpartition(self.separator)[0]
        number = re.search(r"\d+", module)
        generic = re.sub(r"\d+", "#", module, count=1)
        return [
            ours.replace("#", number.group() if number else "")
            for ours, theirs in self.modules.items()
            if theirs == generic
        ]

    def module(self, path: str) -> str | None:
        """Their name of one of our layers; None where the table has no row for it."""
        theirs = self.modules.get(_BLOCK.sub("#", path))
        number = _BLOCK.search(path)
        return theirs.replace("#", number.group()) if theirs and number else theirs

    def _entry(self, variable: Any, prefixes: Mapping[str, str]) -> Entry:
        module, _, leaf_name = variable.path.rpartition("/")
        theirs, leaf = self.module(module), self.leaves.get(leaf_name)
        if theirs is None or leaf is None:
            raise ValueError(f"The format has no row for the variable {variable.path!r}.")
        prefix = prefixes.get(module.partition("/")[0], prefixes.get("", ""))
        return Entry(variable, f"{prefix}{theirs}{self.separator}{leaf.name}", leaf)
