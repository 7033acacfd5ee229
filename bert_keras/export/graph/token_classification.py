"""Entities of texts in a TensorFlow graph, equal to those of `Predictor.predict_entities`.

`inference.token_classification` has the same algorithms in NumPy. Here all tokens count, because
only the first pieces of words reach the CRF.
"""

from __future__ import annotations

import tensorflow as tf

from bert_keras import features
from bert_keras.export.graph.basic_words import (
    Characters,
    SpaceTrimmer,
    TextWords,
    before,
    spelled,
    words_of,
)
from bert_keras.export.graph.text_classification import call_in_parts, call_model
from bert_keras.metrics import entity_spans
from bert_keras.models import TokenClassifier
from bert_keras.predictor import entity_tags
from bert_keras.tokenizers.tf_basic_tokenizer import flags_at
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer


def best_tags(potentials: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the sequence of tags with the highest total score, and the probability of each tag.

    Args:
        potentials: float [rows, length, states, states]: previous state, next state. The last
            state is the outside.
        lengths: int [rows], number of tokens; the rest is padding.

    Returns:
        Tags int32 and marginal probabilities float32, [rows, length]; arbitrary for padding.
    """
    potentials = tf.cast(potentials, tf.float64)
    outside = tf.shape(potentials)[-1] - 1
    is_outside = tf.range(outside + 1) == outside
    never = tf.constant(float("-inf"), tf.float64)
    start = tf.where(is_outside, tf.zeros_like(potentials[:, 0, 0]), never)
    ending = potentials[:, 0, :, -1]
    steps = tf.transpose(potentials, [1, 0, 2, 3])
    counted = tf.transpose(tf.sequence_mask(lengths, tf.shape(potentials)[1]))[:, :, tf.newaxis]

    def inside(scores: tf.Tensor) -> tf.Tensor:
        """Set the scores of the outside to minus infinity."""
        return tf.where(is_outside, never, scores)

    # === Forward pass: the best path and the sum of all paths to each state ===
    def reach(last: tuple[tf.Tensor, ...], step: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        """Extend the paths by one token."""
        best, total, _ = last
        scores, is_one = step
        ways = best[:, :, tf.newaxis] + scores
        came_from = tf.where(is_one, tf.argmax(ways, axis=1, output_type=tf.int32), stay)
        best = tf.where(is_one, inside(tf.reduce_max(ways, axis=1)), best)
        all_ways = inside(tf.reduce_logsumexp(total[:, :, tf.newaxis] + scores, axis=1))
        return best, tf.where(is_one, all_ways, total), came_from

    stay = tf.broadcast_to(tf.range(outside + 1), tf.shape(start))
    best, total, came_from = tf.scan(reach, (steps, counted), (start, start, stay))

    # === Backward pass ===
    final = tf.argmax(best[-1] + ending, axis=1, output_type=tf.int32)
    whole = tf.reduce_logsumexp(total[-1] + ending, axis=1, keepdims=True)

    def back(last: tuple[tf.Tensor, ...], step: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        """Follow the best path back by one token and compute the probability of its state."""
        state, _, beta, _ = last
        scores, is_one, origins, reached = step
        chance = tf.exp(reached + beta - whole)
        before = tf.gather(origins, state, batch_dims=1)
        ahead = tf.reduce_logsumexp(scores + inside(beta)[:, tf.newaxis, :], axis=2)
        share = tf.gather(chance, state, batch_dims=1)
        return before, state, tf.where(is_one, ahead, beta), share

    nothing = tf.zeros_like(whole[:, 0])
    _, tags, _, shares = tf.scan(
        back, (steps, counted, came_from, total), (final, final, ending, nothing), reverse=True
    )
    return tf.transpose(tags), tf.cast(tf.transpose(shares), tf.float32)


# === Entities ===


_LETTERS = "OBIES"  # prefixes of tags that `entity_spans` reads
_OUTSIDE, _BEGIN, _INSIDE, _END, _ = range(len(_LETTERS))


class Entities(tf.Module):
    """Entities of a token classifier in a graph: `module(texts)`.

    Args:
        task: token classification model.
        tokenizer: tokenizer of the model, in the graph.
        max_length: maximum number of tokens of a row; longer texts are read in parts.
    """

    def __init__(self, task: TokenClassifier, tokenizer: InGraphTokenizer, *, max_length: int):
        super().__init__(name="entities")
        self._task, self._tokenizer = task, tokenizer
        self._room = max_length - 2
        self._kinds = Characters()
        self._spaces = SpaceTrimmer(self._kinds) if tokenizer.has_spaces else None
        tags = list(entity_tags(task.options["labels"]).values())
        types = [entity_spans([tag])[0].label if tag != "O" else "" for tag in tags]
        names = sorted(set(types))
        # The last entry of each is for a word without pieces.
        self._letters = tf.constant([*(_LETTERS.index(tag[0]) for tag in tags), _OUTSIDE])
        self._types = tf.constant([*map(names.index, types), 0])
        self._names = tf.constant(names)

    def __call__(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the entities of UTF-8 strings [batch] in their order.

        Returns:
            `label` and `text`: strings [batch, entities]; `start` and `end`: int32, character
            positions; `score`: float32; `count`: int32 [batch], the number of entities of each
            text. Rows are padded with "" and 0.
        """
        words = words_of(texts, self._kinds)
        tags, scores = self._tags(words)
        letters, types = tf.gather(self._letters, tags), tf.gather(self._types, tags)
        is_inside = letters != _OUTSIDE
        last, last_type = before(letters), before(types)
        goes_on = (last == _BEGIN) | (last == _INSIDE)
        goes_on &= ((letters == _INSIDE) | (letters == _END)) & (types == last_type)
        is_first = flags_at(words.splits[:-1], tf.size(tags))
        begins = is_inside & (is_first | tf.logical_not(goes_on))

        heads = tf.where(begins)[:, 0]
        count = tf.size(heads, out_type=tf.int64)
        inside = tf.where(is_inside)[:, 0]
        owner = tf.gather(tf.cumsum(tf.cast(begins, tf.int64)), inside) - 1
        tails = tf.math.unsorted_segment_max(inside, owner, count)
        score = tf.cast(tf.gather(scores, inside), tf.float64)
        score = tf.math.unsorted_segment_mean(score, owner, count)
        start, end = tf.gather(words.starts, heads), tf.gather(words.ends, tails)

        splits = tf.searchsorted(heads, words.splits, out_type=tf.int64)
        text = tf.repeat(words.points.row_splits[:-1], splits[1:] - splits[:-1])
        columns = {
            "label": tf.gather(self._names, tf.gather(types, heads)),
            "text": spelled(words.points.flat_values, text + start, text + end),
            "start": tf.cast(start, tf.int32),
            "end": tf.cast(end, tf.int32),
            "score": tf.cast(score, tf.float32),
        }
        rows = {
            name: tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor()  # pyright: ignore[reportAttributeAccessIssue]
            for name, values in columns.items()
        }
        return {**rows, "count": tf.cast(splits[1:] - splits[:-1], tf.int32)}

    def _tags(self, words: TextWords) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the tag (int32) and its probability (float32) of each word, [words].

        A word without pieces gets the extra tag after the last one, and the probability 0.
        """
        pieces = self._pieces(words)
        begins, ends = self._windows(pieces, words.splits)
        rows = tf.ragged.range(begins, ends)
        inputs = self._tokenizer.add_special_tokens(
            rows.with_flat_values(tf.gather(pieces.flat_values, rows.flat_values))
        )
        (logits,) = call_in_parts(
            lambda part: [call_model(self._task, part)[features.TAGS]],
            inputs,
            [tf.TensorSpec(self._task.output[features.TAGS].shape, tf.float32)],
        )
        # places: row and column of the first piece of each word.
        owner = tf.gather(pieces.value_rowids(), rows.flat_values)
        is_first = tf.gather(pieces.row_starts(), owner) == rows.flat_values
        column = 1 + tf.ragged.range(rows.row_lengths()).flat_values
        row = tf.boolean_mask(rows.value_rowids(), is_first)
        places = tf.stack([row, tf.boolean_mask(column, is_first)], axis=1)
        counted = tf.gather_nd(logits, places)
        if self._task.crf is None:
            shares = tf.nn.softmax(counted)
            best = tf.argmax(shares, axis=-1, output_type=tf.int32)
            chance = tf.reduce_max(shares, axis=-1)
        else:
            per_row = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
                counted, row, nrows=tf.shape(logits, out_type=tf.int64)[0], validate=False
            )
            # At least one column, because the CRF reads the potentials of the first token.
            length = tf.maximum(per_row.bounding_shape(axis=1), 1)
            dense = per_row.to_tensor(shape=tf.stack([-1, length, *logits.shape[2:]]))
            padded = best_tags(dense, per_row.row_lengths())
            is_token = tf.sequence_mask(per_row.row_lengths(), length)
            best, chance = (tf.boolean_mask(values, is_token) for values in padded)
        size = tf.shape(words.texts)
        word = tf.boolean_mask(owner, is_first)[:, tf.newaxis]
        nothing = tf.fill(size, tf.size(self._types) - 1)
        return (
            tf.tensor_scatter_nd_update(nothing, word, best),
            tf.tensor_scatter_nd_update(tf.zeros(size), word, chance),
        )

    def _pieces(self, words: TextWords) -> tf.RaggedTensor:
        """Return the ids of the pieces of each word, int32 [words, (pieces)].

        WordPiece reads each word apart. Other pieces depend on the space before the word, so the
        words are joined by spaces, as in `data.sliding_windows.word_windows`.
        """
        if self._spaces is None:
            return self._tokenizer.pieces(words.texts, special_tokens_in_text=False)
        rows = tf.RaggedTensor.from_row_splits(words.texts, words.splits, validate=False)  # pyright: ignore[reportAttributeAccessIssue]
        texts = tf.strings.reduce_join(rows, axis=1, separator=" ")
        ids, starts, ends = self._tokenizer.pieces_with_places(texts, special_tokens_in_text=False)
        points = tf.strings.unicode_decode(texts, "UTF-8")
        begin = tf.gather(points.row_splits, ids.value_rowids())
        starts, _ = self._spaces(points.flat_values, starts + begin, ends + begin)
        # Every word has a space behind it, but for the last one of a text.
        sizes = tf.cast(tf.strings.length(words.texts, "UTF8_CHAR"), tf.int64)
        is_last = flags_at(words.splits[1:] - 1, tf.size(words.texts))
        behind = tf.cumsum(sizes + tf.where(is_last, tf.constant(0, tf.int64), 1))
        owner = tf.searchsorted(behind, starts, side="right", out_type=tf.int64)
        count = tf.size(words.texts, out_type=tf.int64)
        owner = tf.minimum(owner, count - 1)
        return tf.RaggedTensor.from_value_rowids(ids.flat_values, owner, count, validate=False)  # pyright: ignore[reportAttributeAccessIssue]

    def _windows(self, pieces: tf.RaggedTensor, texts: tf.Tensor) -> list[tf.Tensor]:
        """Split each text into windows of whole words, as `data.sliding_windows.word_windows` does.

        Args:
            pieces: ids of the pieces of each word [words, (pieces)].
            texts: index of the first word of each text [texts + 1].

        Returns:
            Index of the first piece of each window, and the index after its last piece, int64
            [windows]. A text without pieces has no window.
        """
        owner, bounds = pieces.value_rowids(), pieces.row_splits
        of_texts = tf.gather(bounds, texts)

        def step(
            number: tf.Tensor,
            firsts: tf.TensorArray,
            lasts: tf.TensorArray,
            begin: tf.Tensor,
            stop: tf.Tensor,
        ) -> list[tf.Tensor | tf.TensorArray]:
            """Add the next window of every text that has pieces left."""
            end = tf.minimum(begin + self._room, stop)
            word = tf.gather(owner, tf.minimum(end, stop - 1))
            is_cut = (end < stop) & (tf.gather(owner, end - 1) == word)
            head = tf.gather(bounds, word)
            end_before = tf.where(is_cut & (head > begin), head, end)
            # A word that is longer than a row is truncated.
            is_long = is_cut & (head <= begin)
            rest = tf.where(is_long, tf.gather(bounds, word + 1), end_before)
            goes_on = tf.where(rest < stop)[:, 0]
            return [
                number + 1,
                firsts.write(number, begin),
                lasts.write(number, end_before),
                tf.gather(rest, goes_on),
                tf.gather(stop, goes_on),
            ]

        has_some = tf.where(of_texts[:-1] < of_texts[1:])[:, 0]
        begin, stop = tf.gather(of_texts[:-1], has_some), tf.gather(of_texts[1:], has_some)
        empty = tf.TensorArray(
            tf.int64, size=0, dynamic_size=True, infer_shape=False, element_shape=[None]
        )
        first, last = empty.write(0, begin[:0]), empty.write(0, begin[:0])
        state = tf.while_loop(
            lambda *state: tf.size(state[3]) > 0,
            step,
            [tf.constant(1), first, last, begin, stop],
        )
        return [array.concat() for array in state[1:3]]
