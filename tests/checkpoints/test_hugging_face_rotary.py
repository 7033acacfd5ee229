"""Nomic BERT, GTE and Jina embeddings v3: files of their first code, and what is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, MaskedLM, SentenceEncoder, load_checkpoint, models
from bert_keras.checkpoints import hugging_face, hugging_face_tensors
from bert_keras.checkpoints.hugging_face_config import config_values, read_config
from bert_keras.checkpoints.hugging_face_names import FAMILIES, known_to
from bert_keras.checkpoints.hugging_face_rotary import ROTARY_FAMILIES
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from tests import contracts, families, reference
from tests.contracts import TINY

_HERE = Path("config.json")
# Keys of the first Nomic BERT's config, with the sizes of the tiny model.
_FIRST_NOMIC: dict[str, Any] = {
    "model_type": "nomic_bert",
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "causal": False,
    "embd_pdrop": 0.0,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": TINY.hidden_size,
    "n_head": TINY.num_heads,
    "n_inner": TINY.intermediate_size,
    "n_layer": TINY.num_layers,
    "n_positions": TINY.max_positions,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 500,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_weights": True,
    "summary_type": "cls_index",
    "type_vocab_size": 2,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "vocab_size": TINY.vocab_size,
}


def test_the_first_spelling_of_nomic_bert() -> None:
    assert set(_FIRST_NOMIC) <= known_to(FAMILIES["nomic_bert"])
    found = read_config(_FIRST_NOMIC, _HERE, pooler=False)
    assert found == families.config_of("nomic_bert", pooler=False, rotary_base=500.0)
    both = _FIRST_NOMIC | {"num_hidden_layers": 5, "rope_parameters": {"rope_theta": 99.0}}
    config = read_config(both, _HERE, pooler=False)
    assert (config.num_layers, config.rotary_base) == (5, 99.0)  # the current keys count


_REFUSED: dict[str, dict[str, Any]] = {
    "nomic_bert": {
        "num_experts": 8,
        "moe_every_n_layers": 2,
        "prenorm": True,
        "rotary_emb_fraction": 0.5,
        "rotary_emb_interleaved": True,
        "rotary_scaling_factor": 2,
        "activation_function": "gelu",
        "qkv_proj_bias": True,
        "head_dim": 3,
    },
    "gte": {
        "logn_attention_scale": True,
        "rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.3},
        "layer_norm_type": "rms_norm",
        "position_embedding_type": "absolute",
    },
    "jina_embeddings_v3": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
}


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [(family, *each) for family, values in _REFUSED.items() for each in values.items()],
)
def test_what_is_not_computed_is_refused_by_name(family: str, key: str, value: Any) -> None:
    values = {"model_type": family, **families.their_values(family), key: value}
    with pytest.raises(ArtifactError, match=f"not supported: {key}.*=.*Supported: ") as caught:
        read_config(values, _HERE, pooler=False)
    named = [advice for start, advice in FAMILIES[family].advice.items() if key in start]
    assert not named or any(advice in str(caught.value) for advice in named)


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "ntk"},
        {"type": "ntk", "factor": "2"},
        {"type": "ntk", "factor": 0.5},
        {"rope_type": "yarn", "factor": 2.0},
    ],
)
def test_scaling_that_is_not_complete(scaling: dict[str, Any]) -> None:
    values = {"model_type": "gte", **families.their_values("gte"), "rope_scaling": scaling}
    with pytest.raises(ArtifactError, match=r"rope_scaling/type|`rotary_scale` must be"):
        read_config(values, _HERE, pooler=False)


def test_scaling_that_changes_only_longer_texts_is_none() -> None:
    """Nomic-embed-text-v1 is published with it. An encoder reads no longer texts."""
    values = {"model_type": "nomic_bert", **families.their_values("nomic_bert")}
    scaled = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1000.0}
    config = read_config({**values, "rope_parameters": scaled}, _HERE, pooler=False)
    assert config == read_config(values, _HERE, pooler=False)


def test_every_family_here_has_a_refusal_and_its_advice_is_for_one() -> None:
    assert _REFUSED.keys() == ROTARY_FAMILIES.keys()
    for family in FAMILIES.values():
        assert set(family.advice) <= set(family.required)


# Biases that the MLM head of the first code has only if `mlp_fc1_bias` is true.
_BIASES = ("cls.predictions.bias", "cls.predictions.transform.dense.bias")


def _first_nomic(transformers: Any, folder: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Write a Nomic BERT as the first code of its folders does.

    Returns:
        The model of transformers, and all tensors, including the biases that the file lacks.
    """
    rope = {"rope_type": "default", "rope_theta": 500.0}
    model = reference.hugging_face_model(
        transformers, "ForMaskedLM", "nomic_bert", rope_parameters=rope
    )
    for name in _BIASES:
        model.get_parameter(name).data.zero_()
    model.save_pretrained(folder)
    values = {**_FIRST_NOMIC, "architectures": ["NomicBertForPreTraining"]}
    (folder / CONFIG).write_text(json.dumps(values))
    tensors = load_file(folder / WEIGHTS)
    tensors = {name.replace("nomic_bert.", "bert."): array for name, array in tensors.items()}
    save_file({name: tensors[name] for name in tensors if name not in _BIASES}, folder / WEIGHTS)
    return model, tensors


