"""BERT's tokenizer: the `tokenizers` library, set up so that ids equal those of transformers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bert_keras import handles
from bert_keras.tokenizers import files
from bert_keras.tokenizers.encoding import Encoding, assemble, kept_lengths, pad
from bert_keras.tokenizers.vocabulary import (
    CONTINUATION,
    MAX_WORD_LENGTH,
    SPECIAL_TOKENS,
    Progress,
    check_vocabulary,
    learn_vocabulary,
)
from bert_keras.tokenizers.words import WordIds, WordSplitter, without_surrogates


@final
class Tokenizer:
    """Cased or uncased WordPiece over a vocabulary.

    Immutable, picklable and safe to share between threads; equal where vocabulary and switches are.
    A lone surrogate in a text is no character: it is dropped, as U+FFFD is.

    Args:
        vocabulary: the pieces; the position is the id. Must hold the five special tokens.
        lowercase: lower-case the text.
        strip_accents: remove accents; None does it where `lowercase` does.
        split_cjk: make every Chinese character a word.

    Raises:
        DataError: the vocabulary is no use: names the entry.
    """

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
        self.lowercase = bool(lowercase)
        self.strip_accents = self.lowercase if strip_accents is None else bool(strip_accents)
        self.split_cjk = bool(split_cjk)
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        self.special_ids = tuple(ids[token] for token in SPECIAL_TOKENS)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids
        self.vocab_size = len(self.vocabulary)
        self.continuation = np.array([token.startswith(CONTINUATION) for token in ids], np.bool_)
        self.continuation.flags.writeable = False
        identity = json.dumps([self.vocabulary, self._switches()], ensure_ascii=True)
        self.fingerprint = hashlib.sha256(identity.encode()).hexdigest()
        model = models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_LENGTH)
        # Two engines over one model: settings of an engine are not safe to switch between threads.
        self._plain = self._engine(model)
        self._marked = self._engine(model)
        self._marked.add_special_tokens(list(SPECIAL_TOKENS))
        self._split = WordSplitter(self._plain.normalizer, self._plain.pre_tokenizer)
        self._word_ids = WordIds(model)

    def _switches(self) -> dict[str, bool]:
        return {name: getattr(self, name) for name in ("lowercase", "strip_accents", "split_cjk")}

    def _engine(self, model: models.WordPiece) -> hf.Tokenizer:
        engine = hf.Tokenizer(model)
        engine.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.split_cjk,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )
        engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        engine.decoder = decoders.WordPiece(prefix=CONTINUATION)
        engine.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", self.cls_id), ("[SEP]", self.sep_id)],
        )
        return engine

    @classmethod
    def learn(
        cls,
        documents: Iterable[str | Iterable[str]],
        *,
        vocab_size: int,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        progress: Progress | None = None,
    ) -> Tokenizer:
        """Learns a vocabulary of exactly `vocab_size` entries; see `learn_vocabulary`.

        Args:
            documents: documents, each a string or an iterable of sentences; read once.
            vocab_size: number of entries, the five special tokens included.
            lowercase: as for the class.
            strip_accents: as for the class.
            split_cjk: as for the class.
            progress: called with (done, total or None, what).

        Raises:
            DataError: the corpus cannot give that many entries; says how many it can.
        """
        switches = {"lowercase": lowercase, "strip_accents": strip_accents, "split_cjk": split_cjk}
        split = cls(SPECIAL_TOKENS, **switches)._split
        return cls(learn_vocabulary(documents, split, vocab_size, progress), **switches)

    @classmethod
    def from_preset(cls, handle: str | os.PathLike[str], **switches: Any) -> Tokenizer:
        """Opens a folder with vocab.txt, or else tokenizer.json; tokenizer_config.json if there.

        Without tokenizer_config.json the text is lower-cased, as transformers does it.

        Args:
            handle: the folder, a vocab.txt alone, or "hf://organisation/name[@revision]".
            switches: arguments of `Tokenizer` that come before what the folder says.

        Raises:
            ArtifactError: no such files, or those of another tokenizer.
            DataError: the vocabulary is no use: names file and line.
        """
        folder = handles.resolve(handle, files.KNOWN)
        return cls(**files.read_folder(folder) | switches)

    def save_to_preset(self, directory: str | os.PathLike[str]) -> None:
        """Writes the files from which this class and transformers open the same tokenizer."""
        engine = self._marked.to_str(pretty=True)
        files.write_folder(Path(directory), self.vocabulary, self._switches(), engine)

    def token_to_id(self, token: str) -> int | None:
        """The id of a piece; None where it is not in the vocabulary."""
        return self._plain.token_to_id(token)

    def id_to_token(self, id: int) -> str:  # noqa: A002
        """The piece with this id."""
        if not 0 <= id < self.vocab_size:
            raise ValueError(f"id must be from 0 to {self.vocab_size - 1}. Received: {id}")
        return self.vocabulary[id]

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int | None = None,
        add_special_tokens: bool = True,
        special_tokens_in_text: bool = True,
    ) -> Encoding:
        """Encodes a text, or two, as [CLS] text [SEP] or [CLS] text [SEP] pair [SEP].

        Args:
            text: the text.
            pair: a second text, which may be empty; None for none.
            max_length: cut the end of the longer text until all fits; None cuts nothing.
            add_special_tokens: add [CLS] and [SEP].
            special_tokens_in_text: whether "[MASK]" and its like in a text mean the special token.
        """
        engine = self._marked if special_tokens_in_text else self._plain
        texts = [text] if pair is None else [text, pair]
        parts = [engine.encode(without_surrogates(t), add_special_tokens=False) for t in texts]
        num_added = len(parts) + 1 if add_special_tokens else 0
        kept = kept_lengths([len(part) for part in parts], max_length, num_added)
        return assemble(parts, kept, (self.cls_id, self.sep_id) if add_special_tokens else None)

    def __call__(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        padding: Literal["longest", "max_length"] = "longest",
    ) -> dict[str, np.ndarray]:
        """Encodes a batch as `encode` does, padded at the end.

        Returns:
            `token_ids`, `segment_ids` and `padding_mask` (1 for a token), int32 [batch, length].
        """
        if isinstance(texts, str) or isinstance(pairs, str):
            raise TypeError("texts must be a list of strings. Received: one string")
        if padding not in ("longest", "max_length") or (padding == "max_length" and not max_length):
            raise ValueError(
                'padding must be "longest", or "max_length" with max_length given. '
                f"Received: padding={padding!r}, max_length={max_length}"
            )
        columns = [texts] if pairs is None else [texts, pairs]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                f"texts and pairs must be equally many. Received: {[len(c) for c in columns]}"
            )
        encoded = [
            self._marked.encode_batch_fast(
                [without_surrogates(text) for text in column], add_special_tokens=False
            )
            for column in columns
        ]
        rows: list[list[list[int]]] = []
        for parts in zip(*encoded, strict=True):
            kept = kept_lengths([len(part) for part in parts], max_length, len(parts) + 1)
            row = [[*part.ids[:n], self.sep_id] for part, n in zip(parts, kept, strict=True)]
            row[0].insert(0, self.cls_id)
            rows.append(row)
        return pad(rows, self.pad_id, max_length if padding == "max_length" else None)

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text alone: nothing added, and "[SEP]" is plain text. The fastest way."""
        return [self._word_ids.of(self._split(text)) for text in texts]

    def decode(self, ids: Sequence[int] | np.ndarray, skip_special_tokens: bool = True) -> str:
        """The text of the ids, as far as it can be told."""
        tokens = [int(i) for i in ids]
        for index in tokens:
            self.id_to_token(index)
        return self._marked.decode(tokens, skip_special_tokens=skip_special_tokens)

    def __getstate__(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary, **self._switches()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        switches = ", ".join(f"{name}={value}" for name, value in self._switches().items())
        return f"Tokenizer({self.vocab_size} entries, {switches})"
