"""A tokenizer's files: those that published BERT folders have, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError, DataError
from bert_keras.tokenizers.vocabulary import (
    CONTINUATION,
    MAX_WORD_LENGTH,
    SPECIAL_TOKENS,
    check_vocabulary,
)

VOCABULARY = "vocab.txt"
ENGINE = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
FILES = (VOCABULARY, ENGINE, CONFIG, SPECIAL_TOKENS_MAP)  # that a folder is written with
# Those that a folder of any family may have.
KNOWN = (*FILES, "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model")

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
_ROLES = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}
# What a tokenizer.json must say besides vocabulary and switches.
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


def read_folder(folder: Path) -> dict[str, Any]:
    """Reads the arguments of `Tokenizer` from a folder with vocab.txt or tokenizer.json, or a file.

    Raises:
        ArtifactError: neither file is there, or one is damaged or of another kind of tokenizer.
        DataError: the vocabulary is no use.
    """
    if folder.is_file():
        return {"vocabulary": read_vocabulary(folder)}
    if not folder.is_dir():
        raise ArtifactError(f"{folder}: no such folder. Expected one with a {VOCABULARY}.")
    if (folder / VOCABULARY).is_file():
        arguments: dict[str, Any] = {"vocabulary": read_vocabulary(folder / VOCABULARY)}
        if (folder / ENGINE).is_file():  # its switches, where the config does not give them
            normalizer = _part(_read_json(folder / ENGINE), "normalizer")
            arguments |= _switches(folder / ENGINE, normalizer, _NORMALIZER_KEYS)
    elif (folder / ENGINE).is_file():
        arguments = _read_engine(folder / ENGINE)
    else:
        raise ArtifactError(f"{folder}: has neither {VOCABULARY} nor {ENGINE}.")
    if (folder / CONFIG).is_file():
        arguments |= _read_config(folder / CONFIG)
    return arguments


def read_vocabulary(path: Path) -> list[str]:
    """Reads and checks a vocab.txt: UTF-8, one piece per line; line n is id n - 1."""
    data = path.read_bytes()
    if not data:
        raise DataError(f"{path}: the vocabulary is empty.")
    if data.startswith(b"\xef\xbb\xbf"):
        raise DataError(f"{path}:1: starts with a byte order mark. Save it as UTF-8 without one.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = data[error.start : error.end]
        raise DataError(f"{path}:{line}: not UTF-8. Received: the bytes {found!r}") from None
    # Not splitlines: U+2028 and its like are entries of published vocabularies.
    vocabulary = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    check_vocabulary(vocabulary, str(path), lines=True)
    return vocabulary


def write_folder(
    folder: Path, vocabulary: Sequence[str], switches: dict[str, bool], engine: str
) -> None:
    """Writes the four files that transformers and `tokenizers` open. `engine`: tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "tokenizer_class": "BertTokenizer",
        **{_CONFIG_KEYS[name]: value for name, value in switches.items()},
        **_ROLES,
    }
    texts = {
        VOCABULARY: "".join(f"{token}\n" for token in vocabulary),
        ENGINE: engine + "\n",
        CONFIG: json.dumps(config, indent=2) + "\n",
        SPECIAL_TOKENS_MAP: json.dumps(_ROLES, indent=2) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: expected a JSON object. Received: {type(content).__name__}")
    return content


def _switches(path: Path, content: dict[str, Any], keys: dict[str, str]) -> dict[str, bool | None]:
    switches = {name: content[key] for name, key in keys.items() if key in content}
    for name, value in switches.items():
        if not isinstance(value, bool) and not (value is None and name == "strip_accents"):
            raise ArtifactError(f"{path}: {keys[name]} must be true or false. Received: {value!r}")
    return switches


def _read_config(path: Path) -> dict[str, Any]:
    config = _read_json(path)
    kind = config.get("tokenizer_class")
    if kind in _FOREIGN_CLASSES:
        raise ArtifactError(f"{path}: needs another tokenizer. Received: tokenizer_class={kind!r}")
    _refuse_added_tokens(path, _part(config, "added_tokens_decoder").values())
    return _switches(path, config, _CONFIG_KEYS)


def _read_engine(path: Path) -> dict[str, Any]:
    """The vocabulary and switches of a tokenizer.json that is BERT's in every other respect."""
    content = _read_json(path)
    model = {"type": "WordPiece"} | _part(content, "model")  # older files do not say the type
    normalizer = _part(content, "normalizer")
    ids = model.pop("vocab", None)
    switches = _switches(path, normalizer, _NORMALIZER_KEYS)
    found = {
        "model": model,
        "normalizer": {
            key: normalizer[key] for key in normalizer if key not in _NORMALIZER_KEYS.values()
        },
        "pre_tokenizer": _part(content, "pre_tokenizer"),
    }
    for part, expected in _ENGINE_PARTS.items():
        if found[part] != expected:
            raise ArtifactError(
                f"{path}: not a BERT tokenizer. {part} must be {expected}. "
                f"Received: {str(found[part])[:300]}"
            )
    _refuse_added_tokens(path, content.get("added_tokens") or [])
    if not isinstance(ids, dict) or set(ids.values()) != set(range(len(ids))):
        raise ArtifactError(f"{path}: the ids of model.vocab must be 0, 1, 2, and so on.")
    vocabulary = sorted(ids, key=ids.__getitem__)
    check_vocabulary(vocabulary, str(path))
    return {"vocabulary": vocabulary, **switches}


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _refuse_added_tokens(path: Path, tokens: Iterable[Any]) -> None:
    contents = [token.get("content") if isinstance(token, dict) else token for token in tokens]
    if extra := [content for content in contents if content not in SPECIAL_TOKENS]:
        raise ArtifactError(
            f"{path}: adds tokens of its own, which this tokenizer does not look for in a text. "
            f"Received: {extra[:5]}"
        )
