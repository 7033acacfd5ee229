"""Names of tensors: those that heads alternate in, those without a use, and earlier ones."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import BertEncoder
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.hugging_face_tensors import current_name, name_map, tensor_specs
from tests import contracts

_V1 = FAMILIES["deberta"]
_CONFIG = contracts.TINY.replace(
    **_V1.fixed, family="deberta", attention_positions="disentangled", max_distance=4
)


def test_parts_of_a_tensor_alternate_by_head() -> None:
    encoder = contracts.as_trained(BertEncoder(_CONFIG))
    specs = {
        spec.tensor: spec for spec in tensor_specs(_V1, _CONFIG, encoder.weights, prefixed=False)
    }
    spec = specs["encoder.layer.1.attention.self.in_proj.weight"]
    assert spec.shape == (24, 8)
    theirs = spec.layout.to_checkpoint_layout(spec.variable.value)
    attention, size = encoder.blocks[1].attention, _CONFIG.head_size
    for head in range(_CONFIG.num_heads):
        for number, part in enumerate((attention.query, attention.key, attention.value)):
            start = (3 * head + number) * size
            kernel = contracts.numpy(part.kernel)[:, head * size : (head + 1) * size]
            np.testing.assert_array_equal(theirs[start : start + size], kernel.T)
    before = contracts.weights(encoder)
    spec.variable.assign(spec.layout.to_keras_layout(theirs))
    for path, values in contracts.weights(encoder).items():
        np.testing.assert_array_equal(values, before[path])
    assert "encoder.layer.1.attention.self.q_bias" in specs
    assert attention.key.bias is None


@pytest.mark.parametrize(
    ("tensor", "owners"),
    [
        ("deberta.encoder.layer.3.attention.self.v_bias", ["block_3/attention/value"]),
        ("pooler.dense.weight", ["label/dense", "choice/dense"]),
        ("mask_predictions.dense.weight", []),
    ],
)
def test_owners(tensor: str, owners: list[str]) -> None:
    names = name_map(_V1, prefixed=True, num_heads=2)
    assert names.owners(tensor) == owners
    assert names.has_use(tensor) == bool(owners)


def test_names_of_the_first_port() -> None:
    assert current_name("a.LayerNorm.gamma") == "a.LayerNorm.weight"
    assert current_name("a.dense.weight") == "a.dense.weight"
