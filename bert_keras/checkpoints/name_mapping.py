"""Maps from the paths of our variables to the names and layouts of another library's tensors.

A map consists of *modules* (our layer path -> the other library's layer name, with `#` for the
block number) and *leaves* (our variable name -> the other library's name, and whether its matrix is
transposed). Reading and writing use the same map. Several of our layers may have one name: they are
the parts of a fused tensor, such as the query, key and value projections, in the order of
`modules`. In names here, "ours" is `bert_keras` and "theirs" is the other library.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import keras  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

# Number of a block, or of a dense layer behind the pooling of a sentence encoder.
_BLOCK = re.compile(r"(?:(?<=block_)|(?<=dense_)|(?<=residual_))\d+")

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LeafRule:
    """Name and layout of one kind of variable, such as all kernels, in the other format.

    Attributes:
        name: the other library's name; "" if its tensor has the name of the layer.
        transposed: whether its axes are stored in reverse order.
    """

    name: str
    transposed: bool = False

    @property
    def same_rows(self) -> bool:
        """True if row i of their tensor is row i of our variable, so it can be copied by rows."""
        return not self.transposed

    def shape(self, ours: Shape) -> Shape:
        """Return the shape of their tensor for the shape of our variable."""
        return ours[::-1] if self.transposed else ours

    def to_checkpoint_layout(self, array: np.ndarray) -> np.ndarray:
        """Convert values from our layout to theirs."""
        return np.ascontiguousarray(array.T) if self.transposed else array

    def to_keras_layout(self, array: np.ndarray) -> np.ndarray:
        """Convert values from their layout to ours."""
        return np.ascontiguousarray(array.T) if self.transposed else array


class FusedVariables:
    """Several of our variables that one tensor stores, concatenated along their last axis.

    The object has the attributes of one Keras variable, so that it is read and assigned like one.

    Args:
        variables: variables with equal shapes, except for the last axis.
        groups: number of equal groups that the last axis of each is cut into. The first groups of
            all variables come first, then the second ones, and so on. With 1 the variables follow
            each other whole; with the number of heads they alternate by head.

    Attributes:
        path: path of the first variable.
        shape: shape of the concatenation.
        dtype: dtype of the first variable.
    """

    def __init__(self, variables: Sequence[Any], groups: int = 1):
        self._variables, self._groups = tuple(variables), groups
        self._widths = [variable.shape[-1] for variable in variables]
        self.path = variables[0].path
        self.shape = (*variables[0].shape[:-1], sum(self._widths))

    @property
    def dtype(self) -> str:
        """Dtype of the first variable."""
        return self._variables[0].dtype

    @property
    def value(self) -> np.ndarray:
        """Values of all variables, concatenated along the last axis."""
        convert: Callable[[Any], np.ndarray] = cast("Any", keras).ops.convert_to_numpy
        parts = [self._grouped(convert(variable.value)) for variable in self._variables]
        return np.concatenate(parts, axis=-1).reshape(self.shape)

    def assign(self, values: np.ndarray) -> None:
        """Split an array of shape `shape` and assign each variable its part."""
        ends = np.cumsum(self._widths)[:-1] // self._groups
        parts = np.split(self._grouped(values), ends, axis=-1)
        for variable, part in zip(self._variables, parts, strict=True):
            variable.assign(np.ascontiguousarray(part).reshape(variable.shape))

    def _grouped(self, values: np.ndarray) -> np.ndarray:
        """Return values with the last axis cut into groups: [..., groups, width]."""
        return values.reshape((*values.shape[:-1], self._groups, -1))


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One of our variables, or several fused ones, and the tensor that stores them.

    Attributes:
        variable: Keras variable or `FusedVariables`; only `path` and `shape` are needed.
        tensor: name of the tensor in the other format.
        layout: name and layout of the tensor.
    """

    variable: Any
    tensor: str
    layout: LeafRule

    @property
    def path(self) -> str:
        """Path of the variable, such as "block_0/attention/query/kernel"."""
        return self.variable.path

    @property
    def shape(self) -> Shape:
        """Shape of the tensor in the other format."""
        return self.layout.shape(tuple(self.variable.shape))


