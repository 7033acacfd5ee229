"""Sizes and repositories of the published models that have a short name.

Sizes are those of the papers, of transformers' defaults, and of the authors' code and tables.
Models that only their own files describe are not here, nor are repositories without weights.
"""

from __future__ import annotations

from typing import Any

from bert_keras.config import BertConfig

# Vocabulary sizes of the vocab.txt files that Google published with the checkpoints.
_UNCASED, _CASED, _CHINESE, _MULTILINGUAL = 30_522, 28_996, 21_128, 119_547


def _bert(vocab_size: int, num_layers: int, hidden_size: int, **values: Any) -> BertConfig:
    """Return a BERT config: heads of size 64, intermediate size four times the hidden size."""
    sizes: dict[str, Any] = {
        "vocab_size": vocab_size,
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
    }
    return BertConfig(**{**sizes, **values})


def _roberta(
    vocab_size: int, num_layers: int, hidden_size: int, family: str = "roberta", **values: Any
) -> BertConfig:
    """Return a RoBERTa config: one segment, and two unused rows before the first position."""
    special = {"num_segments": 1, "position_offset": 2, "layer_norm_epsilon": 1e-5}
    return _bert(vocab_size, num_layers, hidden_size, family=family, **{**special, **values})


def _distilbert(vocab_size: int) -> BertConfig:
    """Return a DistilBERT config: half of BERT-base's layers, without segments and pooler."""
    return _bert(vocab_size, 6, 768, family="distilbert", num_segments=0, pooler=False)


def _albert(num_layers: int, hidden_size: int, num_heads: int | None = None) -> BertConfig:
    """Return an ALBERT config: one block for all layers, embedding tables of width 128."""
    return _bert(
        30_000,
        num_layers,
        hidden_size,
        num_unique_layers=1,
        num_heads=num_heads or hidden_size // 64,
        embedding_size=128,
        activation="gelu_tanh",
        dropout=0.0,
        attention_dropout=0.0,
        family="albert",
    )


def _electra(
    num_layers: int, hidden_size: int, *, num_heads: int, embedding_size: int | None = None
) -> BertConfig:
    """Return an ELECTRA config: without a pooler, perhaps with tables of another width."""
    return _bert(
        _UNCASED,
        num_layers,
        hidden_size,
        num_heads=num_heads,
        embedding_size=embedding_size,
        pooler=False,
        family="electra",
    )


def _mpnet() -> BertConfig:
    """Return the config of MPNet-base: learned positions, and buckets of distances beside them."""
    return _bert(
        30_527,
        12,
        768,
        num_segments=0,
        position_offset=2,
        attention_positions="buckets",
        position_buckets=32,
        layer_norm_epsilon=1e-5,
        family="mpnet",
    )


# Encoders whose only positions are rotary.
_ROTARY = {"position_embedding": "none", "attention_positions": "rotary", "max_positions": 8192}
_NO_BIASES = dict.fromkeys(("attention_bias", "intermediate_bias", "output_bias"), False)
_NO_DROPOUT = dict.fromkeys(("dropout", "attention_dropout"), 0.0)
_PRE_NORM = {"block": "pre_norm", "num_segments": 0, "pooler": False, "gated": True}


def _modernbert(num_layers: int, hidden_size: int, intermediate_size: int) -> BertConfig:
    """Return a ModernBERT config: local layers but for every third one, and rotary positions."""
    return _bert(
        50_368,
        num_layers,
        hidden_size,
        intermediate_size=intermediate_size,
        rotary_base=160_000.0,
        local_rotary_base=10_000.0,
        window=64,
        global_every=3,
        first_norm=False,
        norm_bias=False,
        layer_norm_epsilon=1e-5,
        family="modernbert",
        **_ROTARY,
        **_PRE_NORM,
        **_NO_BIASES,
        **_NO_DROPOUT,
    )


def _eurobert(num_layers: int, hidden_size: int, **values: Any) -> BertConfig:
    """Return a EuroBERT config: blocks of Llama 3 without a causal mask."""
    return _bert(
        128_256,
        num_layers,
        hidden_size,
        norm="rms",
        embedding_norm=False,
        activation="silu",
        rotary_base=250_000.0,
        layer_norm_epsilon=1e-5,
        family="eurobert",
        **_ROTARY,
        **_PRE_NORM,
        **_NO_BIASES,
        **_NO_DROPOUT,
        **values,
    )


def _nomic(max_positions: int) -> BertConfig:
    """Return a Nomic BERT config: BERT-base with rotary positions, gates and no biases."""
    rotary = {**_ROTARY, "max_positions": max_positions, "rotary_base": 1000.0}
    special = {"activation": "silu", "gated": True, "pooler": False, "family": "nomic_bert"}
    return _bert(30_528, 12, 768, **rotary, **special, **_NO_BIASES, **_NO_DROPOUT)


