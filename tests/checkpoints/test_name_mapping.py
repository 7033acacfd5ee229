"""Name maps, tested with small maps made for the tests."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.name_mapping import LeafRule, NameMap

_TABLE = NameMap(
    modules={
        "embeddings/token": "words",
        "block_#/output": "layer.#.out",
        "first/dense": "head",
        "second/dense": "head",
    },
    leaves={
        "kernel": LeafRule("w", transposed=True),
        "bias": LeafRule("b"),
        "embeddings": LeafRule("table"),
    },
    whole={"second/scale": LeafRule("odd")},
    prefixes={"": "body.", "first": "", "second": ""},
)


class _Variable:
    """Stand-in for a variable: a name map reads only its path and shape."""

    def __init__(self, path: str, shape: tuple[int, ...] = (2, 3)):
        self.path, self.shape = path, shape


@pytest.mark.parametrize(
    ("path", "tensor"),
    [
        ("embeddings/token/embeddings", "body.words.table"),
        ("block_0/output/kernel", "body.layer.0.out.w"),
        ("block_11/output/bias", "body.layer.11.out.b"),
        ("first/dense/kernel", "head.w"),
        ("second/scale", "odd"),
    ],
)
def test_names(path: str, tensor: str):
    (spec,) = _TABLE.tensor_specs([_Variable(path)])
    assert (spec.path, spec.tensor) == (path, tensor)


def test_shapes_are_those_of_the_other_format():
    specs = _TABLE.tensor_specs([_Variable("first/dense/kernel"), _Variable("first/dense/bias")])
    assert [spec.shape for spec in specs] == [(3, 2), (2, 3)]


def test_conversion_is_its_own_inverse():
    array = np.arange(6.0).reshape(2, 3)
    leaf = _TABLE.leaves["kernel"]
    turned = leaf.to_checkpoint_layout(array)
    np.testing.assert_array_equal(turned, array.T)
    assert turned.flags.c_contiguous
    np.testing.assert_array_equal(leaf.to_keras_layout(turned), array)


@pytest.mark.parametrize("path", ["embeddings/token/gamma", "block_0/dense/kernel", "third/bias"])
def test_a_variable_without_a_row_is_an_error(path: str):
    with pytest.raises(ValueError, match=f"no row for {path}"):
        _TABLE.tensor_specs([_Variable(path)])


@pytest.mark.parametrize(
    ("tensor", "modules"),
    [
        ("body.words.table", ["embeddings/token"]),
        ("body.layer.11.out.w", ["block_11/output"]),
        ("head.b", ["first/dense", "second/dense"]),
        ("odd", ["second"]),
        ("words.table", []),
        ("nothing.b", []),
    ],
)
def test_back_from_their_names(tensor: str, modules: list[str]):
    assert _TABLE.owners(tensor) == modules


def test_entries_hold_the_variable():
    layer = keras.layers.Dense(3, name="first")
    layer.build((None, 2))
    table = NameMap({"first": "head"}, _TABLE.leaves, separator="/")
    specs = table.tensor_specs(layer.weights)
    assert [spec.variable for spec in specs] == layer.weights
    assert [spec.tensor for spec in specs] == ["head/w", "head/b"]


def test_the_longest_beginning_has_the_prefix():
    table = NameMap(
        {"a/b": "x", "a/c": "y", "d": "z"},
        {"bias": LeafRule("")},
        prefixes={"": "0/", "a": "1/", "a/b": "2/"},
    )
    variables = [_Variable(f"{path}/bias") for path in ("a/b", "a/c", "d")]
    assert [spec.tensor for spec in table.tensor_specs(variables)] == ["2/x", "1/y", "0/z"]
    assert table.knows("d/bias")
    assert not table.knows("d/kernel")


# === Fused tensors ===


_FUSED = NameMap(
    {f"block_#/attention/{name}": "layers.#.Wqkv" for name in ("query", "key", "value")},
    {"kernel": LeafRule("weight", transposed=True), "bias": LeafRule("bias")},
)


def _projections(leaf: str, *shape: int) -> list[keras.Variable]:
    """Return the projections in another order than the rows of the fused tensor."""
    made = []
    for number, name in enumerate(("value", "query", "key")):
        values = np.arange(np.prod(shape), dtype="float32").reshape(shape) + 100 * number
        variable = keras.Variable(values)
        variable._path = f"block_7/attention/{name}/{leaf}"
        made.append(variable)
    return made


@pytest.mark.parametrize(("leaf", "shape"), [("kernel", (2, 3)), ("bias", (3,))])
def test_several_variables_are_one_tensor(leaf: str, shape: tuple[int, ...]) -> None:
    variables = _projections(leaf, *shape)
    (spec,) = _FUSED.tensor_specs(variables)
    value, query, key = (keras.ops.convert_to_numpy(variable) for variable in variables)
    whole = np.concatenate([query, key, value], axis=-1)
    theirs = spec.layout.to_checkpoint_layout(spec.variable.value)
    assert spec.tensor == f"layers.7.Wqkv.{'weight' if leaf == 'kernel' else 'bias'}"
    assert spec.shape == theirs.shape == (9, *shape[:-1])
    np.testing.assert_array_equal(theirs, whole.T if leaf == "kernel" else whole)
    spec.variable.assign(spec.layout.to_keras_layout(theirs + 1))
    for variable, before in zip(variables, (value, query, key), strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), before + 1)


def test_a_fused_tensor_belongs_to_all_its_layers() -> None:
    owners = [f"block_3/attention/{name}" for name in ("query", "key", "value")]
    assert _FUSED.owners("layers.3.Wqkv.weight") == owners
