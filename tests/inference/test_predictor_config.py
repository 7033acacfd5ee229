"""`predictor.json` by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.inference.predictor_config import PredictorConfig


def test_what_is_written_is_read(tmp_path: Path) -> None:
    config = PredictorConfig(64, {"null_threshold": 1.5}, pairs=True)
    config.write(tmp_path / "predictor.json")
    assert PredictorConfig.read(tmp_path / "predictor.json") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"max_length": 0}', "max_length must be a whole number"),
        ('{"max_length": true}', "max_length must be a whole number"),
        ('{"options": []}', "options must be an object"),
        ('{"pairs": 1}', "pairs must be true or false"),
        ('{"lenght": 3}', "lenght"),
        ("{", "not JSON"),
    ],
)
def test_a_damaged_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "predictor.json").write_text(text)
    with pytest.raises(ArtifactError, match=rf"predictor\.json: .*{message}"):
        PredictorConfig.read(tmp_path / "predictor.json")


def test_what_a_file_does_not_say_has_its_default(tmp_path: Path) -> None:
    (tmp_path / "predictor.json").write_text('{"max_length": 7}')
    assert PredictorConfig.read(tmp_path / "predictor.json") == PredictorConfig(7, {}, pairs=False)
