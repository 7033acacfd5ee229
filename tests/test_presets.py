"""The published sizes."""

from __future__ import annotations

import re

import pytest

from bert_keras import PRESETS, BertConfig
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


# As transformers counts the published models: encoders, with the poolers that they have.
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
}


@pytest.mark.parametrize("name", _PARAMETERS)
def test_published_parameters_of_the_other_families(name: str):
    """By the arithmetic of the layers: building the large ones would take gigabytes."""
    config = PRESETS[name]
    hidden, inner, width = config.hidden_size, config.intermediate_size, config.table_size
    tables = (config.vocab_size + config.position_rows + config.num_segments) * width + 2 * width
    block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    projection = (width + 1) * hidden if width != hidden else 0
    pooler = (hidden + 1) * hidden if config.pooler else 0
    total = tables + projection + config.unique_layers * block + pooler
    assert total == _PARAMETERS[name]


def test_names():
    for size in _SIZES:
        assert f"bert_{size}_uncased" in PRESETS
    assert {"bert_base_cased", "bert_large_cased", "bert_base_chinese"} <= set(PRESETS)


def test_every_name_stands_for_a_repository():
    """Also `handles` promises one for each name; the organisations are those of the authors."""
    assert HANDLES.keys() == PRESETS.keys()
    assert len(set(HANDLES.values())) == len(HANDLES)
    authors = "google|google-bert|FacebookAI|distilbert|albert"
    for handle in HANDLES.values():
        assert re.fullmatch(rf"hf://(?:{authors})/[\w.-]+", handle)
    # Turc et al. name their models by their sizes.
    for name, handle in HANDLES.items():
        if sizes := re.search(r"L-(\d+)_H-(\d+)_A-(\d+)", handle):
            config = PRESETS[name]
            found = config.num_layers, config.hidden_size, config.num_heads
            assert tuple(map(int, sizes.groups())) == found


def test_cannot_be_changed():
    with pytest.raises(TypeError):
        PRESETS["mine"] = BertConfig(vocab_size=3)  # pyright: ignore[reportIndexIssue]
