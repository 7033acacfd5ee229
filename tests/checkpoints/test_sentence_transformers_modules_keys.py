"""Every module, key and activation of sentence-transformers is honoured, explained or refused."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.checkpoints import sentence_transformers as module
from bert_keras.checkpoints import sentence_transformers_modules as keys
from bert_keras.errors import ArtifactError
from bert_keras.layers.pooling import ACTIVATIONS, POOLINGS
from bert_keras.predictor import read_predictor_config
from bert_keras.tokenizers import Tokenizer
from tests import sentence_folders

_SUPPORTED = (keys.TRANSFORMER, keys.POOLING, keys.DENSE, keys.NORMALIZE, keys.DROPOUT)
_VALUES = ("other", 7, -1, True, False, ["mean", "max"], {"a": 1})  # Values to try for each key.


@pytest.fixture(scope="module")
def modules(library: Any) -> dict[str, type]:
    """Return each sentence-transformers class that modules.json can name."""
    import sentence_transformers.cross_encoder.modules
    import sentence_transformers.multi_vector_encoder.modules
    import sentence_transformers.sparse_encoder.modules  # noqa: F401

    found: dict[str, type] = {}
    classes = [library.base.modules.Module]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        is_theirs = one.__module__.startswith(keys.PACKAGE)
        if is_theirs and not inspect.isabstract(one):
            found[f"{one.__module__}.{one.__name__}"] = one
    assert len(found) > len(_SUPPORTED)
    return found


def _rows(*types: str) -> str:
    return json.dumps([{"idx": 0, "name": "0", "path": "", "type": each} for each in types])


def test_every_module_is_supported_or_refused_by_name(
    modules: dict[str, type], tmp_path: Path
) -> None:
    names = {name.rpartition(".")[2] for name in modules}
    assert names >= set(_SUPPORTED)
    transformer, pooling = (
        next(name for name in modules if name.endswith(f".{kind}")) for kind in _SUPPORTED[:2]
    )
    for name in modules:
        kind = name.rpartition(".")[2]
        if kind in _SUPPORTED:
            continue
        (tmp_path / "modules.json").write_text(_rows(transformer, pooling, name))
        with pytest.raises(ArtifactError) as error:
            module.read(tmp_path)
        others = [model for part, model in keys.PACKAGES_OF_OTHERS.items() if part in name]
        assert (others or [kind])[0] in str(error.value), name


def test_every_key_of_a_module_is_in_the_table(modules: dict[str, type]) -> None:
    """Each key that a module writes is in the table, and the table has no unknown key."""
    for name, one in modules.items():
        kind = name.rpartition(".")[2]
        if kind in _SUPPORTED:
            written: Any = one
            accepted = set(inspect.signature(one).parameters)
            assert set(written.config_keys) <= set(keys.KEYS[kind]), name
            old = {*keys.ARGUMENTS, *("max_seq_length", "do_lower_case")}
            assert set(keys.KEYS[kind]) <= {*written.config_keys, *accepted, *old}, name


# === Each written key is changed ===


def _outcome(folder: Path) -> Any:
    """Return all that this package reads from a folder, or "refused"."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            read = module.read(folder)
            if read.size is not None:
                read.check_size(sentence_folders.HIDDEN)
            tokenizer = Tokenizer.from_preset(folder)
            asked = read_predictor_config(folder)
        except ArtifactError:
            return "refused"
    # An upper-case word shows whether the text is lower-cased.
    ids = tokenizer.encode("W1").ids
    return read.class_name, read.options, read.dense, asked, ids, [str(w.message) for w in told]


def _files(folder: Path) -> dict[str, str]:
    """Return the names of the JSON files in a folder and the table row for each."""
    rows = json.loads((folder / "modules.json").read_text())
    config = json.loads((folder / module.CONFIG).read_text())
    files = {
        "modules.json": "modules.json",
        module.CONFIG: config["model_type"],
        "sentence_bert_config.json": keys.TRANSFORMER,
    }
    for row in rows[1:]:
        path = f"{row['path']}/config.json"
        if (folder / path).is_file():
            files[path] = row["type"].rpartition(".")[2]
    return files


