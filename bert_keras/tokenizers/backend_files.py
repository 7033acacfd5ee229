"""Readers of the files of byte-level BPE and SentencePiece tokenizers."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from bert_keras.errors import COPY_AGAIN, ArtifactError, UsageError
from bert_keras.file_io import is_object, read_bytes
from bert_keras.tokenizers import backends, encoding
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.tokenizer_config import TokenizerConfig, flags
from bert_keras.tokenizers.tokenizer_families import (
    ALBERT_MODEL,
    PIECES,
    SENTENCEPIECE_MODELS,
    VOCABULARY,
    Family,
)
from bert_keras.tokenizers.vocabulary import read_vocabulary
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH

_UNIGRAM = 1  # value of trainer_spec.model_type


class SentencePieceModel(NamedTuple):
    """Contents of a SentencePiece file.

    Attributes:
        pieces: (piece, log probability); the position is the id.
        unknown: id of the piece for unknown characters.
        character_map: SentencePiece's compiled normalisation rules.
    """

    pieces: list[tuple[str, float]]
    unknown: int
    character_map: bytes


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Read a SentencePiece unigram model; see `parse_sentencepiece` for the errors."""
    return parse_sentencepiece(read_bytes(path), path)


def parse_sentencepiece(content: bytes, path: Path | str) -> SentencePieceModel:
    """Return the contents of a SentencePiece unigram model.

    Args:
        content: bytes of the file.
        path: path of the file, for messages.

    Raises:
        ArtifactError: if the file is damaged, or holds another kind of model.
        UsageError: if the sentencepiece package is not installed.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2 as description
    except ImportError as error:
        raise UsageError(
            f"{path}: reading it needs sentencepiece and protobuf: pip install "
            f"bert-keras[sentencepiece]. A tokenizer.json beside it needs neither. ({error})"
        ) from error
    proto = cast("Any", description).ModelProto()  # protobuf makes the class when it runs
    try:
        proto.ParseFromString(content)
    except Exception as error:  # the class of protobuf's error differs between versions
        raise ArtifactError(f"{path}: not a SentencePiece model: {error} {COPY_AGAIN}") from error
    if not proto.pieces:
        raise ArtifactError(f"{path}: not a SentencePiece model: no pieces. {COPY_AGAIN}")
    if proto.trainer_spec.model_type != _UNIGRAM:
        kind = proto.trainer_spec.DESCRIPTOR.fields_by_name["model_type"].enum_type
        name = kind.values_by_number[proto.trainer_spec.model_type].name
        raise ArtifactError(
            f"{path}: only unigram models are of this family. Received: model_type={name}. Take "
            "the file of an ALBERT or an XLM-R."
        )
    unknown = proto.trainer_spec.unk_id
    if not 0 <= unknown < len(proto.pieces):
        raise ArtifactError(
            f"{path}: unk_id must be the number of one of its {len(proto.pieces)} pieces. "
            f"Received: {unknown}. {COPY_AGAIN}"
        )
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    if len({piece for piece, _ in pieces}) < len(pieces):
        raise ArtifactError(
            f"{path}: not a SentencePiece model: a piece is there twice. {COPY_AGAIN}"
        )
    if not all(math.isfinite(score) for _, score in pieces):
        raise ArtifactError(
            f"{path}: not a SentencePiece model: a score is not finite. {COPY_AGAIN}"
        )
    return SentencePieceModel(pieces, unknown, proto.normalizer_spec.precompiled_charsmap)


# === Readers ===


MERGES = "merges.txt"
FILES = (PIECES, MERGES, *SENTENCEPIECE_MODELS)

# Our switch -> its key in the BertNormalizer of a tokenizer.json.
NORMALIZER_SWITCHES = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_cjk": "handle_chinese_chars",
}
# ALBERT was trained with pieces such as "1," split into "1" and ",". A log probability lowered by
# this amount has the same effect: such a piece is never chosen.
_RARE = 100.0
_PROBE = "a \ue000 1, é\u0301 中"  # text of known and unknown characters, for a trial call


def is_foreign(content: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer.json is a byte-level BPE or SentencePiece tokenizer."""
    model = content.get("model")
    return is_object(model) and model.get("type") in ("BPE", "Unigram")


