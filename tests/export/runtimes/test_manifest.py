"""What a folder says of itself is read as it was written, or refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.export.runtimes.manifest import FILE, Manifest

WRITTEN = Manifest(
    format="onnx",
    quantization="int8",
    task="QuestionAnswerer",
    max_length=384,
    options={"null_threshold": 0.5},
    pairs=False,
    pad_id=0,
    inputs={"token_ids": ["batch", "length"]},
    outputs={"start": ["batch", "length"]},
    prompt="query: ",
    prompt_length=3,
)


def test_round_trip(tmp_path: Path) -> None:
    WRITTEN.write(tmp_path)
    assert Manifest.read(tmp_path) == WRITTEN


def test_what_earlier_versions_did_not_write_has_no_effect(tmp_path: Path) -> None:
    WRITTEN.write(tmp_path)
    values = json.loads((tmp_path / FILE).read_text())
    del values["prompt"], values["prompt_length"]
    (tmp_path / FILE).write_text(json.dumps(values))
    assert Manifest.read(tmp_path) == dataclasses.replace(WRITTEN, prompt="", prompt_length=0)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ('{"format": "onnx"}', "lacks inputs, max_length")]
)
def test_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ArtifactError, match=rf"export\.json: {message}"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("max_length", "long"), ("task", None), ("inputs", []), ("prompt", 1)]
)
def test_of_other_types(tmp_path: Path, name: str, value: object) -> None:
    WRITTEN.write(tmp_path)
    values = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(values | {name: value}))
    with pytest.raises(ArtifactError, match=rf"export\.json: {name} is not what"):
        Manifest.read(tmp_path)
