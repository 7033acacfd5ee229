"""SavedModels as TensorFlow Hub has them: a preprocessor and an encoder, to be trained further."""

from __future__ import annotations

from pathlib import Path

import keras

from bert_keras.export.export_folder import checked_predictor, new_export, require_tensorflow
from bert_keras.export.subprocess_export import with_backend
from bert_keras.models import BertEncoder, Task, encoder_for
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.basic_tokenizer import require_word_piece

PREPROCESSOR, ENCODER = "preprocessor", "encoder"
_USUAL = 128  # tokens, as the API has it


def tf_hub(
    task_or_encoder: Task | BertEncoder,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    max_length: int | None = None,
    portable: bool = False,
) -> Path:
    """Exports an encoder with TensorFlow Hub's text API, as the pair of SavedModels there.

    `path/preprocessor`: callable on strings, with `tokenize`, `bert_pack_inputs` and
    `get_special_tokens_dict`. `path/encoder`: callable on its outputs, to be trained; with
    `vocab_file`, `do_lower_case`, and of a masked language model `mlm`. Both open by
    `tensorflow_hub.load` and in `hub.KerasLayer`; see `saved_models/README.md`. `from_preset` of
    encoders, tasks and `Tokenizer` opens `path` as it was exported: `path/encoder` also holds the
    config, in `assets.extra`. From the JAX and PyTorch backends a second process exports with
    TensorFlow.

    Args:
        task_or_encoder: a `BertEncoder`, or a task, of which the encoder is taken; of a `MaskedLM`
            or `Pretrainer` also the masked language model's head.
        tokenizer: the one the model was trained with; WordPiece.
        path: the new folder.
        max_length: of what the preprocessor makes where no `seq_length` is given; None for 128, or
            as many as the model has positions.
        portable: as in `saved_model`.

    Returns:
        The folder, which appears whole or not at all.

    Raises:
        UsageError: the folder exists.
        TypeError: neither a task nor an encoder.
        ValueError: a length that is out of range, or another kind of tokenizer.
        ImportError: TensorFlow or tensorflow-text is not installed.
        NumericError: a weight is not finite.
        ResourceError: the disk is full, or the second process failed.
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
