"""Byte-level BPE, SentencePiece and other WordPiece than BERT's, read for a TensorFlow graph.

A tokenizer.json is a pipeline: normalizer, pre-tokenizer, model, post-processor. `pipeline_steps`
reads the first two.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tokenizers as hf

from bert_keras import file_io
from bert_keras.tokenizers.added_tokens import NO_TEXT, AddedToken
from bert_keras.tokenizers.backends import hidden_tokens
from bert_keras.tokenizers.character_tables import WHITE_SPACE
from bert_keras.tokenizers.encoding import Scheme
from bert_keras.tokenizers.pipeline_steps import (
    SPELLS_BYTES,
    Step,
    UnknownStepError,
    checked_type,
    read_normalizer,
    read_pre_tokenizer,
)
from bert_keras.tokenizers.vocabulary import CONTINUATION
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH
from bert_keras.tokenizers.wordpiece import require_word_piece

if TYPE_CHECKING:
    from bert_keras.tokenizers.tokenizer import Tokenizer


class ByteBPE(NamedTuple):
    """Byte-level BPE.

    Attributes:
        bytes: int32 [256], the id of each byte.
        pairs: int64 [merges, 2], ids of the two pieces of each merge, in their order.
        merged: int32 [merges], id of the merged piece.
        words: UTF-8 of a word -> id, for words that no merge splits; None if all words are merged.
    """

    bytes: np.ndarray
    pairs: np.ndarray
    merged: np.ndarray
    words: Mapping[bytes, int] | None


class Unigram(NamedTuple):
    """Unigram language model.

    Attributes:
        pieces: all pieces; the position is the id.
        scores: their log probabilities, float64.
        unknown: id of the piece for unknown characters.
        hidden: ids of special pieces, which are ordinary text if special tokens are.
    """

    pieces: tuple[str, ...]
    scores: np.ndarray
    unknown: int
    hidden: tuple[int, ...]


class WordPieces(NamedTuple):
    """WordPiece with other special tokens or other steps than BERT's.

    Attributes:
        pieces: all pieces; the position is the id.
        unknown: id of the token for words without pieces.
        hidden: ids of special pieces, which are ordinary text if special tokens are.
    """

    pieces: tuple[str, ...]
    unknown: int
    hidden: tuple[int, ...]


class Pipeline(NamedTuple):
    """All steps of a tokenizer.

    Attributes:
        normalizer: steps that change a text.
        pre_tokenizer: steps that split it into words.
        model: from words to ids.
        marked: added tokens that are found in a text if special tokens are recognised.
        plain: added tokens that are found if they are ordinary text.
        normalized: content of an added token -> its normalised text.
        trims: True if the place of a piece leaves out white space at its ends.
        keeps_first: True if the place of a first piece keeps that white space.
    """

    normalizer: tuple[Step, ...]
    pre_tokenizer: tuple[Step, ...]
    model: ByteBPE | Unigram | WordPieces
    marked: tuple[AddedToken, ...]
    plain: tuple[AddedToken, ...]
    normalized: Mapping[str, str]
    trims: bool
    keeps_first: bool


def is_word_piece(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer is BERT's WordPiece, whose graph is another one."""
    return tokenizer.lowercase is not None


def require_graph(tokenizer: Tokenizer) -> None:
    """Raise `ValueError` for a tokenizer that cannot run in a graph. The message says why."""
    if is_word_piece(tokenizer):
        require_word_piece(tokenizer)
    else:
        read_pipeline(tokenizer)


def has_graph(tokenizer: Tokenizer) -> bool:
    """Return whether a TensorFlow graph can hold a tokenizer."""
    try:
        require_graph(tokenizer)
    except ValueError:
        return False
    return True


def read_pipeline(tokenizer: Tokenizer) -> Pipeline:
    """Return the steps of a tokenizer that is not BERT's WordPiece.

    Raises:
        ValueError: if a part of the tokenizer has no graph. The message names it.
    """
    try:
        return _pipeline(tokenizer.json, tokenizer.scheme)
    except UnknownStepError as error:
        raise ValueError(
            f"A TensorFlow graph of this tokenizer would not be exact: it has {error}. Pass "
            "ids_only=True to export.saved_model (--ids-only to bert-keras export) for a model "
            f"that takes ids, and make the ids in Python. Received: {tokenizer!r}"
        ) from None


@functools.lru_cache(maxsize=2)
def _pipeline(content: str, scheme: Scheme) -> Pipeline:
    """Return the steps of a tokenizer.json."""
    parts = file_io.decode_json(content, "tokenizer.json")
    hidden = hidden_tokens(parts, scheme)
    model = _model(parts["model"], hidden)
    pre_tokenizer = read_pre_tokenizer(parts["pre_tokenizer"])
    has_bytes = bool(pre_tokenizer) and pre_tokenizer[-1] == SPELLS_BYTES
    if isinstance(model, ByteBPE) != has_bytes:
        place = "" if has_bytes else "out"
        raise UnknownStepError(f"the model {parts['model']['type']} with{place} ByteLevel")
    steps = tuple(step for step in pre_tokenizer if isinstance(step, Step))
    tokens = [AddedToken.of(token, "tokenizer.json") for token in parts["added_tokens"]]
    plain = [
        token._replace(content=f"{NO_TEXT} {token.content}") if token.content in hidden else token
        for token in tokens
    ]
    engine = hf.Tokenizer.from_str(content).normalizer
    normalized = {
        token.content: engine.normalize_str(token.content) if engine else token.content
        for token in (*tokens, *plain)
        if token.normalized
    }
    for group in (tokens, plain):
        _check_tokens(group, normalized)
    trims, keeps_first = _trimming(parts["post_processor"])
    normalizer = read_normalizer(parts["normalizer"])
    return Pipeline(
        *(tuple(normalizer), steps, model, tuple(tokens), tuple(plain)),
        *(normalized, trims, keeps_first),
    )


