"""Names of weights files: several files, variants, and the formats that are not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, Pretrainer, load_checkpoint
from bert_keras.checkpoints import weight_files
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.checkpoints.weight_files import INDEX, PICKLE, PICKLE_INDEX
from bert_keras.errors import ArtifactError, UsageError
from tests import contracts


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """Return a folder with the config of a tiny model and without weights."""
    (tmp_path / CONFIG).write_bytes((saved / CONFIG).read_bytes())
    return tmp_path


@pytest.fixture(scope="module")
def weights(saved: Path) -> dict[str, np.ndarray]:
    return load_file(saved / WEIGHTS)


def _save(path: Path, tensors: dict[str, np.ndarray]) -> None:
    if path.suffix == ".bin":
        torch = pytest.importorskip("torch")
        torch.save({name: torch.from_numpy(array.copy()) for name, array in tensors.items()}, path)
    else:
        save_file(tensors, path)


def _save_parts(index: Path, pattern: str, tensors: dict[str, np.ndarray]) -> None:
    """Write tensors into two files, and the index of them."""
    places: dict[str, str] = {}
    for part in (1, 2):
        own = dict(list(tensors.items())[part - 1 :: 2])
        name = pattern.format(f"{part:05}-of-00002")
        _save(index.with_name(name), own)
        places |= dict.fromkeys(own, name)
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))


# Index -> pattern of the files, as transformers and diffusers name them.
_PARTS = {
    INDEX: "model-{}.safetensors",
    PICKLE_INDEX: "pytorch_model-{}.bin",
    "model.safetensors.index.fp16.json": "model.fp16-{}.safetensors",
    "model.fp16.safetensors.index.json": "model-{}.fp16.safetensors",
    "pytorch_model.bin.index.fp16.json": "pytorch_model.fp16-{}.bin",
}


@pytest.mark.parametrize("index", _PARTS)
def test_several_files(
    index: str, folder: Path, saved: Path, weights: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _save_parts(folder / index, _PARTS[index], weights)
    is_pickle, variant = ".bin" in index, "fp16" if "fp16" in index else None
    if is_pickle:
        with pytest.raises(ArtifactError, match=rf"{index}: a pickle, .* allow_pickle=True"):
            load_checkpoint(folder)
    opened = load_checkpoint(folder, allow_pickle=is_pickle, variant=variant)
    contracts.assert_same_weights(opened, load_checkpoint(saved))
    assert capsys.readouterr().err == ""  # the variant was asked for


def test_an_index_of_pickles_names_pickles(folder: Path) -> None:
    pytest.importorskip("torch")
    places = {"a": "model-00001-of-00002.safetensors"}
    (folder / PICKLE_INDEX).write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ArtifactError, match=r"weight_map must give each tensor a \.bin file"):
        weight_files.open_folder(folder, allow_pickle=True)


# === Variants ===


def _half(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.astype("float16") for name, array in weights.items()}


@pytest.mark.parametrize("name", ["model.fp16.safetensors", "pytorch_model.fp16.bin"])
def test_a_variant_is_opened_by_its_name(
    name: str, folder: Path, weights: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _save(folder / name, _half(weights))
    _save(folder / WEIGHTS, weights)
    options: dict[str, Any] = {"allow_pickle": name.endswith(".bin")}
    query = "block_0/attention/query/kernel"
    expected = weights["bert.encoder.layer.0.attention.self.query.weight"].T
    for opened in (
        load_checkpoint(folder, variant="fp16", **options),
        BertEncoder.from_preset(folder, variant="fp16", **options),
        Pretrainer.from_preset(folder, variant="fp16", **options),
    ):
        half = contracts.weights(opened)[query]
        np.testing.assert_array_equal(half, expected.astype("float16").astype("float32"))
    np.testing.assert_array_equal(contracts.weights(load_checkpoint(folder))[query], expected)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["model.fp16.safetensors", "pytorch_model.non_ema.bin"])
def test_the_only_variant_is_opened_with_one_line(
    name: str, folder: Path, weights: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _save(folder / name, _half(weights))
    load_checkpoint(folder, allow_pickle=name.endswith(".bin"))
    printed = capsys.readouterr()
    variant = name.split(".")[1]
    line = f"{folder / name}: opened, because {variant!r} is the only variant of the weights"
    assert printed.err.count("\n") == 1
    assert printed.err.startswith(line)
    assert printed.out == ""


def test_variants_that_are_not_there(folder: Path, weights: Any) -> None:
    for name in ("model.fp16.safetensors", "model.bf16.safetensors"):
        _save(folder / name, _half(weights))
    with pytest.raises(ArtifactError, match=r"2 variants\. Pass variant='bf16' or variant='fp16'"):
        load_checkpoint(folder)
    with pytest.raises(ArtifactError, match=r"no weights of the variant 'int8'.*the variant 'bf16"):
        load_checkpoint(folder, variant="int8")
    for variant in ("", "../fp16", "a/b", "fp16.safetensors", "*", "[a]"):
        with pytest.raises(UsageError, match="variant must be a word of a file name"):
            load_checkpoint(folder, variant=variant)
    (folder / PICKLE).write_bytes(b"")
    with pytest.raises(ArtifactError, match="or pass variant='bf16', or pass variant='fp16'"):
        load_checkpoint(folder)


def test_our_own_folder_has_digests_of_its_files(saved: Path, folder: Path, weights: Any) -> None:
    """A variant that another program put beside our manifest is not what was saved."""
    (folder / MANIFEST).write_bytes((saved / MANIFEST).read_bytes())
    _save(folder / "model.fp16.safetensors", _half(weights))
    with pytest.raises(ArtifactError, match=r"model\.fp16\.safetensors: bert_keras\.json has no"):
        load_checkpoint(folder, variant="fp16")


def test_downloads() -> None:
    """A pickle is downloaded only if it is asked for, and one variant without the others."""
    for allow_pickle in (False, True):
        for variant in (None, "fp16"):
            names = weight_files.patterns(variant, allow_pickle=allow_pickle)
            assert any(name.startswith("pytorch_model") for name in names) == allow_pickle
            assert all(variant is None or variant in name for name in names)


# === Formats that are not read ===

_EXAMPLES = {"*": "x", "?????": "00001", "global_step*": "global_step5"}


def _example(pattern: str) -> str:
    """Return a file name that a glob matches."""
    for wildcard, text in _EXAMPLES.items():
        pattern = pattern.replace(wildcard, text) if wildcard != "*" else pattern
    return pattern.replace("*", "x")


@pytest.mark.parametrize("pattern", weight_files._FOREIGN)
@pytest.mark.parametrize("has_config", [True, False])
def test_a_foreign_file_is_named_with_what_to_do(
    pattern: str, has_config: bool, folder: Path
) -> None:
    path = folder / _example(pattern)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"content")
    if not has_config:
        (folder / CONFIG).unlink()
    with pytest.raises(ArtifactError) as caught:
        load_checkpoint(folder)
    message = str(caught.value)
    if pattern == "*.index" and not has_config:  # then it is a checkpoint of TensorFlow
        assert "a TensorFlow checkpoint without a config. Put one of" in message
        return
    assert f"{path}: {weight_files._FOREIGN[pattern]}" in message
    assert ("config.json: no such file" in message) != has_config
    assert len(message) < 1000


def test_settings_beside_weights_are_not_named(folder: Path) -> None:
    for name in ("training_args.bin", "rng_state.pth"):
        (folder / name).write_bytes(b"")
    assert weight_files.describe_foreign(folder) == ""
    with pytest.raises(ArtifactError, match=r"model\.safetensors: no such file"):
        weight_files.find(folder, allow_pickle=True)


def test_the_steps_of_a_training_are_counted(saved: Path, tmp_path: Path) -> None:
    """The last step is named, not the first of the alphabet."""
    for step in (500, 1500, 20000):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / CONFIG).write_bytes((saved / CONFIG).read_bytes())
    with pytest.raises(ArtifactError, match=r"mean .*checkpoint-20000\? 3 folders within have"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("place", ["{}/saved_model.pb", "{}/encoder/saved_model.pb"])
def test_the_versions_of_an_export_are_counted(place: str, tmp_path: Path) -> None:
    for version in (9, 10):
        path = tmp_path / place.format(version)
        path.parent.mkdir(parents=True)
        path.touch()
    with pytest.raises(ArtifactError, match=f"Did you mean the SavedModel in {tmp_path / '10'}"):
        load_checkpoint(tmp_path)


def test_a_file_is_no_folder(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"a file\. A checkpoint is a folder .*: name '.*saved"):
        load_checkpoint(saved / WEIGHTS)
