"""Models, tokenizers and arguments that do not fit together are refused before any computation."""

from __future__ import annotations

import pytest

from bert_keras import BertEncoder, MaskedLM, Tokenizer, compatibility
from tests.contracts import TINY

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return BertEncoder(TINY)


def _tokenizer(size: int) -> Tokenizer:
    return Tokenizer([*SPECIALS, *(f"w{n}" for n in range(size - len(SPECIALS)))])


def test_the_encoder_of_a_task_and_itself(encoder: BertEncoder) -> None:
    tokenizer = _tokenizer(TINY.vocab_size)
    assert compatibility.encoder_of(encoder, tokenizer) is encoder
    assert compatibility.encoder_of(MaskedLM(encoder), tokenizer) is encoder


def test_a_vocabulary_too_large_and_something_else(encoder: BertEncoder) -> None:
    with pytest.raises(ValueError, match=f"{TINY.vocab_size} rows"):
        compatibility.encoder_of(encoder, _tokenizer(TINY.vocab_size + 1))
    with pytest.raises(TypeError, match="Received: str"):
        compatibility.encoder_of("encoder", _tokenizer(6))  # pyright: ignore[reportArgumentType]


def test_lengths(encoder: BertEncoder) -> None:
    most = TINY.max_positions
    assert compatibility.checked_length(None, encoder) == most
    assert [compatibility.checked_length(n, encoder) for n in (3, most)] == [3, most]
    for length in (2, most + 1):
        with pytest.raises(ValueError, match=f"from 3 to {most}, .*max_length={length}"):
            compatibility.checked_length(length, encoder)
