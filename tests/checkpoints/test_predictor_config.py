"""Settings of prediction in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.predictor import PredictorConfig, read_predictor_config


def test_a_folder_that_says_nothing(tmp_path: Path) -> None:
    assert read_predictor_config(tmp_path) == PredictorConfig()
    (tmp_path / "predictor.json").write_text("{}")
    assert read_predictor_config(tmp_path) == PredictorConfig()


def test_two_lengths_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "predictor.json").write_text('{"max_length": 9}')
    (tmp_path / "modules.json").write_text("[]")
    path = tmp_path / "sentence_bert_config.json"
    for text in ('{"max_seq_length": 9}', '{"max_seq_length": null}', "{}"):
        path.write_text(text)
        assert read_predictor_config(tmp_path).max_length == 9
    path.write_text('{"max_seq_length": 8}')
    message = r"predictor\.json: contradicts sentence_bert_config\.json: max_length is 9 here, max_"
    with pytest.raises(ArtifactError, match=message):
        read_predictor_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"max_length": "9"}', "max_length must be a whole number. Received: '9'"),
        ('{"max_length": 0}', "max_length must be a whole number. Received: 0"),
        ('{"pairs": 1}', "pairs must be true or false. Received: 1"),
        ('{"options": [1]}', "options must be an object"),
        ('{"prompt": "query: "}', "unknown keys: 'prompt'"),
    ],
)
def test_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "predictor.json").write_text(text)
    with pytest.raises(ArtifactError, match=rf"predictor\.json: {message}"):
        read_predictor_config(tmp_path)
