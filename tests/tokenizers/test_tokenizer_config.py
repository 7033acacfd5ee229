"""Tokenizer settings in a folder. Most settings are tested where they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.tokenizer_config import (
    IRRELEVANT,
    KNOWN_KEYS,
    MORE_TOKENS,
    REQUIRED,
    TokenizerConfig,
)
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS


def test_nothing_there(tmp_path):
    config = TokenizerConfig.read(tmp_path)
    assert (config.values, config.tokens, config.switches()) == ({}, {}, {})
    assert config.flag("add_prefix_space", True) is True
    config.check_class(())


def test_the_config_comes_before_the_map(tmp_path):
    """tokenizer_config.json takes precedence over special_tokens_map.json."""
    roles = {"cls_token": "a", "sep_token": {"content": "b", "lstrip": False}, "pad_token": None}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles))
    assert TokenizerConfig.read(tmp_path).tokens == {"cls": "a", "sep": "b"}
    assert TokenizerConfig.read(tmp_path).values == {}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"cls_token": "c", "errors": None}))
    config = TokenizerConfig.read(tmp_path)
    assert config.tokens == {"cls": "c", "sep": "b"}
    assert config.flag("errors", False) is False


def test_classes(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "AlbertTokenizerFast"})
    )
    config = TokenizerConfig.read(tmp_path)
    config.check_class(("Albert",))
    with pytest.raises(ArtifactError, match=r"needs another tokenizer. .*'AlbertTokenizerFast'"):
        config.check_class(("XLMRoberta",))


# === Known and unknown keys ===

_PIECES = {token: index for index, token in enumerate((*SPECIAL_TOKENS, "a", "b", "##c"))}
_BYTES = {t: i for i, t in enumerate(("<s>", "<pad>", "</s>", "<unk>", "a", "b", "ab", "<mask>"))}
_XLM = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>", "\u2581a", "<mask>")]
_ALBERT = [(t, 0.0) for t in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "\u2581a")]
_THEIRS: dict[str, dict[str, Any]] = {
    **{name: {"vocab": _PIECES} for name in ("BertTokenizer", "DistilBertTokenizer")},
    "RobertaTokenizer": {"vocab": _BYTES, "merges": [("a", "b")]},
    "XLMRobertaTokenizer": {"vocab": _XLM},
    "AlbertTokenizer": {"vocab": _ALBERT},
    **{name: {"vocab": _XLM} for name in ("CamembertTokenizer", "DebertaV2Tokenizer")},
    "RemBertTokenizer": {"vocab": _ALBERT},
    "MPNetTokenizer": {"vocab": {**_BYTES, "[UNK]": len(_BYTES)}},
    "DebertaTokenizer": {"vocab": {**_PIECES, "ab": len(_PIECES)}, "merges": [("a", "b")]},
}


def _written(transformers: Any, folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each tokenizer config that transformers writes for the families, with its path."""
    for name, arguments in _THEIRS.items():
        more = {"extra_special_tokens": ["[EXTRA]"], "padding_side": "left", "split_special": None}
        for number, options in enumerate(({}, {**more})):
            target = folder / f"{name}{number}"
            getattr(transformers, name)(**arguments, **options).save_pretrained(target)
            for path in target.glob("*config.json"):
                yield path, json.loads(path.read_text())


def test_every_key_of_transformers_is_known(transformers: Any, tmp_path: Path) -> None:
    count = 0
    for path, values in _written(transformers, tmp_path):
        count += 1
        unknown = sorted(set(values) - KNOWN_KEYS - {"split_special"})
        assert not unknown, f"{path.parent.name}: give {unknown} a reason in `configs`"
    assert count == 2 * len(_THEIRS)
    assert not set(IRRELEVANT) & set(REQUIRED)
    assert all(len(reason.split()) > 2 for reason in IRRELEVANT.values())


def _folder(folder: Path, **values: Any) -> Path:
    """Write a vocab.txt and a tokenizer_config.json with these values. Return the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(_PIECES))
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize("key", sorted(IRRELEVANT))
def test_what_is_irrelevant_changes_no_id(key: str, tmp_path: Path) -> None:
    for value in (None, "x", 3, ["x"], {"x": 1}):
        folder = _folder(tmp_path, **{key: value})
        assert Tokenizer.from_preset(folder) == Tokenizer([*_PIECES])


@pytest.mark.parametrize("key", REQUIRED)
def test_what_changes_ids_is_refused(key: str, tmp_path: Path) -> None:
    for value in REQUIRED[key]:
        Tokenizer.from_preset(_folder(tmp_path, **{key: value}))
    for value in ("x", 3, ["x"], {"x": 1}):
        with pytest.raises(ArtifactError, match=f"tokenizer_config.json: not supported: {key}="):
            Tokenizer.from_preset(_folder(tmp_path, **{key: value}))


@pytest.mark.parametrize("key", MORE_TOKENS)
def test_more_special_tokens_are_added(key: str, tmp_path: Path) -> None:
    for value in (None, [], {}, ["[CLS]"]):
        assert not Tokenizer.from_preset(_folder(tmp_path, **{key: value})).added_tokens
    for value in (["[NEW]"], {"new": "[NEW]"}, [{"content": "[NEW]"}]):
        tokenizer = Tokenizer.from_preset(_folder(tmp_path, **{key: value}))
        (token,) = tokenizer.added_tokens
        assert tokenizer.encode("[NEW]").ids[1] == token.id == tokenizer.vocab_size - 1
        assert token.special
    for value in ("[NEW]", [3], [{"text": "[NEW]"}]):
        with pytest.raises(ArtifactError, match=f"{key} must be a list"):
            Tokenizer.from_preset(_folder(tmp_path, **{key: value}))


def test_an_unknown_key_and_code_of_the_folders_own_are_warned_of(tmp_path: Path) -> None:
    folder = _folder(tmp_path, word_tokenizer_type="mecab", colour=1)
    message = "tokenizer_config.json: unknown keys are ignored: 'colour', 'word_tokenizer_type'"
    with pytest.warns(UserWarning, match=message) as warned:
        Tokenizer.from_preset(folder)
    assert len(warned) == 1
    auto_map = {"AutoTokenizer": ["x.X", None]}
    with pytest.warns(UserWarning, match="auto_map names code .* never run"):
        Tokenizer.from_preset(_folder(tmp_path, auto_map=auto_map))
    Tokenizer.from_preset(_folder(tmp_path, auto_map=auto_map, tokenizer_class="BertTokenizer"))


@pytest.mark.parametrize("place", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("engine", [True, False])
def test_a_class_that_is_not_known_is_warned_of(place: str, engine: bool, tmp_path: Path) -> None:
    """An unknown tokenizer class causes a warning.

    In older folders only the model's config.json names the class.
    """
    Tokenizer([*_PIECES]).save_to_preset(tmp_path)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / name).unlink()
    if not engine:
        (tmp_path / "tokenizer.json").unlink()
    (tmp_path / place).write_text(json.dumps({"tokenizer_class": "MyTokenizer"}))
    with pytest.warns(UserWarning, match="tokenizer_class='MyTokenizer' is not known"):
        assert Tokenizer.from_preset(tmp_path) == Tokenizer([*_PIECES])
    (tmp_path / place).write_text(json.dumps({"tokenizer_class": "BertTokenizerFast"}))
    Tokenizer.from_preset(tmp_path)


def test_a_tokenizer_json_that_is_empty(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(_PIECES))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"tokenizer.json: empty: \{\}\. Remove it"):
        Tokenizer.from_preset(tmp_path)
