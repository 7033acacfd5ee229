"""BERT's tokenizer: the `tokenizers` library, set up so that ids equal those of transformers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Never, final

import numpy as np

from bert_keras import presets
from bert_keras.tokenizers import files
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.basic_tokenizer import list_of_texts, without_surrogates
from bert_keras.tokenizers.encoding import Encoding, assemble, kept_lengths, pad
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS, Progress, learn_vocabulary
from bert_keras.tokenizers.wordpiece import WordPiece


@final
class Tokenizer:
    """Strings to ids. Made from a vocabulary: cased or uncased WordPiece, BERT's.

    `from_preset` also opens what the other families have: byte-level BPE and SentencePiece.
    Immutable, picklable and safe to share between threads; equal where they give the same ids.
    A lone surrogate in a text is no character: it is read as U+FFFD, which BERT drops.

    Args:
        vocabulary: the pieces; the position is the id. Must hold the five special tokens.
        lowercase: lower-case the text.
        strip_accents: remove accents; None does it where `lowercase` does.
        split_cjk: make every Chinese character a word.

    Attributes:
        vocabulary: the pieces.
        scheme: the special tokens, and where they stand.
        lowercase: as given, as are `strip_accents` and `split_cjk`; None where a file of another
            kind of tokenizer says what is done.
        special_ids: of padding, unknown, class, separator and mask; also one by one, as `pad_id`.
        continuation: bool [vocab_size], whether a piece goes on with a word.
        fingerprint: a hash of all that decides ids.

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
        switches = {"lowercase": lowercase, "strip_accents": strip_accents, "split_cjk": split_cjk}
        self._use(WordPiece(vocabulary, **switches))

    @classmethod
    def from_engine(cls, engine: Engine) -> Tokenizer:
        """A tokenizer of another kind than BERT's, as `tokenizers.backends` makes them."""
        self = cls.__new__(cls)
        self._use(engine)
        return self

    def _use(self, kind: WordPiece | Engine) -> None:
        self._kind = kind
        self.vocabulary, self.scheme = kind.vocabulary, kind.scheme
        switches = kind.switches if isinstance(kind, WordPiece) else {}
        names = "lowercase", "strip_accents", "split_cjk"
        self.lowercase, self.strip_accents, self.split_cjk = map(switches.get, names)
        self.vocab_size = len(self.vocabulary)
        ids = [self.vocabulary.index(token) for token in self.scheme.special_tokens]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        self.special_ids = tuple(ids)
        self.continuation = np.array([*map(kind.continues, self.vocabulary)], np.bool_)
        self.continuation.flags.writeable = False
        self.fingerprint = hashlib.sha256(kind.identity.encode()).hexdigest()

    @classmethod
    def train(
        cls,
        documents: Iterable[str | Iterable[str]],
        *,
        vocab_size: int,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        progress: Progress | None = None,
    ) -> Tokenizer:
        """Train a WordPiece tokenizer with a vocabulary of exactly `vocab_size` entries.

        See `learn_vocabulary`.

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
        split = WordPiece(SPECIAL_TOKENS, **switches).split
        return cls(learn_vocabulary(documents, split, vocab_size, progress), **switches)

    @classmethod
    def learn(cls, *_: Any, **__: Any) -> Never:
        """Say how `train` was called in earlier versions."""
        raise AttributeError("`Tokenizer.learn` is called `Tokenizer.train` now.")

    @classmethod
    def from_preset(cls, handle: str | os.PathLike[str], **switches: Any) -> Tokenizer:
        """Opens the tokenizer of a folder, by the first of these that it has.

        tokenizer.json of byte-level BPE or a unigram model (RoBERTa, ALBERT, XLM-R); vocab.txt or
        tokenizer.json of WordPiece (BERT, DistilBERT, ELECTRA); vocab.json with merges.txt;
        spiece.model or sentencepiece.bpe.model, for which the extra `sentencepiece` is needed;
        KerasHub's assets; what `export.tf_hub` wrote, with the switches of the exported tokenizer;
        assets/vocab.txt of another SavedModel, cased if its words are.
        What tokenizer_config.json says of case, accents, Chinese characters and special tokens is
        honoured; without it WordPiece lower-cases, as it does in transformers.

        Args:
            handle: the folder, a vocab.txt alone, "hf://organisation/name[@revision]", or a name
                of `PRESETS`, which stands for its published tokenizer unless there is a local
                folder of that name.
            switches: arguments of `Tokenizer` that come before what the folder says; WordPiece
                only.

        Raises:
            ArtifactError: no such files, damaged ones, or those of another tokenizer.
            DataError: the vocabulary is no use: names file and line.
        """
        found = files.read_folder(presets.resolve_handle(handle, files.KNOWN))
        if not isinstance(found, Engine):
            return cls(**found | switches)
        if switches:
            raise ValueError(
                f"Only WordPiece takes {', '.join(switches)}; here the file says what is done. "
                f"Received: {handle!s}"
            )
        return cls.from_engine(found)

    def save_to_preset(self, directory: str | os.PathLike[str]) -> None:
        """Writes the files from which this class and transformers open the same tokenizer."""
        files.write_folder(Path(directory), self._kind)

    def token_to_id(self, token: str) -> int | None:
        """The id of a piece; None where it is not in the vocabulary."""
        return self._kind.marked.token_to_id(token)

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
        """Encodes a text, or two: [CLS] text [SEP] or [CLS] text [SEP] pair [SEP], by `scheme`.

        Args:
            text: the text.
            pair: a second text, which may be empty; None for none.
            max_length: cut the end of the longer text until all fits; None cuts nothing.
            add_special_tokens: add [CLS] and [SEP].
            special_tokens_in_text: whether "[MASK]" and its like in a text mean the special token.
        """
        engine = self._kind.marked if special_tokens_in_text else self._kind.plain
        texts = [text] if pair is None else [text, pair]
        parts = [engine.encode(without_surrogates(t), add_special_tokens=False) for t in texts]
        num_added = self.scheme.num_added(len(parts)) if add_special_tokens else 0
        kept = kept_lengths([len(part) for part in parts], max_length, num_added)
        added = (self.cls_id, self.sep_id) if add_special_tokens else None
        return assemble(parts, kept, self.scheme, added)

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
            `token_ids`, `segment_ids` (where there can be a second segment) and `padding_mask`
            (1 for a token), int32 [batch, length].
        """
        if padding not in ("longest", "max_length") or (padding == "max_length" and not max_length):
            raise ValueError(
                'padding must be "longest", or "max_length" with max_length given. '
                f"Received: padding={padding!r}, max_length={max_length}"
            )
        columns = [*map(list_of_texts, [texts] if pairs is None else [texts, pairs])]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                f"texts and pairs must be equally many. Received: {[len(c) for c in columns]}"
            )
        encoded = [
            self._kind.marked.encode_batch_fast(
                [without_surrogates(text) for text in column], add_special_tokens=False
            )
            for column in columns
        ]
        rows: list[list[list[int]]] = []
        num_added = self.scheme.num_added(len(columns))
        between = [self.sep_id] * (self.scheme.separators - 1)
        for parts in zip(*encoded, strict=True):
            kept = kept_lengths([len(part) for part in parts], max_length, num_added)
            row = [[*part.ids[:n], self.sep_id] for part, n in zip(parts, kept, strict=True)]
            row[0] = [self.cls_id, *row[0], *(between if pairs is not None else ())]
            rows.append(row)
        width = max_length if padding == "max_length" else None
        return pad(rows, self.pad_id, width, two_segments=self.scheme.two_segments)

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text alone: nothing added, and "[SEP]" is plain text."""
        return self._kind.text_ids(list_of_texts(texts))

    def ragged_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The same in arrays, the fastest way: int32 [all ids], int64 [texts] how many each has."""
        return self._kind.ragged_ids(list_of_texts(texts))

    def decode(self, ids: Sequence[int] | np.ndarray, skip_special_tokens: bool = True) -> str:
        """The text of the ids, as far as it can be told."""
        tokens = [*map(int, ids)]
        for index in tokens:
            self.id_to_token(index)
        return self._kind.marked.decode(tokens, skip_special_tokens=skip_special_tokens)

    def __getstate__(self) -> dict[str, Any]:
        return self._kind.arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._use(Engine(**state) if "json" in state else WordPiece(**state))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab_size} entries, {self._kind})"
