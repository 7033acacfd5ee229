"""Export of an encoder with TensorFlow Hub's text API: a preprocessor and a trainable encoder."""

from __future__ import annotations

from pathlib import Path

import keras

from bert_keras.export.export_folder import checked_predictor, new_export, require_tensorflow
from bert_keras.export.subprocess_export import with_backend
from bert_keras.models import BertEncoder, Task, encoder_for
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.basic_tokenizer import require_word_piece

PREPROCESSOR, ENCODER = "preprocessor", "encoder"
_USUAL = 128  # tokens, the default of TensorFlow Hub's preprocessors


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
