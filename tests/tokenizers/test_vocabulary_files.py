"""Small files of a tokenizer, as data."""

from __future__ import annotations

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers.vocabulary_files import read_json


@pytest.mark.parametrize(
    ("content", "message"), [("[]", "expected a JSON object. Received: list"), ("{", "not JSON")]
)
def test_json_is_an_object(content: str, message: str, tmp_path):
    (tmp_path / "vocab.json").write_text(content)
    with pytest.raises(ArtifactError, match=f"vocab.json: {message}"):
        read_json(tmp_path / "vocab.json")
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    assert read_json(tmp_path / "vocab.json") == {"a": 0}
