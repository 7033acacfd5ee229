"""Private names of other libraries: every one that is used is listed here, and exists.

A release that renames one fails a test here, and says where it is used.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

import bert_keras

_SOURCES = sorted(Path(bert_keras.__file__).parent.rglob("*.py"))
_PRIVATE = re.compile(r"_[a-z]\w*")


def _model() -> Any:
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("adam", "mse")
    return model


def _optimizer() -> Any:
    rule = keras.optimizers.AdamW(0.1)
    rule.build([keras.Variable([0.0])])
    return rule


def _operation() -> Any:
    return _model().layers[-1]


def _torch_layer() -> Any:
    if keras.backend.backend() != "torch":
        pytest.skip("backend: of layers on PyTorch alone")
    return _dense()


def _dense() -> Any:
    layer = keras.layers.Dense(1)
    layer.build((None, 2))
    return layer


def _masked() -> Any:
    return keras.layers.Masking()(keras.ops.ones((1, 2, 1)))


def _grain_loader() -> Any:
    grain = pytest.importorskip("grain")
    source = grain.sources.RangeDataSource(0, 4, 1)
    sampler = grain.samplers.SequentialSampler(4, grain.sharding.NoSharding())
    return grain.DataLoader(data_source=source, sampler=sampler)


def _torch_loader() -> Any:
    return _torch("utils.data").DataLoader([1])


def _lookup_initializer() -> Any:
    tensorflow: Any = pytest.importorskip("tensorflow")
    return tensorflow.lookup.TextFileInitializer


def _torch(path: str) -> Any:
    torch: Any = pytest.importorskip("torch")
    for name in filter(None, path.split(".")):
        torch = getattr(torch, name)
    return torch


# Name -> what has it.
NAMES: dict[str, Callable[[], Any]] = {
    # === Keras: layers and models ===
    **dict.fromkeys(
        (
            *("_flatten_layers", "_layers", "_remat_mode", "_tracker"),
            *("_trainable_variables", "_non_trainable_variables", "_untrack_variable"),
        ),
        _operation,
    ),
    **dict.fromkeys(("_inbound_nodes", "_outbound_nodes"), _operation),
    "_keras_history": lambda: keras.Input((2,)),
    "_keras_mask": _masked,
    "_value": lambda: keras.Variable([0.0]),
    "_kernel": _dense,
    "_nodes_by_depth": _model,
    "_track_variables": _torch_layer,
    # === Keras: optimizers ===
    **dict.fromkeys(
        (
            *("_apply_weight_decay", "_backend_update_step", "_clip_gradients"),
            *("_get_current_learning_rate", "_get_variable_index", "_learning_rate"),
            *("_momentums", "_use_weight_decay", "_velocities"),
        ),
        _optimizer,
    ),
    # === PyTorch ===
    **dict.fromkeys(
        (
            *("_backward_hooks", "_backward_pre_hooks"),
            *("_forward_hooks", "_forward_pre_hooks"),
        ),
        lambda: _torch("nn").Linear(1, 1),
    ),
    **dict.fromkeys(("_fused_adamw_", "_foreach_mul_"), lambda: _torch("")),
    "_are_functorch_transforms_active": lambda: _torch("_C"),
    "_linear_pointwise": lambda: _torch("ops.mkldnn"),
    "_iterator": _torch_loader,
    # === TensorFlow ===
    "_shared_name": _lookup_initializer,
    # === Grain ===
    **dict.fromkeys(
        (
            *("_data_source", "_multiprocessing_options", "_operations", "_read_options"),
            *("_sampler", "_shard_options"),
        ),
        _grain_loader,
    ),
}
# Modules without a public page, and what is imported from them.
MODULES = {
    "keras.src.backend.common": "global_state",
    "keras.src.backend.common.variables": "get_autocast_scope",
    "keras.src.saving": "serialization_lib",
    "tensorflow.python.eager": "record",
}
_PRIVATE_MODULE = re.compile(r"(.*\.)?(src|_[a-z]\w*)(\..*)?|tensorflow\.python(\..*)?")


@pytest.mark.parametrize("name", NAMES)
def test_a_private_name_exists(name: str) -> None:
    assert hasattr(NAMES[name](), name), f"used in {', '.join(_places(name))}"


@pytest.mark.parametrize(("module", "name"), MODULES.items())
def test_a_private_module_exists(module: str, name: str) -> None:
    pytest.importorskip(module.partition(".")[0])
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(
        f"{module}.{name}"
    )


def test_evaluate_is_called_with_a_private_argument() -> None:
    source = inspect.getsource(keras.Model.fit)
    assert "_use_cached_eval_dataset" in source


def test_tensorflow_tracks_objects() -> None:
    tensorflow: Any = pytest.importorskip("tensorflow")
    assert tensorflow.__internal__.tracking.AutoTrackable


# === All that are used are in the table ===


def _used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the private names that a source reads from objects, as attributes or by `getattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "getattr",
            "hasattr",
            "setattr",
        ):
            name = node.args[1]
            if isinstance(name, ast.Constant):
                yield str(name.value), node.lineno


def _own(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a source defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _places(name: str) -> list[str]:
    return [
        f"{path.name}:{line}"
        for path in _SOURCES
        for found, line in _used(ast.parse(path.read_text(encoding="utf-8")))
        if found == name
    ]


def test_every_private_name_is_listed() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in _SOURCES]
    own = {name for tree in trees for name in _own(tree)}
    used = {name for tree in trees for name, _ in _used(tree) if _PRIVATE.fullmatch(name)}
    python = {"_exit", "_initializing", "_modules"}  # of os, of import specs, of PyTorch's modules
    assert used - own - python <= NAMES.keys()


def test_every_private_name_in_a_text_is_listed() -> None:
    """A name that `getattr` reads with a default is another library's, unless a class has it."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in _SOURCES]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    texts = {
        node.args[1].value
        for node in calls
        if ast.unparse(node.func) == "getattr" and len(node.args) == 3
        if isinstance(node.args[1], ast.Constant)
    }
    private = {name for name in texts if _PRIVATE.fullmatch(str(name))}
    ours = {"_rebuilt"}  # an attribute of our layers
    assert private - ours - {"_initializing"} <= NAMES.keys()


