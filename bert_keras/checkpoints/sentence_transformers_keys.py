"""The words of sentence-transformers' files: modules, keys, activations. Nothing but tables."""

from __future__ import annotations

PACKAGE = "sentence_transformers"
TRANSFORMER, POOLING, DENSE, NORMALIZE, DROPOUT = (
    *("Transformer", "Pooling", "Dense"),
    *("Normalize", "Dropout"),
)

# Kinds of model that the files name, with what their answers are. Ours are vectors and scores.
VECTORS, SCORES = "SentenceTransformer", "CrossEncoder"
OTHER_MODELS = {
    "SparseEncoder": "SPLADE and its kin, whose vectors have a number for every token of the "
    "vocabulary",
    "MultiVectorEncoder": "ColBERT and its kin, which give a vector for every token",
}
# Other names of the same.
SAME_MODELS = {"ColBERT": "MultiVectorEncoder"}
# Parts of the names of modules that only those models have.
PACKAGES_OF_OTHERS = {
    "sparse_encoder": "SparseEncoder",
    "multi_vector_encoder": "MultiVectorEncoder",
    "pylate": "MultiVectorEncoder",
}

# The keys of each file, by its name, or by the kind of its module or model. A key with a reason
# changes no answer; a key with "" is read; every other key is named in a warning or refused.
_OF_A_MODEL = {
    "model_type": "",
    "__version__": "tells which versions wrote the folder",
    "prompts": "",
    "default_prompt_name": "",
}
KEYS: dict[str, dict[str, str]] = {
    "modules.json": {
        "idx": "modules stand in their order",
        "name": "names modules in Python",
        "path": "",
        "type": "",
        "kwargs": "names arguments of encode that are handed on, and encode takes none here",
    },
    VECTORS: {**_OF_A_MODEL, "similarity_fn_name": "", "truncate_dim": ""},
    SCORES: {
        **_OF_A_MODEL,
        "activation_fn": "",
        "keep_in_fp32_modules": "the head is computed in float32 here",
    },
    TRANSFORMER: {
        "transformer_task": "",
        "modality_config": "",
        "module_output_name": "",
        "processing_kwargs": "",
        "unpad_inputs": "makes the computation faster",
        "query_length": "",
        "document_length": "",
        "query_expansion": "",
        "max_seq_length": "",
        "do_lower_case": "",
        "model_args": "",
        "model_kwargs": "",
        "config_args": "",
        "config_kwargs": "",
        "tokenizer_args": "",
        "processor_kwargs": "",
    },
    POOLING: {"embedding_dimension": "", "pooling_mode": "", "include_prompt": ""},
    DENSE: {
        "in_features": "",
        "out_features": "",
        "bias": "",
        "activation_function": "",
        "module_input_name": "",
        "module_output_name": "",
        "use_residual": "",
    },
    NORMALIZE: {"module_input_name": "", "module_output_name": ""},
    DROPOUT: {"dropout": "drops in training alone"},
}
# Keys under which the arguments of `from_pretrained` stand, and those that change no answer.
ARGUMENTS = (
    *("model_args", "model_kwargs", "config_args", "config_kwargs"),
    *("tokenizer_args", "processor_kwargs"),
)
TOKENIZER_ARGUMENTS = ("processor_kwargs", "tokenizer_args")
LOADING = {
    **dict.fromkeys(("torch_dtype", "dtype"), "the precision, which `dtype` of this package sets"),
    **dict.fromkeys(("attn_implementation", "use_memory_efficient_attention"), "a faster kernel"),
    **dict.fromkeys(("device_map", "low_cpu_mem_usage", "use_cache"), "where and how it is loaded"),
    **dict.fromkeys(("revision", "token", "cache_dir", "local_files_only"), "where files are"),
    **dict.fromkeys(("use_safetensors", "use_fast"), "which of two equal files is read"),
    "trust_remote_code": "code of a folder is never run",
    "add_pooling_layer": "the pooler is not read for vectors",
    **dict.fromkeys(("output_hidden_states", "output_attentions"), "outputs that nothing reads"),
}
LENGTH_ARGUMENT = "model_max_length"

# Where config.json tells the activation of a CrossEncoder of before version 6, and of before 4.
PAIR_KEYS = ("sentence_transformers", "sbert_ce_default_activation_function")

# Keys of a pooling before version 5, in the order in which several were joined.
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
OLD_KEYS = {"word_embedding_dimension": "embedding_dimension"}

# Their names of activations, which are classes of PyTorch, and ours.
_ACTIVATIONS = {
    "Identity": "linear",
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
    "ELU": "elu",
    "SELU": "selu",
    "CELU": "celu",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Mish": "mish",
    "ReLU6": "relu6",
    "Hardtanh": "hard_tanh",
    "Hardswish": "hard_silu",
    "Hardsigmoid": "hard_sigmoid",
    "LogSigmoid": "log_sigmoid",
    "Softshrink": "soft_shrink",
    "Hardshrink": "hard_shrink",
    "Tanhshrink": "tanh_shrink",
}
# By whole names, the one that is written first.
ACTIVATIONS = {
    f"torch.nn.modules.{'linear' if name == 'Identity' else 'activation'}.{name}": ours
    for name, ours in _ACTIVATIONS.items()
} | {f"torch.nn.{name}": ours for name, ours in _ACTIVATIONS.items()}
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
