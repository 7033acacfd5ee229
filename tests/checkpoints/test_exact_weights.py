"""The safetensors file with exact weights: its content, its readers, and refused files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, SequenceClassifier, load_checkpoint
from bert_keras.checkpoints.manifest import MANIFEST, STATE_WEIGHTS, WEIGHTS
from bert_keras.errors import ArtifactError, UsageError
from tests import contracts
from tests.contracts import TINY, numpy

_DENSE = keras.layers.Dense


def _task(rank: int = 2) -> Any:
    """Return a classifier with LoRA adapters and random weights."""
    task = contracts.as_trained(SequenceClassifier(BertEncoder(TINY), 2))
    task.encoder.enable_lora(rank)
    return contracts.as_trained(task)


def _rewrite(folder: Path, change: Any) -> None:
    """Change the manifest without updating the digests that it contains."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_what_is_in_it(tmp_path: Path) -> None:
    """The file holds the exact weights of the adapters, and the manifest has its digest."""
    task = _task()
    task.save_to_preset(tmp_path)
    kept = load_file(tmp_path / STATE_WEIGHTS)
    query = task.encoder.blocks[0].attention.query
    assert len(kept) == 2 * 2 * 3
    for weight in query.weights:
        if weight.name != "bias":
            name = f"encoder/block_0/attention/query/{weight.name}"
            np.testing.assert_array_equal(kept[name], numpy(weight))
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())
    assert set(manifest["sha256"]) == {WEIGHTS, STATE_WEIGHTS}
    assert set(manifest["state"]) >= {"adapters", "trainable_variables"}


@pytest.mark.parametrize("quantised", [False, True])
def test_other_libraries_read_the_whole_model(
    quantised: bool, transformers: Any, tmp_path: Path
) -> None:
    """The transformers library reads the folder and gives the same outputs.

    For int8 weights the outputs agree within the error of quantization.
    """
    task = _task()
    if quantised:
        task.quantize("int8", filters=lambda layer: isinstance(layer, _DENSE))
    task.save_to_preset(tmp_path)
    model = transformers.BertForSequenceClassification.from_pretrained(tmp_path)
    x = contracts.inputs_of(task)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids"}
    names["padding_mask"] = "attention_mask"
    import torch

    inputs = {names[name]: torch.tensor(values).long() for name, values in x.items()}
    with torch.no_grad():
        found = model.eval()(**inputs).logits.numpy()
    np.testing.assert_allclose(found, numpy(task(x))["label"], atol=0.05 if quantised else 1e-5)
    plain = numpy(load_checkpoint(tmp_path, plain=True)(x))["label"]
    np.testing.assert_allclose(found, plain, atol=1e-5)


def test_as_another_class_or_plainly_nothing_is_frozen_and_all_is_merged(tmp_path: Path) -> None:
    """As another class or with `plain`, a model has merged adapters and no frozen weights."""
    task = _task()
    task.save_to_preset(tmp_path)
    x = contracts.inputs_of(task)
    expected = numpy(task.encoder(x))
    adapted = "the saved SequenceClassifier has state that a new .* adapters, .* all of it trains"
    with pytest.warns(UserWarning, match=adapted):
        alone = BertEncoder.from_preset(tmp_path)
    with pytest.warns(UserWarning, match=adapted):
        other = SequenceClassifier.from_preset(tmp_path, num_classes=2, labels=["a", "b"])
    plain = SequenceClassifier.from_preset(tmp_path, plain=True)
    for encoder in (alone, plain.encoder, other.encoder):
        assert len(encoder.trainable_weights) == len(encoder.weights)
        assert not any("lora" in weight.path for weight in encoder.weights)
        contracts.assert_close(numpy(encoder(x)), expected, 1e-5)
    config = SequenceClassifier.from_preset(tmp_path, load_weights=False)
    assert len(config.trainable_weights) == len(config.weights)


def test_an_old_file_does_not_stay_beside_another_model(tmp_path: Path) -> None:
    _task().save_to_preset(tmp_path)
    contracts.as_trained(SequenceClassifier(BertEncoder(TINY), 2)).save_to_preset(tmp_path)
    assert not (tmp_path / STATE_WEIGHTS).exists()
    assert "state" not in json.loads((tmp_path / MANIFEST).read_bytes())


def _missing(folder: Path) -> None:
    (folder / STATE_WEIGHTS).unlink()


def _other_bytes(folder: Path) -> None:
    kept = load_file(folder / STATE_WEIGHTS)
    save_file({name: values + 1 for name, values in kept.items()}, folder / STATE_WEIGHTS)


def _huge_rank(folder: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        for adapter in manifest["state"]["adapters"]["default"].values():
            adapter["rank"] = 10**9

    _rewrite(folder, change)


def _unknown_layer(folder: Path) -> None:
    _rewrite(folder, lambda manifest: manifest["state"].update(trainable={"block_9": False}))


def _no_state(folder: Path) -> None:
    _rewrite(folder, lambda manifest: manifest.update(state=[]))


def _other_form(folder: Path) -> None:
    _rewrite(folder, lambda manifest: manifest.update(state={"trainable": 1}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_missing, f"{STATE_WEIGHTS}: no such file"),
        (_other_bytes, "the bytes are not those that were written"),
        (_huge_rank, "no adapter of rank 1000000000 for encoder/block_0/attention/query"),
        (_unknown_layer, "names 'block_9'"),
        (_no_state, "`state` is not an object"),
        (_other_form, "not the state of a layer"),
    ],
)
def test_a_damaged_folder_is_refused(damage: Any, message: str, tmp_path: Path) -> None:
    _task().save_to_preset(tmp_path)
    damage(tmp_path)
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(tmp_path)


def test_floats_where_the_model_has_whole_numbers_are_refused(tmp_path: Path) -> None:
    task = contracts.as_trained(SequenceClassifier(BertEncoder(TINY), 2))
    task.quantize("int8", filters=lambda layer: isinstance(layer, _DENSE))
    task.save_to_preset(tmp_path)
    kept = {name: v.astype("float32") for name, v in load_file(tmp_path / STATE_WEIGHTS).items()}
    save_file(kept, tmp_path / STATE_WEIGHTS)
    digest = hashlib.sha256((tmp_path / STATE_WEIGHTS).read_bytes()).hexdigest()
    _rewrite(tmp_path, lambda manifest: manifest["sha256"].update({STATE_WEIGHTS: digest}))
    with pytest.raises(ArtifactError, match=r"expected int8\. Received: float32"):
        load_checkpoint(tmp_path)


def test_other_quantizations_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY)
    encoder.quantize("int4", filters=lambda layer: isinstance(layer, _DENSE))
    with pytest.raises(UsageError, match=r"only int8 weights can be written.*Received: int4"):
        encoder.save_to_preset(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
