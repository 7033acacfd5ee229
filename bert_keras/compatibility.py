"""Checks that a model, its tokenizer and a caller's arguments fit together."""

from __future__ import annotations

from typing import Any

from bert_keras.config import BertConfig
from bert_keras.tokenizers import Tokenizer


def encoder_of(task: Any, tokenizer: Tokenizer) -> Any:
    """Return the encoder of a task, or an encoder itself; checks that the tokenizer fits.

    Raises:
        TypeError: neither a task nor an encoder.
        ValueError: the tokenizer has ids that the model has not.
    """
    encoder = getattr(task, "encoder", task)
    config = getattr(encoder, "config", None)
    if not isinstance(config, BertConfig):
        raise TypeError(f"Expected a task or a BertEncoder. Received: {type(task).__name__}")
    check_tokenizer(tokenizer, config)
    return encoder


def check_tokenizer(tokenizer: Tokenizer, config: BertConfig) -> None:
    """Raise `ValueError` where the tokenizer has ids that the model has not."""
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"The tokenizer has {tokenizer.vocab_size} entries, the model's token table "
            f"{config.vocab_size} rows. Take the tokenizer that it was trained with."
        )


def checked_length(max_length: int | None, encoder: Any) -> int:
    """Return how many tokens of a text are read: None for all that the encoder has positions for.

    Raises:
        ValueError: no room for a token, or more than the positions.
    """
    positions = encoder.config.max_positions
    if max_length is None:
        return positions
    if not 2 < max_length <= positions:
        raise ValueError(
            f"`max_length` must be from 3 to {positions}, the model's positions. "
            f"Received: max_length={max_length}"
        )
    return max_length
