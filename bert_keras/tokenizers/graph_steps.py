"""Steps of byte-level BPE and SentencePiece tokenizers, read for a graph.

A tokenizer.json is a pipeline: normalizer, pre-tokenizer, model, post-processor. Each of its steps
becomes one of the steps here, which say only what a graph does. A step that is not known is refused
by its name, so a graph is exact or there is none.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tokenizers as hf
from tokenizers import normalizers, pre_tokenizers

from bert_keras import file_io
from bert_keras.tokenizers import split_patterns
from bert_keras.tokenizers.added_tokens import NO_TEXT, AddedToken
from bert_keras.tokenizers.backends import WORD_START, hidden_tokens
from bert_keras.tokenizers.character_map import ClusterRules, read_rules
from bert_keras.tokenizers.character_tables import WHITE_SPACE, changes_of, flags_of, isolated_by
from bert_keras.tokenizers.encoding import Scheme
from bert_keras.tokenizers.split_patterns import SplitPattern
from bert_keras.tokenizers.wordpiece import require_word_piece

if TYPE_CHECKING:
    from bert_keras.tokenizers.tokenizer import Tokenizer

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
    """White space at the begin and at the end of a text is dropped."""

    left: bool
    right: bool


class Split(NamedTuple):
    """A text is split at the begin and the end of each match.

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
        first_only: True to put it only before the begin of the whole text.
    """

    character: str
    first_only: bool = False


Step = Changes | Form | Rules | Replacement | Strip | Split | SplitBefore | Prefix


class ByteBPE(NamedTuple):
    """Byte-level BPE.

    Attributes:
        bytes: int32 [256], the id of each byte.
        pairs: int64 [merges, 2], ids of the two pieces of each merge, in their order.
        merged: int32 [merges], id of the merged piece.
        words: UTF-8 of a word -> id, for words that no merge splits; None if all words are merged.
    """

    bytes: np.ndarray
    pairs: np.ndarray
    merged: np.ndarray
    words: Mapping[bytes, int] | None


class Unigram(NamedTuple):
    """Unigram language model.

    Attributes:
        pieces: all pieces; the position is the id.
        scores: their log probabilities, float64.
        unknown: id of the piece for unknown characters.
        hidden: ids of special pieces, which are ordinary text if special tokens are.
    """

    pieces: tuple[str, ...]
    scores: np.ndarray
    unknown: int
    hidden: tuple[int, ...]


class Pipeline(NamedTuple):
    """All steps of a tokenizer.

    Attributes:
        normalizer: steps that change a text.
        pre_tokenizer: steps that split it into words.
        model: from words to ids.
        marked: added tokens that are found in a text if special tokens are recognised.
        plain: added tokens that are found if they are ordinary text.
        normalized: content of an added token -> its normalised text.
        trims: True if the place of a piece leaves out white space at its ends.
        keeps_first: True if the place of a first piece keeps that white space.
    """

    normalizer: tuple[Step, ...]
    pre_tokenizer: tuple[Step, ...]
    model: ByteBPE | Unigram
    marked: tuple[AddedToken, ...]
    plain: tuple[AddedToken, ...]
    normalized: Mapping[str, str]
    trims: bool
    keeps_first: bool


class _Unknown(ValueError):
    """A part of a tokenizer that a graph does not have; the message names it."""


def is_word_piece(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer is BERT's WordPiece, whose graph is another one."""
    return tokenizer.lowercase is not None


def require_graph(tokenizer: Tokenizer) -> None:
    """Raise `ValueError` for a tokenizer that cannot run in a graph. The message says why."""
    if is_word_piece(tokenizer):
        require_word_piece(tokenizer)
    else:
        read_pipeline(tokenizer)


def read_pipeline(tokenizer: Tokenizer) -> Pipeline:
    """Return the steps of a tokenizer that is not BERT's WordPiece.

    Raises:
        ValueError: if a part of the tokenizer has no graph. The message names it.
    """
    try:
        return _pipeline(tokenizer.json, tokenizer.scheme)
    except _Unknown as error:
        raise ValueError(
            f"A TensorFlow graph of this tokenizer would not be exact: it has {error}. Pass "
            "ids_only=True to export.saved_model (--ids-only to bert-keras export) for a model "
            f"that takes ids, and make the ids in Python. Received: {tokenizer!r}"
        ) from None