@pytest.mark.parametrize("kind", sentence_folders.KINDS)
def test_no_key_is_passed_over_in_silence(kind: str, sentence_folder: Any, tmp_path: Path) -> None:
    """A changed value of a known or unknown key is read, explained or refused."""
    folder = tmp_path / "folder"
    shutil.copytree(sentence_folder(kind)[0], folder)
    # Only with a cased tokenizer does do_lower_case have an effect.
    Tokenizer([*sentence_folders.VOCABULARY, "W1"], lowercase=False).save_to_preset(folder)
    expected = _outcome(folder)
    assert expected != "refused"
    for name, row in _files(folder).items():
        path = folder / name
        content = json.loads(path.read_text())
        values = content[-1] if isinstance(content, list) else content
        unread = set(values) - set(keys.KEYS[row]) - set(keys.POOLING_FLAGS)
        assert not unread, f"{name}: their library writes {unread}"
        for key in {*values, *keys.KEYS[row], "a_key_of_tomorrow"}:
            reason = keys.KEYS[row].get(key)
            outcomes = []
            for value in _VALUES:
                if value == values.get(key):
                    continue
                changed = {**values, key: value}
                text = [*content[:-1], changed] if isinstance(content, list) else changed
                path.write_text(json.dumps(text))
                outcomes.append(_outcome(folder))
            path.write_text(json.dumps(content))
            if reason:
                assert all(outcome == expected for outcome in outcomes), (name, key)
            else:
                assert any(outcome != expected for outcome in outcomes), (name, key)
            if reason is None:
                assert all(o == "refused" or key in str(o) for o in outcomes), (name, key)


@pytest.mark.parametrize("key", keys.ARGUMENTS)
def test_arguments_of_loading_are_known_or_refused(
    key: str, sentence_folder: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(sentence_folder("plain")[0], folder)
    expected = _outcome(folder)
    path = folder / "sentence_bert_config.json"
    values = json.loads(path.read_text())
    for name, reason in keys.LOADING.items():
        assert reason
        path.write_text(json.dumps({**values, key: {name: True}}))
        assert _outcome(folder) == expected, name
    for arguments in ({"num_hidden_layers": 1}, {"a": 1}, [1]):
        path.write_text(json.dumps({**values, key: arguments}))
        assert _outcome(folder) == "refused"
    path.write_text(json.dumps({**values, key: {keys.LENGTH_ARGUMENT: 9}}))
    if key in keys.TOKENIZER_ARGUMENTS:
        assert read_predictor_config(folder).max_length == 9
    else:
        assert _outcome(folder) == "refused"


# === Activations and poolings ===


def _activations() -> dict[str, Any]:
    """Return all activation classes of PyTorch by name."""
    torch = pytest.importorskip("torch")
    place = torch.nn.modules.activation
    classes = inspect.getmembers(place, inspect.isclass)
    own = {name: one for name, one in classes if one.__module__ == place.__name__}
    return {"Identity": torch.nn.Identity, **own}


def test_every_activation_of_pytorch_is_computed_alike_or_refused() -> None:
    torch = pytest.importorskip("torch")

    x = np.linspace(-8, 8, 65, dtype="float32").reshape(5, 13)
    computed = set()
    for name, one in _activations().items():
        ours = keys.ACTIVATIONS.get(f"{one.__module__}.{name}")
        assert ours == keys.ACTIVATIONS.get(f"torch.nn.{name}")
        if ours is None:
            continue
        computed.add(ours)
        assert keys.ACTIVATION_NAMES[ours] == f"{one.__module__}.{name}"
        found = keras.ops.convert_to_numpy(
            keras.activations.get(ours)(keras.ops.convert_to_tensor(x))
        )
        expected = one()(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=name)
    assert computed == set(ACTIVATIONS) == set(keys.ACTIVATION_NAMES)


def test_an_activation_that_is_not_in_the_table(sentence_folder: Any, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(sentence_folder("dense")[0], folder)
    path = folder / "2_Dense" / "config.json"
    values = json.loads(path.read_text())
    for told in ("torch.nn.modules.activation.Softmax", "payload.Tanh", "torch.nn.functional.tanh"):
        path.write_text(json.dumps(values | {"activation_function": told}))
        with pytest.raises(ArtifactError, match=re.escape(f"activation {told!r}")):
            module.read(folder)


def test_every_pooling_of_theirs_is_one_of_ours(modules: dict[str, type]) -> None:
    theirs: Any = next(one for name, one in modules.items() if name.endswith(".Pooling"))
    assert set(theirs.POOLING_MODES) == set(POOLINGS)
    assert list(keys.POOLING_FLAGS.values()) == list(theirs.POOLING_MODES)
