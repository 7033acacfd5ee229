"""Normalizers and pre-tokenizers of a tokenizer.json, read as steps for a graph.

A step says only what a graph does. A normalizer or pre-tokenizer that is not known is refused by
its name, so a graph is exact or there is none.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tokenizers import normalizers, pre_tokenizers

from bert_keras.tokenizers import split_patterns
from bert_keras.tokenizers.character_map import ClusterRules, read_rules
from bert_keras.tokenizers.character_tables import WHITE_SPACE, changes_of, flags_of, isolated_by
from bert_keras.tokenizers.split_patterns import SplitPattern

_GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # of ByteLevel
)


class Changes(NamedTuple):
    """Each character becomes a text: character -> text, for those that change."""

    outputs: Mapping[str, str]


class Form(NamedTuple):
    """A normalisation form of Unicode: "NFC", "NFD", "NFKC" or "NFKD"."""

    name: str


class Rules(NamedTuple):
    """SentencePiece's normalisation rules, applied to grapheme clusters."""

    rules: ClusterRules


class Replacement(NamedTuple):
    """Each match becomes a text."""

    pattern: SplitPattern
    text: str


class Strip(NamedTuple):
    """White space at the beginning and at the end of a text is dropped."""

    left: bool
    right: bool


class Split(NamedTuple):
    """A text is split at the beginning and the end of each match.

    Attributes:
        pattern: the expression.
        dropped: "matches", "others" or "" for the parts that are dropped.
    """

    pattern: SplitPattern
    dropped: str = ""


class SplitBefore(NamedTuple):
    """A text is split before each occurrence of a character."""

    character: str


class Prefix(NamedTuple):
    """A character is put before each text that does not begin with it.

    Attributes:
        character: the character.
        first_only: True to put it only before the beginning of the whole text.
    """

    character: str
    first_only: bool = False


Step = Changes | Form | Rules | Replacement | Strip | Split | SplitBefore | Prefix


class UnknownStepError(ValueError):
    """A part of a tokenizer that a graph does not have; the message names it."""


# === Normalizers ===


def checked_type(part: Any, place: str, known: Mapping[str, tuple[str, ...]]) -> str:
    """Return the type of a step.

    Args:
        part: step of a tokenizer.json.
        place: "normalizer" or "pre-tokenizer", for the message.
        known: type -> options that are known.
    """
    kind = part["type"]
    if kind not in known:
        raise UnknownStepError(f"the {place} {kind}")
    for name, value in part.items():
        if name not in ("type", *known[kind]) and value is not None:
            raise UnknownStepError(f"the {place} {kind} with {name}={value!r:.80}")
    return kind


_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_BERT = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
_NORMALIZERS = {
    **dict.fromkeys((*_FORMS, "Lowercase", "StripAccents", "Nmt"), ()),
    "Sequence": ("normalizers",),
    "BertNormalizer": _BERT,
    "Precompiled": ("precompiled_charsmap",),
    "Prepend": ("prepend",),
    "Replace": ("pattern", "content"),
    "Strip": ("strip_left", "strip_right"),
}


def read_normalizer(part: Any) -> list[Step]:
    """Return the steps of a normalizer."""
    steps: list[Step] = []
    for item in _listed(part, "normalizer", _NORMALIZERS, "normalizers"):
        kind = item["type"]
        if kind in _FORMS:
            steps.append(Form(kind))
        elif kind == "BertNormalizer":
            steps += _bert_normalizer(item)
        elif kind == "Precompiled":
            try:
                rules = read_rules(base64.b64decode(item["precompiled_charsmap"]))
            except ValueError as error:
                raise UnknownStepError(f"the normalizer Precompiled with {error}") from None
            steps.append(Rules(ClusterRules.of(rules)))
        elif kind == "Strip":
            steps.append(Strip(bool(item["strip_left"]), bool(item["strip_right"])))
        elif kind == "Replace":
            steps.append(Replacement(_pattern(item["pattern"], "normalizer"), item["content"]))
        elif kind == "Prepend":
            raise UnknownStepError("the normalizer Prepend")
        else:
            steps.append(_changes(getattr(normalizers, kind)()))
    return steps


def _changes(normalizer: normalizers.Normalizer) -> Changes:
    """Return the changes of single characters by a normaliser of the library."""
    return Changes(changes_of(normalizer))


def _bert_normalizer(part: Mapping[str, Any]) -> list[Step]:
    """Return the steps of BERT's normaliser, in its order."""

    def only(**switches: bool) -> Changes:
        """Return the changes by some of the switches."""
        return _changes(normalizers.BertNormalizer(**{**dict.fromkeys(_BERT, False), **switches}))

    strips = part["lowercase"] if part["strip_accents"] is None else part["strip_accents"]
    first = only(clean_text=part["clean_text"], handle_chinese_chars=part["handle_chinese_chars"])
    steps: list[Step] = [first]
    if strips:
        bare = only(strip_accents=True).outputs
        steps += [Form("NFD"), Changes({mark: "" for mark, text in bare.items() if not text})]
    return [*steps, only(lowercase=True)] if part["lowercase"] else steps


