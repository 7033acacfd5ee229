"""The tokenizer as TensorFlow operations, for SavedModels and `tf.data`: the same ids, in a graph.

Needs tensorflow and, unless it is to be portable, tensorflow-text; from the latter only the
WordPiece matching, which is exact. A program that loads a SavedModel with that has to
`import tensorflow_text` first.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers.basic_tokenizer import code_point_table, require_word_piece
from bert_keras.tokenizers.tf_basic_tokenizer import InGraphWords, Words
from bert_keras.tokenizers.tf_wordpiece import FastPieces, PortablePieces
from bert_keras.tokenizers.tokenizer import Tokenizer
from bert_keras.tokenizers.vocabulary import CONTINUATION, MAX_WORD_LENGTH, vocabulary_text


class InGraphTokenizer(tf.Module):
    """`Tokenizer` in TensorFlow: for every string the same ids.

    Bytes that are not UTF-8 are dropped.

    Args:
        tokenizer: whose vocabulary and switches to take.
        special_tokens_in_text: whether "[MASK]" and the like in a text are the special tokens, as
            in `Tokenizer.encode`, or plain text, as in a corpus.
        portable: use TensorFlow's own operations only, instead of one of tensorflow-text, which is
            faster for most languages.

    Attributes:
        vocabulary_file: the vocabulary as an asset; a SavedModel keeps it as `assets/vocab.txt`.

    Raises:
        RuntimeError: a vocabulary entry has more than 256 bytes, which tensorflow-text cannot hold.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        special_tokens_in_text: bool = True,
        portable: bool = False,
    ):
        super().__init__(name="tokenizer")
        require_word_piece(tokenizer)
        self.vocab_size = tokenizer.vocab_size
        self.pad_id, self.cls_id = tokenizer.pad_id, tokenizer.cls_id
        self.sep_id, self.mask_id = tokenizer.sep_id, tokenizer.mask_id
        # Those that are recognised, and that for which a word stands that has no pieces.
        specials = [tokenizer.id_to_token(i) for i in tokenizer.special_ids]
        unknown = tokenizer.id_to_token(tokenizer.unk_id)
        table = code_point_table(
            lowercase=tokenizer.lowercase,
            strip_accents=tokenizer.strip_accents,
            split_cjk=tokenizer.split_cjk,
        )
        self._special_tokens_in_text = special_tokens_in_text
        self._words = InGraphWords(table, specials)
        self._unknown = len(specials)
        pieces = PortablePieces if portable else FastPieces
        self._pieces = pieces(tokenizer.vocabulary, [*specials, unknown])
        self._lengths = tf.constant(_lengths(tokenizer))
        self.vocabulary_file = tf.saved_model.Asset(_temporary_file(self, tokenizer.vocabulary))
        self._tokens = tf.lookup.StaticHashTable(
            _LinesOfFile(
                self.vocabulary_file.asset_path,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                vocab_size=tokenizer.vocab_size,
            ),
            default_value="",
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids without [CLS] and [SEP]: string [batch], UTF-8 -> int32 [batch, (tokens)]."""
        return self.pieces(texts, special_tokens_in_text=self._special_tokens_in_text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Ids, and where in its text each piece begins and ends, in characters as in Python.

        But for marks that stand out of Unicode's canonical order: the places of two of them may be
        exchanged (docs/decisions.md, 56).

        Returns:
            int32 and twice int64 [batch, (tokens)].
        """
        ids, *places = self.pieces_with_places(
            texts, special_tokens_in_text=self._special_tokens_in_text
        )
        return ids, *map(ids.with_flat_values, places)

    def pieces(self, texts: tf.Tensor, *, special_tokens_in_text: bool) -> tf.RaggedTensor:
        """Return the ids of the pieces, as `tokenize` does: int32 [batch, (tokens)]."""
        return self.pieces_of_words(
            texts, special_tokens_in_text=special_tokens_in_text
        ).merge_dims(1, 2)

    def pieces_of_words(self, texts: tf.Tensor, *, special_tokens_in_text: bool) -> tf.RaggedTensor:
        """Likewise, by words: int32 [batch, (words), (tokens)]."""
        with tf.device("CPU:0"):  # where strings are; short integer work does not pay elsewhere
            words = self._words(texts, with_specials=special_tokens_in_text)
            return tf.RaggedTensor.from_row_splits(
                self._of_words(words), words.splits, validate=False
            )

    def pieces_with_places(
        self, texts: tf.Tensor, *, special_tokens_in_text: bool
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Ids [batch, (tokens)], and where each piece begins and ends in its text: int64, flat."""
        with tf.device("CPU:0"):
            words = self._words(texts, with_specials=special_tokens_in_text, with_places=True)
            pieces = self._of_words(words)
            # A special token, and a word without pieces, is all of the word.
            sizes = tf.gather(words.characters.row_lengths(), pieces.value_rowids())
            lengths = tf.gather(self._lengths, pieces.flat_values)
            lengths = tf.where(lengths == 0, sizes, lengths)
            first = tf.cumsum(lengths, exclusive=True)
            return (
                _rows(pieces.flat_values, tf.gather(pieces.row_splits, words.splits)),
                tf.gather(words.starts, first),
                tf.gather(words.ends, first + lengths - 1),
            )

    def _of_words(self, words: Words) -> tf.RaggedTensor:
        """The pieces of each word."""
        is_long = words.characters.row_lengths() > MAX_WORD_LENGTH
        return self._pieces(words.characters, tf.where(is_long, self._unknown, words.special))

    def id_to_token(self, ids: tf.Tensor) -> tf.Tensor:
        """The tokens of ids of any shape, from the vocabulary file."""
        return self._tokens.lookup(tf.cast(ids, tf.int64))

    def __call__(
        self,
        texts: tf.Tensor,
        pairs: tf.Tensor | None = None,
        *,
        max_length: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Encodes a batch as `Tokenizer` does, padded to the longest row.

        Args:
            texts: string [batch].
            pairs: a second text for each, string [batch]; None for none.
            max_length: cut the end of the longer text until all fits; None cuts nothing.

        Returns:
            `token_ids`, `segment_ids` and `padding_mask`, int32 [batch, length].
        """
        parts = [self.tokenize(column) for column in (texts, pairs) if column is not None]
        if max_length is not None:
            parts = _truncated(parts, max_length - len(parts) - 1)
        return self.framed(*parts)

    def framed(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
    ) -> dict[str, tf.Tensor]:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], padded to the longest row.

        Args:
            first: int32 [batch, (tokens)].
            second: likewise; None for none.

        Returns:
            As a call does.
        """
        end = tf.fill([first.nrows(), 1], self.sep_id)
        head = tf.concat([tf.fill([first.nrows(), 1], self.cls_id), first, end], axis=1)
        rows = head if second is None else tf.concat([head, second, end], axis=1)
        # No texts still have a [CLS] column, which models look for.
        length = tf.maximum(rows.bounding_shape(axis=1), 1)
        token_ids = rows.to_tensor(self.pad_id, shape=tf.stack([-1, length]))
        is_token = tf.sequence_mask(rows.row_lengths(), tf.shape(token_ids)[1])
        is_head = tf.sequence_mask(head.row_lengths(), tf.shape(token_ids)[1])
        return {
            TOKEN_IDS: token_ids,
            SEGMENT_IDS: tf.cast(is_token & tf.logical_not(is_head), tf.int32),
            PADDING_MASK: tf.cast(is_token, tf.int32),
        }


def _truncated(parts: list[tf.RaggedTensor], room: int) -> list[tf.RaggedTensor]:
    """Cuts one or two texts so that together they have at most `room` tokens."""
    if room < 0:
        raise ValueError(
            f"max_length must leave room for {len(parts) + 1} special tokens. "
            f"Received: {room + len(parts) + 1}"
        )
    if len(parts) == 1:
        return [parts[0][:, :room]]
    first, second = (part.row_lengths() for part in parts)
    shorter = tf.minimum(tf.minimum(first, second), room // 2)
    cut_first = tf.where(first <= second, shorter, room - shorter)
    fits = first + second <= room
    kept = tf.where(fits, first, cut_first), tf.where(fits, second, room - cut_first)
    return [cut(part, lengths) for part, lengths in zip(parts, kept, strict=True)]


def cut(rows: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The beginnings of rows, [batch, (tokens)], each at most so long."""
    lengths = tf.minimum(rows.row_lengths(), lengths)
    places = tf.ragged.range(rows.row_starts(), rows.row_starts() + lengths)
    return places.with_flat_values(tf.gather(rows.flat_values, places.flat_values))


def _rows(values: tf.Tensor, splits: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


class _LinesOfFile(tf.lookup.TextFileInitializer):
    """Initializer of a table whose name does not hold the path of the file.

    TensorFlow names the table by the path where the file lies at the export, and writes the name
    into every SavedModel. Without a name of the initializer it takes a random one. The attribute is
    private: a version that does not know it writes the path again, and a test fails.
    """

    _shared_name = ""


def _lengths(tokenizer: Tokenizer) -> np.ndarray:
    """Characters of a word that each piece stands for: int64; 0 where it stands for a whole one."""
    lengths = [len(token) for token in tokenizer.vocabulary]
    lengths = np.array(lengths, np.int64) - len(CONTINUATION) * tokenizer.continuation
    lengths[list(tokenizer.special_ids)] = 0
    return lengths


def _temporary_file(owner: object, vocabulary: Sequence[str]) -> str:
    """Writes vocab.txt to a folder that lives as long as `owner`."""
    folder = tempfile.mkdtemp(prefix="bert_keras_")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "vocab.txt"
    path.write_bytes(vocabulary_text(vocabulary))
    return str(path)
