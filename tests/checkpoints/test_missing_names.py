"""Every format shows the names that a file has beside those that it lacks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, MultipleChoice, save_checkpoint
from bert_keras.checkpoints import folders, google_tf1, hugging_face_names, weight_files
from bert_keras.checkpoints.manifest import MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.checkpoints.test_hostile_sizes import _FAMILIES as CONFIGS
from tests.checkpoints.test_tf_hub import garden
from tests.checkpoints.test_tf_training import write_objects
from tests.contracts import TINY

TANH = TINY.replace(activation="gelu_tanh")
CLOSEST = re.compile(r"\n  (\S+) \(closest in the file: (\S+)\)")


def _renamed(name: str) -> str:
    """Return the name that another program might write."""
    return name.replace("query", "my_query")


def _hugging_face(folder: Path, config: Any = TINY) -> None:
    save_checkpoint(BertEncoder(config), folder)
    (folder / MANIFEST).unlink()
    tensors = load_file(folder / WEIGHTS)
    save_file({_renamed(name): values for name, values in tensors.items()}, folder / WEIGHTS)


def _pickle(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    _hugging_face(folder)
    tensors = load_file(folder / WEIGHTS)
    content = {name: torch.from_numpy(values) for name, values in tensors.items()}
    torch.save(content, folder / weight_files.PICKLE)
    (folder / WEIGHTS).unlink()


def _google(folder: Path) -> None:
    tf = _tensorflow()
    save_checkpoint(BertEncoder(TANH), folder, format="google_tf1")
    prefix = str(folder / google_tf1.PREFIX)
    reader = tf.train.load_checkpoint(prefix)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[_renamed(name) for name in values],
        shape_and_slices=[""] * len(values),
        tensors=list(values.values()),
    )


def _keras_hub(folder: Path) -> None:
    h5py = pytest.importorskip("h5py")
    save_checkpoint(BertEncoder(TANH), folder, format="keras_hub")
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        for group in list(file["layers"]):
            layer = file["layers"][group]
            if "_self_attention_layer" in layer:
                part = layer["_self_attention_layer"]
                part.move("query_dense", "my_query_dense")


def _model_garden(folder: Path) -> None:
    variables = garden(contracts.as_trained(BertEncoder(TANH)))
    changed = {_renamed(name): values for name, values in variables.items()}
    write_objects(_tensorflow(), folder, changed)
    save_checkpoint(BertEncoder(TANH), folder / "tf1", format="google_tf1")
    (folder / "tf1" / "bert_config.json").rename(folder / "bert_config.json")


def _tensorflow() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow")


_MAKERS: dict[str, Callable[[Path], None]] = {
    "hugging_face": _hugging_face,
    "pickle": _pickle,
    "google_tf1": _google,
    "keras_hub": _keras_hub,
    "model_garden": _model_garden,
}


def _message(folder: Path, **options: Any) -> str:
    with pytest.raises(ArtifactError) as caught:
        BertEncoder.from_preset(folder, **options)
    return str(caught.value)


def test_every_format_that_is_written_is_here() -> None:
    assert set(folders._FORMATS) <= set(_MAKERS)


@pytest.mark.parametrize("name", _MAKERS)
def test_every_format(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    _MAKERS[name](folder)
    message = _message(folder, allow_pickle=True, trust=True)
    pairs = CLOSEST.findall(message)
    assert pairs, message
    for missing, closest in pairs:
        assert missing not in (closest, "")
        assert closest.replace("my_query", "query") == missing


@pytest.mark.slow
@pytest.mark.parametrize("family", hugging_face_names.FAMILIES)
def test_every_family(family: str, tmp_path: Path) -> None:
    config = CONFIGS[family]
    save_checkpoint(BertEncoder(config), tmp_path)
    (tmp_path / MANIFEST).unlink()
    tensors = load_file(tmp_path / WEIGHTS)
    (table,) = (name for name, values in tensors.items() if len(values) == config.vocab_size)
    other = table.replace(".weight", "_old.weight")
    tensors[other] = tensors.pop(table)
    save_file(tensors, tmp_path / WEIGHTS)
    assert f"  {table} (closest in the file: {other})" in _message(tmp_path)


def test_a_part_that_a_format_has_no_place_for(tmp_path: Path) -> None:
    """TF1 checkpoints have no head for multiple choice, so no name of the file fits."""
    _tensorflow()
    save_checkpoint(BertEncoder(TANH), tmp_path, format="google_tf1")
    with pytest.raises(ArtifactError, match=r"nothing for choice/\S+ \(closest in the file: \w+/"):
        MultipleChoice.from_preset(tmp_path)
