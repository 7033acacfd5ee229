"""The tokenizer of a KerasHub preset: a config, and the vocabulary among its assets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.strict_json import LARGE, read_object, refuse_unknown
from bert_keras.tokenizers import engine_files
from bert_keras.tokenizers.configs import TokenizerConfig
from bert_keras.tokenizers.engines import Engine
from bert_keras.tokenizers.vocabulary_files import read_vocabulary

_ASSETS = Path("assets", "tokenizer")
_OWN = "its own way of cutting texts: ids are those of the tokenizer that was published"
_CALLER = "a default of calls: lengths are arguments here"
# Keys of the tokenizer's config -> why they change no id.
IRRELEVANT: Mapping[str, str] = {
    **dict.fromkeys(("name", "trainable", "dtype"), "of the Keras object"),
    **dict.fromkeys(("strip_accents", "split", "split_on_cjk", "suffix_indicator"), _OWN),
    **dict.fromkeys(("oov_token", "special_tokens", "special_tokens_in_strings"), _OWN),
    **dict.fromkeys(("unsplittable_tokens", "add_prefix_space", "config_file"), _OWN),
    **dict.fromkeys(("sequence_length", "add_bos", "add_eos"), _CALLER),
    **dict.fromkeys(("vocabulary", "merges", "proto"), "null: it lies among the assets"),
}
HONOURED = ("lowercase",)
FILES = (f"{_ASSETS.as_posix()}/*",)


def is_one(content: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json is a Keras config."""
    return "registered_name" in content


def read(folder: Path, content: Mapping[str, Any]) -> dict[str, Any] | Engine:
    """Reads the arguments of `Tokenizer`, or an engine, of the tokenizer that was published.

    KerasHub's own loses accents and splits otherwise; the vocabulary was learned by the original.

    Args:
        folder: the preset.
        content: its parsed tokenizer.json.

    Raises:
        ArtifactError: no vocabulary that is known, or a damaged one.
        DataError: the vocabulary is no use.
    """
    values = content.get("config")
    values = values if isinstance(values, dict) else {}
    refuse_unknown(folder / "tokenizer.json", values, (*HONOURED, *IRRELEVANT))
    config = TokenizerConfig(folder, values, {})
    assets = folder / _ASSETS
    if (assets / "vocabulary.txt").is_file():
        vocabulary = read_vocabulary(assets / "vocabulary.txt")
        return {"vocabulary": vocabulary, "lowercase": config.flag("lowercase", False)}
    if (path := assets / "vocabulary.json").is_file():
        ids = read_object(path, LARGE)
        return engine_files.read_byte_level(path, assets / "merges.txt", ids, config)
    if (path := assets / "vocabulary.spm").is_file():
        is_fairseq = str(content.get("class_name")).startswith("XLM")
        reader = engine_files.read_fairseq if is_fairseq else engine_files.read_albert
        return reader(path, TokenizerConfig(folder, {}, {}))
    raise ArtifactError(
        f"{assets}: no vocabulary.txt, vocabulary.json or vocabulary.spm. "
        f"Received: class_name={content.get('class_name')!r}"
    )
