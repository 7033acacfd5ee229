"""The manifest of a checkpoint folder. What else is refused in it is in test_api.py."""

from __future__ import annotations

import hashlib

import pytest

from bert_keras.checkpoints import manifest
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError


def test_what_is_described_is_read(tmp_path):
    described = manifest.describe("Task", {"a": 1}, {"hidden_size": 8}, "digest")
    (tmp_path / MANIFEST).write_bytes(manifest.json_bytes(described))
    assert manifest.read(tmp_path, ("Task", "Other")) == described
    with pytest.raises(ArtifactError, match="unknown class 'Task'"):
        manifest.read(tmp_path, ("Other",))


def test_a_folder_without_one(tmp_path):
    assert manifest.read(tmp_path, ("Task",)) is None
    with pytest.raises(ArtifactError, match=r"config\.json: no such file"):
        manifest.read_json(tmp_path / CONFIG)


def test_keys_are_said_once(tmp_path):
    path = tmp_path / CONFIG
    path.write_text('[{"a": {"b": 1}}, {"a": 1, "b": {"c": 1, "d": 2, "c": 1}}]')
    with pytest.raises(ArtifactError) as caught:
        manifest.parse_json(path)
    assert str(caught.value).startswith(f"{path}: 'c' is said twice")
    path.write_text('[{"a": {"b": 1}}, {"a": 1}]')
    assert manifest.parse_json(path) == [{"a": {"b": 1}}, {"a": 1}]


def test_the_digest_is_of_the_bytes(tmp_path):
    described = manifest.describe("Task", {}, {}, hashlib.sha256(b"weights").hexdigest())
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    manifest.check_digest(tmp_path / WEIGHTS, described)
    (tmp_path / WEIGHTS).write_bytes(b"weightz")
    with pytest.raises(ArtifactError, match="the bytes are not those that were written"):
        manifest.check_digest(tmp_path / WEIGHTS, described)
