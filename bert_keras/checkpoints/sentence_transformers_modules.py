"""Readers of the config files of sentence-transformers' modules, with tables of their keys."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.errors import ArtifactError
from bert_keras.layers.pooling import MOST_POOLINGS, MOST_UNITS
from bert_keras.tokenizers.files import SENTENCE_CONFIGS, transformer_folder

PACKAGE = "sentence_transformers"
TRANSFORMER, POOLING, DENSE, NORMALIZE, DROPOUT = (
    *("Transformer", "Pooling", "Dense"),
    *("Normalize", "Dropout"),
)

# Kinds of model that the files name. Those with vectors of texts and scores of pairs can be opened.
VECTORS, SCORES = "SentenceTransformer", "CrossEncoder"
OTHER_MODELS = {
    "SparseEncoder": "SPLADE and similar models, whose vectors have a number for every token of "
    "the vocabulary",
    "MultiVectorEncoder": "ColBERT and similar models, which give a vector for every token",
}
# Further names of these models.
SAME_MODELS = {"ColBERT": "MultiVectorEncoder"}
# Parts of module names that only these models have.
PACKAGES_OF_OTHERS = {
    "sparse_encoder": "SparseEncoder",
    "multi_vector_encoder": "MultiVectorEncoder",
    "pylate": "MultiVectorEncoder",
}

# Keys of each file, by the file name or by the kind of its module or model. A key with "" is read.
# A key with a reason does not change the outputs. Other keys cause a warning or an error.
_OF_A_MODEL = {
    "model_type": "",
    "__version__": "states which versions wrote the folder",
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
# Keys with arguments of `from_pretrained`, and the arguments that do not change the outputs.
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

# Keys of config.json with the activation of a CrossEncoder, before version 6 and before version 4.
PAIR_KEYS = ("sentence_transformers", "sbert_ce_default_activation_function")

# Keys of a pooling before version 5, in the order in which several poolings are concatenated.
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
OLD_KEYS = {"word_embedding_dimension": "embedding_dimension"}

# Activations: class name in PyTorch -> our name.
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
# The same by whole names. The first name of an activation is the one that is written.
ACTIVATIONS = {
    f"torch.nn.modules.{'linear' if name == 'Identity' else 'activation'}.{name}": ours
    for name, ours in _ACTIVATIONS.items()
} | {f"torch.nn.{name}": ours for name, ours in _ACTIVATIONS.items()}
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


# === Modules ===


_VECTOR = "sentence_embedding"  # name of a text's vector, the input and output of these modules
# Kind of model -> its transformer's task, the output it takes, and the name of that output.
TASKS = {
    VECTORS: ("feature-extraction", "last_hidden_state", "token_embeddings"),
    SCORES: ("sequence-classification", "logits", "scores"),
}
OF_ENCODERS = "Its encoder alone opens with BertEncoder.from_preset."
_DENSE_FLAGS = {"bias": True, "use_residual": False}


def refuse_others(path: Path, model: Any) -> None:
    """Refuse the kinds of model that are not supported, and name them.

    Raises:
        ArtifactError: if `model` is one of them.
    """
    name = SAME_MODELS.get(model, model) if isinstance(model, str) else None
    if name in OTHER_MODELS:
        raise ArtifactError(
            f"{path}: a {name} of sentence-transformers ({OTHER_MODELS[name]}), which is not "
            f"supported yet. {OF_ENCODERS}"
        )


def warn_of_others(path: Path, values: Mapping[str, Any], kind: str) -> None:
    """Warn of unknown keys in a file whose unknown keys sentence-transformers itself ignores."""
    if others := sorted(set(values) - set(KEYS[kind])):
        warnings.warn(
            f"{path}: not known here, and not read: {', '.join(others)}. Compare the answers with "
            "those of sentence-transformers.",
            stacklevel=2,
        )


def _require_known(path: Path, values: Mapping[str, Any], kind: str) -> None:
    """Refuse unknown keys in a file whose keys can change the outputs."""
    if others := sorted(set(values) - set(KEYS[kind])):
        what = ", ".join(f"{key}={values[key]!r:.80}" for key in others)
        raise ArtifactError(f"{path}: not supported: {what}. {OF_ENCODERS}")


# === The transformer ===


def _transformer_values(directory: Path) -> tuple[Path, dict[str, Any]]:
    """Return path and content of the transformer module's own file; {} if it has none."""
    folder = transformer_folder(directory)
    paths = [folder / name for name in SENTENCE_CONFIGS]
    path = next((path for path in paths if path.is_file()), paths[0])
    return path, file_io.read_object(path) if path.is_file() else {}


