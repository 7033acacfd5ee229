"""What a folder says of itself is read as it was written, or refused."""

from __future__ import annotations

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
)


def test_round_trip(tmp_path: Path) -> None:
    WRITTEN.write(tmp_path)
    assert Manifest.read(tmp_path) == WRITTEN


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ('{"format": "onnx"}', "lacks inputs, max_length")]
)
def test_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ArtifactError, match=rf"export\.json: {message}"):
        Manifest.read(tmp_path)
