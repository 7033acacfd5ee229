"""What a model, its tokenizer and a caller's arguments must have in common."""

from __future__ import annotations

from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer


def encoder_of(task: Task | BertEncoder, tokenizer: Tokenizer) -> BertEncoder:
    """The encoder of a task, or itself; checks that the tokenizer fits.

    Raises:
        TypeError: neither a task nor an encoder.
        ValueError: the tokenizer has ids that the model has not.
    """
    if not isinstance(task, Task | BertEncoder):
        raise TypeError(f"Expected a task or a BertEncoder. Received: {type(task).__name__}")
    encoder = task.encoder if isinstance(task, Task) else task
    if tokenizer.vocab_size > encoder.config.vocab_size:
        raise ValueError(
            f"The tokenizer has {tokenizer.vocab_size} entries, the model's token table "
            f"{encoder.config.vocab_size} rows. Take the tokenizer that it was trained with."
        )
    return encoder


def checked_length(max_length: int | None, encoder: BertEncoder) -> int:
    """How many tokens of a text are read: that many, or all that the encoder has positions for.

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


def check_top_k(top_k: int, tokenizer: Tokenizer) -> None:
    """Raises `ValueError` unless that many tokens can be named."""
    if not 1 <= top_k <= tokenizer.vocab_size:
        raise ValueError(
            f"`top_k` must be from 1 to {tokenizer.vocab_size}, the size of the vocabulary. "
            f"Received: top_k={top_k}"
        )
