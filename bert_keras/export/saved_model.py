"""Export as SavedModels, which run without this package, also with TensorFlow Hub's text API."""

from __future__ import annotations

import inspect
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
from bert_keras.models import BertEncoder, Task, encoder_for
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.graph_pipeline import is_word_piece, require_graph
from bert_keras.tokenizers.wordpiece import require_word_piece

PREPROCESSOR, ENCODER = "preprocessor", "encoder"  # the two SavedModels of `tf_hub`
# Options that are no sizes; all others must be whole numbers.
_NO_SIZES = "null_threshold", "threshold", "prompt", "prompt_name", "long_texts", "aggregation"
_USUAL = 128  # tokens, the default of TensorFlow Hub's preprocessors


def saved_model(
    task_or_encoder: Task | BertEncoder,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    max_length: int | None = None,
    options: Mapping[str, Any] | None = None,
    pairs: bool = False,
    portable: bool = False,
    ids_only: bool = False,
) -> Path:
    """Export a model with its tokenizer as a TensorFlow SavedModel.

    `saved_models/README.md` describes its signatures. `serving_default` takes strings and gives the
    answers of `Predictor`. `ids` takes the arrays of `Tokenizer`. `training` is `ids` with dropout
    active. From the JAX and PyTorch backends, a second process exports with TensorFlow.

    Args:
        task_or_encoder: `BertEncoder`, or a task that `Predictor` takes.
        tokenizer: tokenizer that the model was trained with. WordPiece, byte-level BPE and
            SentencePiece's unigram model have a graph; others need `ids_only`.
        path: new folder. TensorFlow Serving needs a version number at its end, as in
            `saved_models/demo/1`.
        max_length: maximum number of tokens with [CLS] and [SEP]. Longer texts are truncated, or
            read in windows if `Predictor` does so with these options. None for the number of the
            model's positions.
        options: options of the predictions, as in `Predictor`: `top_k` tokens of a mask or labels
            of a text, `null_threshold` and others of answers, `threshold` of several labels, and
            `prompt_name` or `prompt`, which the graph puts before each text.
        pairs: True if `serving_default` of a model that can read one text or two takes two. Another
            signature takes the other number.
        portable: use only TensorFlow's own operations, so that no program needs tensorflow-text to
            load the model. Only BERT's WordPiece needs it; its tokenization of long texts is slower
            then.
        ids_only: True if `serving_default` takes the arrays of `Tokenizer`, as `ids`. Then no
            signature takes strings, and the tokenizer may be of any kind.

    Returns:
        The folder, which appears only when it is complete.

    Raises:
        UsageError: if the folder exists.
        TypeError: if the task does not predict from texts.
        ValueError: if an option or the length is out of range, or a part of the tokenizer has no
            graph and `ids_only` is False. The message names it.
        ImportError: if TensorFlow or tensorflow-text is not installed.
        NumericError: if a weight is not finite.
        ResourceError: if the disk is full, or the second process failed.
    """
    path = Path(path)
    arguments = {"max_length": max_length, "options": options, "pairs": pairs}
    predictor = checked_predictor(task_or_encoder, tokenizer, path, **arguments)
    _check(predictor, ids_only=ids_only)
    require_tensorflow(text=is_word_piece(tokenizer) and not (portable or ids_only))
    if keras.backend.backend() != "tensorflow":
        flags = "--portable" * portable, "--ids-only" * ids_only
        with_backend("tensorflow", predictor, path, *flags)
        return path
    from bert_keras.export.graph import signatures

    with new_export(path) as folder:
        signatures.write_saved_model(predictor, folder, path, portable=portable, ids_only=ids_only)
    return path