def check_transformer(directory: Path, model: str) -> None:
    """Check that the first module is a plain text encoder.

    Args:
        directory: folder of the model.
        model: kind of model, a key of `TASKS`.

    Raises:
        ArtifactError: if a setting changes the outputs and is not supported here.
    """
    path, values = _transformer_values(directory)
    _require_known(path, values, TRANSFORMER)
    task, output, name = TASKS[model]
    supported: dict[str, tuple[Any, ...]] = {
        "transformer_task": (task,),
        "modality_config": ({"text": {"method": "forward", "method_output_name": output}},),
        "module_output_name": (name,),
        "query_length": (None,),
        "document_length": (None,),
        "query_expansion": (None,),
    }
    for key, allowed in supported.items():
        if key in values and values[key] not in allowed:
            raise ArtifactError(
                f"{path}: of a {model} only {key}={allowed[0]!r} can be opened. "
                f"Received: {values[key]!r:.200}"
            )
    for key in ARGUMENTS:
        known = set(LOADING)
        if key in TOKENIZER_ARGUMENTS:
            known.add(LENGTH_ARGUMENT)
        arguments = values.get(key) or {}
        others = sorted(set(arguments) - known) if isinstance(arguments, dict) else [str(arguments)]
        if others:
            what = f"{key} with {', '.join(others)}"
            raise ArtifactError(f"{path}: not supported: {what}. {OF_ENCODERS}")
    processing = values.get("processing_kwargs") or {}
    text = processing.get("text") if isinstance(processing, dict) else None
    is_length = isinstance(text, dict) and set(text) <= {"max_length"} and len(processing) == 1
    if processing and not is_length:
        what = f"processing_kwargs={processing!r:.200}"
        raise ArtifactError(f"{path}: not supported: {what}. {OF_ENCODERS}")


def max_length(directory: Path) -> tuple[Path, str, Any]:
    """Find the maximum number of tokens of a text.

    Returns:
        The file that states it, its key, and the unchecked value. None stands for as many tokens
        as the encoder has positions.
    """
    path, values = _transformer_values(directory)
    processing = values.get("processing_kwargs") or {}
    text = processing.get("text") if isinstance(processing, dict) else None
    if isinstance(text, dict) and text.get("max_length") is not None:
        return path, "max_length", text["max_length"]
    for key in TOKENIZER_ARGUMENTS:
        arguments = values.get(key)
        if isinstance(arguments, dict) and LENGTH_ARGUMENT in arguments:
            return path, LENGTH_ARGUMENT, arguments[LENGTH_ARGUMENT]
    if values.get("max_seq_length") is not None:
        return path, "max_seq_length", values["max_seq_length"]
    # From version 6 on, only the tokenizer's file states it.
    path = transformer_folder(directory) / "tokenizer_config.json"
    value = file_io.read_object(path) if path.is_file() else {}
    return path, LENGTH_ARGUMENT, value.get(LENGTH_ARGUMENT)


def activation(path: Path, value: Any) -> str:
    """Return our name of an activation.

    Raises:
        ArtifactError: if it is not in the table.
    """
    if value not in tuple(ACTIVATIONS):
        names = ", ".join(dict.fromkeys(ACTIVATION_NAMES.values()))
        raise ArtifactError(f"{path}: not supported: activation {value!r}. Supported: {names}")
    return ACTIVATIONS[value]


# === Modules behind the transformer ===