def check_ids(path: Path, ids: Any) -> dict[str, int]:
    """Check that the ids of a vocabulary are 0, 1, 2 and so on, and return it.

    Args:
        path: path of the file, for messages.
        ids: vocabulary as parsed from JSON: piece -> id.

    Raises:
        ArtifactError: if the ids are others.
    """
    whole = is_object(ids) and all(type(index) is int for index in ids.values())
    if not whole or set(ids.values()) != set(range(len(ids))):
        raise ArtifactError(
            f"{path}: the ids of the pieces must be 0, 1, 2, and so on. {COPY_AGAIN}"
        )
    return ids


def read_engine(path: Path, content: dict[str, Any], config: TokenizerConfig) -> Engine:
    """Return the tokenizer of a tokenizer.json.

    Settings of tokenizer_config.json take precedence. Truncation, padding and BPE dropout in the
    file are switched off: calls state lengths, and ids must be the same in every call.

    Args:
        path: path of the file, for messages.
        content: parsed file.
        config: settings in the folder's tokenizer_config.json.

    Raises:
        ArtifactError: if the library refuses the file, or a special token is missing.
    """
    content = {**content, "truncation": None, "padding": None}
    start, normalizer = content.get("pre_tokenizer"), content.get("normalizer")
    if is_object(start) and start.get("type") == "ByteLevel":
        prefix_space = config.flag("add_prefix_space", bool(start.get("add_prefix_space")))
        content["pre_tokenizer"] = {**start, "add_prefix_space": prefix_space}
    if is_object(normalizer) and normalizer.get("type") == "BertNormalizer":
        flags(path, normalizer, NORMALIZER_SWITCHES)
        switches = {NORMALIZER_SWITCHES[name]: value for name, value in config.switches().items()}
        content["normalizer"] = {**normalizer, **switches}
    model = content.get("model")
    if is_object(model) and model.get("unk_id", 0) is None:
        raise ArtifactError(
            f"{path}: model.unk_id must tell the piece for unknown characters. Received: null. "
            f"{COPY_AGAIN}"
        )
    if is_object(model) and model.get("dropout") is not None:
        content["model"] = {**model, "dropout": None}
    vocabulary = _opened(path, lambda: backends.vocabulary_of(json.dumps(content)))
    check_ids(path, vocabulary)
    tokens = {**_stated_tokens(content, config, vocabulary), **config.tokens}
    processor = content.get("post_processor")
    scheme = encoding.find_scheme(path, vocabulary, tokens, processor, config.scheme)
    return _opened(path, lambda: Engine(json.dumps(content), scheme))


def _stated_tokens(
    content: Mapping[str, Any], config: TokenizerConfig, vocabulary: Mapping[str, int]
) -> dict[str, str]:
    """Return role -> special token, for the roles that the parts of a tokenizer.json state."""
    tokens = encoding.stated_tokens(content.get("post_processor"))
    model = content.get("model")
    unknown = model.get("unk_token") if is_object(model) else None
    if isinstance(unknown, str) and unknown in vocabulary:
        tokens["unk"] = unknown
    usual = {scheme.unk for scheme in (encoding.BERT, encoding.ROBERTA)}
    if is_foreign(content) and "unk" not in tokens and usual.isdisjoint(vocabulary):
        # Llama 3 has a piece for every byte, and no unknown token. The mask stands in for it: like
        # an unknown token, it occurs in hardly any text.
        mask = config.tokens.get("mask")
        tokens |= {"unk": mask} if mask else {}
    return {role: token for role, token in tokens.items() if token in vocabulary}


def read_byte_level(
    path: Path, merges_path: Path, ids: dict[str, Any], config: TokenizerConfig
) -> Engine:
    """Return the byte-level BPE tokenizer of a vocab.json and a merges.txt.

    Args:
        path: path of vocab.json.
        merges_path: path of merges.txt.
        ids: parsed vocab.json: piece -> id.
        config: settings in the folder's tokenizer_config.json.

    Raises:
        ArtifactError: if the files are damaged or do not fit each other.
    """
    check_ids(path, ids)
    merges = _merges(merges_path, ids)
    family = config.family_of(PIECES)
    scheme = encoding.find_scheme(path, ids, config.tokens, family=family.scheme)
    prefix_space = config.flag("add_prefix_space", False)
    return _opened(
        path,
        lambda: backends.byte_level(
            ids,
            merges,
            scheme,
            prefix_space=prefix_space,
            mask_takes_space=config.takes_space(family),
        ),
    )


