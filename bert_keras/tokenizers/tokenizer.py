"""Tokenizer of texts for all model families, with the same ids as transformers."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Never, final

import numpy as np

from bert_keras import presets
from bert_keras.errors import CoverageWarning
from bert_keras.tokenizers import added_tokens, files, graph_pipeline
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.basic_tokenizer import list_of_texts, without_surrogates
from bert_keras.tokenizers.encoding import Encoding, assemble, kept_lengths, pad
from bert_keras.tokenizers.subword_training import check_model, train_engine
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS, learn_vocabulary
from bert_keras.tokenizers.vocabulary_coverage import TRAIN_ANOTHER, Coverage, measure_coverage
from bert_keras.tokenizers.word_counts import Progress
from bert_keras.tokenizers.wordpiece import Switches, WordPiece


@final
class Tokenizer:
    """Tokenizer from strings to ids. The constructor makes BERT's WordPiece from a vocabulary.

    `from_preset` also opens the tokenizers of other families: byte-level BPE and SentencePiece.
    A tokenizer is immutable, picklable and safe to share between threads. Two tokenizers are equal
    if they give the same ids. A lone surrogate in a text is read as U+FFFD, which BERT drops.

    Args:
        vocabulary: all pieces; the position is the id. The five special tokens must be among them.
        lowercase: lower-case the text.
        strip_accents: remove accents; None for the value of `lowercase`.
        split_cjk: make every Chinese character a word.

    Attributes:
        vocabulary: all pieces, then added tokens.
        added_tokens: the tokens of `add_tokens` and of the folder, besides those of `scheme`.
        num_pieces: number of entries without the added tokens that have new ids.
        scheme: special tokens and their places around texts.
        lowercase: value of the argument, like `strip_accents` and `split_cjk`. They are None for
            byte-level BPE and SentencePiece, whose files define the normalisation.
        special_ids: ids of the padding, unknown, [CLS], [SEP] and mask tokens. Each also has an
            attribute of its own, such as `pad_id`.
        continuation: bool [vocab_size], True for a piece that continues a word.
        subword_prefix: beginning of such pieces, "##" in BERT; "" if they have none.
        fingerprint: hash of everything that determines the ids.

    Raises:
        DataError: if the vocabulary is not valid. The message names the entry.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
    ):
        switches = Switches(lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk)
        self._use(WordPiece(vocabulary, **switches))

    @classmethod
    def from_engine(cls, engine: Engine) -> Tokenizer:
        """Make a tokenizer of another kind than BERT's; see `tokenizers.backends`."""
        self = cls.__new__(cls)
        self._use(engine)
        return self

    def _use(self, kind: WordPiece | Engine) -> None:
        """Set all attributes from the WordPiece model or the engine that does the work."""
        self._kind = kind
        self.vocabulary, self.scheme = kind.vocabulary, kind.scheme
        self.added_tokens = kind.added
        self.num_pieces = kind.num_pieces
        self._added_ids = frozenset(token.id for token in kind.added)
        switches = kind.switches if isinstance(kind, WordPiece) else {}
        names = "lowercase", "strip_accents", "split_cjk"
        self.lowercase, self.strip_accents, self.split_cjk = map(switches.get, names)
        self.vocab_size = len(self.vocabulary)
        ids = [self.vocabulary.index(token) for token in self.scheme.special_tokens]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        self.special_ids = tuple(ids)
        self.continuation = np.array([*map(kind.continues, self.vocabulary)], np.bool_)
        self.continuation.flags.writeable = False
        self.subword_prefix = getattr(kind.plain.model, "continuing_subword_prefix", None) or ""
        self.fingerprint = hashlib.sha256(kind.identity.encode()).hexdigest()

    @classmethod
    def train(
        cls,
        documents: Iterable[str | Iterable[str]],
        *,
        vocab_size: int,
        model: str = "wordpiece",
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        progress: Progress | None = None,
    ) -> Tokenizer:
        """Train a tokenizer with a vocabulary of exactly `vocab_size` entries.

        WordPiece needs spaces between words: it makes a word of more than 100 characters one [UNK].
        For text without spaces, such as Thai, use another model. All models have BERT's special
        tokens, and the same corpus always gives the same tokenizer. The modules `vocabulary` and
        `subword_training` describe the algorithms.

        Args:
            documents: documents, each a string or an iterable of sentences. They are read once.
            vocab_size: number of entries, including the five special tokens.
            model: "wordpiece"; "bpe", byte-level BPE as in RoBERTa, which has no [UNK] and at least
                261 entries; "unigram", SentencePiece's unigram language model (extra
                `sentencepiece`); or "char", a vocabulary of the most frequent characters.
            lowercase: see the class.
            strip_accents: see the class. None keeps accents if the model is not WordPiece: in
                scripts such as Thai, they are vowels.
            split_cjk: see the class. Only WordPiece splits them.
            progress: function that is called with (number done, total or None, description).

        Raises:
            DataError: if the corpus does not give so many entries, or its alphabet needs more. The
                message states how many are right.
            ImportError: if the model needs SentencePiece, which is not installed.
            ValueError: if there is no such model, or `vocab_size` is too small for any corpus.

        Warns:
            CoverageWarning: if 1 % of the words or characters are in words that WordPiece makes one
                [UNK].
        """
        check_model(model, vocab_size)
        if model != "wordpiece":
            options: dict[str, Any] = {"lowercase": lowercase, "strip_accents": strip_accents}
            options |= {"vocab_size": vocab_size, "progress": progress}
            return cls.from_engine(train_engine(documents, model=model, **options))
        switches = Switches(lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk)
        split = WordPiece(SPECIAL_TOKENS, **switches).split
        vocabulary, coverage = learn_vocabulary(documents, split, vocab_size, progress)
        if message := coverage.message(TRAIN_ANOTHER):
            warnings.warn(message, CoverageWarning, stacklevel=2)
        return cls(vocabulary, **switches)

    @classmethod
    def learn(cls, *_: Any, **__: Any) -> Never:
        """Raise an error that names `train`, the present name of this method."""
        raise AttributeError("`Tokenizer.learn` is called `Tokenizer.train` now.")

    @classmethod
    def from_preset(cls, handle: str | os.PathLike[str], **switches: Any) -> Tokenizer:
        """Open the tokenizer of a folder. The first of these files in the folder is read.

        - KerasHub's assets;
        - tokenizer.json of any kind (BERT, RoBERTa, ALBERT, XLM-R, ModernBERT and others);
        - vocab.txt of WordPiece (BERT, DistilBERT, ELECTRA, MPNet);
        - the files that `export.tf_hub` wrote, with the switches of the exported tokenizer;
        - assets/vocab.txt of another SavedModel, which is cased if its words are;
        - vocab.json with merges.txt (RoBERTa, DeBERTa);
        - spiece.model (ALBERT), sentencepiece.bpe.model (XLM-R, CamemBERT), spm.model (DeBERTa-v2
          and -v3) or sentencepiece.model (RemBERT), which need the extra `sentencepiece`.

        Settings of tokenizer_config.json about case, accents, Chinese characters and special tokens
        apply. Without them WordPiece lower-cases, as in transformers. Where they name no class, the
        model type of config.json tells the family.

        Args:
            handle: folder, path of a vocab.txt, "hf://organisation/name[@revision]", or a name in
                `PRESETS`. Such a name stands for its published tokenizer, unless there is a local
                folder of that name.
            switches: arguments of `Tokenizer` that replace the settings of the folder. Only for
                WordPiece.

        Raises:
            ArtifactError: if no known file is there, or one is damaged.
            DataError: if the vocabulary is not valid. The message names file and line.
            ValueError: if there are switches, and the tokenizer is not WordPiece.
        """
        source = files.read_folder(presets.resolve_handle(handle, files.KNOWN))
        if not isinstance(source, Engine):
            self = cls.__new__(cls)
            self._use(WordPiece(**source | switches))
            return self
        if switches:
            raise ValueError(
                f"Only WordPiece takes {', '.join(switches)}; here the file says what is done. "
                f"Received: {handle!s}. Leave {'it' if len(switches) == 1 else 'them'} out."
            )
        return cls.from_engine(source)

    def save_to_preset(self, directory: str | os.PathLike[str]) -> None:
        """Write a folder from which this class and transformers open the same tokenizer."""
        files.write_folder(Path(directory), self._kind)

    def add_tokens(self, tokens: Sequence[str], *, special: bool = False) -> Tokenizer:
        """Return a NEW tokenizer with more tokens; this one stays as it is. Assign the result.

        The ids are those of transformers' `add_tokens`: new tokens get the next ids. A token that
        is a piece of the vocabulary keeps its id, and is from now on matched like an added token.
        Added tokens are found anywhere in a text, also in the middle of a word, before the model
        splits words. The model needs a row for each entry: `model.resize_vocabulary(vocab_size)`.

        Args:
            tokens: new tokens. Special tokens of the tokenizer are left out.
            special: False for words: they are compared after normalisation, so an uncased
                tokenizer finds "COVID-19" in "covid-19". True for tokens such as "[E1]", which are
                matched as they are written. Like "[MASK]", they are ordinary text for `text_ids`,
                for `special_tokens_in_text=False`, and so for entities, questions and corpora.

        Raises:
            TypeError: if `tokens` is one string, or a token is not a string.
            ValueError: if a token is empty or has a lone surrogate.
        """
        added = added_tokens.extended(
            self.added_tokens,
            {token: index for index, token in enumerate(self.vocabulary)},
            tokens,
            special=special,
            protected=self.scheme.special_tokens,
        )
        grown = type(self).__new__(type(self))
        grown._use(self._kind.with_added(added))
        return grown

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a piece; None if it is not in the vocabulary."""
        return self._kind.marked.token_to_id(token)

    def id_to_token(self, id: int) -> str:  # noqa: A002
        """Return the piece with this id.

        Raises:
            ValueError: if the vocabulary has no such id.
        """
        if not 0 <= id < self.vocab_size:
            raise ValueError(f"`id` must be from 0 to {self.vocab_size - 1}. Received: {id}")
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
        """Encode one text or a pair of texts: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP].

        Args:
            text: first text.
            pair: second text, which may be empty; None for a single text.
            max_length: maximum number of tokens; the longer text is truncated first. None for no
                limit.
            add_special_tokens: add [CLS] and [SEP], at the places of `scheme`.
            special_tokens_in_text: True if "[MASK]" and the like in a text are special tokens;
                False if they are ordinary text.

        Raises:
            ValueError: if `max_length` is too small for the special tokens.
        """
        engine = self._kind.marked if special_tokens_in_text else self._kind.plain
        texts = [text] if pair is None else [text, pair]
        parts = [engine.encode(without_surrogates(t), add_special_tokens=False) for t in texts]
        num_added = self.scheme.num_added(len(parts)) if add_special_tokens else 0
        kept = kept_lengths([len(part) for part in parts], max_length, num_added)
        added = (self.cls_id, self.sep_id) if add_special_tokens else None
        encoding = assemble(parts, kept, self.scheme, added)
        for place, index in enumerate(encoding.ids if self.added_tokens else ()):
            if index in self._added_ids:  # the library shows the normalised text
                encoding.tokens[place] = self.vocabulary[index]
        return encoding

    def __call__(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        padding: Literal["longest", "max_length"] = "longest",
    ) -> dict[str, np.ndarray]:
        """Encode a batch as `encode` does, padded at the end of each row.

        Args:
            texts: first texts.
            pairs: second texts, as many as `texts`; None for single texts.
            max_length: maximum number of tokens; the longer text is truncated first. None for no
                limit.
            padding: "longest" pads to the longest row, "max_length" to `max_length`.

        Returns:
            `token_ids`, `segment_ids` (only if the family has two segments) and `padding_mask`
            (1 for a token, 0 for padding), int32 [batch, length].

        Raises:
            ValueError: if `texts` and `pairs` differ in length, or `padding` and `max_length` do
                not fit.
        """
        if padding not in ("longest", "max_length") or (padding == "max_length" and not max_length):
            raise ValueError(
                '`padding` must be "longest", or "max_length" together with `max_length`. '
                f"Received: padding={padding!r}, max_length={max_length}"
            )
        columns = [*map(list_of_texts, [texts] if pairs is None else [texts, pairs])]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                f"`texts` and `pairs` must be equally many. Received: {[len(c) for c in columns]}"
            )
        encoded = [self.marked_ids(column) for column in columns]
        rows: list[list[list[int]]] = []
        num_added = self.scheme.num_added(len(columns))
        between = [self.sep_id] * (self.scheme.separators - 1)
        for parts in zip(*encoded, strict=True):
            kept = kept_lengths([len(part) for part in parts], max_length, num_added)
            row = [[*part[:n], self.sep_id] for part, n in zip(parts, kept, strict=True)]
            row[0] = [self.cls_id, *row[0], *(between if pairs is not None else ())]
            if pairs is not None and self.scheme.cls_before_second:
                row[1].insert(0, self.cls_id)
            rows.append(row)
        width = max_length if padding == "max_length" else None
        return pad(rows, self.pad_id, width, two_segments=self.scheme.two_segments)

    def marked_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text without special tokens around it. "[SEP]" in it is [SEP]."""
        encoded = self._kind.marked.encode_batch_fast(
            [without_surrogates(text) for text in list_of_texts(texts)], add_special_tokens=False
        )
        return [encoding.ids for encoding in encoded]

    def text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text without special tokens. "[SEP]" in a text is plain text."""
        return self._kind.text_ids(list_of_texts(texts))

    def ragged_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return `text_ids` as arrays, which is the fastest way to tokenize a corpus.

        Returns:
            Ids of all texts, int32 [all ids], and the number of ids of each text, int64 [texts].
        """
        return self._kind.ragged_ids(list_of_texts(texts))

    def coverage(
        self, texts: Sequence[str], encoded: tuple[np.ndarray, np.ndarray] | None = None
    ) -> Coverage:
        """Return the numbers of words, tokens and characters of texts, and of those lost in [UNK].

        Args:
            texts: texts.
            encoded: result of `ragged_ids` for these texts; None to compute it.
        """
        texts = list_of_texts(texts)
        ids, lengths = self.ragged_ids(texts) if encoded is None else encoded
        return measure_coverage(
            texts,
            ids,
            lengths,
            unk_id=self.unk_id,
            continuation=self.continuation,
            split=self._kind.split,
            limit=self._kind.max_word_length,
        )

    def decode(self, ids: Sequence[int] | np.ndarray, skip_special_tokens: bool = True) -> str:
        """Return the text of ids. Case, accents and spaces may differ from the original text.

        Raises:
            ValueError: if the vocabulary has no such id.
        """
        tokens = [*map(int, ids)]
        for index in tokens:
            self.id_to_token(index)
        return self._kind.marked.decode(tokens, skip_special_tokens=skip_special_tokens)

    @property
    def json(self) -> str:
        """Content of a tokenizer.json."""
        return self._kind.json

    @property
    def has_graph(self) -> bool:
        """Return whether a TensorFlow graph can hold the tokenizer: its SavedModels take text."""
        return graph_pipeline.has_graph(self)

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