def _pattern(value: Mapping[str, str], place: str) -> SplitPattern:
    """Return the expression {"Regex": …} or the text {"String": …} of a step."""
    if value.get("String"):
        return split_patterns.literal(value["String"])
    try:
        return split_patterns.compiled(value.get("Regex", ""))
    except ValueError as error:
        raise UnknownStepError(f"{error}, in the {place}") from None


def _listed(
    part: Any, place: str, known: Mapping[str, tuple[str, ...]], key: str
) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer as a list, without nested sequences."""
    if not part:
        return []
    if checked_type(part, place, known) == "Sequence":
        return [item for inner in part[key] for item in _listed(inner, place, known, key)]
    return [part]


# === Pre-tokenizers ===


SPELLS_BYTES = "bytes"  # words are spelled in bytes from here on
_PRE_TOKENIZERS = {
    **dict.fromkeys(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"), ()),
    "Sequence": ("pretokenizers",),
    "ByteLevel": ("add_prefix_space", "trim_offsets", "use_regex"),
    "Digits": ("individual_digits",),
    "Metaspace": ("replacement", "prepend_scheme", "split"),
    "Punctuation": ("behavior",),
    "Split": ("pattern", "behavior", "invert"),
}


def read_pre_tokenizer(part: Any) -> list[Step | str]:
    """Return the steps of a pre-tokenizer; `SPELLS_BYTES` for the spelling in bytes."""
    steps: list[Step | str] = []
    for item in _listed(part, "pre-tokenizer", _PRE_TOKENIZERS, "pretokenizers"):
        if SPELLS_BYTES in steps:
            raise UnknownStepError(f"the pre-tokenizer {item['type']} behind ByteLevel")
        steps += _SPLITTERS[item["type"]](item)
    return steps


def _isolated(pre_tokenizer: pre_tokenizers.PreTokenizer) -> Split:
    """Return the split of characters that a pre-tokenizer of the library isolates."""
    return Split(split_patterns.of_characters(isolated_by(pre_tokenizer)))


def _white_space(_: Mapping[str, Any]) -> list[Step | str]:
    """Return the split at white space, which is dropped."""
    return [Split(split_patterns.of_characters(flags_of(WHITE_SPACE)), "matches")]


def _bert(_: Mapping[str, Any]) -> list[Step | str]:
    """Return the steps of BERT's pre-tokenizer."""
    return [*_white_space({}), _isolated(pre_tokenizers.BertPreTokenizer())]


def _byte_level(part: Mapping[str, Any]) -> list[Step | str]:
    """Return the steps of byte-level BPE."""
    prefix = [Prefix(" ")] if part["add_prefix_space"] else []
    split = [Split(split_patterns.compiled(_GPT2))] if part.get("use_regex", True) else []
    return [*prefix, *split, SPELLS_BYTES]


def _digits(part: Mapping[str, Any]) -> list[Step | str]:
    """Return the split of digits, each alone or all neighbours together."""
    digits = isolated_by(pre_tokenizers.Digits(individual_digits=True))
    return [Split(split_patterns.of_characters(digits, run=not part["individual_digits"]))]


def _metaspace(part: Mapping[str, Any]) -> list[Step | str]:
    """Return the steps of SentencePiece's pre-tokenizer."""
    mark, scheme = part["replacement"], part["prepend_scheme"]
    steps: list[Step | str] = [Changes({" ": mark})]
    if scheme != "never":
        steps.append(Prefix(mark, first_only=scheme == "first"))
    return [*steps, SplitBefore(mark)] if part["split"] else steps


def _punctuation(part: Mapping[str, Any]) -> list[Step | str]:
    """Return the split of punctuation."""
    if part["behavior"] != "Isolated":
        raise UnknownStepError(f"the pre-tokenizer Punctuation with behavior={part['behavior']!r}")
    return [_isolated(pre_tokenizers.Punctuation())]


def _split(part: Mapping[str, Any]) -> list[Step | str]:
    """Return the split by an expression."""
    behavior = part["behavior"]
    if behavior not in ("Isolated", "Removed"):
        raise UnknownStepError(f"the pre-tokenizer Split with behavior={behavior!r}")
    dropped = "" if behavior == "Isolated" else "others" if part["invert"] else "matches"
    return [Split(_pattern(part["pattern"], "pre-tokenizer"), dropped)]


def _words(_: Mapping[str, Any]) -> list[Step | str]:
    """Refuse the pre-tokenizer Whitespace, whose letters are those of another library."""
    raise UnknownStepError("the pre-tokenizer Whitespace")


_SPLITTERS: dict[str, Callable[[Mapping[str, Any]], list[Step | str]]] = {
    "BertPreTokenizer": _bert,
    "ByteLevel": _byte_level,
    "Digits": _digits,
    "Metaspace": _metaspace,
    "Punctuation": _punctuation,
    "Split": _split,
    "Whitespace": _words,
    "WhitespaceSplit": _white_space,
}
