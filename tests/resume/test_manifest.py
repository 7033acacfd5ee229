"""Every damage is found."""

from __future__ import annotations

import re

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.resume import manifest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(20)))
    (tmp_path / "state").write_text("{}")
    manifest.seal(tmp_path)
    return tmp_path


def test_untouched(folder):
    manifest.verify(folder)
    (folder / "notes of the user").write_text("")
    manifest.verify(folder)


@pytest.mark.parametrize("name", ["weights", "state", "MANIFEST.json"])
def test_a_flipped_bit_in_any_byte_is_found(folder, name):
    path = folder / name
    good = path.read_bytes()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        with pytest.raises(ArtifactError):
            manifest.verify(folder)
    path.write_bytes(good)
    manifest.verify(folder)


@pytest.mark.parametrize("name", ["weights", "state", "MANIFEST.json"])
def test_every_truncation_is_found_and_named(folder, name):
    path = folder / name
    good = path.read_bytes()
    # The last byte of the manifest is a line feed, which carries nothing.
    for length in range(len(good) - (name == "MANIFEST.json")):
        path.write_bytes(good[:length])
        with pytest.raises(ArtifactError, match=re.escape(f"{path}: damaged")):
            manifest.verify(folder)
    path.unlink()
    with pytest.raises(ArtifactError, match=re.escape(f"{path}: missing")):
        manifest.verify(folder)
    path.mkdir()
    with pytest.raises(ArtifactError, match=re.escape(f"{path}: cannot be read")):
        manifest.verify(folder)


@pytest.mark.parametrize("text", ["[]", '{"files": {}}', '{"format": "x", "files": {}}', "\xff"])
def test_a_foreign_manifest_is_refused(folder, text):
    (folder / manifest.NAME).write_text(text, encoding="latin-1")
    with pytest.raises(ArtifactError, match=r"MANIFEST\.json: damaged"):
        manifest.verify(folder)
