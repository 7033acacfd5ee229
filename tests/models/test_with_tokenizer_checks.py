"""Models, tokenizers and arguments that do not match are refused before any computation."""

from __future__ import annotations

import pytest

from bert_keras import BertEncoder, MaskedLM, Tokenizer
from bert_keras.models import checked_length, encoder_for
from tests.contracts import TINY

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return BertEncoder(TINY)


def _tokenizer(size: int) -> Tokenizer:
    return Tokenizer([*SPECIALS, *(f"w{n}" for n in range(size - len(SPECIALS)))])


def test_the_encoder_of_a_task_and_itself(encoder: BertEncoder) -> None:
    """`encoder_for` returns an encoder itself, or the encoder of a task."""
    tokenizer = _tokenizer(TINY.vocab_size)
    assert encoder_for(encoder, tokenizer) is encoder
    assert encoder_for(MaskedLM(encoder), tokenizer) is encoder


def test_a_vocabulary_too_large_and_something_else(encoder: BertEncoder) -> None:
    with pytest.raises(ValueError, match=f"{TINY.vocab_size} rows"):
        encoder_for(encoder, _tokenizer(TINY.vocab_size + 1))
    with pytest.raises(TypeError, match="Received: str"):
        encoder_for("encoder", _tokenizer(6))  # pyright: ignore[reportArgumentType]


def test_lengths(encoder: BertEncoder) -> None:
    """`checked_length` accepts 3 to the number of positions, which is also its default."""
    most = TINY.max_positions
    assert checked_length(None, encoder) == most
    assert [checked_length(n, encoder) for n in (3, most)] == [3, most]
    for length in (2, most + 1):
        with pytest.raises(ValueError, match=f"from 3 to {most}, .*max_length={length}"):
            checked_length(length, encoder)
