"""ModernBERT, EuroBERT and UltraBERT: layers that are local, heads, spellings, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier
from bert_keras.checkpoints import hugging_face
from bert_keras.checkpoints.hugging_face_config import config_values, read_config
from bert_keras.checkpoints.hugging_face_names import FAMILIES, NATIVE
from bert_keras.checkpoints.manifest import CONFIG
from bert_keras.errors import ArtifactError
from tests import contracts, families, reference

_HERE = Path("config.json")


def _values(family: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": family, **families.their_values(family), **changes}


@pytest.mark.parametrize("family", [f for f, rows in FAMILIES.items() if rows.has_layer_types])
@pytest.mark.parametrize("num_layers", range(1, 8))
def test_a_model_of_any_depth_keeps_its_layers(family: str, num_layers: int) -> None:
    """Every third layer is global, also in a model that is too short to show it."""
    config = families.config_of(family, num_layers=num_layers)
    assert (config.global_every, config.global_offset) == (3, FAMILIES[family].first_global)
    assert read_config(config_values(config, "BertEncoder"), _HERE, pooler=False) == config


def test_the_first_spelling_of_ultrabert() -> None:
    """Windows and bases in lists of one for each layer."""
    windows, bases = [2, 2, 0, 2], [100.0, 100.0, 9e4, 100.0]
    values = _values("ultrabert", num_hidden_layers=4, attention_windows=windows)
    del values["sliding_window"]
    found = read_config(values | {"rope_theta": bases}, _HERE, pooler=False)
    assert (found.window, found.rotary_base, found.local_rotary_base) == (2, 9e4, 100.0)
    assert [found.is_local(layer) for layer in range(4)] == [True, True, False, True]
    for wrong in (
        {"attention_windows": [2, 3, 0, 2]},
        {"attention_windows": "2"},
        {"rope_theta": [1.0, 2.0, 3.0, 4.0]},
        {"rope_theta": 1e4},
    ):
        with pytest.raises(ArtifactError, match=f"not supported: {next(iter(wrong))}="):
            read_config(values | wrong, _HERE, pooler=False)


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("eurobert", "head_dim", 3),
        ("ultrabert", "head_dim", 16),
        ("eurobert", "rope_parameters", {"rope_type": "linear", "rope_theta": 1e4}),
        ("ultrabert", "rope_parameters", {"full_attention": {"rope_type": "linear"}}),
        ("modernbert", "rope_parameters", {"sliding_attention": {"rope_type": "yarn"}}),
        ("modernbert", "classifier_bias", True),
    ],
)
def test_what_is_not_computed_is_refused_by_name(family: str, key: str, value: Any) -> None:
    with pytest.raises(ArtifactError, match=f"not supported: {key}.*=.*Supported: "):
        read_config(_values(family, **{key: value}), _HERE, pooler=False)
    if key == "head_dim":
        read_config(_values(family, head_dim=4), _HERE, pooler=False)


@pytest.mark.parametrize("family", [f for f, rows in FAMILIES.items() if rows.pooling])
def test_ways_to_read_the_tokens(family: str, transformers: Any, tmp_path: Path) -> None:
    rows = FAMILIES[family]
    for ours, theirs in rows.poolings.items():
        model = reference.hugging_face_model(
            transformers, "ForSequenceClassification", family, classifier_pooling=theirs
        )
        model.save_pretrained(tmp_path / theirs)
        opened = SequenceClassifier.from_preset(tmp_path / theirs)
        assert opened.options.get("pooling", "cls") == ours
        reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
        opened.save_to_preset(tmp_path / "back")
        assert json.loads((tmp_path / "back" / CONFIG).read_text())["classifier_pooling"] == theirs
    config = families.config_of(family)
    with pytest.raises(ArtifactError, match="not supported: classifier_pooling='last'"):
        hugging_face.pooling_of({"classifier_pooling": "last"}, rows, _HERE)
    head = {"hidden_activation": rows.hidden_activation.get("SequenceClassifier"), "num_classes": 2}
    other = {"pooling": next(name for name in ("late", "first_token") if name not in rows.poolings)}
    assert hugging_face.family_for(config, "SequenceClassifier", head | other) is NATIVE


def test_pooling_of_code_in_a_folder() -> None:
    """EuroBERT's first configs have another key."""
    found = hugging_face.pooling_of({"clf_pooling": "mean"}, FAMILIES["eurobert"], _HERE)
    assert found == "mean"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["eurobert", "ultrabert"])
def test_output_matrices(family: str, tied: bool, transformers: Any, tmp_path: Path) -> None:
    model = reference.hugging_face_model(
        transformers, "ForMaskedLM", family, tie_word_embeddings=tied
    )
    model.save_pretrained(tmp_path / "theirs")
    opened = MaskedLM.from_preset(tmp_path / "theirs")
    assert opened.options.get("tied", True) == tied
    assert ("mlm/output/embeddings" in contracts.weights(opened)) != tied
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
    opened.save_to_preset(tmp_path / "back")
    contracts.assert_same_weights(MaskedLM.from_preset(tmp_path / "back"), opened)
    again = type(model).from_pretrained(tmp_path / "back")
    assert again.config.tie_word_embeddings == tied


def test_a_head_that_theirs_have_not(tmp_path: Path) -> None:
    """Such a head is written under the names of this package."""
    encoder = BertEncoder(families.config_of("eurobert"))
    forms: tuple[dict[str, Any], ...] = ({"tied": False}, {"hidden_sizes": [12, 8]}, {})
    for number, options in enumerate(forms):
        model = MaskedLM(encoder, **options)
        assert hugging_face.family_for(encoder.config, "MaskedLM", model.options) is NATIVE
        contracts.check_format(model, contracts.inputs_of(model), tmp_path / str(number))
