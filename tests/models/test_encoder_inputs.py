"""Symbolic inputs have the names that batches have."""

from __future__ import annotations

import pytest

import bert_keras as bk
from bert_keras.models.encoder_inputs import encoder_inputs, packed_inputs

CONFIG = bk.BertConfig(
    vocab_size=40, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=16, max_positions=12
)


@pytest.mark.parametrize(("segments", "is_read"), [(2, True), (1, False), (0, False)])
def test_names(segments: int, is_read: bool) -> None:
    config = CONFIG.replace(num_segments=segments)
    segment_ids = ["segment_ids"] if is_read else []
    assert list(encoder_inputs(config)) == ["token_ids", *segment_ids, "padding_mask"]
    places = ["position_ids", "example_ids", "first_positions"]
    found = packed_inputs(config)
    assert list(found) == ["token_ids", *segment_ids, *places]
    for name, tensor in found.items():
        assert (tensor.name, tensor.dtype, tensor.shape) == (name, "int32", (None, None))
