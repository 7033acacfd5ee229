"""Byte-level BPE and SentencePiece tokenizers, run by the `tokenizers` library.

They turn texts into ids. The module `encoding` adds the special tokens around texts.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bert_keras import file_io
from bert_keras.tokenizers.added_tokens import NO_TEXT, AddedToken
from bert_keras.tokenizers.basic_tokenizer import without_surrogates
from bert_keras.tokenizers.encoding import (
    ROBERTA,
    Scheme,
    is_template,
    places,
    special_token_places,
)

WORD_START = "\u2581"  # SentencePiece's mark for a space
_BYTE_SPACE = "\u0120"  # a space, as byte-level vocabularies write it
_MARKS = (WORD_START, _BYTE_SPACE)
# Characters of scripts without spaces between words: the line-breaking class "complex context" of
# Unicode (UAX #14), which has Thai, Lao, Burmese, Khmer and others; Tibetan; kana; and Chinese.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff"
    "\uaa60-\uaadf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_FROM_BYTES = decoders.ByteLevel()  # a part of a character becomes U+FFFD


class Engine:
    """A tokenizer that a tokenizer.json describes.

    Args:
        json: content of the file.
        scheme: special tokens and their places around texts.

    Attributes:
        vocabulary: all pieces; the position is the id.
        num_pieces: number of entries without the added tokens that have new ids.
        added: tokens that were added to the vocabulary, besides those of the scheme.
        plain: library tokenizer that treats "[MASK]" and the like in a text as ordinary text.
        marked: library tokenizer that recognises special tokens in a text.
        identity: text that is equal for two engines if they give the same ids.
        max_word_length: number of characters of the longest word that a WordPiece model reads; None
            for other models, which read all words.

    Raises:
        ValueError: if an id is missing or occurs twice.
    """

    def __init__(self, json: str, scheme: Scheme):
        self.scheme = scheme
        self.marked = hf.Tokenizer.from_str(json)
        _add_special_tokens(self.marked, scheme)
        self.json = self.marked.to_str()  # equal tokenizers get equal text
        content = file_io.decode_json(self.json, "tokenizer.json")
        if not special_token_places(content["post_processor"]):
            # A template without special tokens is no step: the library runs one template only.
            has_template = is_template(content["post_processor"])
            steps = [None if has_template else self.marked.post_processor]
            steps.append(template(self.marked, scheme))
            self.marked.post_processor = processors.Sequence([s for s in steps if s is not None])
            self.json = self.marked.to_str()
        others = [t for t in content["added_tokens"] if t["content"] not in scheme.special_tokens]
        self.added = tuple(AddedToken.of(token, "tokenizer.json") for token in others)
        self.plain = _without_special_tokens(content, scheme)
        ids = self.marked.get_vocab(with_added_tokens=True)
        self.vocabulary = tuple(sorted(ids, key=ids.__getitem__))
        if [ids[piece] for piece in self.vocabulary] != list(range(len(ids))):
            raise ValueError("a piece is there twice, or an id is missing")
        of_model = self.marked.get_vocab_size(with_added_tokens=False)
        self.num_pieces = len(ids) - sum(token.id >= of_model for token in self.added)
        shown = ["cls_before_second"] * scheme.cls_before_second  # not in the text of the scheme
        self.identity = str((self.json, scheme, *shown))
        marks = [m for m in _MARKS if any(piece.startswith(m) for piece in self.vocabulary)]
        self._mark = marks[0] if marks else ""
        model = self.plain.model
        is_wordpiece = isinstance(model, models.WordPiece)
        self._continuation = model.continuing_subword_prefix if is_wordpiece else None
        self._whole = frozenset((*scheme.special_tokens, *self.vocabulary[self.num_pieces :]))
        self.max_word_length: int | None = model.max_input_chars_per_word if is_wordpiece else None

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text. Special tokens in a text are ordinary text."""
        clean = [without_surrogates(text) for text in texts]
        return [part.ids for part in self.plain.encode_batch_fast(clean, add_special_tokens=False)]

    def ragged_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return `text_ids` as arrays: int32 [all ids], and int64 [texts], the ids of each text."""
        rows = self.text_ids(texts)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def split(self, text: str) -> list[str]:
        """Return the normalised words of a text, before they are split into pieces."""
        text, engine = without_surrogates(text), self.plain
        normalizer, pre_tokenizer = engine.normalizer, engine.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        return (
            [word for word, _ in pre_tokenizer.pre_tokenize_str(text)] if pre_tokenizer else [text]
        )

    def continues(self, piece: str) -> bool:
        """Return whether a piece continues a word: it is not special, new or a word's begin.

        In a script without spaces between words, a piece without a mark for a space is a word of
        its own, unless it begins with a combining mark, such as a vowel sign.
        """
        if piece in self._whole:
            return False
        if self._continuation is not None:
            return piece.startswith(self._continuation)
        if piece.startswith(self._mark):
            return False
        if piece.isascii():
            return True
        text = _FROM_BYTES.decode([piece]) if self._mark == _BYTE_SPACE else piece
        is_spaceless = _WITHOUT_SPACES.match(text) is not None
        return not is_spaceless or unicodedata.category(text[0]).startswith("M")

    def with_added(self, added: Sequence[AddedToken]) -> Engine:
        """Return the same tokenizer with other added tokens."""
        content = file_io.decode_json(self.json, "tokenizer.json")
        special = [t for t in content["added_tokens"] if t["content"] in self.scheme.special_tokens]
        tokens = [*special, *(token.json for token in added)]
        content["added_tokens"] = sorted(tokens, key=lambda token: token["id"])
        return Engine(json.dumps(content), self.scheme)

    @property
    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of an equal tokenizer."""
        return {"json": self.json, "scheme": self.scheme}

    def __str__(self) -> str:
        return type(self.plain.model).__name__


