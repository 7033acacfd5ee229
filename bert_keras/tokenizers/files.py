"""A tokenizer's files, read and written: BERT's own here, the other kinds by `engine_files`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bert_keras import atomic, handles
from bert_keras.errors import ArtifactError
from bert_keras.strict_json import LARGE, read_object
from bert_keras.tokenizers import engine_files, hub_files, keras_hub_files, sentence_files
from bert_keras.tokenizers.configs import (
    CONFIG,
    MODEL_CONFIG,
    MORE_TOKENS,
    SPECIAL_TOKENS_MAP,
    SWITCHES,
    TokenizerConfig,
    flags,
)
from bert_keras.tokenizers.engines import Engine
from bert_keras.tokenizers.scheme import BERT, ROLES, places
from bert_keras.tokenizers.vocabulary import (
    CONTINUATION,
    MAX_WORD_LENGTH,
    SPECIAL_TOKENS,
    check_vocabulary,
)
from bert_keras.tokenizers.vocabulary_files import read_vocabulary
from bert_keras.tokenizers.wordpiece import WordPiece

VOCABULARY = "vocab.txt"
ENGINE = "tokenizer.json"
FILES = (VOCABULARY, ENGINE, CONFIG, SPECIAL_TOKENS_MAP)  # that WordPiece is written with
# Those that a folder of any family may have.
KNOWN = (
    *(*FILES, *hub_files.FILES, MODEL_CONFIG),
    *(*engine_files.FILES, *keras_hub_files.FILES),
    *(sentence_files.MODULES, *sentence_files.SENTENCE_CONFIGS),
)

_UPPERCASE = re.compile("[A-Z][A-Za-z]+")  # pieces that only a cased vocabulary has

# What a tokenizer.json of BERT says besides vocabulary and switches.
_ENGINE_PARTS = {
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": CONTINUATION,
        "max_input_chars_per_word": MAX_WORD_LENGTH,
    },
    "normalizer": {"type": "BertNormalizer", "clean_text": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}
# Beginnings of classes of transformers whose vocab.txt is for another tokenizer.
_OTHERS = ("BertJapanese", "Bertweet", "Phobert")


def read_folder(folder: Path) -> dict[str, Any] | Engine:
    """Reads the arguments of `Tokenizer` from a folder or a vocab.txt; or an engine.

    Raises:
        ArtifactError: no file is there, or one is damaged or of another kind of tokenizer.
        DataError: the vocabulary is no use.
    """
    if folder.is_file():
        return {"vocabulary": read_vocabulary(folder)}
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder}: no such folder. Expected one with a {VOCABULARY}, or "
            f"hf://organisation/name{handles.nearest(str(folder))}"
        )
    folder = sentence_files.transformer_folder(folder)
    config = TokenizerConfig.read(folder)
    found = _read_files(folder, config)
    config.warn_of_class()
    return sentence_files.lowercased(found) if sentence_files.lowercases(folder) else found


def _read_files(folder: Path, config: TokenizerConfig) -> dict[str, Any] | Engine:
    """Read the first kind of tokenizer that the folder has."""
    content = read_object(folder / ENGINE, LARGE) if (folder / ENGINE).is_file() else None
    vocabulary = folder / VOCABULARY
    if content is not None and keras_hub_files.is_one(content):
        return keras_hub_files.read(folder, content)
    if content is not None:
        if not content:
            raise ArtifactError(f"{folder / ENGINE}: empty: {{}}. Remove it, or take a whole one.")
        found = _read_engine(folder / ENGINE, content, config)
        if isinstance(found, Engine):
            return found
        if vocabulary.is_file() and read_vocabulary(vocabulary) != found["vocabulary"]:
            raise ArtifactError(f"{vocabulary}: not the vocabulary of {ENGINE}. Remove one.")
    elif vocabulary.is_file():
        found = {"vocabulary": read_vocabulary(vocabulary)}
    elif hub_files.is_one(exported := hub_files.encoder_folder(folder)):
        return hub_files.read_tokenizer(exported)
    elif (path := folder / hub_files.VOCABULARY).is_file():  # a SavedModel says nothing else
        pieces = read_vocabulary(path)
        return {"vocabulary": pieces, "lowercase": not any(map(_UPPERCASE.fullmatch, pieces))}
    elif (pieces := folder / engine_files.PIECES).is_file():
        merges = folder / engine_files.MERGES
        return engine_files.read_byte_level(pieces, merges, read_object(pieces, LARGE), config)
    elif (model := folder / engine_files.ALBERT_MODEL).is_file():
        return engine_files.read_albert(model, config)
    elif (model := folder / engine_files.FAIRSEQ_MODEL).is_file():
        return engine_files.read_fairseq(model, config)
    else:
        expected = [VOCABULARY, ENGINE, *engine_files.FILES]
        raise ArtifactError(f"{folder}: has none of {', '.join(expected)}.")
    _check_wordpiece(config)
    return found | config.switches()


def write_folder(folder: Path, kind: WordPiece | Engine) -> None:
    """Writes the files from which transformers and `tokenizers` open the same tokenizer."""
    scheme = kind.scheme
    roles = {f"{role}_token": getattr(scheme, role) for role in ROLES}
    texts = {ENGINE: kind.json, SPECIAL_TOKENS_MAP: json.dumps(roles, indent=2)}
    if isinstance(kind, WordPiece):
        texts[VOCABULARY] = "\n".join(kind.vocabulary)
        switches = {SWITCHES[name]: value for name, value in kind.switches.items()}
        config = {"tokenizer_class": "BertTokenizer", **switches}
    else:
        # Their class that takes the file as it is; those of the families make much of it anew.
        inputs = ["input_ids", *["token_type_ids"] * scheme.two_segments, "attention_mask"]
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
    texts[CONFIG] = json.dumps({**config, **roles}, indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        atomic.write_text(folder / name, text + "\n")


def _check_wordpiece(config: TokenizerConfig) -> None:
    """Refuses what BERT's tokenizer has not."""
    if str(config.values.get("tokenizer_class", "")).startswith(_OTHERS):
        config.check_class(())
    told = [*_part(config.values, "added_tokens_decoder").values()]
    for name in MORE_TOKENS:
        more = config.values.get(name) or []
        told += more.values() if isinstance(more, dict) else more
    if extra := _added_tokens(told):
        raise ArtifactError(
            f"{config.path}: adds tokens of its own, which are looked for in a text only where "
            f"there is a {ENGINE}. Received: {extra[:5]}"
        )
    others = {r: t for r, t in config.tokens.items() if t != getattr(BERT, r)}
    if others:
        raise ArtifactError(
            f"{config.path}: other special tokens than BERT's are known only where there is a "
            f"{ENGINE}. Received: {others}"
        )