def _gte(vocab_size: int, num_layers: int, hidden_size: int, **values: Any) -> BertConfig:
    """Return a GTE config: BERT with rotary positions of scaled rates, and gates."""
    special = {
        "gated": True,
        "intermediate_bias": False,
        "attention_dropout": 0.0,
        "intermediate_dropout": 0.1,
        "pooler": False,
        "family": "gte",
    }
    return _bert(vocab_size, num_layers, hidden_size, **_ROTARY, **special, **values)


def _deberta(vocab_size: int, num_layers: int, hidden_size: int, **values: Any) -> BertConfig:
    """Return a DeBERTa config: no table of positions, and vectors of up to 512 distances."""
    special = {
        "num_segments": 0,
        "position_embedding": "none",
        "attention_positions": "disentangled",
        "max_distance": 512,
        "layer_norm_epsilon": 1e-7,
        "pooler": False,
        "family": "deberta_lm_head",
        "key_bias": False,
    }
    return _bert(vocab_size, num_layers, hidden_size, **{**special, **values})


def _deberta_v3(vocab_size: int, num_layers: int, hidden_size: int) -> BertConfig:
    """Return a DeBERTa-v3 config: buckets of distances, which share the kernels of the tokens."""
    return _deberta(
        vocab_size,
        num_layers,
        hidden_size,
        attention_positions="disentangled_shared",
        position_buckets=256,
        position_norm=True,
        key_bias=True,
        family="deberta_v2_lm_head",
    )


def _ernie(vocab_size: int, num_layers: int, hidden_size: int, **values: Any) -> BertConfig:
    """Return an ERNIE config: four segments, except for the first version."""
    special = {"num_segments": 4, "layer_norm_epsilon": 1e-5, "family": "ernie"}
    return _bert(vocab_size, num_layers, hidden_size, **{**special, **values})


def _ernie_3(num_layers: int, hidden_size: int, **values: Any) -> BertConfig:
    """Return an ERNIE 3.0 config: twelve heads of any size, and a table of tasks."""
    sizes = {"num_heads": 12, "max_positions": 2048, "num_tasks": 16}
    return _ernie(40_000, num_layers, hidden_size, **{**sizes, **values})


def _roformer(vocab_size: int, num_layers: int, hidden_size: int, max_positions: int) -> BertConfig:
    """Return a RoFormer config: BERT with rotary positions."""
    special = {"position_embedding": "none", "attention_positions": "rotary_interleaved"}
    return _bert(
        vocab_size,
        num_layers,
        hidden_size,
        max_positions=max_positions,
        pooler=False,
        family="roformer",
        **special,
    )


# Blocks that normalise before each sublayer, and embeddings that are not normalised.
_BARE_PRE_NORM = {"block": "pre_norm", "embedding_norm": False}
_XL = {**_BARE_PRE_NORM, "num_heads": 32}

