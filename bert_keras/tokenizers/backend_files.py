"""Files of byte-level BPE and SentencePiece tokenizers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.file_io import read_bytes
from bert_keras.tokenizers import backends, encoding
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.tokenizer_config import TokenizerConfig, flags

_UNIGRAM = 1  # trainer_spec.model_type


class SentencePieceModel(NamedTuple):
    """Contents of a SentencePiece file.

    Attributes:
        pieces: (piece, log probability) by id.
        unknown: id of the unknown piece.
        character_map: the compiled normalisation.
    """

    pieces: list[tuple[str, float]]
    unknown: int
    character_map: bytes


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Reads a unigram model.

    Raises:
        ArtifactError: damaged, or of another kind.
        UsageError: the sentencepiece package is not installed.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2 as description
    except ImportError as error:
        raise UsageError(
            f"{path}: reading it needs sentencepiece and protobuf: pip install "
            f"bert-keras[sentencepiece]. A tokenizer.json beside it needs neither. ({error})"
        ) from error
    content = read_bytes(path)
    proto = description.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's own class, which differs by version
        raise ArtifactError(f"{path}: not a SentencePiece model: {error}") from error
    if not proto.pieces:
        raise ArtifactError(f"{path}: not a SentencePiece model: no pieces.")
    if proto.trainer_spec.model_type != _UNIGRAM:
        kind = proto.trainer_spec.DESCRIPTOR.fields_by_name["model_type"].enum_type
        name = kind.values_by_number[proto.trainer_spec.model_type].name
        raise ArtifactError(
            f"{path}: only unigram models are of this family. Received: model_type={name}"
        )
    unknown = proto.trainer_spec.unk_id
    if not 0 <= unknown < len(proto.pieces):
        raise ArtifactError(f"{path}: no such piece: unk_id={unknown} of {len(proto.pieces)}")
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    if len({piece for piece, _ in pieces}) < len(pieces):
        raise ArtifactError(f"{path}: not a SentencePiece model: a piece is there twice.")
    if not all(math.isfinite(score) for _, score in pieces):
        raise ArtifactError(f"{path}: not a SentencePiece model: a score is not finite.")
    return SentencePieceModel(pieces, unknown, proto.normalizer_spec.precompiled_charsmap)


# === Readers ===


MERGES = "merges.txt"
PIECES = "vocab.json"
# fairseq's file has its own four special tokens before the pieces, the mask behind them.
ALBERT_MODEL, FAIRSEQ_MODEL = "spiece.model", "sentencepiece.bpe.model"
FILES = (PIECES, MERGES, ALBERT_MODEL, FAIRSEQ_MODEL)

_ROBERTA = {"type": "RobertaProcessing"}
# Our switches by the names of BertNormalizer in tokenizer.json.
NORMALIZER_SWITCHES = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_cjk": "handle_chinese_chars",
}
# Pieces such as "1," were split when ALBERT was trained: its tokenizer.json makes them as rare.
_RARE = 100.0
_PROBE = "a \ue000 1, é\u0301 中"  # known and unknown characters


def is_foreign(content: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer.json is a byte-level BPE or SentencePiece tokenizer."""
    model = content.get("model")
    return isinstance(model, dict) and model.get("type") in ("BPE", "Unigram")


def check_ids(path: Path, ids: Any) -> dict[str, int]:
    """The ids of pieces, which must be 0, 1, 2, and so on.

    Raises:
        ArtifactError: they are not.
    """
    whole = isinstance(ids, dict) and all(type(index) is int for index in ids.values())
    if not whole or set(ids.values()) != set(range(len(ids))):
        raise ArtifactError(f"{path}: the ids of the pieces must be 0, 1, 2, and so on.")
    return ids


