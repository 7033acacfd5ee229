"""SavedModels that take strings, and need nothing of this package to run."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import keras

from bert_keras.export.export_folder import (
    checked_predictor,
    new_export,
    require_pairs,
    require_tensorflow,
)
from bert_keras.export.subprocess_export import with_backend
from bert_keras.inference import check_top_k
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.basic_tokenizer import require_word_piece


def saved_model(
    task_or_encoder: Task | BertEncoder,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    max_length: int | None = None,
    options: Mapping[str, Any] | None = None,
    pairs: bool = False,
    portable: bool = False,
) -> Path:
    """Exports a model with its tokenizer as a TensorFlow SavedModel.

    Its signatures are described in `saved_models/README.md`: `serving_default` takes strings and
    gives what `Predictor` answers, `ids` takes what `Tokenizer` returns, and `training` the same
    with dropout active. From the JAX and PyTorch backends a second process exports with TensorFlow.

    Args:
        task_or_encoder: a task that `Predictor` takes, or a `BertEncoder`.
        tokenizer: the one the model was trained with. `Tokenizer`s that are not WordPiece have no
            graph.
        path: the new folder. For TensorFlow Serving end it with a version number, as in
            `saved_models/demo/1`.
        max_length: longer texts are cut, [CLS] and [SEP] counted, or read in parts where
            `Predictor` does so; None for as many tokens as the model has positions.
        options: what `Predictor` answers with, where that is not as usual: `top_k` fills of a mask,
            or labels; `null_threshold` and the like of answers; `threshold` of several labels;
            `prompt_name` or `prompt` of vectors, which is put before each text in the graph.
        pairs: of models that take one text or two: whether `serving_default` takes two. There is a
            signature for either.
        portable: use TensorFlow's own operations only, so that a program needs no tensorflow-text
            to load it; long texts are cut into pieces more slowly then.

    Returns:
        The folder, which appears whole or not at all.

    Raises:
        UsageError: the folder exists.
        TypeError: a task that answers no texts.
        ValueError: an option or length that is out of range, or another kind of tokenizer.
        ImportError: TensorFlow or tensorflow-text is not installed.
        NumericError: a weight is not finite.
        ResourceError: the disk is full, or the second process failed.
    """
    path = Path(path)
    asked = {"max_length": max_length, "options": options, "pairs": pairs}
    predictor = checked_predictor(task_or_encoder, tokenizer, path, **asked)
    _check(predictor)
    require_tensorflow(text=not portable)
    if keras.backend.backend() != "tensorflow":
        with_backend("tensorflow", predictor, path, "--portable" * portable)
        return path
    from bert_keras.export.graph import signatures

    with new_export(path) as folder:
        signatures.write_saved_model(predictor, folder, path, portable=portable)
    return path


def _check(predictor: Predictor) -> None:
    """Refuse options that the graph would refuse later, or not at all."""
    task, tokenizer, options = predictor.task, predictor.tokenizer, predictor.options
    require_word_piece(tokenizer)
    if not task.answers_texts:
        raise TypeError(
            f"{type(task).__name__} answers no texts. Its encoder can be exported: task.encoder."
        )
    require_pairs(predictor)
    if task.fills_masks:
        check_top_k(options.get("top_k", 1), tokenizer)
    for name, value in options.items():
        is_other = name in ("null_threshold", "threshold", "prompt", "prompt_name")
        if not is_other and (not isinstance(value, Integral) or value < 1):
            raise ValueError(f"`{name}` must be a whole number from 1. Received: {name}={value}")
    if task.answers_with == "predict_answers":
        most = predictor.max_length - tokenizer.scheme.num_added(2) - 1
        if (asked := options.get("max_question", 64)) > most:
            raise ValueError(
                f"max_length={predictor.max_length} leaves no room for the text behind a question "
                f"of {asked} pieces: `max_question` must be at most {most}."
            )
