"""The files of tokenizers that are not BERT's own: byte-level BPE and SentencePiece."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers as hf

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import engines, scheme, sentencepiece_model
from bert_keras.tokenizers.engines import Engine

MERGES = "merges.txt"
PIECES = "vocab.json"
# fairseq's file has its own four special tokens before the pieces, the mask behind them.
ALBERT_MODEL, FAIRSEQ_MODEL = "spiece.model", "sentencepiece.bpe.model"
FILES = (PIECES, MERGES, ALBERT_MODEL, FAIRSEQ_MODEL)


def is_foreign(content: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json is of one of these kinds."""
    model = content.get("model")
    return isinstance(model, dict) and model.get("type") in ("BPE", "Unigram")


def read_engine(path: Path, content: dict[str, Any], config: Mapping[str, Any]) -> Engine:
    """A tokenizer.json of any kind.

    Args:
        path: of the file, for messages.
        content: the parsed file.
        config: the parsed tokenizer_config.json; empty where there is none.

    Raises:
        ArtifactError: the library refuses it, or a special token is missing.
    """
    start = content.get("pre_tokenizer")
    if isinstance(start, dict) and start.get("type") == "ByteLevel":
        prefix_space = config.get("add_prefix_space", start.get("add_prefix_space"))
        content = {**content, "pre_tokenizer": {**start, "add_prefix_space": prefix_space}}
    text = json.dumps({**content, "truncation": None, "padding": None}, ensure_ascii=False)
    try:
        engine = hf.Tokenizer.from_str(text)
    except Exception as error:  # the library raises the base class
        raise ArtifactError(f"{path}: not a tokenizer: {error}") from error
    vocabulary = engine.get_vocab(with_added_tokens=True)
    if set(vocabulary.values()) != set(range(len(vocabulary))):
        raise ArtifactError(f"{path}: the ids of the pieces must be 0, 1, 2, and so on.")
    found = scheme.find(path, vocabulary, _told(config), content.get("post_processor"))
    return Engine(text, found)


def read_byte_level(
    path: Path, merges_path: Path, ids: dict[str, Any], config: Mapping[str, Any]
) -> Engine:
    """vocab.json, which is parsed already, and merges.txt.

    Args:
        path: of the first.
        merges_path: of the second.
        ids: content of the first.
        config: the parsed tokenizer_config.json; empty where there is none.

    Raises:
        ArtifactError: they do not fit each other.
    """
    whole = all(type(index) is int for index in ids.values())
    if not whole or set(ids.values()) != set(range(len(ids))):
        raise ArtifactError(f"{path}: the ids must be 0, 1, 2, and so on.")
    merges = _merges(merges_path, ids)
    found = scheme.find(path, ids, _told(config), {"type": "RobertaProcessing"})
    return engines.byte_level(
        ids, merges, found, prefix_space=bool(config.get("add_prefix_space", False))
    )


def _merges(path: Path, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """One pair a line, behind a line that tells the version."""
    if not path.is_file():
        raise ArtifactError(f"{path}: missing. {PIECES} alone does not say how words are cut.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
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


def read_albert(path: Path, config: Mapping[str, Any]) -> Engine:
    """ALBERT's spiece.model: as the file has it, cased or uncased by the config.

    Raises:
        ArtifactError: damaged, or of another kind.
    """
    model = sentencepiece_model.read(path)
    told = {"unk": model.pieces[model.unknown][0], **_told(config)}
    found = scheme.find(path, [piece for piece, _ in model.pieces], told)
    return engines.unigram(
        model.pieces,
        found,
        character_map=model.character_map,
        quotes=True,
        strip_accents=not config.get("keep_accents", False),
        lowercase=bool(config.get("do_lower_case", True)),
    )


def read_fairseq(path: Path, config: Mapping[str, Any]) -> Engine:
    """XLM-R's sentencepiece.bpe.model, under the ids that fairseq gave its pieces.

    Raises:
        ArtifactError: damaged, or of another kind.
    """
    model = sentencepiece_model.read(path)
    tokens = scheme.ROBERTA
    first = [(token, 0.0) for token in (tokens.cls, tokens.pad, tokens.sep, tokens.unk)]
    pieces = [*first, *model.pieces[3:], (tokens.mask, 0.0)]  # the file begins with three of them
    found = scheme.find(
        path, [piece for piece, _ in pieces], _told(config), {"type": "RobertaProcessing"}
    )
    return engines.unigram(pieces, found, character_map=model.character_map)


def _told(config: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens by role: a string, or a dictionary with its content."""
    told: dict[str, str] = {}
    for role in scheme.ROLES:
        token = config.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str):
            told[role] = token
    return told
