"""What a folder says beside its vocabulary; most of it is tested where it is used."""

from __future__ import annotations

import json

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers.configs import TokenizerConfig


def test_nothing_there(tmp_path):
    config = TokenizerConfig.read(tmp_path)
    assert (config.values, config.tokens, config.switches()) == ({}, {}, {})
    assert config.flag("add_prefix_space", True) is True
    config.check_class(())


def test_the_config_comes_before_the_map(tmp_path):
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
