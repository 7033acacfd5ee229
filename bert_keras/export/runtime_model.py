"""Models for other runtimes than TensorFlow: ids in, the model's own outputs out."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from bert_keras import escaping
from bert_keras.export import export_folder
from bert_keras.export.export_folder import checked_predictor, new_export, require_pairs
from bert_keras.export.runtimes import entity_rules
from bert_keras.export.runtimes.formats import FORMATS, Manifest, chosen, input_axes, output_axes
from bert_keras.export.subprocess_export import with_backend
from bert_keras.models import BertEncoder, ElectraPretrainer, Task
from bert_keras.models.encoder import EncoderView
from bert_keras.tokenizers import Tokenizer

_MOST = 2**31  # bytes, of protocol buffers and flatbuffers
# Task name -> the writer of a file with the rules by which outputs become answers.
_RULES = {"token_classification": entity_rules.write}


def runtime_model(
    task_or_encoder: Task | BertEncoder,
    tokenizer: Tokenizer,
    path: str | Path,
    format: str = "onnx",  # noqa: A002
    *,
    quantization: str | None = None,
    max_length: int | None = None,
    options: Mapping[str, Any] | None = None,
    pairs: bool = False,
) -> Path:
    """Exports a model as a file of another runtime, with its tokenizer's files beside it.

    It takes what the tokenizer gives, int32, in batches and lengths of any size, and gives what
    `task.predict` gives, float32, whatever policy the model has; `export.json` names them. The
    tokenizer is in `tokenizer.json`, which the library tokenizers opens in many languages. With a
    `TokenClassifier` comes `entities.json`: the rules by which its outputs become entities.

    Args:
        task_or_encoder: a task that `Predictor` takes, or a `BertEncoder`.
        tokenizer: the one the model was trained with, of any kind.
        path: the new folder, such as `saved_models/demo-onnx/1`.
        format: "onnx" (model.onnx), "openvino" (model.xml, model.bin), "litert" (model.tflite) or
            "torch" (model.pt2, for `torch.export.load`). From a backend that cannot write it a
            second process does, with one that can.
        quantization: None; "float16", half the size; "int8", a quarter of it: the weights of the
            matrices, in rows, columns or blocks with a scale each (ONNX Runtime, OpenVINO and
            LiteRT are faster for it; PyTorch widens them when it runs, and is slower); or, of
            "onnx", "int8_dynamic": what they are multiplied with too, as it comes, which is
            faster and has one scale for a batch, so that an answer depends on its neighbours.
        max_length: what `export.json` says that texts are to be cut to; None for as many tokens as
            the model has positions.
        options: how answers are found, as `Predictor` has them; kept in `export.json`.
        pairs: of a model that takes one text or two: whether it is for two; kept there too.

    Returns:
        The folder, which appears whole or not at all.

    Raises:
        UsageError: the folder exists.
        TypeError: neither a task nor an encoder.
        ValueError: no such format or quantization, or a length or option out of range.
        ImportError: a library is not installed.
        NumericError: a weight is not finite.
        ResourceError: the disk is full, or the second process failed.
    """
    path = Path(path)
    target = chosen(format, quantization)
    asked = {"max_length": max_length, "options": options, "pairs": pairs}
    predictor = checked_predictor(task_or_encoder, tokenizer, path, **asked)
    require_pairs(predictor, of_vectors=False)
    check_size(task_or_encoder, format)
    here = keras.backend.backend()
    backend = target.backend(here, quantization)
    if backend != here or predictor.encoder.compute_dtype != "float32":
        flags = [f"--format={format}", quantization and f"--quantization={quantization}"]
        with_backend(backend, predictor, path, "--dtype=float32", *filter(None, flags))
        return path
    module = importlib.import_module(f"bert_keras.export.runtimes.{target.module}")
    inputs, outputs = input_axes(task_or_encoder), output_axes(task_or_encoder)
    # Models of pairs are trained, and asked here, without prompts.
    prompt = "" if task_or_encoder.reads_apart else predictor.prompt
    manifest = Manifest(
        format=format,
        quantization=quantization,
        task=type(task_or_encoder).__name__,
        max_length=predictor.max_length,
        options=dict(predictor.options),
        pairs=pairs,
        pad_id=tokenizer.pad_id,
        inputs={name: list(axes) for name, axes in inputs.items()},
        outputs={name: list(axes) for name, axes in outputs.items()},
        prompt=prompt,
        prompt_length=predictor.prompt_length(prompt),
    )
    with new_export(path) as folder:
        module.write(task_or_encoder, folder / target.file, quantization)
        tokenizer.save_to_preset(folder)
        manifest.write(folder)
        if write_rules := _RULES.get(task_or_encoder.task_name):
            write_rules(predictor, folder)
        export_folder.write_card(predictor, folder, path, {target.file: (inputs, outputs)})
    return path


def check_size(model: keras.Model, format: str) -> None:  # noqa: A002
    """Raise `ValueError` for a model that is too large for the files of a format."""
    size = 4 * model.count_params()
    if format != "torch" and size >= _MOST:
        raise ValueError(
            f"A model of {size / 2**30:.1f} GiB in float32 does not fit the format {format}, whose "
            'files have 2 GiB at most. Take "torch", or a SavedModel.'
        )


# === Keras's `export` ===
# Keras 3.15 writes none of these models as ONNX on PyTorch, nor on TensorFlow before they were
# called, and fails on JAX and PyTorch within the trace of a SavedModel.


_SAVED_MODEL = "tf_saved_model"


def is_written(
    model: keras.Model,
    filepath: str | Path,
    format: str,  # noqa: A002
    options: Mapping[str, Any],
    *,
    verbose: bool | None = None,
) -> bool:
    """Write a model's file for another runtime, which takes batches and lengths of any size.

    Inputs and outputs have the model's names and are int32 and float32.

    Args:
        model: a task or encoder that computes in float32.
        filepath: the file. Of "openvino" the weights are beside it, in a .bin file.
        format: as in `keras.Model.export`.
        options: the other arguments of `keras.Model.export`, without those that are None.
        verbose: False to leave out the line about the file, as in Keras.

    Returns:
        Whether it is written; False for what Keras writes: a SavedModel on TensorFlow. Keras also
        refuses formats that it does not know.

    Raises:
        ValueError: this model, backend or option has no such file. Nothing is written.
        ImportError: a library is not installed. Nothing is written.
    """
    here = keras.backend.backend()
    if format == _SAVED_MODEL:
        if here == "tensorflow":
            return False
        raise ValueError(
            f'`export(format="{_SAVED_MODEL}")` does not work on the {here} backend. '
            "`bert_keras.export.saved_model(model, tokenizer, path)` writes a SavedModel from "
            "every backend."
        )
    if format not in FORMATS:
        return False
    path = Path(filepath)
    _check(model, path, format, options)
    module = importlib.import_module(f"bert_keras.export.runtimes.{FORMATS[format].module}")
    # Files appear whole or not at all.
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=path.parent) as folder:
        module.write(model, Path(folder, path.name), None)
        for file in sorted(Path(folder).iterdir()):
            file.replace(path.parent / file.name)
    if verbose is None or verbose:
        escaping.print_line(f"Saved artifact at '{path}'.")
    return True


def _check(model: keras.Model, path: Path, name: str, options: Mapping[str, Any]) -> None:
    """Raise an error for what cannot be written."""
    here, target = keras.backend.backend(), FORMATS[name]
    other = (
        f'`bert_keras.export.runtime_model(model, tokenizer, path, format="{name}")` or '
        f"`bert-keras export --format {name}`"
    )
    if not isinstance(model, Task | BertEncoder | EncoderView):
        raise ValueError(
            f"A {type(model).__name__} is a view for training. Export its task: "
            f'`model.task.export(path, format="{name}")`.'
        )
    if isinstance(model, ElectraPretrainer):
        raise ValueError(
            "An ElectraPretrainer draws tokens at random, which these formats do not have. Export "
            f'its discriminator: `model.to_discriminator().export(path, format="{name}")`.'
        )
    if here not in target.writers:
        raise ValueError(
            f'`export(format="{name}")` does not work on the {here} backend. {other} writes it '
            "from every backend."
        )
    if model.compute_dtype != "float32":
        raise ValueError(
            f'`export(format="{name}")` is for models that compute in float32. {other} writes a '
            f"model of any policy. Received: a model that computes in {model.compute_dtype}"
        )
    if options:
        raise ValueError(
            f'`export(format="{name}")` of these models takes no {", ".join(options)}: the file '
            f"takes batches and lengths of any size. For other files see {other}."
        )
    suffix = Path(target.file).suffix
    if path.suffix != suffix:
        raise ValueError(
            f'The file of `export(format="{name}")` must end in {suffix}. Received: {path}'
        )
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}. Make it first.")
    check_size(model, name)
    if target.backend(here, None) != here:
        raise ImportError(
            f'`export(format="{name}")` on the {here} backend needs '
            f"{', '.join(target.writers[here])}. Install with: "
            f'pip install "bert-keras[{target.extra},{here}]". Without them {other} writes it.'
        )