def byte_level(
    ids: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    scheme: Scheme,
    *,
    prefix_space: bool = False,
    mask_takes_space: bool = True,
) -> Engine:
    """Build RoBERTa's byte-level BPE tokenizer (Radford et al., 2019, §2.2).

    Args:
        ids: piece -> id.
        merges: pairs of pieces. Earlier pairs are merged first.
        scheme: special tokens and their places around texts.
        prefix_space: tokenize the first word of a text as if a space preceded it.
        mask_takes_space: whether the mask token in a text includes the space before it.
    """
    engine = hf.Tokenizer(
        models.BPE(dict(ids), list(merges), continuing_subword_prefix="", end_of_word_suffix="")
    )
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = template(engine, scheme)
    if places(scheme) == places(ROBERTA):
        sep, cls = [(token, ids[token]) for token in (scheme.sep, scheme.cls)]
        engine.post_processor = processors.RobertaProcessing(
            sep, cls, trim_offsets=True, add_prefix_space=prefix_space
        )
    _add_special_tokens(engine, scheme, mask_takes_space=mask_takes_space)
    return Engine(engine.to_str(), scheme)


def wordpiece(
    ids: Mapping[str, int],
    scheme: Scheme,
    *,
    max_word_length: int,
    mask_takes_space: bool = True,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
) -> Engine:
    """Build BERT's WordPiece tokenizer with other special tokens than BERT's.

    Args:
        ids: piece -> id.
        scheme: special tokens and their places around texts.
        max_word_length: number of characters of the longest word that is not made [UNK].
        mask_takes_space: whether the mask token in a text includes the space before it.
        lowercase: lower-case the text.
        strip_accents: remove accents; None for the value of `lowercase`.
        split_cjk: make every Chinese character a word.
    """
    model = models.WordPiece(
        dict(ids), unk_token=scheme.unk, max_input_chars_per_word=max_word_length
    )
    engine = hf.Tokenizer(model)
    engine.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=split_cjk, strip_accents=strip_accents, lowercase=lowercase
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.post_processor = template(engine, scheme)
    _add_special_tokens(engine, scheme, mask_takes_space=mask_takes_space)
    return Engine(engine.to_str(), scheme)


