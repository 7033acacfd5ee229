"""Writer of the files with which sentence-transformers opens a folder of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.checkpoints import sentence_transformers_modules as keys
from bert_keras.checkpoints import streaming
from bert_keras.checkpoints.hugging_face_family import task_format
from bert_keras.checkpoints.manifest import WEIGHTS
from bert_keras.checkpoints.name_mapping import TensorSpec
from bert_keras.checkpoints.sentence_transformers import CONFIG
from bert_keras.checkpoints.sentence_transformers_modules import TASKS
from bert_keras.features import COSINE
from bert_keras.tokenizers.files import MODULES, SENTENCE_CONFIGS

_ALWAYS = 4  # number of pooling flags that the oldest versions expect


def is_theirs(class_name: str, options: Mapping[str, Any]) -> bool:
    """Return whether sentence-transformers can open such a task.

    Args:
        class_name: name of the task class.
        options: options of the task.
    """
    is_pair_scorer = task_format(class_name).is_text_classifier and "activation" in options
    return class_name == "SentenceEncoder" or is_pair_scorer


def write_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config.json entries of a CrossEncoder for sentence-transformers before 6."""
    if "activation" not in options:
        return {}
    return {"sentence_transformers": {"activation_fn": _dotted(options["activation"])}}


def write(
    directory: Path,
    class_name: str,
    options: Mapping[str, Any],
    specs: list[TensorSpec],
    hidden_size: int,
    max_length: int,
) -> dict[str, str]:
    """Write the files of sentence-transformers beside those of the encoder.

    Args:
        directory: folder to write into.
        class_name: name of the task class.
        options: options of the task.
        specs: variables of its dense layers, with names such as "dense.0.linear.weight".
        hidden_size: hidden size of the encoder.
        max_length: number of positions of the encoder.

    Returns:
        sha256 of each weights file, by its path within the folder.
    """
    is_scorer = task_format(class_name).is_text_classifier
    model = keys.SCORES if is_scorer else keys.VECTORS
    config: dict[str, Any] = {
        "model_type": model,
        "prompts": options.get("prompts", {}),
        "default_prompt_name": options.get("default_prompt_name"),
    }
    transformer: dict[str, Any] = {"max_seq_length": max_length, "do_lower_case": False}
    rows = [(keys.TRANSFORMER, "")]
    files: dict[str, Any] = {}
    digests: dict[str, str] = {}
    if is_scorer:
        config["activation_fn"] = _dotted(options["activation"])
        task, output, name = TASKS[model]
        modality = {"text": {"method": "forward", "method_output_name": output}}
        transformer |= {"transformer_task": task, "modality_config": modality}
        transformer["module_output_name"] = name
    else:
        config["similarity_fn_name"] = options.get("similarity", COSINE)
        if "truncate_dim" in options:
            config["truncate_dim"] = options["truncate_dim"]
        rows.append((keys.POOLING, f"1_{keys.POOLING}"))
        files[f"1_{keys.POOLING}/config.json"] = _pooling(options, hidden_size)
        names = options["pooling"]
        width = hidden_size * (1 if isinstance(names, str) else len(names))
        for number, dense in enumerate(options.get("dense", ())):
            folder = f"{len(rows)}_{keys.DENSE}"
            rows.append((keys.DENSE, folder))
            files[f"{folder}/config.json"] = _dense(dense, width)
            width = dense["units"]
            (directory / folder).mkdir(exist_ok=True)
            weights = [_renamed(spec, f"dense.{number}.") for spec in specs]
            digests[f"{folder}/{WEIGHTS}"] = streaming.write_safetensors(
                directory / folder / WEIGHTS, [spec for spec in weights if spec]
            )
        if options["normalize"]:
            rows.append((keys.NORMALIZE, f"{len(rows)}_{keys.NORMALIZE}"))
    files[SENTENCE_CONFIGS[0]] = transformer
    files[CONFIG] = config
    # Versions 2 to 6 all read these names of the modules.
    files[MODULES] = [
        {"idx": number, "name": str(number), "path": path, "type": f"{keys.PACKAGE}.models.{kind}"}
        for number, (kind, path) in enumerate(rows)
    ]
    for name, values in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        file_io.write_text(directory / name, json.dumps(values, indent=2, allow_nan=False) + "\n")
    return digests


def remove(directory: Path) -> None:
    """Remove the files of sentence-transformers that an earlier model left in a folder."""
    for name in (MODULES, CONFIG):
        (directory / name).unlink(missing_ok=True)


def _dotted(activation: str) -> str:
    """Return the PyTorch class of one of our activations, as a dotted name."""
    return keys.ACTIVATION_NAMES[activation]


def _pooling(options: Mapping[str, Any], hidden_size: int) -> dict[str, Any]:
    """Return the config of the pooling module, with the old keys if they can express it."""
    pooling = options["pooling"]
    names = [pooling] if isinstance(pooling, str) else list(pooling)
    values: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    flags = {
        key: name in names
        for number, (key, name) in enumerate(keys.POOLING_FLAGS.items())
        if number < _ALWAYS or name in names
    }
    if [name for key, name in keys.POOLING_FLAGS.items() if flags.get(key)] == names:
        values |= flags
    else:  # versions before 5 cannot express another order of poolings
        values = {"embedding_dimension": hidden_size, "pooling_mode": names}
    return values if options.get("include_prompt", True) else {**values, "include_prompt": False}


def _dense(options: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Return the config of a dense module with inputs of size `width`."""
    values = {
        "in_features": width,
        "out_features": options["units"],
        "bias": options["use_bias"],
        "activation_function": _dotted(options["activation"]),
    }
    return {**values, "use_residual": True} if options["residual"] else values


def _renamed(spec: TensorSpec, start: str) -> TensorSpec | None:
    """Return a tensor spec with the name of its layer's file; None for another layer's spec."""
    if not spec.tensor.startswith(start):
        return None
    return TensorSpec(spec.variable, spec.tensor.removeprefix(start), spec.layout)