def tf_hub(
    task_or_encoder: Task | BertEncoder,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    max_length: int | None = None,
    portable: bool = False,
) -> Path:
    """Export an encoder with TensorFlow Hub's text API, as a pair of SavedModels.

    - `path/preprocessor` is called with strings. It has `tokenize`, `bert_pack_inputs` and
      `get_special_tokens_dict`.
    - `path/encoder` is called with the preprocessor's outputs and can be trained. It has
      `vocab_file`, `do_lower_case` and, for a masked language model, `mlm`.

    `tensorflow_hub.load` and `hub.KerasLayer` open both; see `saved_models/README.md`.
    `from_preset` of encoders, tasks and `Tokenizer` opens `path` with its exact config, which is in
    the folder `assets.extra` of the encoder. From the JAX and PyTorch backends, a second process
    exports with TensorFlow.

    Args:
        task_or_encoder: `BertEncoder`, or a task whose encoder is exported. The MLM head of a
            `MaskedLM` or `Pretrainer` is exported too.
        tokenizer: WordPiece tokenizer that the model was trained with.
        path: new folder.
        max_length: length of the preprocessor's outputs if a call states no `seq_length`; None for
            128, or the number of the model's positions if that is less.
        portable: use only TensorFlow's own operations; see `saved_model`.

    Returns:
        The folder, which appears only when it is complete.

    Raises:
        UsageError: if the folder exists.
        TypeError: if the model is neither a task nor an encoder.
        ValueError: if the length is out of range, or the tokenizer is not WordPiece.
        ImportError: if TensorFlow or tensorflow-text is not installed.
        NumericError: if a weight is not finite.
        ResourceError: if the disk is full, or the second process failed.
    """
    path = Path(path)
    if max_length is None:
        max_length = min(_USUAL, encoder_for(task_or_encoder, tokenizer).config.max_positions)
    predictor = checked_predictor(task_or_encoder, tokenizer, path, max_length=max_length)
    require_word_piece(tokenizer)
    require_tensorflow(text=not portable)
    if keras.backend.backend() != "tensorflow":
        with_backend("tensorflow", predictor, path, "--format=tf_hub", "--portable" * portable)
        return path
    from bert_keras.export.graph import tf_hub

    with new_export(path) as folder:
        for name in (PREPROCESSOR, ENCODER):
            (folder / name).mkdir()
        tf_hub.write_preprocessor(
            tokenizer, folder / PREPROCESSOR, max_length=max_length, portable=portable
        )
        tf_hub.write_encoder(task_or_encoder, tokenizer, folder / ENCODER)
    return path


def _check(predictor: Predictor, *, ids_only: bool) -> None:
    """Check task, tokenizer and options before the export starts.

    Args:
        predictor: predictor of the model.
        ids_only: whether the SavedModel takes ids alone.

    Raises:
        TypeError: if the task does not predict from texts.
        ValueError: if the tokenizer has no graph, or an option is out of range.
    """
    task, tokenizer, options = predictor.task, predictor.tokenizer, predictor.options
    if not ids_only:
        require_graph(tokenizer)
    if not task.answers_texts:
        raise TypeError(
            f"A {type(task).__name__} answers no texts. Export its encoder: task.encoder."
        )
    require_pairs(predictor)
    if task.fills_masks:
        check_top_k(options.get("top_k", 1), tokenizer)
    if options.get("aggregation") is not None:
        raise ValueError(
            "A SavedModel finds entities by words. Leave the option `aggregation` out. "
            f"Received: aggregation={options['aggregation']!r}"
        )
    for name, value in options.items():
        if name not in _NO_SIZES and (not isinstance(value, Integral) or value < 1):
            raise ValueError(f"`{name}` must be a whole number from 1. Received: {name}={value}")
    accepted = inspect.signature(predictor.prediction_method()).parameters
    if "max_question" in accepted:
        if options.get("top_k") is not None:
            raise ValueError(
                "A SavedModel gives one answer to each question. Leave the option `top_k` out. "
                f"Received: top_k={options['top_k']}"
            )
        most = predictor.max_length - tokenizer.scheme.num_added(2) - 1
        if (max_question := options.get("max_question", accepted["max_question"].default)) > most:
            raise ValueError(
                f"max_length={predictor.max_length} leaves no room for the text behind a question "
                f"of {max_question} pieces: `max_question` must be at most {most}."
            )
