"""The manifest of a checkpoint folder. Other refusals are tested in test_folders.py."""

from __future__ import annotations

import hashlib

import pytest

from bert_keras.checkpoints import manifest
from bert_keras.checkpoints.manifest import MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError


def test_what_is_described_is_read(tmp_path):
    described = manifest.describe("Task", {"a": 1}, {"hidden_size": 8}, "digest")
    (tmp_path / MANIFEST).write_bytes(manifest.json_bytes(described))
    assert manifest.read(tmp_path, ("Task", "Other")) == described
    with pytest.raises(ArtifactError, match="unknown class 'Task'"):
        manifest.read(tmp_path, ("Other",))


def test_a_folder_without_one(tmp_path):
    assert manifest.read(tmp_path, ("Task",)) is None


def test_the_digest_is_of_the_bytes(tmp_path):
    described = manifest.describe("Task", {}, {}, hashlib.sha256(b"weights").hexdigest())
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    manifest.check_digest(tmp_path / WEIGHTS, described)
    (tmp_path / WEIGHTS).write_bytes(b"weightz")
    with pytest.raises(ArtifactError, match="the bytes are not those that were written"):
        manifest.check_digest(tmp_path / WEIGHTS, described)
