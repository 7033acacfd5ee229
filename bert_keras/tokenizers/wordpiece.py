"""BERT's WordPiece tokenizer (Wu et al., 2016, §4.1; Devlin et al., 2019, §3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np
import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers

from bert_keras.tokenizers import backends
from bert_keras.tokenizers.basic_tokenizer import WordSplitter
from bert_keras.tokenizers.encoding import BERT
from bert_keras.tokenizers.vocabulary import CONTINUATION, check_vocabulary
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH
from bert_keras.tokenizers.word_cache import LongestMatch, WordTable


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

    Attributes:
        vocabulary: all pieces.
        scheme: special tokens and their places around texts.
        switches: values of the other arguments, by name.
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
    ):
        check_vocabulary(vocabulary)
        self.vocabulary = tuple(vocabulary)
        self.switches = {
            "lowercase": bool(lowercase),
            "strip_accents": bool(lowercase if strip_accents is None else strip_accents),
            "split_cjk": bool(split_cjk),
        }
        self.identity = json.dumps([self.vocabulary, self.switches], ensure_ascii=True)
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        model = models.WordPiece(ids, unk_token=BERT.unk, max_input_chars_per_word=MAX_WORD_LENGTH)
        # Two tokenizers share one model, because switching one of them is not thread-safe.
        self.plain, self.marked = self._engine(model), self._engine(model)
        self.marked.add_special_tokens(list(BERT.special_tokens))  # pyright: ignore[reportUnknownMemberType]
        self.split = WordSplitter(self.plain.normalizer, self.plain.pre_tokenizer)
        match = LongestMatch(self.vocabulary, ids[BERT.unk])
        self._table = WordTable(model, match, self.split)

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
        return self._table.ids(self.split.cleaned(texts))

    def continues(self, piece: str) -> bool:
        """Return whether a piece continues a word."""
        return piece.startswith(CONTINUATION)

    @property
    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of an equal tokenizer."""
        return {"vocabulary": self.vocabulary, **self.switches}

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.switches.items())

    @property
    def json(self) -> str:
        """Content of a tokenizer.json."""
        return self.marked.to_str(pretty=True)
