"""Reading and writing of tokenizer folders: BERT's, sentence-transformers' and KerasHub's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bert_keras import file_io, presets
from bert_keras.errors import ArtifactError
from bert_keras.file_io import (
    LARGE,
    is_array,
    is_object,
    read_json,
    read_object,
    refuse_unknown_keys,
)
from bert_keras.tokenizers import added_tokens, backend_files, exported_tokenizer
from bert_keras.tokenizers.added_tokens import AddedToken
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.encoding import BERT, ROLES, places, special_token_places
from bert_keras.tokenizers.tokenizer_config import (
    CONFIG,
    MODEL_CONFIG,
    SPECIAL_TOKENS_MAP,
    SWITCHES,
    TokenizerConfig,
    flags,
)
from bert_keras.tokenizers.tokenizer_families import (
    FAMILIES,
    SENTENCEPIECE_MODELS,
    VOCABULARY,
    families_with,
)
from bert_keras.tokenizers.vocabulary import (
    CONTINUATION,
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
)
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH
from bert_keras.tokenizers.wordpiece import WordPiece

MODULES = "modules.json"
# Names of the file with the settings of a sentence-transformers encoder. The first one present
# is read.
SENTENCE_CONFIGS = (
    "sentence_bert_config.json",
    *(
        f"sentence_{name}_config.json"
        for name in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
_LOWERCASE = {"type": "Lowercase"}


def transformer_folder(folder: Path) -> Path:
    """Return the folder with model and tokenizer files: `folder` itself or one of its subfolders.

    Versions of sentence-transformers before 3 may write them into "0_Transformer".

    Raises:
        ArtifactError: if modules.json names a path outside the folder.
    """
    path = folder / MODULES
    modules = read_json(path) if path.is_file() else None
    first = modules[0] if is_array(modules) and modules else None
    name = first.get("path") if is_object(first) else None
    return within(folder, name, path) if isinstance(name, str) else folder


def within(folder: Path, name: str, path: Path) -> Path:
    """Return the folder of a sentence-transformers module.

    Args:
        folder: folder of the model.
        name: relative path of the module.
        path: file that states `name`, for the message.

    Raises:
        ArtifactError: if it lies outside the folder of the model.
    """
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or ":" in name:
        raise ArtifactError(
            f"{path}: a module outside the folder. Received: path={name!r}. Move the module into "
            "the folder and correct the path."
        )
    return folder / name


def lowercases(folder: Path) -> bool:
    """Return whether sentence-transformers lower-cases texts before the tokenizer reads them.

    Args:
        folder: folder of the encoder.

    Raises:
        ArtifactError: if `do_lower_case` is neither true nor false.
    """
    path = next((folder / name for name in SENTENCE_CONFIGS if (folder / name).is_file()), None)
    value = read_object(path).get("do_lower_case") if path else None
    if value not in (None, True, False):
        raise ArtifactError(f"{path}: do_lower_case must be true or false. Received: {value!r}")
    return bool(value)


def lowercased(source: dict[str, Any] | Engine) -> dict[str, Any] | Engine:
    """Return a tokenizer that first lower-cases a text, as in sentence-transformers.

    Args:
        source: arguments of `Tokenizer`, or an engine.
    """
    if isinstance(source, dict):
        if source.get("lowercase", True):
            return source
        # The default would strip accents of lower-cased text; keep the setting of the cased one.
        return {**source, "lowercase": True, "strip_accents": bool(source.get("strip_accents"))}
    content = file_io.decode_json(source.json, ENGINE)
    steps = content.get("normalizer")
    if steps and steps["type"] == "Sequence":
        steps = steps["normalizers"]
    else:
        steps = [steps] if steps else []
    if _LOWERCASE in steps:
        return source
    content["normalizer"] = {"type": "Sequence", "normalizers": [_LOWERCASE, *steps]}
    return Engine(json.dumps(content), source.scheme)


# === KerasHub's files ===


_ASSETS = Path("assets", "tokenizer")
_OWN = "KerasHub's own splitting; the ids here are those of the model's original tokenizer"
_CALLER = "default of a call; lengths are arguments here"
# Key of the tokenizer's config -> reason why it does not change the ids.
IRRELEVANT: Mapping[str, str] = {
    **dict.fromkeys(("name", "trainable", "dtype"), "attribute of the Keras object"),
    **dict.fromkeys(("strip_accents", "split", "split_on_cjk", "suffix_indicator"), _OWN),
    **dict.fromkeys(("oov_token", "special_tokens", "special_tokens_in_strings"), _OWN),
    **dict.fromkeys(("unsplittable_tokens", "add_prefix_space", "config_file"), _OWN),
    **dict.fromkeys(("sequence_length", "add_bos", "add_eos"), _CALLER),
    **dict.fromkeys(("vocabulary", "merges", "proto"), "null; the files are in the assets folder"),
}
HONOURED = ("lowercase",)
KERAS_HUB_FILES = (f"{_ASSETS.as_posix()}/*",)


def is_keras_hub(content: Mapping[str, Any]) -> bool:
    """Return whether a parsed tokenizer.json is the config of a Keras object."""
    return "registered_name" in content


def read_keras_hub(folder: Path, content: Mapping[str, Any]) -> dict[str, Any] | Engine:
    """Read a KerasHub preset as the model's original tokenizer.

    KerasHub's own tokenizer drops accents and splits differently. The model was trained with the
    ids of the original tokenizer, so these are used.

    Args:
        folder: preset folder.
        content: parsed tokenizer.json.

    Returns:
        Arguments of `Tokenizer`, or an engine.

    Raises:
        ArtifactError: if there is no known vocabulary file, or a damaged one.
        DataError: if the vocabulary is not valid.
    """
    values = content.get("config")
    values = values if is_object(values) else {}
    refuse_unknown_keys(folder / "tokenizer.json", values, (*HONOURED, *IRRELEVANT))
    config = TokenizerConfig(folder, values, {})
    assets = folder / _ASSETS
    if (assets / "vocabulary.txt").is_file():
        vocabulary = read_vocabulary(assets / "vocabulary.txt")
        return {"vocabulary": vocabulary, "lowercase": config.flag("lowercase", False)}
    if (path := assets / "vocabulary.json").is_file():
        ids = read_object(path, LARGE)
        return backend_files.read_byte_level(path, assets / "merges.txt", ids, config)
    if (path := assets / "vocabulary.spm").is_file():
        name = "XLMRoberta" if str(content.get("class_name")).startswith("XLM") else "Albert"
        return backend_files.read_unigram(path, TokenizerConfig(folder, {}, {}), FAMILIES[name])
    raise ArtifactError(
        f"{assets}: no vocabulary.txt, vocabulary.json or vocabulary.spm. "
        f"Received: class_name={content.get('class_name')!r}. Copy all files of the preset again."
    )


# === Files of a tokenizer ===


ENGINE = "tokenizer.json"
FILES = (VOCABULARY, ENGINE, CONFIG, SPECIAL_TOKENS_MAP)  # files that a WordPiece tokenizer writes
# Files that a tokenizer folder of any family may have.
KNOWN = (
    *(*FILES, *exported_tokenizer.FILES, MODEL_CONFIG, added_tokens.ADDED_TOKENS),
    *(*backend_files.FILES, *KERAS_HUB_FILES),
    *(MODULES, *SENTENCE_CONFIGS),
)

_UPPERCASE = re.compile("[A-Z][A-Za-z]+")  # matches pieces that only a cased vocabulary has

# Content of BERT's tokenizer.json, apart from the vocabulary and the switches.
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


def read_folder(folder: Path) -> dict[str, Any] | Engine:
    """Read the tokenizer of a folder or of a single vocab.txt.

    Returns:
        Arguments of `Tokenizer` for WordPiece; an engine for other kinds.

    Raises:
        ArtifactError: if a file is missing, damaged, or belongs to an unknown kind of tokenizer.
        DataError: if the vocabulary is not valid.
    """
    if folder.is_file():
        return {"vocabulary": read_vocabulary(folder)}
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder}: no such folder. Expected one with a {VOCABULARY}, or "
            f"hf://organisation/name{presets.nearest_name(str(folder))}"
        )
    folder = transformer_folder(folder)
    config = TokenizerConfig.read(folder)
    source = _read_files(folder, config)
    if not (folder / ENGINE).is_file():  # a tokenizer.json states its added tokens itself
        source = _with_added(source, config)
    config.warn_of_class()
    return lowercased(source) if lowercases(folder) else source


def _read_files(folder: Path, config: TokenizerConfig) -> dict[str, Any] | Engine:
    """Read the first known tokenizer files in a folder; `Tokenizer.from_preset` lists the order."""
    content = read_object(folder / ENGINE, LARGE) if (folder / ENGINE).is_file() else None
    vocabulary = folder / VOCABULARY
    if content is not None and is_keras_hub(content):
        return read_keras_hub(folder, content)
    config.check_supported()
    if content is not None:
        if not content:
            raise ArtifactError(f"{folder / ENGINE}: empty: {{}}. Remove it, or take a whole one.")
        arguments = _read_engine(folder / ENGINE, content, config)
        if isinstance(arguments, Engine):
            return arguments
        added = [token.content for token in arguments.get("added", ())]
        config.check_added({*arguments["vocabulary"], *added})
        if vocabulary.is_file() and read_vocabulary(vocabulary) != arguments["vocabulary"]:
            raise ArtifactError(f"{vocabulary}: not the vocabulary of {ENGINE}. Remove one.")
        return arguments | config.switches()
    if vocabulary.is_file():
        other = backend_files.read_wordpiece(vocabulary, config)
        return other or {"vocabulary": read_vocabulary(vocabulary), **config.switches()}
    if exported_tokenizer.is_one(exported := exported_tokenizer.encoder_folder(folder)):
        return exported_tokenizer.read_tokenizer(exported)
    if (path := folder / exported_tokenizer.VOCABULARY).is_file():
        # A SavedModel does not state whether it is cased, but its vocabulary shows it.
        pieces = read_vocabulary(path)
        is_cased = any(map(_UPPERCASE.fullmatch, pieces))
        return {"vocabulary": pieces, "lowercase": not is_cased, **config.switches()}
    if (path := folder / backend_files.PIECES).is_file():
        merges = folder / backend_files.MERGES
        return backend_files.read_byte_level(path, merges, read_object(path, LARGE), config)
    for name in SENTENCEPIECE_MODELS:
        if (path := folder / name).is_file():
            config.check_class(families_with(name))
            return backend_files.read_unigram(path, config, config.family_of(name))
    expected = [VOCABULARY, ENGINE, *backend_files.FILES]
    raise ArtifactError(
        f"{folder}: has none of {', '.join(expected)}. Add the tokenizer's files to the folder."
    )


def _with_added(
    source: dict[str, Any] | Engine, config: TokenizerConfig
) -> dict[str, Any] | Engine:
    """Add the tokens that the settings of a folder without tokenizer.json state.

    Args:
        source: arguments of `Tokenizer`, or an engine.
        config: settings of the folder.

    Raises:
        ArtifactError: if the ids of these tokens do not follow those of the vocabulary.
    """
    if isinstance(source, Engine):
        vocabulary, protected = source.vocabulary, source.scheme.special_tokens
    else:
        vocabulary, protected = source["vocabulary"], SPECIAL_TOKENS
    added = config.added_tokens(vocabulary, protected)
    if not added:
        return source
    return source.with_added(added) if isinstance(source, Engine) else {**source, "added": added}


def write_folder(folder: Path, kind: WordPiece | Engine) -> None:
    """Write a tokenizer folder that transformers and the `tokenizers` library can open too."""
    scheme = kind.scheme
    roles = {f"{role}_token": getattr(scheme, role) for role in ROLES}
    if scheme.unk == scheme.mask:  # the tokenizer has no unknown token
        del roles["unk_token"]
    texts = {ENGINE: kind.json, SPECIAL_TOKENS_MAP: json.dumps(roles, indent=2)}
    if isinstance(kind, WordPiece):
        texts[VOCABULARY] = "\n".join(kind.pieces)
        switches = {SWITCHES[name]: value for name, value in kind.switches.items()}
        config: dict[str, Any] = {"tokenizer_class": "BertTokenizer", **switches}
    else:
        # This class of transformers uses tokenizer.json unchanged. The classes of the families
        # rebuild parts of it.
        inputs = ["input_ids", *["token_type_ids"] * scheme.two_segments, "attention_mask"]
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
    if kind.added:  # for readers of vocab.txt; those of tokenizer.json find them there too
        config["added_tokens_decoder"] = {
            str(token.id): {"content": token.content, **token.flags} for token in kind.added
        }
    texts[CONFIG] = json.dumps({**config, **roles}, indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        file_io.write_text(folder / name, text + "\n")


def _read_engine(
    path: Path, content: dict[str, Any], config: TokenizerConfig
) -> dict[str, Any] | Engine:
    """Read a tokenizer.json.

    Returns:
        Arguments of `Tokenizer` if the file differs from BERT's only in vocabulary and switches;
        else an engine.
    """
    model = {"type": "WordPiece"} | _part(content, "model")  # older files do not state the type
    normalizer = _part(content, "normalizer")
    ids = model.pop("vocab", None)
    switches = backend_files.NORMALIZER_SWITCHES
    parts = {
        "model": model,
        "normalizer": {k: v for k, v in normalizer.items() if k not in switches.values()},
        "pre_tokenizer": _part(content, "pre_tokenizer"),
    }
    added = _added_tokens(path, content)
    has_all = is_object(ids) and set(SPECIAL_TOKENS) <= ids.keys()
    has_own_tokens = any(token != getattr(BERT, role) for role, token in config.tokens.items())
    is_placed = special_token_places(content.get("post_processor"), path) not in ({}, places(BERT))
    if parts != _ENGINE_PARTS or not has_all or has_own_tokens or is_placed:
        return backend_files.read_engine(path, content, config)
    ids = backend_files.check_ids(path, ids)
    vocabulary = sorted(ids, key=ids.__getitem__)
    check_vocabulary(vocabulary, str(path))
    more = {"added": added} if added_tokens.check_ids(added, vocabulary, path) else {}
    return {"vocabulary": vocabulary, **more, **flags(path, normalizer, switches)}


def _part(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object under a key; {} if it is missing or not an object."""
    part = content.get(name)
    return part if is_object(part) else {}


def _added_tokens(path: Path, content: Mapping[str, Any]) -> list[AddedToken]:
    """Return the added tokens of a tokenizer.json that are not special tokens of BERT."""
    items = content.get("added_tokens")
    tokens = [AddedToken.of(item, str(path)) for item in (items if is_array(items) else [])]
    return sorted((t for t in tokens if t.content not in SPECIAL_TOKENS), key=lambda t: t.id)