def test_nomic_bert_without_biases_in_its_head(transformers: Any, tmp_path: Path) -> None:
    model, tensors = _first_nomic(transformers, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = load_checkpoint(tmp_path)
    assert isinstance(opened, MaskedLM)
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
    encoder = BertEncoder.from_preset(tmp_path)
    reference.same_as_hugging_face(encoder, model.base_model, contracts.inputs_of(encoder))
    SentenceEncoder.from_preset(tmp_path)

    opened.save_to_preset(tmp_path / "back")  # with biases, as transformers has them
    again = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "back", attn_implementation="eager"
    )
    reference.same_as_hugging_face(opened, again.eval(), contracts.inputs_of(opened))

    trained = {**tensors, **{name: tensors[name] + 1.0 for name in _BIASES}}
    save_file(trained, tmp_path / WEIGHTS)
    weights = contracts.weights(load_checkpoint(tmp_path))
    assert all((weights[path] == 1.0).all() for path in ("mlm/bias", "mlm/dense/bias"))


@pytest.mark.parametrize("missing", [*_BIASES, "cls.predictions.transform.layer_norm.bias"])
def test_a_damaged_head_of_nomic_bert_is_refused(
    missing: str, transformers: Any, tmp_path: Path
) -> None:
    """A bias is zero only if the file has neither of the two."""
    _, tensors = _first_nomic(transformers, tmp_path)
    del tensors[missing]
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(ArtifactError, match=f"Missing in the file:\n  {missing}"):
        load_checkpoint(tmp_path)


def test_biases_are_missing_without_the_key_that_switches_them_off(
    transformers: Any, tmp_path: Path
) -> None:
    _first_nomic(transformers, tmp_path)
    values = json.loads((tmp_path / CONFIG).read_text())
    del values["mlp_fc1_bias"]
    (tmp_path / CONFIG).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=f"Missing in the file:\n  {_BIASES[0]}"):
        load_checkpoint(tmp_path)


def test_an_encoder_of_nomic_bert_has_no_head_of_zeros(transformers: Any, tmp_path: Path) -> None:
    _, tensors = _first_nomic(transformers, tmp_path)
    encoder = {name: tensors[name] for name in tensors if name.startswith("bert.")}
    save_file(encoder, tmp_path / WEIGHTS)
    with pytest.raises(ArtifactError, match=f"Missing in the file:\n  {_BIASES[0]}"):
        MaskedLM.from_preset(tmp_path)


_HEADS_OF_GTE: dict[str, tuple[str, dict[str, Any]]] = {
    "MaskedLM": ("NewForMaskedLM", {}),
    "SequenceClassifier": ("NewForSequenceClassification", {"labels": ["a", "b", "c"]}),
    "TokenClassifier": ("NewForTokenClassification", {"labels": ["a", "b", "c"]}),
    "QuestionAnswerer": ("NewForQuestionAnswering", {}),
    "MultipleChoice": ("NewForMultipleChoice", {}),
}