@dataclasses.dataclass(frozen=True)
class NameMap:
    """The tensor names of one format.

    Attributes:
        modules: our layer path -> their layer name; `#` stands for the block number.
        leaves: our variable name -> their rule.
        separator: text between the parts of their names.
        whole: our variable path -> their rule with a whole name, for names that do not follow from
            `modules` and `leaves`.
        prefixes: prefix of our path -> prefix of their name. The longest one applies; "" applies to
            all other paths.
        redundant: tensors without content of their own, such as the second name of a tied weight.
        zeros: our variable paths that the format, or the file, lacks because they are zero.
        unread: beginnings of the names of tensors that none of our models has a use for.
        interleaved: their layer names of fused tensors whose parts alternate by head.
        num_heads: number of heads of these.
    """

    modules: Mapping[str, str]
    leaves: Mapping[str, LeafRule]
    separator: str = "."
    whole: Mapping[str, LeafRule] = dataclasses.field(default_factory=dict[str, LeafRule])
    prefixes: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    redundant: Collection[str] = ()
    zeros: Collection[str] = ()
    unread: tuple[str, ...] = ()
    interleaved: Collection[str] = ()
    num_heads: int = 1

    @staticmethod
    def generic(path: str) -> str:
        """Return our path with `#` instead of its number, as in the keys of `modules`."""
        return _BLOCK.sub("#", path)

    def tensor_specs(self, variables: Iterable[Any]) -> list[TensorSpec]:
        """Return the tensors that store variables.

        Args:
            variables: objects with the attributes `path` and `shape`.

        Raises:
            ValueError: if the format has no name for a variable.
        """
        pairs = [(variable, self._leaf(variable.path)) for variable in variables]
        if unknown := [variable.path for variable, leaf in pairs if leaf is None]:
            raise ValueError(f"The format has no row for {', '.join(unknown)}.")
        owners: dict[str, list[Any]] = {}
        leaves = {leaf.name: leaf for _, leaf in pairs if leaf is not None}
        for variable, leaf in pairs:
            if leaf is not None:
                owners.setdefault(leaf.name, []).append(variable)
        return [
            TensorSpec(self._joined(variables), tensor, leaves[tensor])
            for tensor, variables in owners.items()
        ]

    def _joined(self, variables: list[Any]) -> Any:
        """Return one variable as it is, several as `FusedVariables` in the order of `modules`."""
        if len(variables) == 1:
            return variables[0]
        rows = {module: row for row, module in enumerate(self.modules)}
        paths = (self.generic(variable.path).rpartition("/")[0] for variable in variables)
        order = sorted(zip((rows[path] for path in paths), range(len(variables)), strict=True))
        module = list(self.modules)[order[0][0]]
        groups = self.num_heads if self.modules[module] in self.interleaved else 1
        return FusedVariables([variables[index] for _, index in order], groups)

    def set_zeros(self, variables: Iterable[Any]) -> None:
        """Set the variables of `zeros` to zero."""
        for variable in variables:
            if variable.path in self.zeros:
                variable.assign(np.zeros(variable.shape))

    def knows(self, path: str) -> bool:
        """Return whether the format has a tensor for the variable of this path."""
        return path not in self.zeros and self._leaf(path) is not None

    def has_use(self, tensor: str) -> bool:
        """Return whether any of our models reads a tensor of this name."""
        return tensor not in self.redundant and not tensor.startswith(self.unread)

    def owners(self, tensor: str) -> list[str]:
        """Return the paths of our layers that one of their tensors can belong to."""
        layers: list[str] = []
        for ours, theirs in self.modules.items():
            name = re.escape(self._prefix(ours) + theirs).replace(r"\#", r"(\d+)")
            if match := re.fullmatch(f"{name}({re.escape(self.separator)}.*)?", tensor):
                number = match[1] if "#" in theirs else ""
                layers.append(ours.replace("#", number))
        for ours, leaf in self.whole.items():
            name = re.escape(self._prefix(ours) + leaf.name).replace(r"\#", r"(\d+)")
            if match := re.fullmatch(name, tensor):
                number = match[1] if "#" in leaf.name else ""
                layers.append(ours.rpartition("/")[0].replace("#", number))
        return layers

    def _leaf(self, path: str) -> LeafRule | None:
        """Return the rule of a variable with the whole tensor name; None if there is no rule."""
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
        """Return the prefix of their name for one of our paths."""
        beginnings = [start for start in self.prefixes if begins(path, (start,))]
        return self.prefixes[max(beginnings, key=len)] if beginnings else self.prefixes.get("", "")


def begins(path: str, beginnings: Iterable[str]) -> bool:
    """Return whether a path is one of these layer paths, or lies below one of them."""
    return any(path == start or path.startswith(f"{start}/") for start in beginnings)
