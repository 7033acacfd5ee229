"""`export` of tasks and encoders, Keras's own method, written by the writers of `runtimes`.

Keras 3.15 writes none of these models as ONNX on PyTorch, nor on TensorFlow before they were
called, and fails on JAX and PyTorch within the trace of a SavedModel.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from bert_keras import escaping
from bert_keras.export.runtime_model import check_size
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.models import BertEncoder, ElectraPretrainer, Task
from bert_keras.models.encoder import EncoderView

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