def unigram(
    pieces: Sequence[tuple[str, float]],
    scheme: Scheme,
    *,
    character_map: bytes = b"",
    normalization: Sequence[str] = ("character_map",),
    splits_words: bool = True,
    split_punctuation: bool = False,
    mask_takes_space: bool = True,
) -> Engine:
    """Build a tokenizer with SentencePiece's unigram language model (Kudo, 2018).

    Args:
        pieces: (piece, log probability); the position is the id.
        scheme: special tokens and their places around texts.
        character_map: SentencePiece's compiled normalisation rules.
        normalization: steps in order; see `tokenizer_families.Family`.
        splits_words: split at white space before the model reads the text.
        split_punctuation: make every punctuation mark a word.
        mask_takes_space: whether the mask token in a text includes the space before it.
    """
    unknown = [piece for piece, _ in pieces].index(scheme.unk)
    engine = hf.Tokenizer(models.Unigram(list(pieces), unknown))
    steps: dict[str, list[normalizers.Normalizer]] = {
        "quotes": [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')],
        "accents": [normalizers.NFKD(), normalizers.StripAccents()],
        "lowercase": [normalizers.Lowercase()],
        "strip": [normalizers.Strip()],
        "character_map": [normalizers.Precompiled(character_map)] if character_map else [],
        "spaces": [normalizers.Replace(hf.Regex(" {2,}"), " ")],
    }
    if chosen := [step for name in normalization for step in steps[name]]:
        engine.normalizer = normalizers.Sequence(chosen)
    splits: list[pre_tokenizers.PreTokenizer] = [
        *([pre_tokenizers.WhitespaceSplit()] if splits_words else ()),
        *([pre_tokenizers.Punctuation("isolated")] if split_punctuation else ()),
        pre_tokenizers.Metaspace(WORD_START, "always"),
    ]
    engine.pre_tokenizer = pre_tokenizers.Sequence(splits)
    engine.decoder = decoders.Metaspace(WORD_START, "always")
    engine.post_processor = template(engine, scheme)
    _add_special_tokens(engine, scheme, mask_takes_space=mask_takes_space)
    return Engine(engine.to_str(), scheme)


def template(engine: hf.Tokenizer, scheme: Scheme) -> processors.TemplateProcessing:
    """Return the scheme as a post-processor, for other programs that open the tokenizer.json."""
    cls, sep, second = scheme.cls, scheme.sep, int(scheme.two_segments)
    between = [*[f"{sep}:0"] * scheme.separators, *[f"{cls}:{second}"] * scheme.cls_before_second]
    return processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", *between, f"$B:{second}", f"{sep}:{second}"],
        special_tokens=[(token, engine.token_to_id(token)) for token in (cls, sep)],
    )


def vocabulary_of(json: str) -> dict[str, int]:
    """Return piece -> id of a tokenizer.json."""
    return hf.Tokenizer.from_str(json).get_vocab(with_added_tokens=True)


def _without_special_tokens(content: dict[str, Any], scheme: Scheme) -> hf.Tokenizer:
    """Return the same tokenizer, but without recognition of special tokens in a text.

    The model itself could still match the text "[MASK]" as a piece. So special pieces are renamed
    to strings that occur in no text. Their ids do not change.
    """
    model = content["model"]
    added = content["added_tokens"]
    hidden = hidden_tokens(content, scheme)

    def spelled(piece: str) -> str:
        """Return the new name of a special piece; other pieces stay as they are."""
        return f"{NO_TEXT} {piece}" if piece in hidden else piece

    for token in added:
        token["content"] = spelled(token["content"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {spelled(piece): index for piece, index in model["vocab"].items()}
    else:
        model["vocab"] = [(spelled(piece), score) for piece, score in model["vocab"]]
    if model.get("unk_token") is not None:
        model["unk_token"] = spelled(model["unk_token"])
    return hf.Tokenizer.from_str(json.dumps(content))


def hidden_tokens(content: Mapping[str, Any], scheme: Scheme) -> set[str]:
    """Return the special tokens of a tokenizer.json that ordinary text does not have.

    A token that is a part of a merged piece stays, because merges need it.
    """
    merged = {part for pair in content["model"].get("merges") or () for part in pair}
    special = {token["content"] for token in content["added_tokens"] if token["special"]}
    return special.union(scheme.special_tokens) - merged


def _add_special_tokens(
    engine: hf.Tokenizer, scheme: Scheme, *, mask_takes_space: bool = True
) -> None:
    """Add the special tokens of the scheme that the tokenizer does not recognise in a text yet.

    Args:
        engine: tokenizer, changed in place.
        scheme: special tokens.
        mask_takes_space: whether the mask includes the space before it, as in most families of
            transformers. Then no piece is left for the space.
    """
    known = {token.content for token in engine.get_added_tokens_decoder().values()}
    engine.add_special_tokens(  # pyright: ignore[reportUnknownMemberType]
        [
            hf.AddedToken(token, special=True, lstrip=mask_takes_space and token == scheme.mask)
            for token in dict.fromkeys(scheme.special_tokens)
            if token not in known
        ]
    )
