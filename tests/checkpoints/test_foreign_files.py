"""Opening an untrusted folder runs no code, and reads no file outside that folder.

Python reports to an audit hook each file that it opens and all code that it runs (PEP 578). While a
folder is opened, only two reports are allowed: a file in the folder is read, and the folder is
listed. The C++ and Rust readers of TensorFlow, HDF5 and safetensors report nothing. The test files
of these formats check which files they may open. Refusals of damaged files are tested with each
format.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_keras import (
    BertEncoder,
    Pretrainer,
    SentenceEncoder,
    Tokenizer,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints import sentence_transformers, weight_files
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import TINY

_HARMLESS = ("array.__new__", "builtins.id", "gc.", "object.__", "sys._getframe")
_LISTING = ("glob.glob", "os.listdir", "os.scandir", "pathlib.Path.glob", "pathlib.Path.rglob")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]


class _Watch:
    """Audit hook that records each operation that reading a folder does not need.

    Python cannot remove an audit hook, so it is switched on only for the folder under test.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.found: list[str] = []
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def over(self, folder: Path) -> Iterator[list[str]]:
        self.found = found = []
        self.folder = folder.resolve()
        try:
            yield found
        finally:
            self.folder = None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (folder := self.folder) is None or event.startswith(_HARMLESS):
            return
        self.folder = None  # The hook must not record its own operations.
        if not self._is_reading(event, arguments, folder):
            self.found.append(f"{event} {str(arguments)[:200]}")
        self.folder = folder

    @staticmethod
    def _is_reading(event: str, arguments: tuple[Any, ...], folder: Path) -> bool:
        if event != "open" and event not in _LISTING:
            return False
        path = arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        is_inside = Path(os.fsdecode(path)).resolve().is_relative_to(folder)
        return is_inside and (event != "open" or not arguments[2] & _WRITING)


@pytest.fixture(scope="module")
def watch() -> _Watch:
    return _Watch()


def _imports_something_new() -> None:
    sys.modules.pop("this", None)
    with contextlib.redirect_stdout(None):
        __import__("this")


_DEEDS: dict[str, Callable[[Path], object]] = {
    "compile": lambda _: eval("1 + 1"),
    "exec": lambda _: exec(compile("1", "x", "exec")),
    "import": lambda _: _imports_something_new(),
    "os.system": lambda _: os.system("true"),
    "subprocess.Popen": lambda _: subprocess.run(["true"], check=True),
    "pickle.find_class": lambda _: pickle.loads(pickle.dumps(Path.touch)),
    "socket.__new__": lambda _: socket.socket().close(),
    "open": lambda folder: (folder.parent / "beside").read_text(),
    "os.mkdir": lambda folder: (folder / "new").mkdir(),
    "os.rename": lambda folder: (folder / "x").rename(folder / "y"),
    "os.remove": lambda folder: (folder / "y").unlink(),
}


@pytest.mark.parametrize("event", _DEEDS)
def test_the_watch_hears(event: str, watch: _Watch, tmp_path: Path) -> None:
    """The audit hook of these tests records each operation that must not happen."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (tmp_path / "beside", folder / "x", folder / "y"):
        path.touch()
    with watch.over(folder) as found:
        (folder / "x").read_text()
        list(folder.iterdir())
    assert not found
    with watch.over(folder) as found:
        _DEEDS[event](folder)
    assert any(each.startswith(f"{event} ") for each in found), found
    with watch.over(folder) as found:
        (folder / "z").write_text("")
    assert found[0].startswith("open ")


# === Folders of every format ===


def _ours(folder: Path) -> None:
    Pretrainer(BertEncoder(TINY)).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)


def _theirs(folder: Path) -> None:
    _ours(folder)
    (folder / MANIFEST).unlink()


def _shards(folder: Path) -> None:
    """Write a Hugging Face folder whose weights are in shards with an index."""
    _theirs(folder)
    stored = load_file(folder / WEIGHTS)
    shutil.move(folder / WEIGHTS, folder / "model-1.safetensors")
    places = dict.fromkeys(stored, "model-1.safetensors")
    (folder / weight_files.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def _pickled(folder: Path) -> None:
    """Write a Hugging Face folder whose weights are a PyTorch pickle."""
    torch = pytest.importorskip("torch")
    _theirs(folder)
    stored = {name: torch.tensor(values) for name, values in load_file(folder / WEIGHTS).items()}
    torch.save(stored, folder / weight_files.PICKLE)
    (folder / WEIGHTS).unlink()


def _sentences(folder: Path) -> None:
    """Write a sentence-transformers folder with a tokenizer and without a manifest."""
    SentenceEncoder(BertEncoder(TINY)).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    (folder / MANIFEST).unlink()


def _google(folder: Path) -> None:
    pytest.importorskip("tensorflow")
    save_checkpoint(BertEncoder(TINY.replace(activation="gelu_tanh")), folder, format="google_tf1")


def _hub(folder: Path) -> None:
    encoder = BertEncoder(TINY.replace(activation="gelu_tanh"))
    save_checkpoint(encoder, folder, format="keras_hub")


_MAKERS: dict[str, Callable[[Path], None]] = {
    "ours": _ours,
    "hugging_face": _theirs,
    "shards": _shards,
    "pickle": _pickled,
    "sentence_transformers": _sentences,
    "google_tf1": _google,
    "keras_hub": _hub,
}


@pytest.fixture(scope="module")
def folders(keras_hub: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of each format. Each was opened once, so that lazy imports are done."""
    place = tmp_path_factory.mktemp("folders")
    for name, make in _MAKERS.items():
        make(place / name)
        load_checkpoint(place / name, allow_pickle=name == "pickle")
    Tokenizer.from_preset(place / "ours")
    return place