def read_wordpiece(path: Path, config: TokenizerConfig) -> Engine | None:
    """Return the tokenizer of a vocab.txt with other special tokens than BERT's, as of MPNet.

    Args:
        path: path of the file.
        config: settings in the folder's tokenizer_config.json.

    Returns:
        The tokenizer; None if the special tokens are BERT's.

    Raises:
        ArtifactError: if the vocabulary lacks a special token.
        DataError: if the file is not a vocabulary.
    """
    family = config.family_of(VOCABULARY)
    if dataclasses.replace(family.scheme, **config.tokens) == encoding.BERT:
        return None
    vocabulary = read_vocabulary(path, special_tokens=())
    scheme = encoding.find_scheme(path, vocabulary, config.tokens, family=family.scheme)
    switches: dict[str, Any] = config.switches()
    return _opened(
        path,
        lambda: backends.wordpiece(
            {piece: index for index, piece in enumerate(vocabulary)},
            scheme,
            max_word_length=MAX_WORD_LENGTH,
            mask_takes_space=config.takes_space(family),
            **switches,
        ),
    )


def _merges(path: Path, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Read the pairs of a merges.txt: one pair on each line, after an optional version line."""
    if not path.is_file():
        raise ArtifactError(
            f"{path}: missing. {PIECES} alone does not say how words are split. Add the file, or a "
            "tokenizer.json."
        )
    try:
        lines = read_bytes(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8: {error}. {COPY_AGAIN}") from None
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not right or {left, right, left + right} - ids.keys():
            raise ArtifactError(
                f"{path}:{number}: not two pieces of {PIECES} that make a third. Received: "
                f"{line!r}. Take both files from one tokenizer."
            )
        merges.append((left, right))
    return merges


def _is_digit_and_comma(piece: str) -> bool:
    """Return whether a piece ends in a digit and a comma, as "10," does."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def read_unigram(path: Path, config: TokenizerConfig, family: Family) -> Engine:
    """Return the unigram tokenizer of a SentencePiece model: ALBERT, XLM-R, DeBERTa and others.

    Args:
        path: path of the file.
        config: settings in the folder's tokenizer_config.json, such as `do_lower_case`.
        family: values of the family.

    Raises:
        ArtifactError: if the file is damaged, or belongs to another tokenizer.
    """
    model = read_sentencepiece(path)
    pieces, unknown = model.pieces, {"unk": model.pieces[model.unknown][0]}
    if family.replaced:
        first = tuple(piece for piece, _ in pieces[: len(family.replaced)])
        if first != family.replaced:
            raise ArtifactError(
                f"{path}: a file of this name begins with {', '.join(family.replaced)} (XLM-R, "
                f"CamemBERT). Received: {', '.join(first)}. ALBERT's file is called {ALBERT_MODEL}."
            )
        pieces, unknown = [*family.first_pieces, *pieces[len(family.replaced) :]], {}
    if family.splits_digit_commas:
        pieces = [(p, score - _RARE if _is_digit_and_comma(p) else score) for p, score in pieces]
    tokens = {**unknown, **config.tokens}
    names = [piece for piece, _ in pieces]
    mask = tokens.get("mask", family.scheme.mask)
    if family.appends_mask and mask not in names:
        pieces, names = [*pieces, (mask, 0.0)], [*names, mask]
    scheme = encoding.find_scheme(path, names, tokens, family=family.scheme)
    left_out = {
        *(["accents"] if config.flag("keep_accents", family.keeps_accents) else ()),
        *(() if config.flag("do_lower_case", family.lowercase) else ["lowercase"]),
    }
    split_punctuation = config.flag("split_by_punct", False)
    return _opened(
        path,
        lambda: backends.unigram(
            pieces,
            scheme,
            character_map=model.character_map,
            normalization=[step for step in family.normalization if step not in left_out],
            splits_words=family.splits_words,
            split_punctuation=split_punctuation,
            mask_takes_space=config.takes_space(family),
        ),
    )


def _opened(path: Path, make: Callable[[], Any]) -> Any:
    """Call `make` and return its result. An `Engine` is tried on a text first.

    Raises:
        ArtifactError: if the `tokenizers` library fails. It raises no common class of errors.
    """
    try:
        made = make()
        if isinstance(made, Engine):
            for engine in (made.plain, made.marked):
                engine.encode(_PROBE)
        return made
    except (ArtifactError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the Rust library is no `Exception`
        raise ArtifactError(f"{path}: not a tokenizer: {error}. {COPY_AGAIN}") from error
