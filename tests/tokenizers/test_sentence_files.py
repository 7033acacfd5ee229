"""The place and the case of tokenizers in folders of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers import sentence_files as module

_CASED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Word", "word", "é", "e", "É"]


def _rows(path: Path, name: object) -> None:
    (path / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": name}]))


def test_the_folder_of_the_transformer(tmp_path: Path) -> None:
    assert module.transformer_folder(tmp_path) == tmp_path
    for name in ("", 7):
        _rows(tmp_path, name)
        assert module.transformer_folder(tmp_path) == tmp_path
    Tokenizer(_CASED).save_to_preset(tmp_path / "0_Transformer")
    _rows(tmp_path, "0_Transformer")
    assert module.transformer_folder(tmp_path) == tmp_path / "0_Transformer"
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(_CASED)
    for name in ("../x", "/x", "a/../../x", "c:x", "a\\..\\x"):
        _rows(tmp_path, name)
        with pytest.raises(ArtifactError, match="outside the folder"):
            Tokenizer.from_preset(tmp_path)


@pytest.mark.parametrize("name", module.SENTENCE_CONFIGS)
def test_do_lower_case(name: str, tmp_path: Path) -> None:
    """As sentence-transformers does it: before all else, and accents stay."""
    Tokenizer(_CASED, lowercase=False).save_to_preset(tmp_path)
    plain = Tokenizer.from_preset(tmp_path)
    assert plain.encode("Word É").tokens == ["[CLS]", "Word", "É", "[SEP]"]
    for told, tokens in ((False, ["Word", "É"]), (None, ["Word", "É"]), (True, ["word", "é"])):
        (tmp_path / name).write_text(json.dumps({"do_lower_case": told}))
        assert Tokenizer.from_preset(tmp_path).encode("Word É").tokens[1:-1] == tokens
    (tmp_path / name).write_text(json.dumps({"do_lower_case": "yes"}))
    with pytest.raises(ArtifactError, match="do_lower_case must be true or false"):
        Tokenizer.from_preset(tmp_path)


def test_an_uncased_tokenizer_stays_as_it_is(tmp_path: Path) -> None:
    Tokenizer(_CASED).save_to_preset(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(_CASED)


@pytest.mark.parametrize("steps", [None, "one", "several", "lower"])
def test_other_engines_lower_case_first(steps: str | None, tmp_path: Path) -> None:
    ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "w": 5, "W": 6}
    engine = Engine(models.BPE(ids, []))
    if steps == "lower":
        engine.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    elif steps:
        parts = [normalizers.NFC(), normalizers.Strip()]
        engine.normalizer = parts[0] if steps == "one" else normalizers.Sequence(parts)
    engine.save(str(tmp_path / "tokenizer.json"))
    plain = Tokenizer.from_preset(tmp_path)
    assert plain.encode("W").ids[1] == (5 if steps == "lower" else 6)
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    lowered = Tokenizer.from_preset(tmp_path)
    assert lowered.encode("W").ids[1] == 5
    assert (lowered == plain) == (steps == "lower")
