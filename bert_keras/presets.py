"""Published models by name: `PRESETS[name]` is the config, weights come from a checkpoint."""

from __future__ import annotations

from types import MappingProxyType

from bert_keras.config import BertConfig

# Vocabulary sizes of the vocab.txt files that Google published with the checkpoints.
_UNCASED, _CASED, _CHINESE, _MULTILINGUAL = 30_522, 28_996, 21_128, 119_547


def _bert(vocab_size: int, num_layers: int, hidden_size: int) -> BertConfig:
    """BERT's proportions: heads of 64, feed-forward four times as wide."""
    return BertConfig(
        vocab_size=vocab_size,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=hidden_size // 64,
        intermediate_size=4 * hidden_size,
    )


PRESETS = MappingProxyType(
    {
        # Turc et al., 2019 ("Well-Read Students Learn Better"), the compact models.
        "bert_tiny_uncased": _bert(_UNCASED, num_layers=2, hidden_size=128),
        "bert_mini_uncased": _bert(_UNCASED, num_layers=4, hidden_size=256),
        "bert_small_uncased": _bert(_UNCASED, num_layers=4, hidden_size=512),
        "bert_medium_uncased": _bert(_UNCASED, num_layers=8, hidden_size=512),
        # Devlin et al., 2019, and the releases that followed it.
        "bert_base_uncased": _bert(_UNCASED, num_layers=12, hidden_size=768),
        "bert_base_cased": _bert(_CASED, num_layers=12, hidden_size=768),
        "bert_base_chinese": _bert(_CHINESE, num_layers=12, hidden_size=768),
        "bert_base_multilingual_cased": _bert(_MULTILINGUAL, num_layers=12, hidden_size=768),
        "bert_large_uncased": _bert(_UNCASED, num_layers=24, hidden_size=1024),
        "bert_large_cased": _bert(_CASED, num_layers=24, hidden_size=1024),
    }
)