@pytest.mark.parametrize("name", _HEADS_OF_GTE)
def test_every_head_of_the_first_code_of_gte(name: str, tmp_path: Path) -> None:
    theirs, labels = _HEADS_OF_GTE[name]
    family = FAMILIES["gte"]
    config = families.config_of("gte", pooler=name in ("SequenceClassifier", "MultipleChoice"))
    options = hugging_face.new_head_options(name, config) | labels
    task = contracts.as_trained(getattr(models, name)(BertEncoder(config), **options))
    specs = hugging_face_tensors.tensor_specs(family, config, task.weights, prefixed=True)
    tensors = {
        spec.tensor.replace("gte.", "new.", 1): spec.layout.to_checkpoint_layout(
            keras.ops.convert_to_numpy(spec.variable.value)
        )
        for spec in specs
    }
    save_file(tensors, tmp_path / WEIGHTS)
    values = config_values(config, "BertEncoder") | {"model_type": "new", "architectures": [theirs]}
    values |= hugging_face.write_head_options(name, task.options, family)
    (tmp_path / CONFIG).write_text(json.dumps(values))
    opened = load_checkpoint(tmp_path)
    assert type(opened).__name__ == name
    assert opened.options == task.options
    contracts.assert_same_weights(opened, task)


def test_gte_as_code_of_a_folder_wrote_it(transformers: Any, tmp_path: Path) -> None:
    """The first files have another model type and prefix, and name code that is never run."""
    model = reference.hugging_face_model(transformers, "ForMaskedLM", "gte")
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / CONFIG).read_text())
    theta = values.pop("rope_parameters")["rope_theta"]
    values |= {"model_type": "new", "architectures": ["NewForMaskedLM"], "rope_theta": theta}
    values |= {"auto_map": {"AutoModel": "modeling.NewModel"}, "pack_qkv": True}
    values |= {"unpad_inputs": False, "position_embedding_type": "rope", "rope_scaling": None}
    (tmp_path / CONFIG).write_text(json.dumps(values))
    tensors = load_file(tmp_path / WEIGHTS)
    renamed = {name.replace("gte.", "new.", 1): array for name, array in tensors.items()}
    save_file(renamed, tmp_path / WEIGHTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = load_checkpoint(tmp_path)
    assert isinstance(opened, MaskedLM)
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
    opened.save_to_preset(tmp_path / "back")
    (tmp_path / "back" / MANIFEST).unlink()
    assert load_file(tmp_path / "back" / WEIGHTS).keys() == tensors.keys()
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), opened)


@pytest.mark.parametrize("spelling", ["rope_scaling", "rope_parameters"])
def test_gte_with_ntk_scaling(
    spelling: str, transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers has no such scaling of its own; here its table of functions gets one."""
    from transformers import modeling_rope_utils

    monkeypatch.setitem(modeling_rope_utils.ROPE_INIT_FUNCTIONS, "ntk", reference.ntk_rates)
    scaling = {"rope_type": "ntk", "factor": 8.0, "rope_theta": 20_000.0}
    model = reference.hugging_face_model(transformers, "Model", "gte", rope_parameters=scaling)
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / CONFIG).read_text())
    if spelling == "rope_scaling":
        del values["rope_parameters"]
        published = {"rope_theta": 20_000, "rope_scaling": {"type": "ntk", "factor": 8.0}}
        values |= published | {"model_type": "new", "architectures": ["NewModel"]}
        (tmp_path / CONFIG).write_text(json.dumps(values))
    opened = load_checkpoint(tmp_path)
    assert opened.config.rotary_scale == 8.0
    plain = BertEncoder(opened.config.replace(rotary_scale=1.0))
    plain.set_weights(opened.get_weights())
    x = contracts.inputs_of(opened)
    reference.same_as_hugging_face(opened, model, x)
    difference = reference.difference(contracts.numpy(opened(x)), contracts.numpy(plain(x)))
    assert difference > 10 * reference.TOLERANCE
    opened.save_to_preset(tmp_path / "back")
    written = json.loads((tmp_path / "back" / CONFIG).read_text())
    assert written["rope_scaling"] == {"type": "ntk", "factor": 8.0}
    assert written["rope_theta"] == 20_000
    assert "rope_parameters" not in written
    again = transformers.AutoModel.from_pretrained(tmp_path / "back", attn_implementation="eager")
    reference.same_as_hugging_face(opened, again.eval(), x)
