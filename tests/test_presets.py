"""The published sizes."""

from __future__ import annotations

import pytest

from bert_keras import PRESETS, BertConfig

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


@pytest.mark.parametrize("name", PRESETS)
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


def test_names():
    for size in _SIZES:
        assert f"bert_{size}_uncased" in PRESETS
    assert {"bert_base_cased", "bert_large_cased", "bert_base_chinese"} <= set(PRESETS)


def test_cannot_be_changed():
    with pytest.raises(TypeError):
        PRESETS["mine"] = BertConfig(vocab_size=3)  # pyright: ignore[reportIndexIssue]