@pytest.mark.parametrize("name", _MAKERS)
def test_opening_only_reads(name: str, folders: Path, watch: _Watch, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders / name, tmp_path / "copy"))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with watch.over(folder) as found:
        opened = load_checkpoint(folder, allow_pickle=name == "pickle")
        if (folder / "vocab.txt").exists():
            Tokenizer.from_preset(folder)
    assert not found
    contracts.assert_same_weights(
        opened, load_checkpoint(folders / name, allow_pickle=name == "pickle")
    )
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# === Code that is hidden in a file ===


class _Payload:
    """Object that creates a file when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self):
        return Path.touch, (self.canary,)


def _as_pickle(folder: Path, canary: Path) -> Callable[[], object]:
    """Replace the weights by a plain pickle that creates the canary file."""
    (folder / WEIGHTS).unlink(missing_ok=True)
    (folder / weight_files.PICKLE).write_bytes(pickle.dumps({"a": _Payload(canary)}))
    return lambda: pickle.loads((folder / weight_files.PICKLE).read_bytes())


def _as_torch(folder: Path, canary: Path) -> Callable[[], object]:
    """Replace the weights by a PyTorch pickle that creates the canary file."""
    import torch

    (folder / WEIGHTS).unlink(missing_ok=True)
    torch.save({"a": _Payload(canary)}, folder / weight_files.PICKLE)
    return lambda: torch.load(folder / weight_files.PICKLE, weights_only=False)


def _as_weights(folder: Path, canary: Path) -> Callable[[], object]:
    (folder / WEIGHTS).write_bytes(pickle.dumps({"a": _Payload(canary)}))
    return lambda: pickle.loads((folder / WEIGHTS).read_bytes())


def _lambda(canary: Path) -> dict[str, Any]:
    """Return the JSON of a Keras Lambda layer that creates the canary file when it runs."""
    name = str(canary)
    layer = keras.layers.Lambda(lambda x: (__import__("pathlib").Path(name).touch(), x)[1])
    return json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))


def _run_lambda(saved: dict[str, Any]) -> object:
    return keras.saving.deserialize_keras_object(saved, safe_mode=False)(np.ones(3))


def _lambda_for_a_backbone(folder: Path, canary: Path) -> Callable[[], object]:
    """Replace the config of a KerasHub preset by a Lambda layer."""
    saved = _lambda(canary)
    (folder / CONFIG).write_text(json.dumps(saved))
    return lambda: _run_lambda(saved)


def _lambda_in_a_backbone(folder: Path, canary: Path) -> Callable[[], object]:
    """Plant a Lambda layer among the arguments of a KerasHub backbone."""
    saved, values = _lambda(canary), json.loads((folder / CONFIG).read_text())
    values["config"]["num_layers"] = saved
    (folder / CONFIG).write_text(json.dumps(values))
    return lambda: _run_lambda(saved)


def _lambda_beside(folder: Path, canary: Path) -> Callable[[], object]:
    """Plant a Lambda layer in each JSON file of a preset from which KerasHub rebuilds objects."""
    saved, values = _lambda(canary), json.loads((folder / CONFIG).read_text())
    values["config"]["dtype"] = saved
    (folder / CONFIG).write_text(json.dumps(values))
    for name in ("task.json", "tokenizer.json", "preprocessor.json", "metadata.json"):
        (folder / name).write_text(json.dumps(saved))
    return lambda: _run_lambda(saved)


def _module(folder: Path, canary: Path) -> Callable[[], object]:
    """Write a Python module that creates the canary file when it is imported."""
    path = folder / "payload.py"
    path.write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\nTransformer = 1\n")

    def run() -> None:
        spec = importlib.util.spec_from_file_location("payload", path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    return run


def _edit(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def _code_of_its_own(folder: Path, canary: Path) -> Callable[[], object]:
    """Name a Python module in `auto_map`, as repositories with own code do."""
    auto = {"auto_map": dict.fromkeys(("AutoConfig", "AutoModel", "AutoTokenizer"), "payload.X")}
    for name in (CONFIG, "tokenizer_config.json"):
        _edit(folder / name, lambda values: values | auto)
    return _module(folder, canary)


def _modules_of_its_own(folder: Path, canary: Path) -> Callable[[], object]:
    """Name a Python module in the modules.json of sentence-transformers."""

    def change(modules: Any) -> Any:
        return [{**modules[0], "type": "payload.Transformer"}, *modules[1:]]

    _edit(folder / sentence_transformers.MODULES, change)
    return _module(folder, canary)


def _class_of_its_own(folder: Path, canary: Path) -> Callable[[], object]:
    _edit(folder / MANIFEST, lambda values: values | {"class": "payload.Transformer"})
    return _module(folder, canary)


_Plant = Callable[[Path, Path], Callable[[], object]]
# Each row: a function that plants code, the format of the folder, and the expected error.
_PAYLOADS: dict[str, tuple[_Plant, str, str | None]] = {
    "pickle": (_as_pickle, "hugging_face", "a pickle, which can run code"),
    "pickle, asked for": (_as_pickle, "pickle", "PyTorch cannot read it as weights alone"),
    "torch": (_as_torch, "hugging_face", "a pickle, which can run code"),
    "torch, asked for": (_as_torch, "pickle", "PyTorch cannot read it as weights alone"),
    "pickle for weights": (_as_weights, "hugging_face", "not a whole safetensors file"),
    "Lambda for a backbone": (_lambda_for_a_backbone, "keras_hub", "model_type=None"),
    "Lambda in a backbone": (_lambda_in_a_backbone, "keras_hub", "must be an integer"),
    "Lambda beside": (_lambda_beside, "keras_hub", "registered_name=None is not one"),
    "auto_map": (_code_of_its_own, "hugging_face", None),
    "modules.json": (_modules_of_its_own, "sentence_transformers", "code of its own"),
    "class": (_class_of_its_own, "ours", "unknown class 'payload.Transformer'"),
}


@pytest.mark.filterwarnings("ignore:.*auto_map names code of the checkpoint's own")
@pytest.mark.parametrize("case", _PAYLOADS)
def test_nothing_planted_runs(
    case: str, folders: Path, watch: _Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that is hidden in a folder does not run when the folder is opened."""
    plant, name, message = _PAYLOADS[case]
    folder, canary = tmp_path / "folder", tmp_path / "canary"
    shutil.copytree(folders / name, folder)
    run = plant(folder, canary)
    run()
    assert canary.exists(), "the payload is a dud"
    canary.unlink()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    refused = None
    with watch.over(folder) as found:
        try:
            load_checkpoint(folder, allow_pickle=name == "pickle")
            if (folder / "vocab.txt").exists():
                Tokenizer.from_preset(folder)
        except ArtifactError as error:
            refused = error
    assert not canary.exists()
    assert not found
    assert "payload" not in sys.modules
    if message is None:
        assert refused is None
    else:
        assert message in str(refused)


# === Files that this package writes ===


@pytest.mark.parametrize("name", _MAKERS)
def test_what_is_written_tells_nothing_of_the_machine(
    name: str, keras_hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERT_KERAS_CANARY", "in-the-environment")
    _MAKERS[name](tmp_path / "written")
    written = [path for path in (tmp_path / "written").rglob("*") if path.is_file()]
    assert len(written) > 1
    for place in ("in-the-environment", tmp_path, Path.cwd(), Path.home()):
        for path in written:
            assert str(place).encode() not in path.read_bytes(), path.name