def test_every_private_module_is_listed() -> None:
    modules = {
        (node.module, alias.name)
        for path in _SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and _PRIVATE_MODULE.fullmatch(node.module or "")
        for alias in node.names
    }
    assert modules == set(MODULES.items())


def _overridden() -> Iterator[str]:
    """Yield private attributes of other libraries that classes of ours replace."""
    classes = set()
    for page in ("layers", "models", "optimization", "tokenizers", "resume", "data"):
        package = importlib.import_module(f"bert_keras.{page}")
        for info in pkgutil.iter_modules(package.__path__):
            if info.name.startswith("tf_"):
                pytest.importorskip("tensorflow_text")
            module = importlib.import_module(f"bert_keras.{page}.{info.name}")
            classes |= {value for value in vars(module).values() if inspect.isclass(value)}
    not_foreign = {"bert_keras", *sys.stdlib_module_names}
    for each in classes:
        bases = each.__mro__
        for position, base in enumerate(bases):
            names = vars(base) if base.__module__.startswith("bert_keras") else ()
            for name in filter(_PRIVATE.fullmatch, names):
                others = [
                    other
                    for other in bases[position + 1 :]
                    if other.__module__.partition(".")[0] not in not_foreign
                ]
                if any(name in vars(other) for other in others):
                    yield name


def test_every_overridden_private_method_is_listed() -> None:
    names = set(_overridden())
    assert {"_backend_update_step", "_shared_name"} <= names
    assert names - {"_abc_impl"} <= NAMES.keys()


def test_every_listed_name_is_used() -> None:
    words = {word for path in _SOURCES for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert NAMES.keys() <= words
