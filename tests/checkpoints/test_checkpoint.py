"""Behaviour that all checkpoint formats share. Each format also has its own test file."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertConfig, BertEncoder, SequenceClassifier, load_checkpoint
from bert_keras.checkpoints import checkpoint, tensors
from bert_keras.checkpoints.manifest import MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import FAMILIES, TINY, VALUES


def _shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    return {matrix.path: matrix.shape for matrix in checkpoint._sizes(config)}


@pytest.mark.parametrize("name", [*FAMILIES, *VALUES])
def test_the_sizes_are_those_of_the_model(name: str) -> None:
    config = (FAMILIES | VALUES)[name]
    variables = {v.path: tuple(v.shape) for v in BertEncoder(config).weights}
    shapes = _shapes(config)
    assert shapes.items() <= variables.items()


def test_classes_that_no_tensor_has(tmp_path) -> None:
    """A number of classes that no tensor confirms is refused before a head is built."""
    SequenceClassifier(BertEncoder(TINY), 3).save_to_preset(tmp_path)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["options"] |= {"num_classes": 10**12, "labels": None}
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"bert_keras\.json: at most 100,000 classes"):
        load_checkpoint(tmp_path)
    manifest["options"] |= {"num_classes": 10**5}
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"100000 classes, but no tensor of .* has so many"):
        load_checkpoint(tmp_path)
    manifest["options"] |= {"num_classes": 4}
    path.write_text(json.dumps(manifest))
    with pytest.raises(
        ArtifactError, match=r"classifier\.weight: expected \[4, 8\], found \[3, 8\]"
    ):
        load_checkpoint(tmp_path)


def test_every_size_of_a_config_is_among_them() -> None:
    """A change of any size in a config changes the shapes that are compared with the tensors.

    Otherwise a number in a file could allocate memory that no tensor of the file needs.
    """
    changes = {
        field.name: 2 * getattr(TINY, field.name)
        for field in dataclasses.fields(BertConfig)
        if type(getattr(TINY, field.name)) is int
    }
    # The number of heads changes no shape, num_unique_layers cannot exceed num_layers, and twice
    # the position_offset of 0 is 0.
    for free in ("num_heads", "num_unique_layers", "position_offset", "num_key_value_heads"):
        del changes[free]
    # The pattern of local layers has no weights. Buckets, distances and tasks only some encoders
    # have.
    for free in ("global_every", "global_offset", "position_buckets", "max_distance", "num_tasks"):
        del changes[free]
    for name, value in changes.items():
        assert _shapes(TINY.replace(**{name: value})) != _shapes(TINY), name
    for case, name, value in (
        ("buckets", "position_buckets", 10),
        ("disentangled", "max_distance", 5),
        ("disentangled_shared", "position_buckets", 6),
        ("grouped_heads", "num_key_value_heads", 2),
        ("task_table", "num_tasks", 6),
    ):
        assert _shapes(VALUES[case].replace(**{name: value})) != _shapes(VALUES[case]), name


@pytest.mark.parametrize("in_parts", [False, True])
def test_weights_that_are_not_finite_are_named(
    in_parts: bool, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning names the tensors that hold NaN or infinity, and all tensors are read."""
    if in_parts:
        monkeypatch.setattr(tensors, "PART", 64)
    folder = Path(shutil.copytree(saved, tmp_path / "folder"))
    (folder / MANIFEST).unlink()
    values = load_file(folder / WEIGHTS)
    table, bias = "bert.embeddings.word_embeddings.weight", "bert.pooler.dense.bias"
    values[table][-1, -1], values[bias][0] = np.nan, -np.inf
    save_file(values, folder / WEIGHTS)
    message = rf"2 of \d+ tensors hold NaN or infinity: {table}, {bias}\. The model's answers"
    with pytest.warns(UserWarning, match=message) as warned:
        opened = load_checkpoint(folder)
    assert len(warned) == 1
    assert np.isnan(contracts.weights(opened)["embeddings/token/embeddings"][-1, -1])
    # The largest floats are finite, although their sum overflows.
    values[table][:], values[bias][:] = np.finfo("float32").max, np.finfo("float32").max
    save_file(values, folder / WEIGHTS)
    load_checkpoint(folder)