@functools.lru_cache(maxsize=2)
def _pipeline(content: str, scheme: Scheme) -> Pipeline:
    """Return the steps of a tokenizer.json."""
    parts = file_io.decode_json(content, "tokenizer.json")
    hidden = hidden_tokens(parts, scheme)
    model = _model(parts["model"], hidden)
    pre_tokenizer = _pre_tokenizer(parts["pre_tokenizer"])
    has_bytes = bool(pre_tokenizer) and pre_tokenizer[-1] is _BYTES
    if isinstance(model, ByteBPE) != has_bytes:
        raise _Unknown("the pre-tokenizer ByteLevel without the model BPE, or BPE without it")
    steps = tuple(step for step in pre_tokenizer if isinstance(step, Step))
    tokens = [AddedToken.of(token, "tokenizer.json") for token in parts["added_tokens"]]
    plain = [
        token._replace(content=f"{NO_TEXT} {token.content}") if token.content in hidden else token
        for token in tokens
    ]
    engine = hf.Tokenizer.from_str(content).normalizer
    normalized = {
        token.content: engine.normalize_str(token.content) if engine else token.content
        for token in (*tokens, *plain)
        if token.normalized
    }
    for group in (tokens, plain):
        _check_tokens(group, normalized)
    trims, keeps_first = _trimming(parts["post_processor"])
    normalizer = _normalizer(parts["normalizer"])
    return Pipeline(
        *(tuple(normalizer), steps, model, tuple(tokens), tuple(plain)),
        *(normalized, trims, keeps_first),
    )


def _check_tokens(tokens: Sequence[AddedToken], normalized: Mapping[str, str]) -> None:
    """Refuse added tokens that a graph would not find as the library does."""
    seen: dict[tuple[bool, str], str] = {}
    for token in tokens:
        text = normalized.get(token.content, token.content)
        name = f"the added token {token.content!r}, which"
        if not text:
            raise _Unknown(f"{name} has no characters after normalisation")
        key = token.normalized, text
        if key in seen:
            raise _Unknown(f"{name} is {seen[key]!r} after normalisation, an added token too")
        seen[key] = token.content
    for stage in (False, True):  # tokens of raw texts, and of normalised texts
        spaced = any(ord(text[0]) in WHITE_SPACE for key, text in seen if key is stage)
        if spaced and any(token.rstrip for token in tokens if token.normalized is stage):
            raise _Unknown("added tokens with rstrip=True beside one that begins with a space")


def _trimming(processor: Any) -> tuple[bool, bool]:
    """Return whether places of pieces leave out white space, and whether first ones keep it."""
    if not processor:
        return False, False
    parts = processor["processors"] if processor["type"] == "Sequence" else [processor]
    for part in parts:
        if part["type"] in ("ByteLevel", "RobertaProcessing") and part.get("trim_offsets"):
            return True, bool(part.get("add_prefix_space"))
    return False, False


# === Normalizers ===


def _checked(part: Any, place: str, known: Mapping[str, tuple[str, ...]]) -> str:
    """Return the type of a step.

    Args:
        part: step of a tokenizer.json.
        place: "normalizer" or "pre-tokenizer", for the message.
        known: type -> options that are known.
    """
    kind = part["type"]
    if kind not in known:
        raise _Unknown(f"the {place} {kind}")
    for name, value in part.items():
        if name not in ("type", *known[kind]) and value is not None:
            raise _Unknown(f"the {place} {kind} with {name}={value!r:.80}")
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


def _normalizer(part: Any) -> list[Step]:
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
                rules = read_rules(_bytes_of(item["precompiled_charsmap"]))
            except ValueError as error:
                raise _Unknown(f"the normalizer Precompiled with {error}") from None
            steps.append(Rules(ClusterRules.of(rules)))
        elif kind == "Strip":
            steps.append(Strip(bool(item["strip_left"]), bool(item["strip_right"])))
        elif kind == "Replace":
            steps.append(Replacement(_pattern(item["pattern"], "normalizer"), item["content"]))
        elif kind == "Prepend":
            raise _Unknown("the normalizer Prepend")
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


def _bytes_of(value: Any) -> bytes:
    """Return the bytes of the rules, which a tokenizer.json has in base64."""
    import base64

    return base64.b64decode(value)


def _pattern(value: Mapping[str, str], place: str) -> SplitPattern:
    """Return the expression {"Regex": …} or the text {"String": …} of a step."""
    if "String" in value and value["String"]:
        return split_patterns.literal(value["String"])
    try:
        return split_patterns.compiled(value.get("Regex", ""))
    except ValueError as error:
        raise _Unknown(f"{error}, in the {place}") from None


