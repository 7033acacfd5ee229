"""BERT's WordPiece tokenizer (Wu et al., 2016, §4.1; Devlin et al., 2019, §3)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers

from bert_keras.tokenizers import backends
from bert_keras.tokenizers.added_tokens import AddedToken, add_to
from bert_keras.tokenizers.basic_tokenizer import (
    TEXT_END,
    WordSplitter,
    without_surrogates,
)
from bert_keras.tokenizers.encoding import BERT
from bert_keras.tokenizers.vocabulary import CONTINUATION, check_vocabulary
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH
from bert_keras.tokenizers.word_cache import LongestMatch, WordTable

if TYPE_CHECKING:
    from bert_keras.tokenizers.tokenizer import Tokenizer


class Switches(TypedDict):
    """Switches of BERT's normalisation, as arguments of `WordPiece` and `Tokenizer`."""

    lowercase: bool
    strip_accents: bool | None
    split_cjk: bool


class WordPiece:
    """WordPiece model of BERT, DistilBERT and ELECTRA. `backends.Engine` has the same methods.

    Args:
        vocabulary: all pieces; the position is the id.
        lowercase: lower-case the text.
        strip_accents: remove accents; None for the value of `lowercase`.
        split_cjk: make every Chinese character a word.
        added: tokens that were added to the vocabulary, as tuples of `AddedToken`, ordered by id.

    Attributes:
        vocabulary: all pieces, then the added tokens.
        pieces: all pieces, without added tokens; `num_pieces` is their number.
        added: tokens that were added.
        scheme: special tokens and their places around texts.
        switches: values of the three arguments of normalisation, by name.
        plain: library tokenizer that treats "[MASK]" and the like in a text as ordinary text.
        marked: library tokenizer that recognises special tokens in a text.
        identity: text that is equal for two tokenizers if they give the same ids.
        split: function from a text to its words.
        max_word_length: number of characters of the longest word that is read.

    Raises:
        DataError: if the vocabulary is not valid. The message names the entry.
    """

    scheme = BERT
    max_word_length: int | None = MAX_WORD_LENGTH

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        added: Iterable[Sequence[Any]] = (),
    ):
        check_vocabulary(vocabulary)
        self.pieces, self.num_pieces = tuple(vocabulary), len(vocabulary)
        self.added = tuple(AddedToken(*token) for token in added)
        new = [token.content for token in self.added if token.id >= len(self.pieces)]
        self.vocabulary = (*self.pieces, *new)
        self._new = frozenset(new)
        self.switches = {
            "lowercase": bool(lowercase),
            "strip_accents": bool(lowercase if strip_accents is None else strip_accents),
            "split_cjk": bool(split_cjk),
        }
        parts = [self.pieces, self.switches, *([self.added] if self.added else [])]
        self.identity = json.dumps(parts, ensure_ascii=True)
        ids = {token: index for index, token in enumerate(self.pieces)}
        model = models.WordPiece(ids, unk_token=BERT.unk, max_input_chars_per_word=MAX_WORD_LENGTH)
        # Two tokenizers share one model, because switching one of them is not thread-safe.
        self.plain, self.marked = self._engine(model), self._engine(model)
        self.marked.add_special_tokens(list(BERT.special_tokens))  # pyright: ignore[reportUnknownMemberType]
        add_to(self.plain, self.added, hide_special=True)
        add_to(self.marked, self.added, hide_special=False)
        self.split = WordSplitter(self.plain.normalizer, self.plain.pre_tokenizer)
        match = LongestMatch(self.pieces, ids[BERT.unk])
        self._table = WordTable(model, match, self.split)
        self._may_have_added = self._pattern_of_added()

    def _engine(self, model: models.WordPiece) -> hf.Tokenizer:
        """Build a tokenizer of the `tokenizers` library around a WordPiece model."""
        engine = hf.Tokenizer(model)
        engine.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.switches["split_cjk"],
            strip_accents=self.switches["strip_accents"],
            lowercase=self.switches["lowercase"],
        )
        engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        engine.decoder = decoders.WordPiece(prefix=CONTINUATION)
        engine.post_processor = backends.template(engine, BERT)
        return engine

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text. Special tokens in a text are ordinary text."""
        ids, lengths = self.ragged_ids(texts)
        flat, ends = ids.tolist(), np.cumsum(lengths).tolist()
        return [flat[start:end] for start, end in pairwise([0, *ends])]

    def ragged_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all texts in one array, and the number of ids of each text.

        Special tokens in a text are ordinary text.

        Returns:
            int32 [all ids] and int64 [texts].
        """
        if len(texts) == 0:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        cleaned = self.split.cleaned(texts)
        if self._may_have_added is None or not self._may_have_added.search(cleaned):
            return self._table.ids(cleaned)
        return self._with_added(texts, cleaned.split(TEXT_END))

    def _pattern_of_added(self) -> re.Pattern[bytes] | None:
        """Return a pattern for cleaned texts that may have an added token; None for no tokens.

        Cleaned texts have spaces at other places than normalised ones. But every word of an added
        token is in the cleaned text of each text with that token, so its longest word is searched.
        """
        words: set[str] = set()
        for token in self.added:
            if not token.special:
                words.add(max(self.split.by_engine(token.content), key=len, default=""))
        if not words:
            return None
        return re.compile(b"|".join(re.escape(word.encode()) for word in sorted(words)))

    def _with_added(
        self, texts: Sequence[str], cleaned: Sequence[bytes]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `ragged_ids` of texts of which some may have added tokens.

        The `tokenizers` library encodes these. All others are looked up word by word.
        """
        pattern = self._may_have_added
        is_hit = [pattern is not None and bool(pattern.search(text)) for text in cleaned]
        hits = [without_surrogates(text) for text, hit in zip(texts, is_hit, strict=True) if hit]
        encoded = self.plain.encode_batch_fast(hits, add_special_tokens=False)
        slow = iter([np.array(part.ids, np.int32) for part in encoded])
        others = [text for text, hit in zip(cleaned, is_hit, strict=True) if not hit]
        fast = iter(slow)
        if others:
            ids, lengths = self._table.ids(TEXT_END.join(others))
            fast = iter(np.split(ids, np.cumsum(lengths)[:-1]))
        rows = [next(slow if hit else fast) for hit in is_hit]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def continues(self, piece: str) -> bool:
        """Return whether a piece continues a word. A new token is a word of its own."""
        return piece.startswith(CONTINUATION) and piece not in self._new

    def with_added(self, added: Sequence[AddedToken]) -> WordPiece:
        """Return the same tokenizer with other added tokens."""
        return WordPiece(self.pieces, **self.switches, added=added)

    @property
    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of an equal tokenizer."""
        added = {"added": [tuple(token) for token in self.added]} if self.added else {}
        return {"vocabulary": self.pieces, **self.switches, **added}

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.switches.items())

    @property
    def json(self) -> str:
        """Content of a tokenizer.json."""
        return self.marked.to_str(pretty=True)


