"""Engines of the `tokenizers` library that files describe: byte-level BPE, SentencePiece.

Where a text's special tokens go is not the engines' business: see `encoding`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.tokenizers.basic_tokenizer import without_surrogates
from bert_keras.tokenizers.encoding import Scheme, special_token_places

WORD_START = "\u2581"  # SentencePiece's mark of a space
_BYTE_SPACE = "\u0120"  # the byte of a space, as byte-level vocabularies write it
_MARKS = (WORD_START, _BYTE_SPACE)
_NO_TEXT = "\U0010ffff"  # no character


class Engine:
    """The kind of tokenizer that a tokenizer.json describes.

    Args:
        json: the content of the file.
        scheme: the special tokens, and where they stand.

    Attributes:
        vocabulary: the pieces; the position is the id.
        plain: the engine to which special tokens in a text are text.
        marked: the engine that finds them.
        identity: all that decides ids.
    """

    def __init__(self, json: str, scheme: Scheme):
        self.scheme = scheme
        self.marked = hf.Tokenizer.from_str(json)
        _add_special_tokens(self.marked, scheme)
        self.json = self.marked.to_str()  # in the library's own order of things
        content = _parsed(self.json)
        if not special_token_places(content["post_processor"]):
            steps = [self.marked.post_processor, template(self.marked, scheme)]
            self.marked.post_processor = processors.Sequence([s for s in steps if s is not None])
            self.json = self.marked.to_str()
        self.plain = _without_special_tokens(content, scheme)
        ids = self.marked.get_vocab(with_added_tokens=True)
        self.vocabulary = tuple(sorted(ids, key=ids.__getitem__))
        if [ids[piece] for piece in self.vocabulary] != list(range(len(ids))):
            raise ValueError("a piece is there twice, or an id is missing")
        self.identity = str((self.json, scheme))
        marks = [m for m in _MARKS if any(piece.startswith(m) for piece in self.vocabulary)]
        self._mark = marks[0] if marks else ""
        model = self.plain.model
        is_wordpiece = isinstance(model, models.WordPiece)
        self._continuation = model.continuing_subword_prefix if is_wordpiece else None
        self._special = frozenset(scheme.special_tokens)

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, to which special tokens are text."""
        clean = [without_surrogates(text) for text in texts]
        return [part.ids for part in self.plain.encode_batch_fast(clean, add_special_tokens=False)]

    def ragged_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The same in two arrays: all ids, and how many each text has."""
        rows = self.text_ids(texts)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def continues(self, piece: str) -> bool:
        """Return whether the piece continues a word."""
        if piece in self._special:
            return False
        if self._continuation is not None:
            return piece.startswith(self._continuation)
        return not piece.startswith(self._mark)

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
) -> Engine:
    """Byte-level BPE (Radford et al., 2019, §2.2), as RoBERTa has it.

    Args:
        ids: of the pieces.
        merges: pairs of pieces, the first to be merged first.
        scheme: special tokens around texts.
        prefix_space: read the first word of a text as one that follows a space.
    """
    engine = hf.Tokenizer(
        models.BPE(dict(ids), list(merges), continuing_subword_prefix="", end_of_word_suffix="")
    )
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    engine.decoder = decoders.ByteLevel()
    sep, cls = [(token, ids[token]) for token in (scheme.sep, scheme.cls)]
    engine.post_processor = processors.RobertaProcessing(
        sep, cls, trim_offsets=True, add_prefix_space=prefix_space
    )
    return Engine(engine.to_str(), scheme)


def unigram(
    pieces: Sequence[tuple[str, float]],
    scheme: Scheme,
    *,
    character_map: bytes = b"",
    quotes: bool = False,
    strip_accents: bool = False,
    lowercase: bool = False,
) -> Engine:
    """SentencePiece's unigram language model (Kudo, 2018), as ALBERT and XLM-R have it.

    Args:
        pieces: (piece, log probability) by id.
        scheme: special tokens around texts.
        character_map: SentencePiece's compiled normalisation.
        quotes: write `` and '' as " before anything else, as ALBERT was trained.
        strip_accents: remove accents.
        lowercase: lower-case the text.
    """
    unknown = [piece for piece, _ in pieces].index(scheme.unk)
    engine = hf.Tokenizer(models.Unigram(list(pieces), unknown))
    steps: list[normalizers.Normalizer] = []
    if quotes:
        steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if strip_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if character_map:
        steps.append(normalizers.Precompiled(character_map))
    if steps:
        engine.normalizer = normalizers.Sequence(steps)
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(WORD_START, "always")]
    )
    engine.decoder = decoders.Metaspace(WORD_START, "always")
    engine.post_processor = template(engine, scheme)
    return Engine(engine.to_str(), scheme)


def template(engine: hf.Tokenizer, scheme: Scheme) -> processors.TemplateProcessing:
    """The scheme, for other programs that open the engine."""
    cls, sep, second = scheme.cls, scheme.sep, int(scheme.two_segments)
    separators = [f"{sep}:0"] * scheme.separators
    return processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", *separators, f"$B:{second}", f"{sep}:{second}"],
        special_tokens=[(token, engine.token_to_id(token)) for token in (cls, sep)],
    )


def vocabulary_of(json: str) -> dict[str, int]:
    """The ids of a tokenizer.json's pieces."""
    return hf.Tokenizer.from_str(json).get_vocab(with_added_tokens=True)


def _parsed(text: str) -> dict[str, Any]:
    return json.loads(text)


def _without_special_tokens(content: dict[str, Any], scheme: Scheme) -> hf.Tokenizer:
    """The same engine, in whose texts no special token is found.

    Nothing forbids a model to match the pieces themselves. So they are spelled as no text is: ids
    are given by place, and stay.
    """
    model = content["model"]
    added = content["added_tokens"]
    merged = {part for pair in model.get("merges") or () for part in pair}
    special = {token["content"] for token in added if token["special"]}
    hidden = special.union(scheme.special_tokens) - merged

    def spelled(piece: str) -> str:
        return f"{_NO_TEXT} {piece}" if piece in hidden else piece

    for token in added:
        token["content"] = spelled(token["content"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {spelled(piece): index for piece, index in model["vocab"].items()}
    else:
        model["vocab"] = [(spelled(piece), score) for piece, score in model["vocab"]]
    if model.get("unk_token") is not None:
        model["unk_token"] = spelled(model["unk_token"])
    return hf.Tokenizer.from_str(json.dumps(content))


def _add_special_tokens(engine: hf.Tokenizer, scheme: Scheme) -> None:
    """Makes the engine find those in a text that it does not look for yet."""
    known = {token.content for token in engine.get_added_tokens_decoder().values()}
    # A mask takes the space before it along, or the piece behind it would not be one of a word.
    engine.add_special_tokens(
        [
            hf.AddedToken(token, special=True, lstrip=token == scheme.mask)
            for token in scheme.special_tokens
            if token not in known
        ]
    )