def read_engine(path: Path, content: dict[str, Any], config: TokenizerConfig) -> Engine:
    """A tokenizer.json of any kind.

    Args:
        path: of the file, for messages.
        content: the parsed file.
        config: what the folder says besides.

    Raises:
        ArtifactError: the library refuses it, or a special token is missing.
    """
    content = {**content, "truncation": None, "padding": None}
    start, normalizer = content.get("pre_tokenizer"), content.get("normalizer")
    if isinstance(start, dict) and start.get("type") == "ByteLevel":
        told = config.flag("add_prefix_space", bool(start.get("add_prefix_space")))
        content["pre_tokenizer"] = {**start, "add_prefix_space": told}
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        flags(path, normalizer, NORMALIZER_SWITCHES)
        told = {NORMALIZER_SWITCHES[name]: value for name, value in config.switches().items()}
        content["normalizer"] = {**normalizer, **told}
    model = content.get("model")
    if isinstance(model, dict) and model.get("unk_id", 0) is None:
        raise ArtifactError(f"{path}: model.unk_id must tell the piece for unknown characters.")
    if isinstance(model, dict) and model.get("dropout") is not None:
        content["model"] = {**model, "dropout": None}  # ids are the same at every call
    vocabulary = _opened(path, lambda: backends.vocabulary_of(json.dumps(content)))
    check_ids(path, vocabulary)
    found = encoding.find_scheme(path, vocabulary, config.tokens, content.get("post_processor"))
    return _opened(path, lambda: Engine(json.dumps(content), found))


def read_byte_level(
    path: Path, merges_path: Path, ids: dict[str, Any], config: TokenizerConfig
) -> Engine:
    """vocab.json, which is parsed already, and merges.txt.

    Args:
        path: of the first.
        merges_path: of the second.
        ids: content of the first.
        config: what the folder says besides.

    Raises:
        ArtifactError: they do not fit each other.
    """
    check_ids(path, ids)
    merges = _merges(merges_path, ids)
    found = encoding.find_scheme(path, ids, config.tokens, _ROBERTA)
    prefix_space = config.flag("add_prefix_space", False)
    return _opened(path, lambda: backends.byte_level(ids, merges, found, prefix_space=prefix_space))


def _merges(path: Path, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """One pair a line, behind a line that tells the version."""
    if not path.is_file():
        raise ArtifactError(f"{path}: missing. {PIECES} alone does not say how words are cut.")
    try:
        lines = read_bytes(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8: {error}") from None
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not right or {left, right, left + right} - ids.keys():
            raise ArtifactError(
                f"{path}:{number}: not two pieces of {PIECES} that make a third. Received: {line!r}"
            )
        merges.append((left, right))
    return merges


def read_albert(path: Path, config: TokenizerConfig) -> Engine:
    """ALBERT's spiece.model: as the file has it, cased or uncased by the config.

    Raises:
        ArtifactError: damaged, or of another kind.
    """
    config.check_class(("Albert",))
    model = read_sentencepiece(path)
    pieces = [
        (piece, score - _RARE if piece[-1:] == "," and piece[-2:-1].isdigit() else score)
        for piece, score in model.pieces
    ]
    names = [piece for piece, _ in pieces]
    found = encoding.find_scheme(path, names, {"unk": names[model.unknown], **config.tokens})
    strip_accents = not config.flag("keep_accents", False)
    lowercase = config.flag("do_lower_case", True)
    return _opened(
        path,
        lambda: backends.unigram(
            pieces,
            found,
            character_map=model.character_map,
            quotes=True,
            strip_accents=strip_accents,
            lowercase=lowercase,
        ),
    )


def read_fairseq(path: Path, config: TokenizerConfig) -> Engine:
    """XLM-R's sentencepiece.bpe.model, under the ids that fairseq gave its pieces.

    Raises:
        ArtifactError: damaged, or of another kind.
    """
    config.check_class(("XLMRoberta",))
    model = read_sentencepiece(path)
    tokens = encoding.ROBERTA
    given = [piece for piece, _ in model.pieces[:3]]
    if given != [tokens.unk, tokens.cls, tokens.sep]:
        raise ArtifactError(
            f"{path}: XLM-R's begins with {tokens.unk}, {tokens.cls}, {tokens.sep}. "
            f"Received: {given}"
        )
    first = [(token, 0.0) for token in (tokens.cls, tokens.pad, tokens.sep, tokens.unk)]
    pieces = [*first, *model.pieces[3:], (tokens.mask, 0.0)]
    found = encoding.find_scheme(path, [piece for piece, _ in pieces], config.tokens, _ROBERTA)
    return _opened(path, lambda: backends.unigram(pieces, found, character_map=model.character_map))


def _opened(path: Path, make: Callable[[], Any]) -> Any:
    """Return the `tokenizers` library's tokenizer of a file, after one trial call."""
    try:
        made = make()
        if isinstance(made, Engine):
            for engine in (made.plain, made.marked):
                engine.encode(_PROBE)
        return made
    except (ArtifactError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library's own errors, its panics among them
        raise ArtifactError(f"{path}: not a tokenizer: {error}") from error
