"""Engines of the `tokenizers` library that files describe: byte-level BPE, SentencePiece.

Where a text's special tokens go is not the engines' business: see `scheme` and `encoding`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.tokenizers.scheme import Scheme
from bert_keras.tokenizers.words import without_surrogates

WORD_START = "\u2581"  # SentencePiece's mark of a space
_BYTE_SPACE = "\u0120"  # the byte of a space, as byte-level vocabularies write it


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
        self.json = self.marked.to_str()  # in the library's own order of things
        self.plain = _without_special_tokens(self.json, scheme)
        ids = self.marked.get_vocab(with_added_tokens=True)
        self.vocabulary = tuple(sorted(ids, key=ids.__getitem__))
        self.identity = str((self.json, scheme))

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, to which special tokens are text."""
        clean = [without_surrogates(text) for text in texts]
        return [part.ids for part in self.plain.encode_batch_fast(clean, add_special_tokens=False)]

    def continues(self, piece: str) -> bool:
        """Whether the piece goes on with a word."""
        if piece in self.scheme.special_tokens:
            return False
        model = self.plain.model
        if isinstance(model, models.WordPiece):
            return piece.startswith(model.continuing_subword_prefix)
        return not piece.startswith(
            WORD_START if isinstance(model, models.Unigram) else _BYTE_SPACE
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """What makes an equal one."""
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
    return Engine(_with_special_tokens(engine, scheme), scheme)


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
    return Engine(_with_special_tokens(engine, scheme), scheme)


def template(engine: hf.Tokenizer, scheme: Scheme) -> processors.TemplateProcessing:
    """The scheme, for other programs that open the engine."""
    cls, sep, second = scheme.cls, scheme.sep, int(scheme.two_segments)
    separators = [f"{sep}:0"] * scheme.separators
    return processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", *separators, f"$B:{second}", f"{sep}:{second}"],
        special_tokens=[(token, engine.token_to_id(token)) for token in (cls, sep)],
    )


def _without_special_tokens(text: str, scheme: Scheme) -> hf.Tokenizer:
    content = json.loads(text)
    content["added_tokens"] = [t for t in content.get("added_tokens") or () if not t["special"]]
    if content["model"].get("type") == "Unigram":
        # Nothing forbids it to match the piece itself; with a space it is in no text that is split.
        content["model"]["vocab"] = [
            (f" {piece}" if piece in scheme.special_tokens else piece, score)
            for piece, score in content["model"]["vocab"]
        ]
    return hf.Tokenizer.from_str(json.dumps(content))


def _with_special_tokens(engine: hf.Tokenizer, scheme: Scheme) -> str:
    # A mask takes the space before it along, or the piece behind it would not be one of a word.
    tokens = {token: hf.AddedToken(token, special=True) for token in scheme.special_tokens}
    tokens[scheme.mask] = hf.AddedToken(scheme.mask, special=True, lstrip=True)
    engine.add_special_tokens(list(tokens.values()))
    return engine.to_str()
