"""Export a checkpoint folder in any format, by a function or as a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from bert_keras import escaping
from bert_keras.errors import ArtifactError, UsageError, exit_code_of, quiet
from bert_keras.export.export_folder import require_tensorflow
from bert_keras.export.runtime_model import runtime_model
from bert_keras.export.runtimes.formats import FORMATS, chosen
from bert_keras.export.saved_model import saved_model, tf_hub
from bert_keras.loading import load_checkpoint
from bert_keras.models import Task, encoder_for
from bert_keras.predictor import Predictor, read_predictor_config
from bert_keras.tokenizers import Tokenizer

SAVED_MODEL, TF_HUB = "saved_model", "tf_hub"
ALL = (SAVED_MODEL, TF_HUB, *FORMATS)
AS, ENCODER, PAIRS, TEXTS = "as_trained", "encoder", "pairs", "texts"
TASKS = (AS, TEXTS, PAIRS, ENCODER)


@dataclass(frozen=True)
class Wanted:
    """Options of an export.

    Attributes:
        format: one of `ALL`.
        quantization: quantization for other runtimes, such as "int8"; None for none.
        portable: whether a SavedModel must not need tensorflow-text.
        ids_only: whether a SavedModel takes ids and no strings.

    Raises:
        UsageError: if the format is unknown, or does not have the quantization.
    """

    format: str = SAVED_MODEL
    quantization: str | None = None
    portable: bool = False
    ids_only: bool = False

    def __post_init__(self) -> None:
        if self.format not in ALL:
            raise UsageError(
                f"format must be one of {', '.join(ALL)}. Received: format={self.format}"
            )
        if self.format in FORMATS:
            try:
                chosen(self.format, self.quantization)
            except ValueError as error:
                raise UsageError(str(error)) from error
        elif self.quantization is not None:
            raise UsageError(
                f"Only {', '.join(FORMATS)} can be quantised. Received: {self.format} with "
                f"quantization={self.quantization}. Leave the quantization out."
            )

    @property
    def name(self) -> str:
        """Name of the export among those of one model, such as "onnx-int8"."""
        return "-".join(filter(None, (self.format, self.quantization)))


def open_preset(
    preset: str | Path,
    *,
    task: str = AS,
    dtype: str | None = None,
    max_length: int | None = None,
    **reading: Any,
) -> Predictor:
    """Open a checkpoint folder for an export.

    Args:
        preset: folder with model and tokenizer.
        task: part to export, one of `TASKS`: "as_trained", the model with `serving_default` for
            single "texts" or for "pairs", or its "encoder" alone.
        dtype: Keras dtype policy; None for the global one.
        max_length: maximum number of tokens of a text; None for that of the folder.
        reading: further arguments of `load_checkpoint`.

    Raises:
        ArtifactError: if the folder cannot be read.
        UsageError: if `task` is unknown, or does not fit the model.
    """
    if task not in TASKS:
        raise UsageError(f"task must be one of {', '.join(TASKS)}. Received: task={task}")
    # `plain` merges adapters, which an exported model does not need.
    model: Any = load_checkpoint(preset, dtype=dtype, plain=True, **reading)
    tokenizer, config = Tokenizer.from_preset(preset), read_predictor_config(preset)
    options, pairs = config.options, config.pairs if task == AS else task == PAIRS
    if task == ENCODER and isinstance(model, Task):
        model, options, pairs = model.encoder, {}, False
    try:
        positions = encoder_for(model, tokenizer).config.max_positions
        stated = min(config.max_length or positions, positions)
        length = stated if max_length is None else max_length
        return Predictor(model, tokenizer, max_length=length, options=options, pairs=pairs)
    except ValueError as error:
        kind = ArtifactError if max_length is None else UsageError
        raise kind(f"{preset}: {error}") from error


def require_libraries(wanted: Wanted) -> None:
    """Raise `ImportError` if a library for an export is missing, before the model is read."""
    if wanted.format in FORMATS:
        FORMATS[wanted.format].backend(keras.backend.backend(), wanted.quantization)
    else:
        require_tensorflow(text=not (wanted.portable or wanted.ids_only))


def export_as(wanted: Wanted, predictor: Predictor, path: str | Path) -> Path:
    """Export an opened model into a new folder and return the folder.

    `saved_model`, `tf_hub` and `runtime_model` describe the errors.
    """
    model, tokenizer, length = predictor.task, predictor.tokenizer, predictor.max_length
    if wanted.format == TF_HUB:
        is_shorter = length < predictor.encoder.config.max_positions
        common = {"max_length": length if is_shorter else None, "portable": wanted.portable}
        return tf_hub(model, tokenizer, path, **common)
    common = {"max_length": length, "options": predictor.options, "pairs": predictor.pairs}
    if wanted.format == SAVED_MODEL:
        common |= {"portable": wanted.portable, "ids_only": wanted.ids_only}
        return saved_model(model, tokenizer, path, **common)
    common["quantization"] = wanted.quantization
    return runtime_model(model, tokenizer, path, wanted.format, **common)


# === Program ===


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: command line without the program's name; None for that of the process.

    Returns:
        Exit code.
    """
    quiet()
    parser = argparse.ArgumentParser(
        "python -m bert_keras.export.export_preset", description=__doc__
    )
    parser.add_argument("preset", help="a folder with model and tokenizer")
    parser.add_argument("path", help="the folder to write, such as saved_models/demo/1")
    parser.add_argument("--dtype", help="a Keras dtype policy, such as mixed_bfloat16")
    parser.add_argument("--format", default=ALL[0], choices=ALL)
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        choices=("hidden_states", "attentions"),
        help="also of an encoder; may be given several times",
    )
    parser.add_argument("--quantization", help="float16, int8 or int8_dynamic")
    parser.add_argument("--portable", action="store_true", help="needs no tensorflow-text")
    parser.add_argument("--ids-only", action="store_true", help="takes ids and no text")
    options = parser.parse_args(arguments)
    try:
        flags = options.portable, options.ids_only
        wanted = Wanted(options.format, options.quantization, *flags)
        outputs: dict[str, Any] = dict.fromkeys(options.output, True)
        predictor = open_preset(options.preset, dtype=options.dtype, **outputs)
        path = export_as(wanted, predictor, options.path)
    except Exception as error:
        is_mendable = isinstance(error, ImportError | ValueError | TypeError)
        code = exit_code_of(error) or (UsageError.exit_code if is_mendable else None)
        if code is None:
            raise
        print(error, file=sys.stderr)
        return code
    escaping.print_line(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
