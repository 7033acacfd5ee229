"""Normalizers and pre-tokenizers are read as steps, and unknown ones are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras.tokenizers import pipeline_steps as steps

LOWER = {"type": "Lowercase"}


def _names(read: list[Any]) -> list[str]:
    return [step if isinstance(step, str) else type(step).__name__ for step in read]


def test_normalizers() -> None:
    replace = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    nested = {"type": "Sequence", "normalizers": [LOWER, {"type": "NFC"}]}
    read = steps.read_normalizer({"type": "Sequence", "normalizers": [nested, replace, strip]})
    assert _names(read) == ["Changes", "Form", "Replacement", "Strip"]
    assert read[3] == steps.Strip(left=False, right=True)
    assert steps.read_normalizer(None) == []


@pytest.mark.parametrize(
    ("switches", "names"),
    [
        ({"strip_accents": None, "lowercase": True}, ["Changes", "Form", "Changes", "Changes"]),
        ({"strip_accents": False, "lowercase": True}, ["Changes", "Changes"]),
        ({"strip_accents": True, "lowercase": False}, ["Changes", "Form", "Changes"]),
    ],
)
def test_switches_of_bert(switches: dict[str, Any], names: list[str]) -> None:
    part = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, **switches}
    assert _names(steps.read_normalizer(part)) == names


def test_pre_tokenizers() -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    read = steps.read_pre_tokenizer({**byte_level, "use_regex": True})
    assert _names(read) == ["Prefix", "Split", steps.SPELLS_BYTES]
    without = {**byte_level, "add_prefix_space": False, "use_regex": False}
    assert steps.read_pre_tokenizer(without) == [steps.SPELLS_BYTES]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    read = steps.read_pre_tokenizer(
        {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
    )
    assert _names(read) == ["Split", "Changes", "Prefix", "SplitBefore"]
    assert read[2] == steps.Prefix("▁", first_only=True)
    never = {**metaspace, "prepend_scheme": "never", "split": False}
    assert _names(steps.read_pre_tokenizer(never)) == ["Changes"]
    digits = {"type": "Digits", "individual_digits": True}
    assert _names(steps.read_pre_tokenizer(digits)) == ["Split"]
    assert _names(steps.read_pre_tokenizer({"type": "BertPreTokenizer"})) == ["Split", "Split"]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "Prepend", "prepend": "▁"}, "the normalizer Prepend"),
        ({"type": "ByteLevel"}, "the normalizer ByteLevel"),
        ({**LOWER, "locale": "tr"}, "the normalizer Lowercase with locale='tr'"),
        (
            {"type": "Replace", "pattern": {"Regex": "^a"}, "content": ""},
            r"the regular expression '\^a'.* in the normalizer",
        ),
        (
            {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
            "the normalizer Precompiled with damaged",
        ),
    ],
)
def test_unknown_normalizers_are_named(part: dict[str, Any], message: str) -> None:
    with pytest.raises(steps.UnknownStepError, match=message):
        steps.read_normalizer({"type": "Sequence", "normalizers": [LOWER, part]})


_SPLIT = {"type": "Split", "pattern": {"String": "a"}, "invert": False}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "Whitespace"}, "the pre-tokenizer Whitespace"),
        ({"type": "UnicodeScripts"}, "the pre-tokenizer UnicodeScripts"),
        ({**_SPLIT, "behavior": "Contiguous"}, "Split with behavior='Contiguous'"),
        ({"type": "Punctuation", "behavior": "Removed"}, "Punctuation with behavior='Removed'"),
    ],
)
def test_unknown_pre_tokenizers_are_named(part: dict[str, Any], message: str) -> None:
    with pytest.raises(steps.UnknownStepError, match=message):
        steps.read_pre_tokenizer(part)


def test_nothing_follows_the_bytes() -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    behind = {**_SPLIT, "behavior": "Isolated"}
    with pytest.raises(steps.UnknownStepError, match="the pre-tokenizer Split behind ByteLevel"):
        steps.read_pre_tokenizer({"type": "Sequence", "pretokenizers": [byte_level, behind]})
