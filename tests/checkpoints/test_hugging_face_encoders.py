"""RoBERTa and its kin, and MPNet."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.checkpoints.hugging_face_config import config_values, read_config
from bert_keras.checkpoints.hugging_face_encoders import MORE_FAMILIES
from bert_keras.errors import ArtifactError
from tests import families


@pytest.mark.parametrize("family", MORE_FAMILIES)
def test_two_rows_come_before_the_first_position(family: str) -> None:
    config = families.config_of(family)
    assert config.position_offset == 2
    values = config_values(config, "BertEncoder")
    assert values["max_position_embeddings"] == config.max_positions + 2


def test_buckets_that_the_library_does_not_compute() -> None:
    values = config_values(families.config_of("mpnet"), "BertEncoder")
    with pytest.raises(ArtifactError, match="not supported: relative_attention_num_buckets=16"):
        read_config(values | {"relative_attention_num_buckets": 16}, Path(), pooler=True)
