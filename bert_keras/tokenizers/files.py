"""A tokenizer's files, read and written: BERT's own here, the other kinds by `engine_files`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.strict_json import read_object
from bert_keras.tokenizers import engine_files, keras_hub_files
from bert_keras.tokenizers.engines import Engine
from bert_keras.tokenizers.scheme import ROLES
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
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
FILES = (VOCABULARY, ENGINE, CONFIG, SPECIAL_TOKENS_MAP)  # that a folder is written with
# Those that a folder of any family may have.
_ASSETS = "assets"
KNOWN = (*FILES, f"{_ASSETS}/{VOCABULARY}", *engine_files.FILES, *keras_hub_files.FILES)

_UPPERCASE = re.compile("[A-Z][A-Za-z]+")  # pieces that only a cased vocabulary has

# Our switches under the names of tokenizer_config.json and of BertNormalizer in tokenizer.json.
_CONFIG_KEYS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_cjk": "tokenize_chinese_chars",
}
_NORMALIZER_KEYS = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_cjk": "handle_chinese_chars",
}
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
# Classes of transformers whose vocab.txt is not for this tokenizer.
_FOREIGN_CLASSES = {"BertJapaneseTokenizer", "BertweetTokenizer", "PhobertTokenizer"}


def read_folder(folder: Path) -> dict[str, Any] | Engine:
    """Reads the arguments of `Tokenizer` from a folder or a vocab.txt; or an engine.

    Raises:
        ArtifactError: no file is there, or one is damaged or of another kind of tokenizer.
        DataError: the vocabulary is no use.
    """
    if folder.is_file():
        return {"vocabulary": read_vocabulary(folder)}
    if not folder.is_dir():
        raise ArtifactError(f"{folder}: no such folder. Expected one with a {VOCABULARY}.")
    config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    content = read_object(folder / ENGINE) if (folder / ENGINE).is_file() else {}
    if keras_hub_files.is_one(content):
        return keras_hub_files.read(folder, content)
    if engine_files.is_foreign(content) or _added_tokens(content.get("added_tokens")):
        return engine_files.read_engine(folder / ENGINE, content, config)
    if (path := folder / _ASSETS / VOCABULARY).is_file():  # a SavedModel, which says nothing else
        pieces = read_vocabulary(path)
        return {"vocabulary": pieces, "lowercase": not any(map(_UPPERCASE.fullmatch, pieces))}
    vocabulary = folder / VOCABULARY
    arguments: dict[str, Any] | Engine
    if vocabulary.is_file():
        # The engine's switches count where the config does not give them.
        switches = _switches(folder / ENGINE, _part(content, "normalizer"), _NORMALIZER_KEYS)
        arguments = {"vocabulary": read_vocabulary(vocabulary), **switches}
    elif content:
        arguments = _read_engine(folder / ENGINE, content, config)
    elif (pieces := folder / engine_files.PIECES).is_file():
        merges = folder / engine_files.MERGES
        return engine_files.read_byte_level(pieces, merges, read_object(pieces), config)
    elif (model := folder / engine_files.ALBERT_MODEL).is_file():
        return engine_files.read_albert(model, config)
    elif (model := folder / engine_files.FAIRSEQ_MODEL).is_file():
        return engine_files.read_fairseq(model, config)
    else:
        expected = [VOCABULARY, ENGINE, *engine_files.FILES]
        raise ArtifactError(f"{folder}: has none of {', '.join(expected)}.")
    if isinstance(arguments, Engine):
        return arguments
    return arguments | _read_config(folder / CONFIG, config)


def write_folder(folder: Path, kind: WordPiece | Engine) -> None:
    """Writes the files from which transformers and `tokenizers` open the same tokenizer."""
    scheme = kind.scheme
    roles = {f"{role}_token": getattr(scheme, role) for role in ROLES}
    texts = {ENGINE: kind.json, SPECIAL_TOKENS_MAP: json.dumps(roles, indent=2)}
    if isinstance(kind, WordPiece):
        texts[VOCABULARY] = "\n".join(kind.vocabulary)
        switches = {_CONFIG_KEYS[name]: value for name, value in kind.switches.items()}
        config = {"tokenizer_class": "BertTokenizer", **switches}
    else:
        # Their class that takes the file as it is; those of the families make much of it anew.
        inputs = ["input_ids", *["token_type_ids"] * scheme.two_segments, "attention_mask"]
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
    texts[CONFIG] = json.dumps({**config, **roles}, indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8", newline="\n")


def _switches(path: Path, content: dict[str, Any], keys: dict[str, str]) -> dict[str, bool | None]:
    switches = {name: content[key] for name, key in keys.items() if key in content}
    for name, value in switches.items():
        if not isinstance(value, bool) and not (value is None and name == "strip_accents"):
            raise ArtifactError(f"{path}: {keys[name]} must be true or false. Received: {value!r}")
    return switches


def _read_config(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    kind = config.get("tokenizer_class")
    if kind in _FOREIGN_CLASSES:
        raise ArtifactError(f"{path}: needs another tokenizer. Received: tokenizer_class={kind!r}")
    if extra := _added_tokens([*_part(config, "added_tokens_decoder").values()]):
        raise ArtifactError(
            f"{path}: adds tokens of its own, which are looked for in a text only where there is a "
            f"{ENGINE}. Received: {extra[:5]}"
        )
    return _switches(path, config, _CONFIG_KEYS)


def _read_engine(
    path: Path, content: dict[str, Any], config: dict[str, Any]
) -> dict[str, Any] | Engine:
    """The vocabulary and switches of a tokenizer.json that is BERT's in every other respect."""
    model = {"type": "WordPiece"} | _part(content, "model")  # older files do not say the type
    normalizer = _part(content, "normalizer")
    ids = model.pop("vocab", None)
    found = {
        "model": model,
        "normalizer": {
            key: normalizer[key] for key in normalizer if key not in _NORMALIZER_KEYS.values()
        },
        "pre_tokenizer": _part(content, "pre_tokenizer"),
    }
    if found != _ENGINE_PARTS or not set(SPECIAL_TOKENS).issubset(ids or ()):
        return engine_files.read_engine(path, content, config)
    if not isinstance(ids, dict) or set(ids.values()) != set(range(len(ids))):
        raise ArtifactError(f"{path}: the ids of model.vocab must be 0, 1, 2, and so on.")
    vocabulary = sorted(ids, key=ids.__getitem__)
    check_vocabulary(vocabulary, str(path))
    return {"vocabulary": vocabulary, **_switches(path, normalizer, _NORMALIZER_KEYS)}


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _added_tokens(tokens: Any) -> list[Any]:
    """Those that BERT has not."""
    tokens = tokens if isinstance(tokens, list) else []
    contents = [token.get("content") if isinstance(token, dict) else token for token in tokens]
    return [content for content in contents if content not in SPECIAL_TOKENS]
