"""Export to ONNX, OpenVINO, LiteRT and PyTorch: models that take ids and give logits."""

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
from bert_keras.export.runtimes import token_classification
from bert_keras.export.runtimes.formats import FORMATS, Manifest, chosen
from bert_keras.export.subprocess_export import with_backend
from bert_keras.models import BertEncoder, Task
from bert_keras.models.encoder import EncoderView
from bert_keras.tokenizers import Tokenizer

_MOST = 2**31  # bytes, the limit of protocol buffers and flatbuffers
# Task name -> writer of a file with the rules that turn outputs into answers.
_RULES = {"token_classification": token_classification.write}


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
    """Export a model as a file of another runtime, with its tokenizer's files beside it.

    The model takes the tokenizer's arrays, int32 [batch, length] of any size. It gives the outputs
    of `task.predict` in float32, even if the model has another dtype policy. `export.json` names
    inputs and outputs. `tokenizer.json` can be opened by the `tokenizers` library in many
    languages. A `TokenClassifier` also gets `entities.json`, the rules that turn its outputs into
    entities.

    Args:
        task_or_encoder: `BertEncoder`, or a task that `Predictor` takes.
        tokenizer: tokenizer that the model was trained with, of any kind.
        path: new folder, such as `saved_models/demo-onnx/1`.
        format: "onnx" (model.onnx), "openvino" (model.xml, model.bin), "litert" (model.tflite) or
            "torch" (model.pt2, for `torch.export.load`). If the current backend cannot write it, a
            second process with another backend does.
        quantization: quantization of the matrices. None for float32; "float16" halves the size;
            "int8" quarters it, with a scale for each row, column or block. ONNX Runtime, OpenVINO
            and LiteRT run "int8" faster, PyTorch slower, because it converts the weights to floats.
            "int8_dynamic" (only "onnx") also quantises the activations. It is faster still, but has
            one scale for a batch, so that an answer depends on the other rows.
        max_length: maximum number of tokens, stored in `export.json`; None for the number of the
            model's positions.
        options: options of the predictions, as in `Predictor`; stored in `export.json`.
        pairs: True if a model that can read one text or two is used with pairs; stored there too.

    Returns:
        The folder, which appears only when it is complete.

    Raises:
        UsageError: if the folder exists.
        TypeError: if the model is neither a task nor an encoder.
        ValueError: if format, quantization, length or an option is not valid.
        ImportError: if a library is not installed.
        NumericError: if a weight is not finite.
        ResourceError: if the disk is full, or the second process failed.
    """
    path = Path(path)
    target = chosen(format, quantization)
    arguments = {"max_length": max_length, "options": options, "pairs": pairs}
    predictor = checked_predictor(task_or_encoder, tokenizer, path, **arguments)
    require_pairs(predictor, of_vectors=False)
    check_size(task_or_encoder, format)
    here = keras.backend.backend()
    backend = target.backend(here, quantization)
    if backend != here or predictor.encoder.compute_dtype != "float32":
        flags = [f"--format={format}", quantization and f"--quantization={quantization}"]
        with_backend(backend, predictor, path, "--dtype=float32", *filter(None, flags))
        return path
    module = importlib.import_module(f"bert_keras.export.runtimes.{target.module}")
    manifest = Manifest.of(predictor, format, quantization)
    with new_export(path, target.file) as folder:
        module.write(task_or_encoder, folder / target.file, quantization)
        tokenizer.save_to_preset(folder)
        manifest.write(folder)
        if write_rules := _RULES.get(task_or_encoder.task_name):
            write_rules(predictor, folder)
        functions = {target.file: (manifest.inputs, manifest.outputs)}
        export_folder.write_card(predictor, folder, path, functions)
    return path


def check_size(model: keras.Model, format: str) -> None:  # noqa: A002
    """Raise `ValueError` if a model is too large for the files of a format."""
    size = 4 * model.count_params()
    if format != "torch" and size >= _MOST:
        raise ValueError(
            f"A model of {size / 2**30:.1f} GiB in float32 does not fit the format {format}, whose "
            'files have 2 GiB at most. Take "torch", or a SavedModel.'
        )


# === Keras's `export` ===
# Keras 3.15 cannot export these models itself: not as ONNX on PyTorch, not as ONNX on TensorFlow
# before their first call, and not as a SavedModel on JAX and PyTorch.


_SAVED_MODEL = "tf_saved_model"


def is_written(
    model: keras.Model,
    filepath: str | Path,
    format: str,  # noqa: A002
    options: Mapping[str, Any],
    *,
    verbose: bool | None = None,
) -> bool:
    """Write a model's file for another runtime, instead of `keras.Model.export`.

    The file takes batches and lengths of any size. Inputs are int32 and outputs float32, with the
    model's names.

    Args:
        model: task or encoder that computes in float32.
        filepath: path of the file. The weights of "openvino" are in a .bin file beside it.
        format: argument of `keras.Model.export`.
        options: other arguments of `keras.Model.export` that are not None.
        verbose: False to print no line about the file, as in Keras.

    Returns:
        True if the file was written. False if Keras has to handle the format: a SavedModel on
        TensorFlow, or an unknown format, which Keras refuses.

    Raises:
        ValueError: if there is no such file for this model, backend or option. Nothing is written.
        ImportError: if a library is not installed. Nothing is written.
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
    # The files move to their place only when they are complete.
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=path.parent) as folder:
        module.write(model, Path(folder, path.name), None)
        for file in sorted(Path(folder).iterdir()):
            file.replace(path.parent / file.name)
    if verbose is None or verbose:
        escaping.print_line(f"Saved artifact at '{path}'.")
    return True


def _check(model: keras.Model, path: Path, name: str, options: Mapping[str, Any]) -> None:
    """Check that `export` can write a model on this backend.

    Raises:
        ValueError: if the model, backend, option or path does not fit the format.
        ImportError: if a library is not installed.
    """
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
    if hasattr(model, "to_discriminator"):  # it replaces tokens by those of its generator
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
