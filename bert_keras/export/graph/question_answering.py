"""Question answering in a TensorFlow graph, with the answers of `Predictor.predict_answers`."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bert_keras import features
from bert_keras.export.graph import basic_words as ch
from bert_keras.export.graph.basic_words import Characters, SpaceTrimmer, has, spelled
from bert_keras.export.graph.text_classification import call_in_parts, call_model
from bert_keras.models import QuestionAnswerer
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

_NEVER = float("-inf")


class _Spans(NamedTuple):
    """Candidate answers to all questions. All tensors have the shape [spans].

    Attributes:
        source: index of the question.
        start: index of the first character among the characters of all contexts.
        end: index after the last character.
        logit: start logit plus end logit, float64.
    """

    source: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor
    logit: tf.Tensor


class Questions(tf.Module):
    """Answers questions in a graph: `module(questions, contexts)`.

    Args:
        task: question answering model.
        tokenizer: tokenizer of the model, in the graph.
        max_length: maximum number of tokens of a row; longer contexts are read in parts.
        null_threshold: see `Predictor.predict_answers`, also for the following arguments.
        stride: number of pieces from one part of a context to the next.
        max_question: maximum number of pieces of a question.
        max_pieces: maximum number of pieces of an answer.
        n_best: number of answers in the softmax that gives the probability.
    """

    def __init__(
        self,
        task: QuestionAnswerer,
        tokenizer: InGraphTokenizer,
        *,
        max_length: int,
        null_threshold: float | None = None,
        stride: int = 128,
        max_question: int = 64,
        max_pieces: int = 30,
        n_best: int = 20,
    ):
        super().__init__(name="questions")
        self._task, self._tokenizer, self._kinds = task, tokenizer, Characters()
        self._spaces = SpaceTrimmer(self._kinds) if tokenizer.has_spaces else None
        self._max_length, self._stride, self._max_question = max_length, stride, max_question
        self._max_pieces, self._n_best, self._null_threshold = max_pieces, n_best, null_threshold

    def __call__(self, questions: tf.Tensor, contexts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the answers to questions.

        Args:
            questions: UTF-8 strings [batch].
            contexts: UTF-8 strings [batch].

        Returns:
            `answer`: strings [batch], "" for no answer; `start` and `end`: int32 [batch], character
            positions in the context; `score`: float32 [batch], the probability; `null_score`:
            float32 [batch], logit of no answer minus that of the best span, or the largest float32
            if the context has no span.
        """
        question_ids = self._tokenizer.pieces(questions, special_tokens_in_text=False)
        points = tf.strings.unicode_decode(contexts, "UTF-8", errors="replace")
        pieces, starts, ends = self._pieces(contexts, points)
        spans, null = self._spans(question_ids[:, : self._max_question], pieces, starts, ends)
        return self._best(spans, null, points)

    def _pieces(
        self, contexts: tf.Tensor, points: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Tokenize contexts.

        Accents that the tokenizer strips belong to the piece before them, as in
        `data.sliding_windows.Pieces`.

        Args:
            contexts: UTF-8 strings [batch].
            points: their code points [batch, (characters)].

        Returns:
            Ids [batch, (pieces)], and the start and end of each piece, int64 [pieces], among the
            characters of the whole batch.
        """
        pieces, starts, ends = self._tokenizer.pieces_with_places(
            contexts, special_tokens_in_text=False
        )
        begin = tf.repeat(points.row_splits[:-1], pieces.row_lengths())
        starts, ends = starts + begin, ends + begin
        if self._spaces is not None:
            starts, ends = self._spaces(points.flat_values, starts, ends)
        is_accent = has(self._kinds(points.flat_values), ch.ACCENT)
        others = tf.concat(
            [tf.where(tf.logical_not(is_accent))[:, 0], points.row_splits[-1:]], axis=0
        )
        behind = tf.gather(others, tf.searchsorted(others, ends))
        text_end = tf.repeat(points.row_splits[1:], pieces.row_lengths())
        following = tf.minimum(tf.concat([starts[1:], text_end[-1:]], axis=0), text_end)
        return pieces, starts, tf.maximum(ends, tf.minimum(behind, following))

    def _spans(
        self,
        question_ids: tf.RaggedTensor,
        pieces: tf.RaggedTensor,
        starts: tf.Tensor,
        ends: tf.Tensor,
    ) -> tuple[_Spans, tf.Tensor]:
        """Run the model on all rows.

        Args:
            question_ids: ids of the questions [batch, (pieces)].
            pieces: ids of the contexts [batch, (pieces)].
            starts: start of each context piece; see `_pieces`.
            ends: end of each context piece.

        Returns:
            The best spans of each row, and the lowest logit of no answer of each question [batch].
        """
        around = self._tokenizer.scheme.num_added(2)
        room = self._max_length - around - question_ids.row_lengths()
        step, length = tf.minimum(room, self._stride), pieces.row_lengths()
        count = 1 + -(-tf.maximum(length - room, 0) // step)
        source = tf.repeat(tf.range(question_ids.nrows()), count)
        first = tf.ragged.range(count).flat_values * tf.gather(step, source)
        size = tf.minimum(tf.gather(room, source), tf.gather(length, source) - first)
        first += tf.gather(pieces.row_starts(), source)
        shown = tf.ragged.range(first, first + size)
        question = tf.gather(question_ids, source)
        inputs = self._tokenizer.add_special_tokens(
            question,
            shown.with_flat_values(tf.gather(pieces.flat_values, shown.flat_values)),
        )
        inputs["offset"] = around - 1 + tf.cast(question.row_lengths(), tf.int32)
        central = _central(shown, tf.size(starts, out_type=tf.int64))
        inputs["central"] = central.to_tensor(False)
        logit, place, null = call_in_parts(
            self._best_of_rows,
            inputs,
            [
                tf.TensorSpec([None, None], tf.float64),
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([None], tf.float64),
            ],
        )
        null = tf.math.unsorted_segment_min(null, source, question_ids.nrows())
        number = place // self._max_pieces
        head = first[:, tf.newaxis] + tf.cast(number, tf.int64)
        tail = head + tf.cast(place - number * self._max_pieces, tf.int64)
        is_one = tf.where(tf.math.is_finite(logit))
        head, tail, logit = (tf.gather_nd(values, is_one) for values in (head, tail, logit))
        spans = _Spans(
            tf.gather(source, is_one[:, 0]), tf.gather(starts, head), tf.gather(ends, tail), logit
        )
        has_text = tf.where(spans.start < spans.end)[:, 0]  # a piece of white space is empty
        return _Spans(*(tf.gather(values, has_text) for values in spans)), null

    def _best_of_rows(self, inputs: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        """Run the model on some rows and score their spans.

        Args:
            inputs: inputs of the model [rows, length]; `central`, bool [rows, pieces], True for
                pieces where a span may start; and `offset`, int32 [rows], the column of the first
                context piece.

        Returns:
            Logits float64 [rows, spans] of the best spans; int32 [rows, spans], their place:
            first piece * max_pieces + further pieces; logit of no answer, float64 [rows].
        """
        central, offset = inputs.pop("central"), inputs.pop("offset")
        outputs = call_model(self._task, inputs)
        start, end = (tf.cast(outputs[name], tf.float64) for name in (features.START, features.END))
        rows, width = tf.unstack(tf.shape(central))
        columns = offset[:, tf.newaxis] + tf.range(width)
        is_text = columns < tf.reduce_sum(inputs[features.PADDING_MASK], 1, keepdims=True) - 1
        columns = tf.where(is_text, columns, 0)
        first = tf.where(central, tf.gather(start, columns, batch_dims=1), _NEVER)
        last = tf.where(is_text, tf.gather(end, columns, batch_dims=1), _NEVER)
        last = tf.pad(last, [[0, 0], [0, self._max_pieces - 1]], constant_values=_NEVER)
        ahead = tf.range(width)[:, tf.newaxis] + tf.range(self._max_pieces)
        scores = first[:, :, tf.newaxis] + tf.gather(last, ahead, axis=1)
        scores = tf.reshape(scores, [rows, width * self._max_pieces])
        best = tf.math.top_k(scores, tf.minimum(self._n_best, tf.shape(scores)[1]))
        return [best.values, best.indices, start[:, 0] + end[:, 0]]

    def _best(
        self, spans: _Spans, null: tf.Tensor, points: tf.RaggedTensor
    ) -> dict[str, tf.Tensor]:
        """Return the best answer of each question among the spans of its rows."""
        base = points.row_splits[-1] + 1
        place, number = tf.unique(spans.start * base + spans.end, out_idx=tf.int64)
        count = tf.size(place, out_type=tf.int64)
        logit = tf.math.unsorted_segment_max(spans.logit, number, count)
        source = tf.math.unsorted_segment_max(spans.source, number, count)
        order = tf.argsort(-logit, stable=True)
        order = tf.gather(order, tf.argsort(tf.gather(source, order), stable=True))
        ranked = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
            tf.cast(order, tf.int64),
            tf.gather(source, order),
            tf.size(null, out_type=tf.int64),
            validate=False,
        )[:, : self._n_best].to_tensor(count, shape=[None, self._n_best])
        logits = tf.gather(tf.concat([logit, [_NEVER]], axis=0), ranked)
        null_score = null - logits[:, 0]
        is_answer = tf.math.is_finite(null_score)
        if self._null_threshold is not None:
            is_answer &= null_score <= self._null_threshold
        best = tf.gather(tf.concat([place, [0]], axis=0), ranked[:, 0])
        start, end = (tf.where(is_answer, at, 0) for at in (best // base, best % base))
        begin = tf.where(is_answer, points.row_starts(), 0)
        shares = tf.concat([logits, null[:, tf.newaxis]], axis=1)
        shares = tf.nn.softmax(tf.cast(shares, tf.float32))
        return {
            "answer": spelled(points.flat_values, start, end),
            "start": tf.cast(start - begin, tf.int32),
            "end": tf.cast(end - begin, tf.int32),
            "score": tf.where(is_answer, shares[:, 0], shares[:, -1]),
            # Servers answer in JSON, which has no infinity.
            "null_score": tf.minimum(tf.cast(null_score, tf.float32), tf.float32.max),
        }


def _central(shown: tf.RaggedTensor, count: tf.Tensor) -> tf.RaggedTensor:
    """Mark each piece in the row that shows it with the most context; of equal rows the first.

    Args:
        shown: indices of the context pieces that each row shows [rows, (pieces)].
        count: number of pieces of all contexts.

    Returns:
        bool [rows, (pieces)].
    """
    piece, row, size = shown.flat_values, shown.value_rowids(), shown.row_lengths()
    place, last = tf.ragged.range(size).flat_values, tf.gather(size, row) - 1
    # The rule of BERT's `_check_is_max_context`: min(left, right) + 0.01 * length of the window.
    around = tf.cast(tf.minimum(place, last - place), tf.float64)
    around += 0.01 * tf.cast(last + 1, tf.float64)
    most = tf.gather(tf.math.unsorted_segment_max(around, piece, count), piece)
    row_of_most = tf.where(around == most, row, tf.int64.max)
    first = tf.math.unsorted_segment_min(row_of_most, piece, count)
    return shown.with_flat_values(tf.gather(first, piece) == row)
