"""Configs of the most used models of the families after BERT, as they are published.

The configs have all keys of the published files that are known here, with smaller sizes: those that
`SCALED` names, and the vocabulary. Weights are random, vocabularies are learned in the tests.
Sources: transformers' defaults and docstrings; answerdotai's conversion script for ModernBERT;
Microsoft's experiments/language_model/rtd_base.json; EuroBERT's conversion script; Alibaba's code
for GTE and public programs that read its configs; issues of vLLM for Nomic's; published tables of
configs for the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.tokenizers import family_folders

SCALED: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "pooler_hidden_size"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_key_value_heads"), 2),
    **dict.fromkeys(("intermediate_size", "n_inner"), 24),
}
_BASE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
_BERT = {
    **_BASE,
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
_ROBERTA = {
    **_BERT,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 514,
    "output_past": True,
    "pad_token_id": 1,
    "position_embedding_type": "absolute",
    "type_vocab_size": 1,
    "use_cache": True,
}
_DEBERTA_V3 = {
    **_BERT,
    "model_type": "deberta-v2",
    "layer_norm_eps": 1e-7,
    "max_position_embeddings": 512,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "position_buckets": 256,
    "relative_attention": True,
    "share_att_key": True,
    "type_vocab_size": 0,
}
_NEW = {
    **_BERT,
    "model_type": "new",
    "architectures": ["NewModel"],
    "attention_probs_dropout_prob": 0.0,
    "auto_map": {
        "AutoConfig": "Alibaba-NLP/new-impl--configuration.NewConfig",
        "AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel",
        "AutoModelForMaskedLM": "Alibaba-NLP/new-impl--modeling.NewForMaskedLM",
    },
    "classifier_dropout": None,
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "max_position_embeddings": 8192,
    "pack_qkv": True,
    "position_embedding_type": "rope",
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
}

_NOMIC = {
    "model_type": "nomic_bert",
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "activation_function": "swiglu",
    **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
    **dict.fromkeys(("causal", "parallel_block", "parallel_block_tied_norm"), False),
    **dict.fromkeys(("prenorm", "rotary_emb_interleaved", "use_rms_norm"), False),
    **dict.fromkeys(("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias"), False),
    **dict.fromkeys(("dense_seq_output", "use_flash_attn", "use_xentropy"), True),
    **dict.fromkeys(("fused_bias_fc", "fused_dropout_add_ln"), True),
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "pad_vocab_size_multiple": 64,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.0,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "type_vocab_size": 2,
    "use_cache": True,
}
_EARLIER_NOMIC = (
    "names of an earlier form: n_embd, n_layer, n_head, n_inner, n_positions, "
    "activation_function, layer_norm_epsilon, embd_pdrop, resid_pdrop, attn_pdrop, "
    "rotary_emb_base; auto_map names code, which is never run"
)


class Model(NamedTuple):
    """A published model.

    Args:
        theirs: class of transformers with which it is compared.
        config: content of config.json.
        kind: kind of its tokenizer in `family_folders`.
        tokenizer: content of tokenizer_config.json.
        family: its family here.
        unusual: what `bert-keras inspect` names.
    """

    theirs: str
    config: dict[str, Any]
    kind: str
    tokenizer: dict[str, Any]
    family: str
    unusual: str = "nothing"


MODELS = {
    "answerdotai/ModernBERT-base": Model(
        "ModernBertForMaskedLM",
        {
            **_BASE,
            "architectures": ["ModernBertForMaskedLM"],
            "model_type": "modernbert",
            **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), False),
            **dict.fromkeys(("attention_dropout", "embedding_dropout", "mlp_dropout"), 0.0),
            "bos_token_id": 50_281,
            "classifier_activation": "gelu",
            "classifier_bias": False,
            "classifier_dropout": 0.0,
            "classifier_pooling": "mean",
            "cls_token_id": 50_281,
            "decoder_bias": True,
            "deterministic_flash_attn": False,
            "eos_token_id": 50_282,
            "global_attn_every_n_layers": 3,
            "global_rope_theta": 160_000.0,
            "gradient_checkpointing": False,
            "hidden_activation": "gelu",
            "initializer_cutoff_factor": 2.0,
            "initializer_range": 0.02,
            "intermediate_size": 1152,
            "layer_norm_eps": 1e-5,
            "local_attention": 128,
            "local_rope_theta": 10_000.0,
            "max_position_embeddings": 8192,
            "norm_eps": 1e-5,
            "num_hidden_layers": 22,
            "pad_token_id": 50_283,
            "position_embedding_type": "absolute",
            "sep_token_id": 50_282,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
            "transformers_version": "4.48.0",
        },
        "modernbert",
        {
            "clean_up_tokenization_spaces": True,
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 8192,
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{role}_token": f"[{role.upper()}]" for role in ("cls", "mask", "pad", "sep")},
            "unk_token": "[UNK]",
        },
        "modernbert",
        "names of an earlier form: global_rope_theta, local_rope_theta",
    ),
    "sentence-transformers/all-mpnet-base-v2": Model(
        "MPNetForMaskedLM",
        {
            **_BERT,
            "architectures": ["MPNetForMaskedLM"],
            "model_type": "mpnet",
            "_name_or_path": "microsoft/mpnet-base",
            "bos_token_id": 0,
            "eos_token_id": 2,
            "layer_norm_eps": 1e-5,
            "max_position_embeddings": 514,
            "pad_token_id": 1,
            "relative_attention_num_buckets": 32,
            "transformers_version": "4.8.2",
        },
        "mpnet",
        family_folders.KINDS["mpnet"].configs["tokenizer_config.json"],
        "mpnet",
    ),
    "microsoft/deberta-v3-base": Model(
        "DebertaV2ForMaskedLM",
        _DEBERTA_V3,
        "deberta_v3",
        {"do_lower_case": False, "vocab_type": "spm"},
        "deberta_v2_lm_head",
    ),
    "microsoft/mdeberta-v3-base": Model(
        "DebertaV2ForMaskedLM",
        {**_DEBERTA_V3, "attention_head_size": 64, "pooler_hidden_act": "gelu"},
        "deberta_v3",
        {"do_lower_case": False, "vocab_type": "spm"},
        "deberta_v2_lm_head",
    ),
    "FacebookAI/xlm-roberta-base": Model(
        "XLMRobertaForMaskedLM",
        {**_ROBERTA, "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta"},
        "xlm_roberta",
        {"model_max_length": 512},
        "xlm_roberta",
    ),
    "almanach/camembert-base": Model(
        "CamembertForMaskedLM",
        {
            **_ROBERTA,
            "architectures": ["CamembertForMaskedLM"],
            "model_type": "camembert",
            "bos_token_id": 5,
            "eos_token_id": 6,
        },
        "camembert",
        {"model_max_length": 512},
        "camembert",
    ),
    "nomic-ai/nomic-bert-2048": Model(
        "NomicBertForMaskedLM",
        {**_NOMIC, "architectures": ["NomicBertForPreTraining"], "n_positions": 2048},
        "bert",
        family_folders.KINDS["bert"].configs["tokenizer_config.json"],
        "nomic_bert",
        _EARLIER_NOMIC,
    ),
    "nomic-ai/nomic-embed-text-v1.5": Model(
        "NomicBertModel",
        {
            **_BASE,
            **_NOMIC,
            "architectures": ["NomicBertModel"],
            "hidden_act": "silu",
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 2048,
            "n_positions": 8192,
            "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
        },
        "bert",
        family_folders.KINDS["bert"].configs["tokenizer_config.json"],
        "nomic_bert",
        _EARLIER_NOMIC,
    ),
    "Alibaba-NLP/gte-multilingual-base": Model(
        "GteModel",
        {
            **_NEW,
            "architectures": ["NewModel", "NewForTokenClassification"],
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "pad_token_id": 1,
            "rope_scaling": {"factor": 8.0, "type": "ntk"},
            "rope_theta": 20_000,
            "torch_dtype": "float16",
            "type_vocab_size": 1,
        },
        "xlm_roberta",
        {"model_max_length": 32_768, "tokenizer_class": "XLMRobertaTokenizer"},
        "gte",
        "model_type='new' is written as 'gte'; names of an earlier form: rope_theta; "
        "auto_map names code, which is never run",
    ),
    "Alibaba-NLP/gte-base-en-v1.5": Model(
        "GteModel",
        {
            **_NEW,
            "pad_token_id": 0,
            "rope_scaling": {"factor": 2.0, "type": "ntk"},
            "rope_theta": 500_000,
            "type_vocab_size": 0,
        },
        "bert",
        {"do_lower_case": True, "model_max_length": 32_768, "tokenizer_class": "BertTokenizer"},
        "gte",
        "pad_token_id=0 (usual: 1); model_type='new' is written as 'gte'; names of an earlier "
        "form: rope_theta; auto_map names code, which is never run",
    ),
    "jinaai/jina-embeddings-v3-hf": Model(
        "JinaEmbeddingsV3Model",
        {
            **_BERT,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "architectures": ["JinaEmbeddingsV3Model"],
            "model_type": "jina_embeddings_v3",
            "bos_token_id": 0,
            "classifier_dropout": None,
            "eos_token_id": 2,
            "layer_norm_eps": 1e-5,
            "max_position_embeddings": 8194,
            "pad_token_id": 1,
            "rope_parameters": {"rope_theta": 20_000.0, "rope_type": "default"},
            "tie_word_embeddings": True,
            "type_vocab_size": 1,
            "use_cache": True,
        },
        "xlm_roberta",
        {"model_max_length": 8194, "tokenizer_class": "XLMRobertaTokenizer"},
        "jina_embeddings_v3",
    ),
    "EuroBERT/EuroBERT-210m": Model(
        "EuroBertForMaskedLM",
        {
            **_BASE,
            "architectures": ["EuroBertForMaskedLM"],
            "model_type": "eurobert",
            "auto_map": {"AutoConfig": "configuration_eurobert.EuroBertConfig"},
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token": "<|begin_of_text|>",
            "bos_token_id": 128_000,
            "eos_token": "<|end_of_text|>",
            "eos_token_id": 128_001,
            "hidden_act": "silu",
            "hidden_dropout": 0.0,
            "initializer_range": 0.02,
            "is_decoder": False,
            "mask_token": "<|mask|>",
            "mask_token_id": 128_002,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "num_key_value_heads": 12,
            "pad_token": "<|end_of_text|>",
            "pad_token_id": 128_001,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-5,
            "rope_scaling": None,
            "rope_theta": 250_000,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": False,
        },
        "eurobert",
        {
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|end_of_text|>",
            "mask_token": "<|mask|>",
            "pad_token": "<|end_of_text|>",
            "model_input_names": ["input_ids", "attention_mask"],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        "eurobert",
        "names of an earlier form: rope_theta; auto_map names code, which is never run",
    ),
}