def _listed(
    part: Any, place: str, known: Mapping[str, tuple[str, ...]], key: str
) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer as a list, without nested sequences."""
    if not part:
        return []
    if _checked(part, place, known) == "Sequence":
        return [item for inner in part[key] for item in _listed(inner, place, known, key)]
    return [part]


# === Pre-tokenizers ===


_BYTES = "bytes"  # words are spelled in bytes from here on
_PRE_TOKENIZERS = {
    **dict.fromkeys(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"), ()),
    "Sequence": ("pretokenizers",),
    "ByteLevel": ("add_prefix_space", "trim_offsets", "use_regex"),
    "Digits": ("individual_digits",),
    "Metaspace": ("replacement", "prepend_scheme", "split"),
    "Punctuation": ("behavior",),
    "Split": ("pattern", "behavior", "invert"),
}


def _pre_tokenizer(part: Any) -> list[Step | str]:
    """Return the steps of a pre-tokenizer; `_BYTES` for the spelling in bytes."""
    steps: list[Step | str] = []
    for item in _listed(part, "pre-tokenizer", _PRE_TOKENIZERS, "pretokenizers"):
        if _BYTES in steps:
            raise _Unknown(f"the pre-tokenizer {item['type']} behind ByteLevel")
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
    return [*prefix, *split, _BYTES]


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
        raise _Unknown(f"the pre-tokenizer Punctuation with behavior={part['behavior']!r}")
    return [_isolated(pre_tokenizers.Punctuation())]


def _split(part: Mapping[str, Any]) -> list[Step | str]:
    """Return the split by an expression."""
    behavior = part["behavior"]
    if behavior not in ("Isolated", "Removed"):
        raise _Unknown(f"the pre-tokenizer Split with behavior={behavior!r}")
    dropped = "" if behavior == "Isolated" else "others" if part["invert"] else "matches"
    return [Split(_pattern(part["pattern"], "pre-tokenizer"), dropped)]


def _words(_: Mapping[str, Any]) -> list[Step | str]:
    """Refuse the pre-tokenizer Whitespace, whose letters are those of another library."""
    raise _Unknown("the pre-tokenizer Whitespace")


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


# === Models ===


_MODELS = {
    "BPE": (
        *("vocab", "merges", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
        *("fuse_unk", "byte_fallback", "ignore_merges"),
    ),
    "Unigram": ("vocab", "unk_id", "byte_fallback"),
}


def _model(part: Mapping[str, Any], hidden: set[str]) -> ByteBPE | Unigram:
    """Return the model.

    Args:
        part: model of a tokenizer.json.
        hidden: special pieces, which the model does not match in ordinary text.
    """
    if part.get("type") == "WordPiece":
        raise _Unknown("the model WordPiece with other special tokens than BERT's")
    kind = _checked(part, "model", _MODELS)
    if part.get("byte_fallback"):
        raise _Unknown(f"the model {kind} with byte_fallback=True")
    return (_bpe if kind == "BPE" else _unigram)(part, hidden)


def _bpe(part: Mapping[str, Any], hidden: set[str]) -> ByteBPE:
    """Return a byte-level BPE model."""
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if part.get(name):
            raise _Unknown(f"the model BPE with {name}={part[name]!r}")
    ids: Mapping[str, int] = part["vocab"]
    codes = byte_characters()
    if missing := [code for code in codes if code not in ids]:
        raise _Unknown(f"byte-level BPE without {len(missing)} of the 256 bytes")
    merges = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in part["merges"]]
    pairs = np.array([(ids[a], ids[b]) for a, b in merges], np.int64).reshape(-1, 2)
    merged = np.array([ids[a + b] for a, b in merges], np.int32)
    words = None
    if part.get("ignore_merges"):
        values = {code: value for value, code in enumerate(codes)}
        words = {
            bytes(values[c] for c in piece): index
            for piece, index in ids.items()
            if piece not in hidden and all(c in values for c in piece)
        }
    return ByteBPE(np.array([ids[code] for code in codes], np.int32), pairs, merged, words)


@functools.cache
def byte_characters() -> tuple[str, ...]:
    """Return the character that stands for each byte in the pieces of byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return tuple(chr(value if value in printable else next(others)) for value in range(0x100))


def _unigram(part: Mapping[str, Any], hidden: set[str]) -> Unigram:
    """Return a unigram model."""
    pieces = tuple(piece for piece, _ in part["vocab"])
    scores = np.array([score for _, score in part["vocab"]], np.float64)
    if part["unk_id"] is None:
        raise _Unknown("the model Unigram without unk_id")
    if scores.min() > 0:
        raise _Unknown("the model Unigram with log probabilities above 0")
    special = tuple(index for index, piece in enumerate(pieces) if piece in hidden)
    return Unigram(pieces, scores, part["unk_id"], special)