def _check_tokens(tokens: Sequence[AddedToken], normalized: Mapping[str, str]) -> None:
    """Refuse added tokens that a graph would not find as the library does."""
    seen: dict[tuple[bool, str], str] = {}
    for token in tokens:
        text = normalized.get(token.content, token.content)
        name = f"the added token {token.content!r}, which"
        if not text:
            raise UnknownStepError(f"{name} has no characters after normalisation")
        key = token.normalized, text
        if key in seen:
            raise UnknownStepError(f"{name} is {seen[key]!r} too after normalisation")
        seen[key] = token.content
    for stage in (False, True):  # tokens of raw texts, and of normalised texts
        spaced = any(ord(text[0]) in WHITE_SPACE for key, text in seen if key is stage)
        if spaced and any(token.rstrip for token in tokens if token.normalized is stage):
            raise UnknownStepError(
                "added tokens with rstrip=True beside one that begins with a space"
            )


def _trimming(processor: Any) -> tuple[bool, bool]:
    """Return whether places of pieces leave out white space, and whether first ones keep it."""
    if not processor:
        return False, False
    parts = processor["processors"] if processor["type"] == "Sequence" else [processor]
    for part in parts:
        if part["type"] in ("ByteLevel", "RobertaProcessing") and part.get("trim_offsets"):
            return True, bool(part.get("add_prefix_space"))
    return False, False


# === Models ===


_MODELS = {
    "BPE": (
        *("vocab", "merges", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
        *("fuse_unk", "byte_fallback", "ignore_merges"),
    ),
    "Unigram": ("vocab", "unk_id", "byte_fallback"),
    "WordPiece": (
        *("vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"),
    ),
}


def _model(part: Mapping[str, Any], hidden: set[str]) -> ByteBPE | Unigram | WordPieces:
    """Return the model.

    Args:
        part: model of a tokenizer.json.
        hidden: special pieces, which the model does not match in ordinary text.
    """
    kind = checked_type(part, "model", _MODELS)
    if part.get("byte_fallback"):
        raise UnknownStepError(f"the model {kind} with byte_fallback=True")
    readers = {"BPE": _bpe, "Unigram": _unigram, "WordPiece": _word_piece}
    return readers[kind](part, hidden)


def _bpe(part: Mapping[str, Any], hidden: set[str]) -> ByteBPE:
    """Return a byte-level BPE model."""
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if part.get(name):
            raise UnknownStepError(f"the model BPE with {name}={part[name]!r}")
    ids: Mapping[str, int] = part["vocab"]
    codes = byte_characters()
    if missing := [code for code in codes if code not in ids]:
        raise UnknownStepError(f"byte-level BPE without {len(missing)} of the 256 bytes")
    merges = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in part["merges"]]
    pairs = np.array([(ids[a], ids[b]) for a, b in merges], np.int64).reshape(-1, 2)
    merged = np.array([ids[a + b] for a, b in merges], np.int32)
    words = None
    if part.get("ignore_merges"):
        values = {code: value for value, code in enumerate(codes)}
        words = {
            bytes(values[c] for c in piece): index
            for piece, index in ids.items()
            if piece not in hidden and all(c in values for c in piece)
        }
    return ByteBPE(np.array([ids[code] for code in codes], np.int32), pairs, merged, words)


@functools.cache
def byte_characters() -> tuple[str, ...]:
    """Return the character that stands for each byte in the pieces of byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return tuple(chr(value if value in printable else next(others)) for value in range(0x100))


def _unigram(part: Mapping[str, Any], hidden: set[str]) -> Unigram:
    """Return a unigram model."""
    pieces = tuple(piece for piece, _ in part["vocab"])
    scores = np.array([score for _, score in part["vocab"]], np.float64)
    if part["unk_id"] is None:
        raise UnknownStepError("the model Unigram without unk_id")
    if scores.min() > 0:
        raise UnknownStepError("the model Unigram with log probabilities above 0")
    special = tuple(index for index, piece in enumerate(pieces) if piece in hidden)
    return Unigram(pieces, scores, part["unk_id"], special)


def _word_piece(part: Mapping[str, Any], hidden: set[str]) -> WordPieces:
    """Return a WordPiece model."""
    expected = {"continuing_subword_prefix": CONTINUATION}
    expected |= {"max_input_chars_per_word": MAX_WORD_LENGTH}
    for name, value in expected.items():
        if part[name] != value:
            raise UnknownStepError(f"the model WordPiece with {name}={part[name]!r}")
    ids: Mapping[str, int] = part["vocab"]
    if part["unk_token"] not in ids:
        raise UnknownStepError("the model WordPiece without its unknown token")
    # An id of an added token alone is no piece of the model: no word has this text.
    pieces = [f"{NO_TEXT} "] * (max(ids.values()) + 1)
    for piece, index in ids.items():
        pieces[index] = piece
    special = tuple(index for piece, index in ids.items() if piece in hidden)
    return WordPieces(tuple(pieces), ids[part["unk_token"]], special)
