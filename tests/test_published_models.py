"""Published models: sizes, parameters counted in transformers, and repositories."""

from __future__ import annotations

import re
from typing import Any

import keras
import pytest

from bert_keras import PRESETS, BertConfig, BertEncoder
from bert_keras.checkpoints.hugging_face_config import config_values
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.presets import HANDLES

# Layers, hidden size, heads, feed-forward: Turc et al., 2019, Table 1; Devlin et al., 2019, §3.
_SIZES = {
    "tiny": (2, 128, 2, 512),
    "mini": (4, 256, 4, 1024),
    "small": (4, 512, 8, 2048),
    "medium": (8, 512, 8, 2048),
    "base": (12, 768, 12, 3072),
    "large": (24, 1024, 16, 4096),
}
_VOCABULARIES = {
    "uncased": 30_522,
    "cased": 28_996,
    "chinese": 21_128,
    "multilingual_cased": 119_547,
}


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("bert_")])
def test_published_size(name: str):
    family, size, vocabulary = name.split("_", 2)
    layers, hidden, heads, intermediate = _SIZES[size]
    assert family == "bert"
    assert PRESETS[name] == BertConfig(
        vocab_size=_VOCABULARIES[vocabulary],
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        intermediate_size=intermediate,
    )


# Parameters of published files, as the Hugging Face hub shows them, with the output matrix of
# EuroBERT; and of encoders that were counted in transformers, with a pooler if the model has one.
_PARAMETERS = {
    "roberta_base": 124_645_632,
    "roberta_large": 355_359_744,
    "xlm_roberta_base": 278_043_648,
    "distilbert_base_uncased": 66_362_880,
    "distilbert_base_cased": 65_190_912,
    "albert_base_v2": 11_683_584,
    "albert_large_v2": 17_683_968,
    "albert_xlarge_v2": 58_724_864,
    "albert_xxlarge_v2": 222_595_584,
    "electra_small_discriminator": 13_483_008,
    "electra_base_discriminator": 108_891_648,
    "electra_large_discriminator": 334_092_288,
    "eurobert_210m": 310_266_624 - 128_256 * 768,
    "eurobert_610m": 755_625_600 - 128_256 * 1152,
    "eurobert_2_1b": 2_403_092_736 - 128_256 * 2304,
    "gte_large_en_v1_5": 434_139_136,
}
_ON_PYTORCH = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="one backend: PyTorch counts weights without memory"
)


def _count(config: BertConfig) -> int:
    """Return the number of parameters of an encoder, which takes no memory."""
    with keras.device("meta"):
        return BertEncoder(config).count_params()


@_ON_PYTORCH
@pytest.mark.parametrize("name", _PARAMETERS)
def test_published_parameters(name: str) -> None:
    assert _count(PRESETS[name]) == _PARAMETERS[name]


def _theirs(transformers: Any, config: BertConfig) -> int:
    """Return the number of trainable parameters that transformers has for a config of ours."""
    import torch

    values = config_values(config, "BertEncoder")
    name = values.pop("architectures")[0]
    assert values.pop("model_type") == FAMILIES[config.family].model_types[0]
    with torch.device("meta"):
        its_config = getattr(transformers, f"{name.removesuffix('Model')}Config")(**values)
        model = getattr(transformers, name)(its_config)
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


@_ON_PYTORCH
@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_those_of_transformers(name: str, transformers: Any) -> None:
    """Two layers show all sizes. NTK scaling, which transformers lacks, has no parameters."""
    small = PRESETS[name].replace(num_layers=2, rotary_scale=1.0)
    assert _count(small) == _theirs(transformers, small)


@_ON_PYTORCH
@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_all_parameters_are_those_of_transformers(name: str, transformers: Any) -> None:
    config = PRESETS[name].replace(rotary_scale=1.0)
    assert _count(config) == _theirs(transformers, config)


@pytest.mark.parametrize("name", PRESETS)
def test_a_published_config_is_that_of_its_family(name: str) -> None:
    """Values that no file of the family states are those that are read from every file."""
    config = PRESETS[name]
    fixed = {key: getattr(config, key) for key in FAMILIES[config.family].fixed}
    assert fixed == dict(FAMILIES[config.family].fixed)


# DeBERTa is published with the other names of its MLM head, and UltraBERT's sizes are in no code.
_WITHOUT_PRESET = {"deberta", "deberta_v2", "ultrabert"}


def test_every_other_family_has_a_preset() -> None:
    assert {config.family for config in PRESETS.values()} | _WITHOUT_PRESET == set(FAMILIES)


def test_names():
    for size in _SIZES:
        assert f"bert_{size}_uncased" in PRESETS
    assert {"bert_base_cased", "bert_large_cased", "bert_base_chinese"} <= set(PRESETS)


def test_every_name_stands_for_a_repository():
    """Each preset has a repository of its own, owned by the authors of the model."""
    assert HANDLES.keys() == PRESETS.keys()
    assert len(set(HANDLES.values())) == len(HANDLES)
    authors = "google|google-bert|FacebookAI|distilbert|albert|almanach|facebook"
    authors += "|microsoft|answerdotai|nomic-ai|Alibaba-NLP|jinaai|EuroBERT|nghuyong|junnyu|KBLab"
    authors += "|andreasmadsen"
    for handle in HANDLES.values():
        assert re.fullmatch(rf"hf://(?:{authors})/[\w.-]+", handle)
    # The repositories of Turc et al. contain the sizes in their names.
    for name, handle in HANDLES.items():
        if sizes := re.search(r"L-(\d+)_H-(\d+)_A-(\d+)", handle):
            config = PRESETS[name]
            found = config.num_layers, config.hidden_size, config.num_heads
            assert tuple(map(int, sizes.groups())) == found