# Name -> (config, repository of the published weights on the Hugging Face hub).
PUBLISHED: dict[str, tuple[BertConfig, str]] = {
    # Turc et al., 2019 ("Well-Read Students Learn Better"), the compact models.
    "bert_tiny_uncased": (_bert(_UNCASED, 2, 128), "google/bert_uncased_L-2_H-128_A-2"),
    "bert_mini_uncased": (_bert(_UNCASED, 4, 256), "google/bert_uncased_L-4_H-256_A-4"),
    "bert_small_uncased": (_bert(_UNCASED, 4, 512), "google/bert_uncased_L-4_H-512_A-8"),
    "bert_medium_uncased": (_bert(_UNCASED, 8, 512), "google/bert_uncased_L-8_H-512_A-8"),
    # Devlin et al., 2019, and the releases that followed it.
    "bert_base_uncased": (_bert(_UNCASED, 12, 768), "google-bert/bert-base-uncased"),
    "bert_base_cased": (_bert(_CASED, 12, 768), "google-bert/bert-base-cased"),
    "bert_base_chinese": (_bert(_CHINESE, 12, 768), "google-bert/bert-base-chinese"),
    "bert_base_multilingual_cased": (
        _bert(_MULTILINGUAL, 12, 768),
        "google-bert/bert-base-multilingual-cased",
    ),
    "bert_large_uncased": (_bert(_UNCASED, 24, 1024), "google-bert/bert-large-uncased"),
    "bert_large_cased": (_bert(_CASED, 24, 1024), "google-bert/bert-large-cased"),
    # Liu et al., 2019; Conneau et al., 2020; Goyal et al., 2021, Table 1.
    "roberta_base": (_roberta(50_265, 12, 768), "FacebookAI/roberta-base"),
    "roberta_large": (_roberta(50_265, 24, 1024), "FacebookAI/roberta-large"),
    "xlm_roberta_base": (_roberta(250_002, 12, 768, "xlm_roberta"), "FacebookAI/xlm-roberta-base"),
    "xlm_roberta_large": (
        _roberta(250_002, 24, 1024, "xlm_roberta"),
        "FacebookAI/xlm-roberta-large",
    ),
    "xlm_roberta_xl": (
        _roberta(250_880, 36, 2560, "xlm_roberta_xl", **_XL),
        "facebook/xlm-roberta-xl",
    ),
    "xlm_roberta_xxl": (
        _roberta(250_880, 48, 4096, "xlm_roberta_xl", **_XL),
        "facebook/xlm-roberta-xxl",
    ),
    # Wettig et al., 2023: trained with 40 % of the tokens masked, before a normalisation.
    "roberta_prelayernorm_large": (
        _roberta(50_265, 24, 1024, "roberta_prelayernorm", block="pre_norm"),
        "andreasmadsen/efficient_mlm_m0.40",
    ),
    # Martin et al., 2020; Baevski et al., 2022; Song et al., 2020.
    "camembert_base": (_roberta(32_005, 12, 768, "camembert"), "almanach/camembert-base"),
    "camembert_large": (_roberta(32_005, 24, 1024, "camembert"), "almanach/camembert-large"),
    "data2vec_text_base": (
        _roberta(50_265, 12, 768, "data2vec_text"),
        "facebook/data2vec-text-base",
    ),
    "mpnet_base": (_mpnet(), "microsoft/mpnet-base"),
    # Warner et al., 2024, Table 4; Boizard et al., 2025, Table 3.
    "modernbert_base": (_modernbert(22, 768, 1152), "answerdotai/ModernBERT-base"),
    "modernbert_large": (_modernbert(28, 1024, 2624), "answerdotai/ModernBERT-large"),
    "eurobert_210m": (_eurobert(12, 768), "EuroBERT/EuroBERT-210m"),
    "eurobert_610m": (
        _eurobert(26, 1152, num_key_value_heads=6, intermediate_size=4096),
        "EuroBERT/EuroBERT-610m",
    ),
    "eurobert_2_1b": (
        _eurobert(32, 2304, num_heads=18, num_key_value_heads=6, intermediate_size=6144),
        "EuroBERT/EuroBERT-2.1B",
    ),
    # Nussbaum et al., 2024. The base model was trained on texts of 2,048 tokens.
    "nomic_bert_2048": (_nomic(2048), "nomic-ai/nomic-bert-2048"),
    "nomic_embed_text_v1": (_nomic(8192), "nomic-ai/nomic-embed-text-v1"),
    "nomic_embed_text_v1_5": (_nomic(2048), "nomic-ai/nomic-embed-text-v1.5"),
    # Zhang et al., 2024 (mGTE); Sturua et al., 2024.
    "gte_base_en_v1_5": (
        _gte(30_528, 12, 768, num_segments=0, rotary_base=500_000.0, rotary_scale=2.0),
        "Alibaba-NLP/gte-base-en-v1.5",
    ),
    "gte_large_en_v1_5": (
        _gte(30_528, 24, 1024, num_segments=2, rotary_base=160_000.0, rotary_scale=2.0),
        "Alibaba-NLP/gte-large-en-v1.5",
    ),
    "gte_multilingual_base": (
        _gte(250_048, 12, 768, num_segments=1, rotary_base=20_000.0, rotary_scale=8.0),
        "Alibaba-NLP/gte-multilingual-base",
    ),
    "jina_embeddings_v3": (
        _bert(
            250_002,
            24,
            1024,
            num_segments=1,
            rotary_base=20_000.0,
            layer_norm_epsilon=1e-5,
            family="jina_embeddings_v3",
            **{**_ROTARY, "max_positions": 8194},
        ),
        "jinaai/jina-embeddings-v3-hf",
    ),
    # He et al., 2021; He et al., 2023, Table 11.
    "deberta_base": (_deberta(50_265, 12, 768), "microsoft/deberta-base"),
    "deberta_large": (_deberta(50_265, 24, 1024), "microsoft/deberta-large"),
    "deberta_xlarge": (_deberta(50_265, 48, 1024), "microsoft/deberta-xlarge"),
    "deberta_v3_xsmall": (_deberta_v3(128_100, 12, 384), "microsoft/deberta-v3-xsmall"),
    "deberta_v3_small": (_deberta_v3(128_100, 6, 768), "microsoft/deberta-v3-small"),
    "deberta_v3_base": (_deberta_v3(128_100, 12, 768), "microsoft/deberta-v3-base"),
    "deberta_v3_large": (_deberta_v3(128_100, 24, 1024), "microsoft/deberta-v3-large"),
    "mdeberta_v3_base": (_deberta_v3(251_000, 12, 768), "microsoft/mdeberta-v3-base"),
    # Sun et al., 2019, 2020 and 2021, as nghuyong converted them from PaddlePaddle's files.
    "ernie_1_0_base_zh": (
        _ernie(18_000, 12, 768, num_segments=2, max_positions=513, activation="relu"),
        "nghuyong/ernie-1.0-base-zh",
    ),
    "ernie_2_0_base_en": (_ernie(_UNCASED, 12, 768), "nghuyong/ernie-2.0-base-en"),
    "ernie_2_0_large_en": (_ernie(_UNCASED, 24, 1024), "nghuyong/ernie-2.0-large-en"),
    "ernie_3_0_xbase_zh": (_ernie_3(20, 1024, num_heads=16), "nghuyong/ernie-3.0-xbase-zh"),
    "ernie_3_0_base_zh": (_ernie_3(12, 768, num_tasks=3), "nghuyong/ernie-3.0-base-zh"),
    "ernie_3_0_medium_zh": (_ernie_3(6, 768), "nghuyong/ernie-3.0-medium-zh"),
    "ernie_3_0_mini_zh": (_ernie_3(6, 384), "nghuyong/ernie-3.0-mini-zh"),
    "ernie_3_0_micro_zh": (_ernie_3(4, 384), "nghuyong/ernie-3.0-micro-zh"),
    "ernie_3_0_nano_zh": (_ernie_3(4, 312), "nghuyong/ernie-3.0-nano-zh"),
    # Su et al., 2021; Chung et al., 2021, Table 1.
    "roformer_chinese_base": (_roformer(50_000, 12, 768, 1536), "junnyu/roformer_chinese_base"),
    "roformer_chinese_small": (_roformer(50_000, 6, 384, 1536), "junnyu/roformer_chinese_small"),
    "roformer_chinese_char_base": (
        _roformer(12_000, 12, 768, 512),
        "junnyu/roformer_chinese_char_base",
    ),
    "roformer_chinese_char_small": (
        _roformer(12_000, 6, 384, 512),
        "junnyu/roformer_chinese_char_small",
    ),
    "rembert": (
        _bert(250_300, 32, 1152, embedding_size=256, family="rembert", **_NO_DROPOUT),
        "google/rembert",
    ),
    # Shoeybi et al., 2019. Nvidia's own repositories have a tokenizer and no weights.
    "megatron_bert_base_swedish_cased": (
        _bert(64_128, 12, 768, family="megatron_bert", **_BARE_PRE_NORM),
        "KBLab/megatron-bert-base-swedish-cased-600k",
    ),
    "megatron_bert_large_swedish_cased": (
        _bert(64_128, 24, 1024, family="megatron_bert", **_BARE_PRE_NORM),
        "KBLab/megatron-bert-large-swedish-cased-165k",
    ),
    # Sanh et al., 2019.
    "distilbert_base_uncased": (_distilbert(_UNCASED), "distilbert/distilbert-base-uncased"),
    "distilbert_base_cased": (_distilbert(_CASED), "distilbert/distilbert-base-cased"),
    "distilbert_base_multilingual_cased": (
        _distilbert(_MULTILINGUAL),
        "distilbert/distilbert-base-multilingual-cased",
    ),
    # Lan et al., 2020, Table 1; the second version, which has no dropout.
    "albert_base_v2": (_albert(12, 768), "albert/albert-base-v2"),
    "albert_large_v2": (_albert(24, 1024), "albert/albert-large-v2"),
    "albert_xlarge_v2": (_albert(24, 2048, num_heads=16), "albert/albert-xlarge-v2"),
    "albert_xxlarge_v2": (_albert(12, 4096), "albert/albert-xxlarge-v2"),
    # Clark et al., 2020, Table 6.
    "electra_small_discriminator": (
        _electra(12, 256, num_heads=4, embedding_size=128),
        "google/electra-small-discriminator",
    ),
    "electra_small_generator": (
        _electra(12, 256, num_heads=4, embedding_size=128),
        "google/electra-small-generator",
    ),
    "electra_base_discriminator": (
        _electra(12, 768, num_heads=12),
        "google/electra-base-discriminator",
    ),
    "electra_base_generator": (
        _electra(12, 256, num_heads=4, embedding_size=768),
        "google/electra-base-generator",
    ),
    "electra_large_discriminator": (
        _electra(24, 1024, num_heads=16),
        "google/electra-large-discriminator",
    ),
    "electra_large_generator": (
        _electra(24, 256, num_heads=4, embedding_size=1024),
        "google/electra-large-generator",
    ),
}
