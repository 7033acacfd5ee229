"""JSON of strangers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bert_keras import strict_json
from bert_keras.errors import ArtifactError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "expected a JSON object. Received: list"),
        (b"{", "not JSON"),
        (b"\xff{}", "not JSON"),
        (b'{"a": {"b": 0, "c": 1, "b": 0}}', "'b' is said twice"),
        (b"[" * 100_000, "deeper than any file"),
        (None, "no such file"),
    ],
)
def test_refused(content: bytes | None, message: str, tmp_path: Path):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"config.json: {message}"):
        strict_json.read_object(path)


def test_read(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"a": [{"b": 0}, {"b": 1}]}')
    assert strict_json.read_object(path) == {"a": [{"b": 0}, {"b": 1}]}
    path.write_text("[1]")
    assert strict_json.read(path) == [1]


def test_no_file_is_read_without_a_limit():
    root = Path(__file__).parents[1]
    sources = [path for name in ("bert_keras", "training") for path in (root / name).rglob("*.py")]
    whole = re.compile(r"json\.load\(|json\.loads\([^\n]*\.read_(text|bytes)\(")
    assert len(sources) > 200
    assert [str(path) for path in sources if whole.search(path.read_text())] == []
