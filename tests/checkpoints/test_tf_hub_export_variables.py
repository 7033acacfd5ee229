"""Variables of exported encoders: adapters and int8 weights are read as plain floats."""

from __future__ import annotations

import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, load_checkpoint
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import TINY

tf = pytest.importorskip("tensorflow")

from tests.checkpoints.test_tf_hub_export import changed, write  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an exported encoder. Copy it before changing it."""
    pair = tmp_path_factory.mktemp("pair")
    write(contracts.as_trained(BertEncoder(TINY)), pair / "encoder")
    return pair


def test_adapters_are_folded_in(tmp_path: Path) -> None:
    model = contracts.as_trained(MaskedLM(BertEncoder(TINY)))
    model.encoder.enable_lora(2, alpha=3.0)
    contracts.as_trained(model)
    opened = load_checkpoint(write(model, tmp_path / "encoder"))
    model.encoder.merge_lora()
    expected = contracts.weights(model)
    for path, values in contracts.weights(opened).items():
        np.testing.assert_allclose(values, expected[path], atol=1e-6, err_msg=path)


def test_int8_weights_are_floats_again(tmp_path: Path) -> None:
    model = contracts.as_trained(MaskedLM(BertEncoder(TINY)))
    before = contracts.weights(model)
    kinds = (keras.layers.Dense, keras.layers.Embedding)
    model.quantize("int8", filters=lambda layer: isinstance(layer, kinds))
    types = {
        str(weight.dtype) for weight in model.weights if weight.name in ("kernel", "embeddings")
    }
    assert types == {"int8"}
    opened = load_checkpoint(write(model, tmp_path / "encoder"))
    for path, values in contracts.weights(opened).items():
        largest = np.abs(before[path]).max()
        np.testing.assert_allclose(values, before[path], atol=largest / 127, err_msg=path)


def test_other_types_are_refused(folder: Path, tmp_path: Path) -> None:
    path = "block_0/attention/query/kernel"
    place = changed(folder, tmp_path, lambda v: v.update(quantization={path: "int4"}))
    with pytest.raises(ArtifactError, match=r"only int8 .* int4 of block_0.* `save_to_preset`"):
        BertEncoder.from_preset(place)


def test_a_checkpoint_without_objects_is_refused(folder: Path, tmp_path: Path) -> None:
    place = changed(folder, tmp_path, dict)
    shutil.rmtree(place / "variables")
    (place / "variables").mkdir()
    tf.raw_ops.SaveV2(
        prefix=str(place / "variables" / "variables"),
        tensor_names=["x"],
        shape_and_slices=[""],
        tensors=[tf.zeros(3)],
    )
    with pytest.raises(ArtifactError, match="It is of TensorFlow 1"):
        BertEncoder.from_preset(place)