def _module_values(path: Path, kind: str) -> dict[str, Any]:
    """Read the config of a module and return it with the current names of its keys."""
    values = file_io.read_object(path) if path.is_file() else {}
    for old, new in OLD_KEYS.items():
        if old in values:
            value = values[old]
            if values.get(new, value) != value:
                raise ArtifactError(
                    f"{path}: {old}={value!r} and {new}={values[new]!r} contradict each "
                    "other. Remove one."
                )
            values = {key: value for key, value in values.items() if key != old}
            values[new] = value
    if kind == POOLING:
        values = _without_flags(path, values)
        _require_known(path, values, kind)
    else:
        warn_of_others(path, values, kind)
    return values


def _without_flags(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Replace the flags of versions before 5 by the key `pooling_mode`."""
    flags = {key: values[key] for key in POOLING_FLAGS if key in values}
    if not flags:
        return values
    if any(not isinstance(flag, bool) for flag in flags.values()):
        raise ArtifactError(f"{path}: expected true or false. Received: {flags}")
    chosen = [name for key, name in POOLING_FLAGS.items() if flags.get(key)] or ["mean"]
    others = {key: value for key, value in values.items() if key not in flags}
    value = others.setdefault("pooling_mode", chosen)
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and sorted(map(str, names)) != sorted(chosen):
        raise ArtifactError(
            f"{path}: pooling_mode={value!r} and {', '.join(key for key in flags if flags[key])} "
            "contradict each other. Remove one."
        )
    return others


def read_pooling(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the size of the token vectors and our options, from the config of a pooling.

    Raises:
        ArtifactError: if it is damaged, or has an unknown setting.
    """
    values = _module_values(path, POOLING)
    size, value = values.get("embedding_dimension"), values.get("pooling_mode", "mean")
    names = [value] if isinstance(value, str) else value
    known = tuple(POOLING_FLAGS.values())
    is_known = isinstance(names, list) and names and all(name in known for name in names)
    if not is_known or len(names) > MOST_POOLINGS:
        raise ArtifactError(
            f"{path}: pooling_mode must be one of {', '.join(known)}, or a list of "
            f"{MOST_POOLINGS} of them at most. Received: {value!r:.200}"
        )
    if type(size) is not int or size < 1:
        raise ArtifactError(
            f"{path}: embedding_dimension must be a whole number from 1. Received: {size!r}"
        )
    options: dict[str, Any] = {"pooling": names[0] if len(names) == 1 else names}
    includes = values.get("include_prompt", True)
    if not isinstance(includes, bool):
        raise ArtifactError(f"{path}: include_prompt must be true or false. Received: {includes!r}")
    return size, options if includes else {**options, "include_prompt": False}


def check_names(path: Path, kind: str) -> dict[str, Any]:
    """Read the config of a module whose input and output are the vector of a text."""
    values = _module_values(path, kind)
    for key in ("module_input_name", "module_output_name"):
        value = values.get(key)
        if value == "token_embeddings":
            refuse_others(path, "MultiVectorEncoder")
        if value not in (None, _VECTOR):
            raise ArtifactError(
                f"{path}: only {key}={_VECTOR!r} can be opened. Received: {value!r}"
            )
    return values


def read_dense(path: Path, width: int) -> dict[str, Any]:
    """Read the config of a dense layer and return our option for it.

    Args:
        path: path of the config.
        width: size of its input vectors.

    Raises:
        ArtifactError: if it is damaged, of another size, or not supported.
    """
    values = check_names(path, DENSE)
    received, units = values.get("in_features"), values.get("out_features")
    if received != width or type(units) is not int or not 1 <= units <= MOST_UNITS:
        raise ArtifactError(
            f"{path}: expected in_features={width}, the size of the vectors before it, and "
            f"out_features from 1 to {MOST_UNITS:,}. "
            f"Received: in_features={received!r:.100}, out_features={units!r:.100}"
        )
    flags = {key: values.get(key, usual) for key, usual in _DENSE_FLAGS.items()}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise ArtifactError(f"{path}: expected true or false. Received: {flags}")
    value = values.get("activation_function", "torch.nn.modules.activation.Tanh")
    return {
        "units": units,
        "activation": activation(path, value),
        "use_bias": flags["bias"],
        "residual": flags["use_residual"],
    }
