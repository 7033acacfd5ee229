"""Tokenizer of TensorFlow operations, for SavedModels and `tf.data`.

It gives the same ids as `Tokenizer`. For WordPiece, tensorflow-text matches the pieces by default.
A program that loads such a SavedModel has to `import tensorflow_text` first. With `portable=True`,
and for all tokenizers but BERT's WordPiece, only TensorFlow is needed.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers.added_tokens import AddedToken
from bert_keras.tokenizers.basic_tokenizer import code_point_table
from bert_keras.tokenizers.graph_pipeline import is_word_piece, read_pipeline, require_graph
from bert_keras.tokenizers.tf_basic_tokenizer import NO_SPECIAL, InGraphWords, Words
from bert_keras.tokenizers.tf_subwords import SubwordIds
from bert_keras.tokenizers.tf_wordpiece import FastPieces, PortablePieces
from bert_keras.tokenizers.tokenizer import Tokenizer
from bert_keras.tokenizers.vocabulary import CONTINUATION, vocabulary_text
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH


class InGraphTokenizer(tf.Module):
    """`Tokenizer` as a TensorFlow module. It gives the same ids for every string.

    Bytes that are not UTF-8 become U+FFFD, which WordPiece drops.

    Args:
        tokenizer: tokenizer whose vocabulary and steps are used.
        special_tokens_in_text: True if "[MASK]" and the like in a text are special tokens, as in
            `Tokenizer.encode`; False if they are ordinary text, as in a corpus.
        portable: use only TensorFlow's own operations for WordPiece. tensorflow-text is faster for
            most languages.

    Attributes:
        has_spaces: True if the place of a piece may begin with the space before its word.
        vocabulary_file: vocabulary of WordPiece as an asset. A SavedModel keeps it as
            `assets/vocab.txt`.

    Raises:
        ValueError: if a part of the tokenizer has no graph. The message names it.
        RuntimeError: if a vocabulary entry has more than 256 bytes, the limit of tensorflow-text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        special_tokens_in_text: bool = True,
        portable: bool = False,
    ):
        super().__init__(name="tokenizer")
        require_graph(tokenizer)
        self.vocab_size, self.scheme = tokenizer.vocab_size, tokenizer.scheme
        self.pad_id, self.cls_id = tokenizer.pad_id, tokenizer.cls_id
        self.sep_id, self.mask_id = tokenizer.sep_id, tokenizer.mask_id
        self._special_tokens_in_text = special_tokens_in_text
        if is_word_piece(tokenizer):
            self._use_words(tokenizer, portable=portable)
        else:
            self._subwords = SubwordIds(read_pipeline(tokenizer), tokenizer.vocabulary)
            # A line of a file could not hold each of these entries.
            self._entries = tf.constant(tokenizer.vocabulary)
        self.has_spaces = self._subwords is not None
        self._traced = functools.cache(self._trace)

    def _use_words(self, tokenizer: Tokenizer, *, portable: bool) -> None:
        """Make the parts of WordPiece: basic tokenizer and pieces."""
        # Besides the special tokens in texts, a word without pieces becomes the unknown token.
        specials = [
            AddedToken(tokenizer.id_to_token(i), i, special=True, normalized=False)
            for i in tokenizer.special_ids
        ]
        specials += tokenizer.added_tokens
        table = code_point_table(
            lowercase=bool(tokenizer.lowercase),
            strip_accents=bool(tokenizer.strip_accents),
            split_cjk=bool(tokenizer.split_cjk),
        )
        self._subwords = None
        self._words = InGraphWords(table, specials)
        self._unknown = len(specials)
        pieces = PortablePieces if portable else FastPieces
        vocabulary = tokenizer.vocabulary[: tokenizer.num_pieces]
        self._pieces = pieces(vocabulary, [*(t.id for t in specials), tokenizer.unk_id])
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
        """Return ids without [CLS] and [SEP].

        Args:
            texts: UTF-8 strings [batch].

        Returns:
            int32 [batch, (tokens)].
        """
        return self.pieces(texts, special_tokens_in_text=self._special_tokens_in_text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Return ids, and the start and end of each piece in its text, in characters.

        The places equal those of `Tokenizer.encode`, with one exception: the places of two
        combining marks out of Unicode's canonical order may be swapped (docs/decisions.md, 56).

        Args:
            texts: UTF-8 strings [batch].

        Returns:
            Ids int32 [batch, (tokens)], starts int64 and ends int64 of the same shape.
        """
        ids, *places = self.pieces_with_places(
            texts, special_tokens_in_text=self._special_tokens_in_text
        )
        return ids, *map(ids.with_flat_values, places)

    def pieces(self, texts: tf.Tensor, *, special_tokens_in_text: bool) -> tf.RaggedTensor:
        """Return ids int32 [batch, (tokens)] of texts [batch]; see `tokenize`."""
        return self._traced(self._ids, special_tokens_in_text)(texts)

    def _ids(self, texts: tf.Tensor, with_specials: bool) -> tf.RaggedTensor:
        """Return the ids that `pieces` returns."""
        if self._subwords:
            return self._subwords(texts, with_specials=with_specials)[0]
        return self.pieces_of_words(texts, special_tokens_in_text=with_specials).merge_dims(1, 2)

    def pieces_of_words(self, texts: tf.Tensor, *, special_tokens_in_text: bool) -> tf.RaggedTensor:
        """Return ids int32 [batch, (words), (tokens)] of texts [batch]. Only for WordPiece."""
        with tf.device("CPU:0"):  # strings live there, and copies would cost more than the work
            words = self._words(texts, with_specials=special_tokens_in_text)
            return tf.RaggedTensor.from_row_splits(  # pyright: ignore[reportAttributeAccessIssue]
                self._of_words(words), words.splits, validate=False
            )

    def pieces_with_places(
        self, texts: tf.Tensor, *, special_tokens_in_text: bool
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Return ids int32 [batch, (tokens)], and starts and ends, each int64 [all tokens].

        Args:
            texts: UTF-8 strings [batch].
            special_tokens_in_text: see the class.
        """
        return self._traced(self._ids_with_places, special_tokens_in_text)(texts)

    def _ids_with_places(
        self, texts: tf.Tensor, with_specials: bool
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Return what `pieces_with_places` returns."""
        with tf.device("CPU:0"):
            if self._subwords:
                return self._subwords(texts, with_specials=with_specials)
            words = self._words(texts, with_specials=with_specials, with_places=True)
            pieces = self._of_words(words)
            # A special, added or unknown token stands for its whole word.
            rows = pieces.value_rowids()
            sizes = tf.gather(words.characters.row_lengths(), rows)
            is_whole = tf.gather(words.special, rows) != NO_SPECIAL
            lengths = tf.gather(self._lengths, pieces.flat_values)
            lengths = tf.where(is_whole | (lengths == 0), sizes, lengths)
            first = tf.cumsum(lengths, exclusive=True)
            return (
                _rows(pieces.flat_values, tf.gather(pieces.row_splits, words.splits)),
                tf.gather(words.starts, first),
                tf.gather(words.ends, first + lengths - 1),
            )

    def _trace(self, method: Callable[..., Any], with_specials: bool) -> Any:
        """Return a method as a concrete function of texts, which all functions of a graph call.

        Without it, TensorFlow would trace the method for each signature of a SavedModel and again
        when it is saved.
        """
        with tf.init_scope():
            function = tf.function(
                functools.partial(method, with_specials=with_specials), autograph=False
            )
            return function.get_concrete_function(tf.TensorSpec([None], tf.string))

    def _of_words(self, words: Words) -> tf.RaggedTensor:
        """Return the ids of the pieces of each word, int32 [words, (pieces)]."""
        is_long = words.characters.row_lengths() > MAX_WORD_LENGTH
        return self._pieces(words.characters, tf.where(is_long, self._unknown, words.special))

    def id_to_token(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the tokens of ids, as strings of the same shape."""
        if self._subwords:
            return tf.gather(self._entries, ids)
        return self._tokens.lookup(tf.cast(ids, tf.int64))

    def __call__(
        self,
        texts: tf.Tensor,
        pairs: tf.Tensor | None = None,
        *,
        max_length: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Encode a batch as `Tokenizer` does, padded to the longest row.

        Args:
            texts: UTF-8 strings [batch].
            pairs: second texts, strings [batch]; None for single texts.
            max_length: maximum length of a row; the longer text is truncated first. None for no
                limit.

        Returns:
            `token_ids`, `segment_ids` (only if the family has two segments) and `padding_mask`,
            int32 [batch, length].
        """
        parts = [self.tokenize(column) for column in (texts, pairs) if column is not None]
        if max_length is not None:
            parts = _truncated(parts, max_length, self.scheme.num_added(len(parts)))
        return self.add_special_tokens(*parts)

    def add_special_tokens(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Add special tokens to ids and pad them to the longest row.

        Args:
            first: ids of the first texts, int32 [batch, (tokens)].
            second: ids of the second texts, of the same shape; None for single texts.

        Returns:
            `token_ids`, `segment_ids` (only if the family has two segments) and `padding_mask`,
            int32 [batch, length].
        """
        start, end = (tf.fill([first.nrows(), 1], token) for token in (self.cls_id, self.sep_id))
        rows = tf.concat([start, first, end], axis=1)
        num_first = rows.row_lengths()
        if second is not None:
            between = [end] * (self.scheme.separators - 1)
            num_first += len(between)
            between += [start] * self.scheme.cls_before_second
            rows = tf.concat([rows, *between, second, end], axis=1)
        # An empty batch gets a column too, because models read the column of [CLS].
        length = tf.maximum(rows.bounding_shape(axis=1), 1)
        token_ids = rows.to_tensor(self.pad_id, shape=tf.stack([-1, length]))
        is_token = tf.sequence_mask(rows.row_lengths(), tf.shape(token_ids)[1])
        inputs = {TOKEN_IDS: token_ids, PADDING_MASK: tf.cast(is_token, tf.int32)}
        if self.scheme.two_segments:
            is_first = tf.sequence_mask(num_first, tf.shape(token_ids)[1])
            inputs[SEGMENT_IDS] = tf.cast(is_token & tf.logical_not(is_first), tf.int32)
        return inputs


def _truncated(
    parts: list[tf.RaggedTensor], max_length: int, num_added: int
) -> list[tf.RaggedTensor]:
    """Truncate the ids [batch, (tokens)] of one or two texts for rows of `max_length` tokens.

    Raises:
        ValueError: if `max_length` is too small for `num_added` special tokens.
    """
    room = max_length - num_added
    if room < 0:
        raise ValueError(
            f"`max_length` must leave room for {num_added} special tokens. Received: {max_length}"
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
    """Truncate rows [batch, (tokens)] to `lengths` [batch]; shorter rows stay as they are."""
    lengths = tf.minimum(rows.row_lengths(), lengths)
    places = tf.ragged.range(rows.row_starts(), rows.row_starts() + lengths)
    return places.with_flat_values(tf.gather(rows.flat_values, places.flat_values))


def _rows(values: tf.Tensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Return flat values as rows [batch, (tokens)]."""
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)  # pyright: ignore[reportAttributeAccessIssue]


class _LinesOfFile(tf.lookup.TextFileInitializer):
    """Initializer of a lookup table that keeps the file's path out of the table's name.

    TensorFlow includes the path at the time of the export in the table's name and writes the name
    into every SavedModel. With an empty name of the initializer it chooses a random name. The
    attribute is private: in a version without it the path is written again, and a test fails.
    """

    _shared_name = ""


def _lengths(tokenizer: Tokenizer) -> np.ndarray:
    """Return the number of characters of each piece, int64 [vocab_size]; 0 for special tokens."""
    lengths = [len(token) for token in tokenizer.vocabulary]
    lengths = np.array(lengths, np.int64) - len(CONTINUATION) * tokenizer.continuation
    lengths[list(tokenizer.special_ids)] = 0
    return lengths


def _temporary_file(owner: object, vocabulary: Sequence[str]) -> str:
    """Write vocab.txt into a temporary folder, which is removed together with `owner`."""
    folder = tempfile.mkdtemp(prefix="bert_keras_")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "vocab.txt"
    path.write_bytes(vocabulary_text(vocabulary))
    return str(path)
