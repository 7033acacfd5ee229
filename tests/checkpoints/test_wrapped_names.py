"""Prefixes of other programs are left out in every format, and the outputs are transformers'."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, MaskedLM, load_checkpoint, save_checkpoint
from bert_keras.checkpoints import google_tf1, hugging_face_names, wrapped_names
from bert_keras.checkpoints.manifest import CONFIG, WEIGHTS
from bert_keras.checkpoints.tensors import TensorFile
from bert_keras.checkpoints.weight_files import INDEX, PICKLE, PICKLE_INDEX
from bert_keras.errors import ArtifactError
from tests import contracts, reference

Arrays = dict[str, np.ndarray]

# What a program puts into a name, and what the line for the user says.
_WRAPPED: dict[str, tuple[Callable[[str], str], str]] = {
    "DataParallel": ("module.{}".format, "begin with 'module.'"),
    "torch.compile": ("_orig_mod.{}".format, "have '_orig_mod.' in them"),
    "a class of one's own": ("model.{}".format, "begin with 'model.'"),
    "nested": ("module.model.encoder.{}".format, "begin with 'module.model.encoder.'"),
    "compiled in DataParallel": (
        "module._orig_mod.{}".format,
        "begin with 'module.', and tensor names have '_orig_mod.' in them",
    ),
    "compiled encoder": (
        lambda name: name.replace("bert.", "bert._orig_mod.", 1),
        "have '_orig_mod.' in them",
    ),
    "sharded training": (
        lambda name: (
            "_fsdp_wrapped_module." + name.replace(".layer.", "._fsdp_wrapped_module.layer.")
        ),
        "have '_fsdp_wrapped_module.' in them",
    ),
    "the name of the encoder twice": ("bert.{}".format, "begin with 'bert.'"),
}


def _save_pickle(path: Path, tensors: Arrays, *keys: str) -> None:
    torch = pytest.importorskip("torch")
    content: Any = {name: torch.from_numpy(array.copy()) for name, array in tensors.items()}
    for key in keys:
        content = {key: content, "epoch": 3}
    torch.save(content, path)


def _save_parts(index: Path, tensors: Arrays, save: Callable[[Path, Arrays], None]) -> None:
    places: dict[str, str] = {}
    for part in (1, 2):
        name = index.name.split(".")[0] + f"-{part}." + index.name.split(".")[1]
        own = dict(list(tensors.items())[part - 1 :: 2])
        save(index.with_name(name), own)
        places |= dict.fromkeys(own, name)
    index.write_text(json.dumps({"weight_map": places}))


_FORMATS: dict[str, Callable[[Path, Arrays], None]] = {
    WEIGHTS: lambda folder, tensors: save_file(tensors, folder / WEIGHTS),
    INDEX: lambda folder, tensors: _save_parts(
        folder / INDEX, tensors, lambda path, own: save_file(own, path)
    ),
    PICKLE: lambda folder, tensors: _save_pickle(folder / PICKLE, tensors, "state_dict"),
    PICKLE_INDEX: lambda folder, tensors: _save_parts(folder / PICKLE_INDEX, tensors, _save_pickle),
    "model.fp32.safetensors": lambda folder, tensors: save_file(
        tensors, folder / "model.fp32.safetensors"
    ),
}


@pytest.fixture(scope="module")
def theirs(transformers: Any) -> Any:
    """Return a tiny BertForMaskedLM of transformers."""
    return reference.hugging_face_model(transformers, "ForMaskedLM")


def _tensors(model: Any) -> Arrays:
    """Return the tensors of a model of transformers with their names in files.

    A file has no second names of tied weights, and other names than the modules of some families.
    """
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(Path(folder, WEIGHTS))


def _write(folder: Path, model: Any, rename: Callable[[str], str], file: str = WEIGHTS) -> Path:
    folder.mkdir(exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.to_json_file(folder / CONFIG, use_diff=False)
    _FORMATS[file](folder, {rename(name): values for name, values in _tensors(model).items()})
    return folder


def _open(folder: Path, **options: Any) -> Any:
    """Open a folder; warnings of keys that this package does not know are not tested here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*unknown keys are ignored")
        return load_checkpoint(folder, **options)


