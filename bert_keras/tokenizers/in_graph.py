"""The tokenizer as TensorFlow operations, for SavedModels and `tf.data`: the same ids, in a graph.

Needs tensorflow and tensorflow-text; from the latter only the WordPiece matching, which is exact.
A program that loads a SavedModel holding this module has to `import tensorflow_text` first.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
import tensorflow_text

from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.tokenizers.code_points import code_point_table
from bert_keras.tokenizers.in_graph_words import InGraphWords
from bert_keras.tokenizers.tokenizer import Tokenizer
from bert_keras.tokenizers.vocabulary import CONTINUATION, MAX_WORD_LENGTH

_MAX_BYTES = 4  # of a character in UTF-8


class InGraphTokenizer(tf.Module):
    """`Tokenizer` in TensorFlow: for every string the same ids.

    Bytes that are not UTF-8 are dropped.

    Args:
        tokenizer: whose vocabulary and switches to take.
        special_tokens_in_text: whether "[MASK]" and the like in a text are the special tokens, as
            in `Tokenizer.encode`, or plain text, as in a corpus.

    Attributes:
        vocabulary_file: the vocabulary as an asset; a SavedModel keeps it as `assets/vocab.txt`.

    Raises:
        RuntimeError: a vocabulary entry has more than 256 bytes, which tensorflow-text cannot hold.
    """

    def __init__(self, tokenizer: Tokenizer, *, special_tokens_in_text: bool = True):
        super().__init__(name="tokenizer")
        if tokenizer.lowercase is None:
            raise ValueError(
                "Only WordPiece tokenizers have a graph: export the model without its tokenizer, "
                f"and make ids in Python. Received: {tokenizer!r}"
            )
        self.vocab_size = tokenizer.vocab_size
        self.pad_id, self.cls_id = tokenizer.pad_id, tokenizer.cls_id
        self.sep_id, self.mask_id = tokenizer.sep_id, tokenizer.mask_id
        unknown = tokenizer.id_to_token(tokenizer.unk_id)
        specials = [tokenizer.id_to_token(i) for i in tokenizer.special_ids]
        table = code_point_table(
            lowercase=tokenizer.lowercase,
            strip_accents=tokenizer.strip_accents,
            split_cjk=tokenizer.split_cjk,
        )
        self._words = InGraphWords(table, specials if special_tokens_in_text else (), unknown)
        self._wordpiece = tensorflow_text.FastWordpieceTokenizer(
            _matchable(tokenizer.vocabulary),
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=MAX_WORD_LENGTH * _MAX_BYTES,
            token_out_type=tf.int32,
            unknown_token=unknown,
            no_pretokenization=True,
        )
        self.vocabulary_file = tf.saved_model.Asset(_temporary_file(self, tokenizer.vocabulary))
        self._tokens = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                self.vocabulary_file.asset_path,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                vocab_size=tokenizer.vocab_size,
            ),
            default_value="",
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids without [CLS] and [SEP]: string [batch], UTF-8 -> int32 [batch, (tokens)]."""
        with tf.device("CPU:0"):  # where strings are; short integer work does not pay elsewhere
            words = self._words(texts)
            pieces = self._wordpiece.tokenize(words.flat_values)
        splits = tf.gather(pieces.row_splits, words.row_splits)
        return tf.RaggedTensor.from_row_splits(pieces.flat_values, splits, validate=False)

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
        end = tf.fill([tf.size(texts), 1], self.sep_id)
        first = tf.concat([tf.fill([tf.size(texts), 1], self.cls_id), parts[0], end], axis=1)
        rows = tf.concat([first, *(x for part in parts[1:] for x in (part, end))], axis=1)
        # No texts still have a [CLS] column, which models look for.
        length = tf.maximum(rows.bounding_shape(axis=1), 1)
        token_ids = rows.to_tensor(self.pad_id, shape=tf.stack([-1, length]))
        is_token = tf.sequence_mask(rows.row_lengths(), tf.shape(token_ids)[1])
        is_first = tf.sequence_mask(first.row_lengths(), tf.shape(token_ids)[1])
        return {
            TOKEN_IDS: token_ids,
            SEGMENT_IDS: tf.cast(is_token & tf.logical_not(is_first), tf.int32),
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
    return [
        tf.gather(part.values, tf.ragged.range(part.row_starts(), part.row_starts() + length))
        for part, length in zip(parts, kept, strict=True)
    ]


def _matchable(vocabulary: Sequence[str]) -> list[str]:
    """The vocabulary for tensorflow-text, which cannot hold entries that no word reaches anyway."""
    longest = len(CONTINUATION) + MAX_WORD_LENGTH
    return [
        f"\n{index}" if "\0" in token or len(token) > longest else token
        for index, token in enumerate(vocabulary)
    ]


def _temporary_file(owner: object, vocabulary: Sequence[str]) -> str:
    """Writes vocab.txt to a folder that lives as long as `owner`."""
    folder = tempfile.mkdtemp(prefix="bert_keras_")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8", newline="\n")
    return str(path)
