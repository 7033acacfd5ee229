"""Tokenizers of exported TensorFlow Hub encoders: their options are stored, not guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer, exported_tokenizer
from bert_keras.tokenizers.vocabulary import vocabulary_text
from tests.tokenizers.samples import VOCABULARY


def write(folder: Path, tokenizer: Tokenizer, **changes: Any) -> Path:
    """Write the tokenizer's files of an exported encoder."""
    content = vocabulary_text(tokenizer.vocabulary)
    values: dict[str, Any] = {key: {} for key in ("options", "config", "variables")}
    told = exported_tokenizer.describe(tokenizer, content)
    told = {name: value for name, value in (told | changes).items() if value != "absent"}
    values |= {"format": 1, "class": "BertEncoder", "tokenizer": told}
    for name in (exported_tokenizer.FILE, exported_tokenizer.VOCABULARY):
        (folder / name).parent.mkdir(parents=True)
    (folder / exported_tokenizer.FILE).write_text(json.dumps(values))
    (folder / exported_tokenizer.VOCABULARY).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    "switches",
    [{}, {"lowercase": False}, {"lowercase": True, "strip_accents": False, "split_cjk": False}],
)
def test_same_tokenizer(switches: dict[str, bool], tmp_path: Path) -> None:
    """A tokenizer is restored with its options.

    The words of this vocabulary are all lower-case, so that a guess would be `lowercase=True`.
    """
    expected = Tokenizer(VOCABULARY, **switches)
    write(tmp_path / "module" / "encoder", expected)
    for folder in (tmp_path / "module", tmp_path / "module" / "encoder"):
        assert Tokenizer.from_preset(folder) == expected
    given = Tokenizer.from_preset(tmp_path / "module", lowercase=True)
    assert given.lowercase


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lowercase": 1}, r"lowercase must be true or false\. Received: 1"),
        ({"split_cjk": "absent"}, r"`tokenizer` must have the keys .*split_cjk.*\. Take the whole"),
        ({"more": 1}, r"`tokenizer` must have the keys"),
        ({"vocabulary_sha256": "0" * 64}, r"vocab\.txt: not the vocabulary that was exported"),
        ({"vocabulary_sha256": None}, r"vocab\.txt: not the vocabulary that was exported"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path / "encoder", Tokenizer(VOCABULARY), **changes)
    with pytest.raises(ArtifactError, match=message):
        Tokenizer.from_preset(tmp_path / "encoder")


def test_a_missing_vocabulary_is_named(tmp_path: Path) -> None:
    write(tmp_path / "encoder", Tokenizer(VOCABULARY))
    (tmp_path / "encoder" / exported_tokenizer.VOCABULARY).unlink()
    with pytest.raises(ArtifactError, match=r"assets/vocab\.txt: no such file"):
        Tokenizer.from_preset(tmp_path / "encoder")