@pytest.mark.parametrize("case", _WRAPPED)
def test_the_outputs_are_those_of_transformers(
    case: str, theirs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrapped weights give the outputs of the model that they come from, and one line says so."""
    rename, said = _WRAPPED[case]
    opened = _open(_write(tmp_path, theirs, rename))
    assert type(opened) is MaskedLM
    reference.same_as_hugging_face(opened, theirs, contracts.inputs_of(opened))
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("file", _FORMATS)
def test_every_file_format(file: str, theirs: Any, tmp_path: Path) -> None:
    expected = _open(_write(tmp_path / "plain", theirs, str))
    folder = _write(tmp_path / "wrapped", theirs, "module.{}".format, file)
    opened = _open(folder, allow_pickle="pytorch" in file)
    contracts.assert_same_weights(opened, expected)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*unknown keys are ignored")
        encoder = BertEncoder.from_preset(folder, allow_pickle="pytorch" in file)
    contracts.assert_same_weights(encoder, expected.encoder)


@pytest.mark.slow
@pytest.mark.parametrize("family", hugging_face_names.FAMILIES)
@pytest.mark.parametrize("ending", ["Model", "ForMaskedLM"])
def test_every_family(family: str, ending: str, transformers: Any, tmp_path: Path) -> None:
    model = reference.hugging_face_model(transformers, ending, family)
    folder = _write(tmp_path / "wrapped", model, "model.{}".format)
    expected = _open(_write(tmp_path / "plain", model, str))
    contracts.assert_same_weights(_open(folder), expected)


def test_names_without_a_wrapper_stay(
    theirs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The prefix of a family is no wrapper, also where all names begin with it."""
    only = {name: values for name, values in _tensors(theirs).items() if name.startswith("bert.")}
    _write(tmp_path, theirs, str)
    save_file(only, tmp_path / WEIGHTS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*unknown keys are ignored")
        BertEncoder.from_preset(tmp_path)
    assert capsys.readouterr().err == ""
    with TensorFile(tmp_path / WEIGHTS) as opened:
        table = "embeddings.word_embeddings.weight"
        assert wrapped_names.unwrapped(opened, table, ("bert.",)) is opened


def test_a_prefix_of_some_names_is_refused_with_the_names_that_are_there(
    theirs: Any, tmp_path: Path
) -> None:
    _write(tmp_path, theirs, lambda name: name if "cls." in name else f"model.{name}")
    with pytest.raises(ArtifactError) as caught:
        _open(tmp_path)
    table = "embeddings.word_embeddings.weight"
    assert f"\n  {table} (closest in the file: model.bert.{table})" in str(caught.value)


def test_two_names_that_become_one(theirs: Any, tmp_path: Path) -> None:
    _write(tmp_path, theirs, str)
    tensors = load_file(tmp_path / WEIGHTS)
    bias = "bert.encoder.layer.0.output.dense.bias"
    save_file({**tensors, f"_orig_mod.{bias}": tensors[bias]}, tmp_path / WEIGHTS)
    with pytest.raises(ArtifactError, match="are the same tensor under an old and a new name"):
        _open(tmp_path)


def test_averaged_weights_of_pytorch(theirs: Any, tmp_path: Path) -> None:
    """`torch.optim.swa_utils.AveragedModel` adds a counter without a prefix."""
    torch = pytest.importorskip("torch")
    _write(tmp_path, theirs, str)
    (tmp_path / WEIGHTS).unlink()
    averaged = torch.optim.swa_utils.AveragedModel(theirs)
    state = averaged.state_dict()
    assert wrapped_names.COUNTER in state
    torch.save(state, tmp_path / PICKLE)
    opened = _open(tmp_path, allow_pickle=True)
    contracts.assert_same_weights(opened, _open(_write(tmp_path / "plain", theirs, str)))


def test_a_backbone_within_another_model_of_keras(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keras puts the layers of an inner model below its name, in a preset folder of KerasHub."""
    h5py = pytest.importorskip("h5py")
    encoder = BertEncoder(contracts.TINY.replace(activation="gelu_tanh"))
    model = contracts.as_trained(encoder)
    save_checkpoint(model, tmp_path, format="keras_hub")
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        file.move("layers", "outer")
        file.create_group("layers/bert_backbone")
        file.move("outer", "layers/bert_backbone/layers")
    contracts.assert_same_weights(load_checkpoint(tmp_path), model)
    assert "names begin with 'layers/bert_backbone/', which" in capsys.readouterr().err


def test_a_scope_in_a_tensorflow_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf = pytest.importorskip("tensorflow")
    encoder = BertEncoder(contracts.TINY.replace(activation="gelu_tanh"))
    model = contracts.as_trained(MaskedLM(encoder))
    save_checkpoint(model, tmp_path, format="google_tf1")
    prefix = str(tmp_path / google_tf1.PREFIX)
    reader = tf.train.load_checkpoint(prefix)
    names = list(reader.get_variable_to_shape_map())
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[f"teacher/{name}" for name in names],
        shape_and_slices=[""] * len(names),
        tensors=[reader.get_tensor(name) for name in names],
    )
    contracts.assert_same_weights(load_checkpoint(tmp_path), model)
    assert "all tensor names begin with 'teacher/', which is left out" in capsys.readouterr().err