# === Tokenizers that a TensorFlow graph can hold ===


def require_word_piece(tokenizer: Tokenizer) -> None:
    """Raise `ValueError` for a tokenizer that is not BERT's WordPiece, or cannot run in a graph.

    The latter is WordPiece with an added token that the operations of a graph cannot find. The
    message names the token and the reason.
    """
    if tokenizer.lowercase is None:
        raise ValueError(
            "TensorFlow Hub's text API has only BERT's WordPiece. Use export.saved_model "
            "(--format saved_model of bert-keras export), whose graph has other tokenizers too. "
            f"Received: {tokenizer!r}"
        )
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(tokenizer.split_cjk),
        strip_accents=tokenizer.strip_accents,
        lowercase=tokenizer.lowercase,
    )
    seen: dict[str, str] = {}
    for token in tokenizer.added_tokens:
        content = token.content
        found = normalizer.normalize_str(content) if token.normalized else content
        reason = _reason_against(token, found, tokenizer)
        if token.normalized and not reason and found in seen:
            reason = f"is {seen[found]!r} after normalisation, which is an added token too"
        if reason:
            raise ValueError(
                f"The added token {content!r} {reason}: the graph of a SavedModel cannot find it. "
                "Leave it out of the tokenizer, or export the model without its tokenizer, and "
                f"make ids in Python. Received: {tokenizer!r}"
            )
        seen |= {found: content} if token.normalized else {}


def _reason_against(token: AddedToken, found: str, tokenizer: Tokenizer) -> str:
    """Return why a graph cannot find an added token; "" if it can.

    Args:
        token: the token.
        found: its text as it is searched, normalised or raw.
        tokenizer: its tokenizer.
    """
    content = token.content
    options = [name for name in ("lstrip", "rstrip", "single_word") if getattr(token, name)]
    if options:
        return f"has {options[0]}=True"
    if "\n" in content or "\r" in content:
        return "has a line break"
    if not token.normalized:
        return ""
    if not found:
        return "has no characters after normalisation"
    # Normalisation puts spaces around Chinese characters, which a graph leaves out.
    is_spaced = bool(tokenizer.split_cjk) and found.strip() != found
    if content.strip() != content or (is_spaced and any(map(str.isspace, content))):
        return "has a space at an end or beside a Chinese character"
    if tokenizer.strip_accents and any(map(unicodedata.combining, found)):
        return "has a combining mark, which normalisation may move"
    return ""
