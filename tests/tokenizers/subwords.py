"""Tiny tokenizers with the steps of published families: byte-level BPE, unigram, WordPiece."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from bert_keras.tokenizers import Tokenizer, backends
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.character_map import write_rules
from bert_keras.tokenizers.encoding import ALBERT, MPNET, ROBERTA
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH
from tests.tokenizers import learners
from tests.tokenizers.samples import VOCABULARY

# Rules as SentencePiece's: characters that become others, several, or nothing; and pairs.
RULES = {
    "ﬁ": "fi",
    "½": "1\u20442",
    "①": "1",
    "\u3000": " ",
    "\t": " ",
    "\r": " ",
    "\n": " ",
    "\u0007": "",
    "\u200b": " ",
    "\u00ad": "",
    "e\u0301": "é",
    "が": "が",
    "\u0600": "*",
    "\u0915": "k",
    "\u00a9": "(c)",
    "\u1161": "a",
    "Ａ": "A",
}
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPACES = [AddedToken(" " * count, normalized=True) for count in range(2, 6)]
_FLAGS = [
    AddedToken("[L]", lstrip=True, special=True, normalized=False),
    AddedToken("[R]", rstrip=True, special=True, normalized=False),
    AddedToken("alone", single_word=True, normalized=False),
    AddedToken("Wide new", normalized=True),
]


@functools.cache
def _byte_level() -> str:
    """Return the tokenizer.json of RoBERTa's kind."""
    with tempfile.TemporaryDirectory() as folder:
        learners.byte_level(Path(folder))
        return Tokenizer.from_preset(folder).json


@functools.cache
def _unigram() -> list[tuple[str, float]]:
    """Return pieces that are scored by their length, and spell most of the learners' texts."""
    text = " ".join([*learners.SENTENCES, "1234567890 ⁄fiékag(c)A中国한국어½* "])
    parts = {
        word[i : i + size]
        for word in (f"▁{w}" for w in text.split())
        for size in (1, 2, 3, 5)
        for i in range(len(word))
    }
    return [(part, -8.0 + 0.37 * len(part) + (hash_of(part) % 97) / 50) for part in sorted(parts)]


def hash_of(part: str) -> int:
    """Return a number that depends on the text alone."""
    return sum(ord(c) * (7 + place) for place, c in enumerate(part))


def _rules() -> normalizers.Precompiled:
    return normalizers.Precompiled(write_rules(RULES))


def _sequence(*steps: Any) -> Any:
    return normalizers.Sequence(list(steps))


def _metaspace(*before: Any, scheme: str = "always") -> Any:
    return pre_tokenizers.Sequence([*before, pre_tokenizers.Metaspace("▁", scheme)])


_FOUR = (normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase())
_QUOTES = (normalizers.Replace("``", '"'), normalizers.Replace("''", '"'))
_TRIM = normalizers.Strip(left=False, right=True)
_ONE_SPACE = normalizers.Replace(Regex(" {2,}"), " ")
_BYTES = pre_tokenizers.ByteLevel(False, use_regex=False)
_WORDS = pre_tokenizers.WhitespaceSplit()
# Name -> normalizer, pre-tokenizer (None for that of the base), added tokens.
_BPE: dict[str, tuple[Any, Any, list[AddedToken]]] = {
    "roberta": (None, None, []),
    "modernbert": (normalizers.NFC(), None, [*_SPACES, *_FLAGS[:1], *_FLAGS[2:]]),
    "eurobert": (
        None,
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(_CL100K), "isolated"), _BYTES]),
        _FLAGS,
    ),
    "digits_and_prefix": (
        _sequence(normalizers.NFKC(), normalizers.Lowercase()),
        pre_tokenizers.Sequence([pre_tokenizers.Digits(False), pre_tokenizers.ByteLevel(True)]),
        [],
    ),
}
_UNIGRAM: dict[str, tuple[Any, Any, list[AddedToken]]] = {
    "xlm_roberta": (_rules(), _metaspace(_WORDS), []),
    "albert": (_sequence(*_QUOTES, *_FOUR, _rules()), _metaspace(_WORDS), _FLAGS),
    "deberta_v3": (_sequence(_TRIM, _rules(), _ONE_SPACE), _metaspace(), _FLAGS[:1]),
    "deberta_v2": (
        _sequence(
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "),
            normalizers.NFC(),
            _TRIM,
        ),
        _metaspace(pre_tokenizers.Punctuation("isolated"), scheme="first"),
        [],
    ),
    "trained": (
        _sequence(normalizers.Nmt(), normalizers.NFKC(), *_FOUR[1:], normalizers.NFD()),
        _metaspace(_WORDS),
        [],
    ),
    "bert_normalizer": (
        normalizers.BertNormalizer(),
        _metaspace(pre_tokenizers.BertPreTokenizer(), scheme="never"),
        [],
    ),
}
# Special tokens of MPNet: "[UNK]" and "[MASK]" are ordinary pieces, or BERT's.
_MPNET = ("<s>", "<pad>", "</s>", "<unk>", *VOCABULARY, "<mask>")
# Name -> switches of BERT's normaliser, added tokens.
_WORDPIECE: dict[str, tuple[dict[str, Any], list[AddedToken]]] = {
    "mpnet": ({}, []),
    "mpnet_cased": ({"lowercase": False, "split_cjk": False}, _FLAGS),
}
NAMES = (*_BPE, *_UNIGRAM, *_WORDPIECE)
# Families that are exported.
GRAPHS = ("roberta", "modernbert", "xlm_roberta", "albert", "mpnet")


@functools.cache
def _json(name: str) -> tuple[str, Any]:
    """Return the tokenizer.json of a family, and its special tokens."""
    if name in _BPE:
        library, scheme, (normalizer, pre_tokenizer, added) = (
            *(Library.from_str(_byte_level()), ROBERTA, _BPE[name]),
        )
    elif name in _WORDPIECE:
        scheme, (switches, added) = MPNET, _WORDPIECE[name]
        ids = {piece: index for index, piece in enumerate(_MPNET)}
        kind = backends.wordpiece(ids, scheme, max_word_length=MAX_WORD_LENGTH, **switches)
        library = Library.from_str(kind.json)
        normalizer, pre_tokenizer = library.normalizer, None
    else:
        scheme = ALBERT if name == "albert" else ROBERTA
        pieces = [(token, 0.0) for token in scheme.special_tokens]
        library = Library.from_str(backends.unigram([*pieces, *_unigram()], scheme).json)
        normalizer, pre_tokenizer, added = _UNIGRAM[name]
    library.normalizer = normalizer
    if pre_tokenizer is not None:
        library.pre_tokenizer = pre_tokenizer
    for token in added:
        (library.add_special_tokens if token.special else library.add_tokens)([token])
    return library.to_str(), scheme


@functools.cache
def _tokenizer(name: str) -> Tokenizer:
    return Tokenizer.from_engine(Engine(*_json(name)))


def tokenizer_of(name: str, **parts: Any) -> Tokenizer:
    """Return the tokenizer of a family.

    Args:
        name: one of `NAMES`.
        parts: parts of the tokenizer.json that replace its own.
    """
    if not parts:
        return _tokenizer(name)
    json_, scheme = _json(name)
    content = json.loads(json_)
    for key, value in parts.items():
        content[key] = {**(content[key] or {}), **value} if key == "model" else value
    return Tokenizer.from_engine(Engine(json.dumps(content), scheme))
