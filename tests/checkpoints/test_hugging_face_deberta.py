"""DeBERTa as published: its configs, heads that nothing reads, and values that are refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier, load_checkpoint
from bert_keras.checkpoints import hugging_face_config, hugging_face_names
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from bert_keras.layers.positions import distance_rows
from tests import contracts, reference

# config.json of microsoft/deberta-v3-base, which states neither `legacy` nor a class.
_V3 = {
    "model_type": "deberta-v2",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 0,
    "vocab_size": 128100,
}
_V1 = {name: value for name, value in _V3.items() if name not in ("position_buckets",)} | {
    "model_type": "deberta",
    "pos_att_type": "c2p|p2c",
    "padding_idx": 0,
    "vocab_size": 50265,
}
for _name in ("norm_rel_ebd", "share_att_key"):
    del _V1[_name]
_HERE = Path("config.json")


def _read(values: dict[str, Any]) -> Any:
    """Return the config of the encoder; unknown keys are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hugging_face_names.warn_of_hugging_face(values, _HERE)
    return hugging_face_config.read_config(values, _HERE, pooler=False)


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({}, {}),
        ({"vocab_size": 251_000}, {"vocab_size": 251_000}),  # mDeBERTa
        (
            {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536},  # xsmall
            {"hidden_size": 384, "num_heads": 6, "intermediate_size": 1536},
        ),
        ({"num_hidden_layers": 6}, {"num_layers": 6}),  # small
        (  # large, fine-tuned with transformers
            {
                "hidden_size": 1024,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "pos_att_type": ["p2c", "c2p"],
                "pooler_dropout": 0,
                "pooler_hidden_act": "gelu",
                "pooler_hidden_size": 1024,
                "legacy": True,
            },
            {"hidden_size": 1024, "num_layers": 24, "num_heads": 16},
        ),
        ({"attention_head_size": 64, "conv_kernel_size": 0}, {}),
    ],
)
def test_published_configs_of_version_3(changes: dict[str, Any], sizes: dict[str, Any]) -> None:
    config = _read(_V3 | changes)
    assert config.attention_positions == "disentangled_shared"
    assert (config.position_buckets, config.max_distance) == (256, 512)
    assert config.position_norm
    assert config.position_embedding == "none"
    assert (config.num_segments, config.pooler, config.layer_norm_epsilon) == (0, False, 1e-7)
    for name, value in sizes.items():
        assert getattr(config, name) == value
    assert hugging_face_config.round_trips(config, "BertEncoder")


def test_the_published_config_of_version_1() -> None:
    config = _read(_V1)
    assert (config.family, config.attention_positions) == ("deberta", "disentangled")
    assert (config.position_buckets, config.max_distance, config.key_bias) == (0, 512, False)
    assert hugging_face_config.round_trips(config, "BertEncoder")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv_kernel_size": 3, "conv_act": "gelu"}, "conv_kernel_size=3.*deberta-v3-large"),
        ({"pos_att_type": "c2p"}, "relative_attention=True, pos_att_type='c2p'.*Supported: rel"),
        ({"relative_attention": False}, "relative_attention=False, pos_att_type="),
        ({"share_att_key": "yes"}, "share_att_key='yes'"),
        ({"pooler_hidden_act": "tanh"}, "pooler_hidden_act='tanh'. Supported: 'gelu'"),
        ({"embedding_size": 128}, "embedding_size=128. Supported: 768"),
        ({"attention_head_size": 32}, "attention_head_size=32. Supported: 64"),
        ({"norm_rel_ebd": "rms"}, "`position_norm` must be true or false"),
        ({"model_type": "deberta", "talking_head": True}, "talking_head=True"),
    ],
)
def test_what_this_package_does_not_compute_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArtifactError, match=f"config.json: .*{message}"):
        hugging_face_config.read_config(_V3 | changes, _HERE, pooler=False)


