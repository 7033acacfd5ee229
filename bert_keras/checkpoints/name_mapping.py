"""Rules from the paths of our variables to the names and layouts of another library's tensors.

A format is a few rows: *modules* (whole layer paths, `#` for the block's number) and *leaves* (what
a layer calls its variables, and whether the matrix lies the other way round). The same rows serve
reading and writing. Layers of ours with one name of theirs are the parts of a fused tensor, such as
the projections to queries, keys and values, in the order of the rows.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

# The number of a block, or of a dense layer behind the pooling of a text's vector.
_BLOCK = re.compile(r"(?:(?<=block_)|(?<=dense_)|(?<=residual_))\d+")

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LeafRule:
    """One kind of variable in the other format.

    Attributes:
        name: the other library's word for it; "" where the layer's name is the variable's.
        transposed: whether its axes are in reverse order there.
    """

    name: str
    transposed: bool = False

    @property
    def same_rows(self) -> bool:
        """True where the rows of their tensor are the rows of our variable."""
        return not self.transposed

    def shape(self, ours: Shape) -> Shape:
        """The shape in the other format of a variable that has this one here."""
        return ours[::-1] if self.transposed else ours

    def theirs(self, array: np.ndarray) -> np.ndarray:
        """From our layout to theirs."""
        return np.ascontiguousarray(array.T) if self.transposed else array

    def ours(self, array: np.ndarray) -> np.ndarray:
        """From their layout to ours."""
        return np.ascontiguousarray(array.T) if self.transposed else array


class FusedVariables:
    """Variables of ours that are stored in one tensor, side by side along their last axis.

    They are read and assigned together, as one variable is.

    Args:
        variables: of one layout, which may differ in their last axis.

    Attributes:
        path: that of the first variable.
        shape: of all of them together.
        dtype: of the first variable.
    """

    def __init__(self, variables: Sequence[Any]):
        self._variables = tuple(variables)
        self._widths = [variable.shape[-1] for variable in variables]
        self.path = variables[0].path
        self.shape = (*variables[0].shape[:-1], sum(self._widths))

    @property
    def dtype(self) -> str:
        """The dtype of the first variable."""
        return self._variables[0].dtype

    @property
    def value(self) -> np.ndarray:
        """The values of all of them."""
        values = [keras.ops.convert_to_numpy(each.value) for each in self._variables]
        return np.concatenate(values, axis=-1)

    def assign(self, values: np.ndarray) -> None:
        """Give each variable its part."""
        parts = np.split(values, np.cumsum(self._widths)[:-1], axis=-1)
        for variable, part in zip(self._variables, parts, strict=True):
            variable.assign(np.ascontiguousarray(part))


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A variable of ours, or several, and the tensor that stores them."""

    variable: Any
    tensor: str
    leaf: LeafRule

    @property
    def path(self) -> str:
        """The variable's path, its name in this package."""
        return self.variable.path

    @property
    def shape(self) -> Shape:
        """The tensor's shape in the other format."""
        return self.leaf.shape(tuple(self.variable.shape))


@dataclasses.dataclass(frozen=True)
class NameMap:
    """The names of one format.

    Attributes:
        modules: our layer paths -> theirs; `#` stands for the block's number.
        leaves: our variable names -> theirs.
        separator: between the parts of their names.
        whole: our variable paths -> whole names, where the name does not follow from the rows.
        prefixes: what their names begin with, by the beginning of our path; the longest counts,
            and "" stands for every other path.
        redundant: tensors that carry nothing of their own, such as a second name of a tied one.
        zeros: our variable paths that the format has not, because they are zero there.
    """

    modules: Mapping[str, str]
    leaves: Mapping[str, LeafRule]
    separator: str = "."
    whole: Mapping[str, LeafRule] = dataclasses.field(default_factory=dict)
    prefixes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    redundant: Collection[str] = ()
    zeros: Collection[str] = ()

    @staticmethod
    def generic(path: str) -> str:
        """Return a path of ours with `#` for its number, as the rows have it."""
        return _BLOCK.sub("#", path)

    def entries(self, variables: Iterable[Any]) -> list[TensorSpec]:
        """Return the tensors that store variables, which have a path and a shape.

        Raises:
            ValueError: there is no row for a variable.
        """
        found = [(variable, self._leaf(variable.path)) for variable in variables]
        if unknown := [variable.path for variable, leaf in found if leaf is None]:
            raise ValueError(f"The format has no row for {', '.join(unknown)}.")
        owners: dict[str, list[Any]] = {}
        leaves = {leaf.name: leaf for _, leaf in found if leaf is not None}
        for variable, leaf in found:
            if leaf is not None:
                owners.setdefault(leaf.name, []).append(variable)
        return [
            TensorSpec(self._joined(variables), tensor, leaves[tensor])
            for tensor, variables in owners.items()
        ]

    def _joined(self, variables: list[Any]) -> Any:
        """Return one variable, or several in the order of the rows as one."""
        if len(variables) == 1:
            return variables[0]
        rows = {module: row for row, module in enumerate(self.modules)}
        paths = (self.generic(variable.path).rpartition("/")[0] for variable in variables)
        order = sorted(zip((rows[path] for path in paths), range(len(variables)), strict=True))
        return FusedVariables([variables[index] for _, index in order])

    def clear(self, variables: Iterable[Any]) -> None:
        """Sets those to zero that are zero in the format."""
        for variable in variables:
            if variable.path in self.zeros:
                variable.assign(np.zeros(variable.shape))

    def knows(self, path: str) -> bool:
        """Return whether the format has a row for the variable of this path."""
        return self._leaf(path) is not None

    def owners(self, tensor: str) -> list[str]:
        """Our layers that one of their tensors can belong to."""
        found = []
        for ours, theirs in self.modules.items():
            name = re.escape(self._prefix(ours) + theirs).replace(r"\#", r"(\d+)")
            if match := re.fullmatch(f"{name}({re.escape(self.separator)}.*)?", tensor):
                number = match[1] if "#" in theirs else ""
                found.append(ours.replace("#", number))
        for ours, leaf in self.whole.items():
            if self._prefix(ours) + leaf.name == tensor:
                found.append(ours.rpartition("/")[0])
        return found

    def _leaf(self, path: str) -> LeafRule | None:
        """Return the layout of a variable under its whole name; None where there is no row."""
        generic, number = self.generic(path), _BLOCK.search(path)
        module, _, name = generic.rpartition("/")
        leaf = self.whole.get(generic)
        if leaf is not None:
            theirs = leaf.name
        elif module in self.modules and name in self.leaves:
            leaf = self.leaves[name]
            theirs = self.modules[module] + (self.separator + leaf.name if leaf.name else "")
        else:
            return None
        if number:
            theirs = theirs.replace("#", number.group())
        return dataclasses.replace(leaf, name=self._prefix(path) + theirs)

    def _prefix(self, path: str) -> str:
        beginnings = [start for start in self.prefixes if begins(path, (start,))]
        return self.prefixes[max(beginnings, key=len)] if beginnings else self.prefixes.get("", "")


def begins(path: str, beginnings: Iterable[str]) -> bool:
    """Return whether a path is that of one of these layers, or of a part of one."""
    return any(path == start or path.startswith(f"{start}/") for start in beginnings)
