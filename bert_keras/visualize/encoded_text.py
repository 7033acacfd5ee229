"""One text, or a pair of texts, as the input of a model, with tokens that people can read."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.escaping import printable
from bert_keras.models import checked_length, encoder_for
from bert_keras.tokenizers import Encoding, Tokenizer

CONTINUES = "##"  # before a piece that continues a word, as in BERT's vocabulary


@dataclasses.dataclass(frozen=True)
class EncodedText:
    """A text as the input of a model.

    Attributes:
        tokens: the tokens, as in the vocabulary.
        labels: the tokens as people read them. "##" marks one that continues a word.
        is_special: True for each token that the tokenizer added, such as [CLS].
        inputs: inputs of the model by name, int32 [1, tokens].
        cut: number of tokens that were cut off, because the text is too long.
    """

    tokens: list[str]
    labels: list[str]
    is_special: list[bool]
    inputs: dict[str, np.ndarray]
    cut: int

    @property
    def note(self) -> str:
        """A sentence about tokens that were cut off; "" if there are none."""
        if not self.cut:
            return ""
        total = len(self.tokens) + self.cut
        return f"The text has {total:,} tokens; the picture shows {len(self.tokens):,} of them."


def encode(
    model: Any,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None,
    max_length: int | None,
    inputs: list[Any],
) -> EncodedText:
    """Encode one text or a pair of texts for a model.

    Args:
        model: task or encoder.
        tokenizer: tokenizer of the model.
        text: the text.
        pair: a second text; None for a single text.
        max_length: maximum number of tokens with [CLS] and [SEP]; None for all positions of the
            model.
        inputs: symbolic inputs of the model, whose names choose the inputs to make.

    Raises:
        TypeError: a text is no string, or the model is neither a task nor an encoder.
        ValueError: the tokenizer does not fit the model, or `max_length` is out of range.
    """
    for name, value in (("text", text), ("pair", pair)):
        if not isinstance(value, str) and not (name == "pair" and value is None):
            raise TypeError(
                f"`{name}` must be one string. Received: {type(value).__name__}, {value!r:.80}"
            )
    encoder = encoder_for(model, tokenizer)
    length = checked_length(max_length, encoder)
    encoding = tokenizer.encode(text, pair, max_length=length)
    whole = len(tokenizer.encode(text, pair))
    values = {
        features.TOKEN_IDS: encoding.ids,
        features.SEGMENT_IDS: encoding.segment_ids,
        features.PADDING_MASK: [1] * len(encoding),
    }
    return EncodedText(
        tokens=encoding.tokens,
        labels=_labels(encoding, tokenizer, [text, pair or ""]),
        is_special=[bool(flag) for flag in encoding.special_tokens_mask],
        inputs={tensor.name: np.array([values[tensor.name]], np.int32) for tensor in inputs},
        cut=whole - len(encoding),
    )


def tokenizer_of(model: Any, tokenizer: Tokenizer | None) -> Tokenizer:
    """Return the tokenizer that was passed, or the one that the model holds.

    Raises:
        TypeError: something else was passed as a tokenizer.
        ValueError: there is neither.
    """
    if tokenizer is None:
        tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise ValueError(
            f"This {type(model).__name__} has no tokenizer. Pass the one that the model was "
            "trained with: bert_keras.Tokenizer.from_preset(folder)."
        )
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(
            "`tokenizer` must be a bert_keras.Tokenizer, or None for a task that holds one. "
            f"Received: {type(tokenizer).__name__}, {tokenizer!r:.80}"
        )
    return tokenizer


def _labels(encoding: Encoding, tokenizer: Tokenizer, texts: list[str]) -> list[str]:
    """Return each token as people read it.

    A WordPiece token is its own label. Tokens of byte-level BPE and SentencePiece have special
    characters for spaces and bytes. Their label is their part of the text.
    """
    if tokenizer.lowercase is not None:  # WordPiece
        return [_visible(token) for token in encoding.tokens]
    labels: list[str] = []
    number, previous = 0, None
    for place, token in enumerate(encoding.tokens):
        if encoding.special_tokens_mask[place]:
            number = 1 if place and encoding.ids[place] == tokenizer.sep_id else number
            previous = None
            labels.append(_visible(token))
            continue
        start, end = encoding.offsets[place]
        part = texts[number][start:end].strip()
        word = encoding.word_ids[place]
        continues = previous is not None and word == previous and part
        labels.append(_visible(f"{CONTINUES}{part}" if continues else part or token))
        previous = word
    return labels


def _visible(token: str) -> str:
    """Return a token in one line; "␣" for a token without a visible character."""
    return " ".join(printable(token).split()) or "␣"