def _read_engine(
    path: Path, content: dict[str, Any], config: TokenizerConfig
) -> dict[str, Any] | Engine:
    """The vocabulary and switches of a tokenizer.json that is BERT's in every other respect."""
    model = {"type": "WordPiece"} | _part(content, "model")  # older files do not say the type
    normalizer = _part(content, "normalizer")
    ids = model.pop("vocab", None)
    switches = engine_files.NORMALIZER_SWITCHES
    found = {
        "model": model,
        "normalizer": {k: v for k, v in normalizer.items() if k not in switches.values()},
        "pre_tokenizer": _part(content, "pre_tokenizer"),
    }
    added = content.get("added_tokens")
    others = _added_tokens(added if isinstance(added, list) else [])
    has_all = isinstance(ids, dict) and set(SPECIAL_TOKENS) <= ids.keys()
    is_told = any(token != getattr(BERT, role) for role, token in config.tokens.items())
    bert_places = {"separators": BERT.separators, "two_segments": BERT.two_segments}
    is_placed = places(content.get("post_processor")) not in ({}, bert_places)
    if found != _ENGINE_PARTS or others or not has_all or is_told or is_placed:
        return engine_files.read_engine(path, content, config)
    ids = engine_files.check_ids(path, ids)
    vocabulary = sorted(ids, key=ids.__getitem__)
    check_vocabulary(vocabulary, str(path))
    return {"vocabulary": vocabulary, **flags(path, normalizer, switches)}


def _part(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _added_tokens(tokens: Iterable[Any]) -> list[Any]:
    """Those that BERT has not."""
    contents = [token.get("content") if isinstance(token, dict) else token for token in tokens]
    return [content for content in contents if content not in SPECIAL_TOKENS]