@pytest.fixture(params=["deberta_lm_head", "deberta_v2_lm_head"])
def published(request: pytest.FixtureRequest, transformers: Any, tmp_path: Path) -> Path:
    """Return a folder like a published one: all pretraining heads, and a config that names none."""
    model = reference.hugging_face_model(transformers, "ForMaskedLM", request.param)
    folder = tmp_path / "published"
    model.save_pretrained(folder)
    values = json.loads((folder / CONFIG).read_text())
    for key in ("legacy", "architectures"):
        del values[key]
    (folder / CONFIG).write_text(json.dumps(values))
    more = {
        f"mask_predictions.{name}.{leaf}": np.ones(8, "float32")
        for name in ("dense", "LayerNorm", "classifier")
        for leaf in ("weight", "bias")
    }
    save_file(load_file(folder / WEIGHTS) | more, folder / WEIGHTS, {"format": "pt"})
    return folder


def test_the_heads_of_a_published_file(published: Path, tmp_path: Path) -> None:
    """The MLM head is read although the config does not name it, and the other one is left out."""
    task = load_checkpoint(published)
    assert isinstance(task, MaskedLM)
    values = load_file(published / WEIGHTS)
    head = contracts.weights(task)
    np.testing.assert_array_equal(
        head["mlm/dense/kernel"], values["lm_predictions.lm_head.dense.weight"].T
    )
    np.testing.assert_array_equal(head["mlm/bias"], values["lm_predictions.lm_head.bias"])
    encoder = BertEncoder.from_preset(published)
    contracts.assert_same_weights(encoder, task.encoder)
    new = SequenceClassifier.from_preset(published, labels=["no", "yes"])
    assert new.options["hidden_activation"] == "gelu"
    task.save_to_preset(tmp_path / "back")
    assert json.loads((tmp_path / "back" / CONFIG).read_text())["legacy"] is False
    (tmp_path / "back" / MANIFEST).unlink()
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), task)


def test_a_config_that_states_the_other_head_counts(published: Path) -> None:
    values = json.loads((published / CONFIG).read_text())
    (published / CONFIG).write_text(json.dumps({**values, "legacy": True}))
    assert BertEncoder.from_preset(published).config.family in ("deberta", "deberta_v2")
    with pytest.raises(ArtifactError, match=r"cls\.predictions\.bias"):
        MaskedLM.from_preset(published)


def test_the_dropout_before_the_pooler_is_kept(transformers: Any, tmp_path: Path) -> None:
    model = reference.hugging_face_model(
        transformers,
        "ForSequenceClassification",
        "deberta_v2",
        pooler_dropout=0.25,
        cls_dropout=0.5,
    )
    model.save_pretrained(tmp_path / "theirs")
    task = SequenceClassifier.from_preset(tmp_path / "theirs")
    assert (task.options["hidden_dropout"], task.options["dropout"]) == (0.25, 0.5)
    task.save_to_preset(tmp_path / "back")
    again = transformers.AutoConfig.from_pretrained(tmp_path / "back")
    assert (again.pooler_dropout, again.cls_dropout) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("max_distance", "buckets"), [(512, 256), (512, 255), (10, 4), (100, 5), (49, 8), (1024, 32)]
)
def test_buckets_of_distances(max_distance: int, buckets: int, transformers: Any) -> None:
    """Each distance has its bucket, also at the borders, where rounding could move it."""
    import torch

    modeling = transformers.models.deberta_v2.modeling_deberta_v2
    distances = np.arange(-3 * max_distance, 3 * max_distance + 1)
    theirs = modeling.make_log_bucket_position(torch.tensor(distances), buckets, max_distance)
    expected = np.clip(theirs.long().numpy() + buckets, 0, 2 * buckets - 1)
    options: dict[str, int] = {"span": buckets, "max_distance": max_distance, "buckets": buckets}
    found = distance_rows(keras.ops.convert_to_tensor(distances, "int32"), **options)
    np.testing.assert_array_equal(contracts.numpy(found), expected)
