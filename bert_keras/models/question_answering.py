"""Extractive question answering: an answer is a span of its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, final

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import Answer, Question, SupervisedExamples, question_examples
from bert_keras.data.columns import texts_of
from bert_keras.errors import DataError
from bert_keras.inference import AnswerMethods
from bert_keras.inference.question_answering import row_logits
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.text_classification import HiddenLayer, text_head
from bert_keras.tokenizers import Tokenizer


def answers_from(y: Any, contexts: Sequence[str]) -> list[tuple[Answer, ...]]:
    """Return the answers of each question, with their places in the context.

    Args:
        y: for each question its answer: the text, of which the first occurrence in the context
            counts; a pair (text, index of its first character); a `data.Answer`;
            {"text": [...], "answer_start": [...]} of Hugging Face's SQuAD; a list of these; or ""
            for none.
        contexts: the context of each question.

    Returns:
        A tuple of answers for each question; () where it has none.

    Raises:
        DataError: `y` is None or has another length than `contexts`, or an answer is not in its
            context at its place; the message names the row.
    """
    if y is None:
        raise DataError("The questions have no answers. Pass y, one answer for each question.")
    rows = list(y)
    if len(rows) != len(contexts):
        raise DataError(
            f"y: {len(rows)} answers for {len(contexts)} questions. Pass one answer for each "
            'question, "" where there is none.'
        )
    return [
        _answers(value, context, row)
        for row, (value, context) in enumerate(zip(rows, contexts, strict=True))
    ]


def _answers(value: Any, context: str, row: int) -> tuple[Answer, ...]:
    """Return the answers in one entry of `y`, whose forms `answers_from` lists."""
    if isinstance(value, Answer):
        return (_placed(value.text, value.start, context, row),)
    if isinstance(value, str):
        if not value:
            return ()
        start = context.find(value)
        if start < 0:
            raise DataError(
                f"y: row {row} has the answer {value!r}, which its context does not contain. "
                'Correct the answer, or pass "" for a question without an answer.'
            )
        return (Answer(value, start),)
    if isinstance(value, Mapping) and {"text", "answer_start"} <= set(value):
        texts, starts = value["text"], value["answer_start"]
        if isinstance(texts, str) or not hasattr(starts, "__len__") or len(texts) != len(starts):
            raise DataError(
                f"y: row {row} must have the lists `text` and `answer_start` of one length. "
                f"Received: {value!r:.100}"
            )
        pairs = zip(texts, starts, strict=True)
        return tuple(_placed(text, start, context, row) for text, start in pairs)
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], str | tuple):
        return (_placed(*value, context, row),)
    if isinstance(value, Sequence):
        return tuple(answer for entry in value for answer in _answers(entry, context, row))
    raise DataError(
        f"y: row {row} is no answer. Received: {value!r:.100}. Pass the text of the answer, or "
        "(text, index of its first character in the context)."
    )


def _placed(text: Any, start: Any, context: str, row: int) -> Answer:
    """Return an answer after checking that its context has its text at its place.

    Args:
        text: text of the answer.
        start: index of its first character in the context.
        context: the context.
        row: number of the question, for messages.
    """
    is_whole = isinstance(start, Integral) and not isinstance(start, bool)
    if not isinstance(text, str) or not is_whole:
        raise DataError(
            f"y: row {row} must have the text of an answer, and the index of its first character "
            f"in the context, an int. Received: {text!r:.100}, {start!r:.100}"
        )
    begin = int(start)
    if begin < 0 or not text or not context.startswith(text, begin):
        text_there = context[max(0, begin) : max(0, begin) + len(text)]
        raise DataError(
            f"y: row {row} has the answer {text!r:.100} at character {begin}, where its context "
            f"has {text_there!r:.100}. Correct the index, or pass the text alone, which is then "
            "searched for."
        )
    return Answer(text, begin)


# === Question answering ===


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class QuestionAnswerer(AnswerMethods, Task):
    """Finds where an answer starts and ends in its context (Devlin et al., 2019, §4.2).

    Inputs: the encoder's; the question is the first segment, the context the second.
    Outputs: {"start": float32 logits [batch, length], "end": the same}. They score each token as
    the first, and as the last, of the answer. [CLS] scores no answer.

    Args:
        encoder: the encoder.
        dropout: dropout rate before the head.
        hidden_activation: activation of a dense layer between the encoder and the logits
            (ModernBERT); None for no such layer.
        hidden_norm: as for `SequenceClassifier`.
        hidden_bias: as for `SequenceClassifier`.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.
    """

    head_layers = ("span",)
    task_name = "question_answering"
    answers_with = "predict_answers"
    text_inputs = ("question", "context")
    takes_sample_weight = False  # a question may have several rows

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        dropout: float = 0.0,
        hidden_activation: str | None = None,
        hidden_norm: bool = False,
        hidden_bias: bool = True,
        name: str = "question_answerer",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        hidden = HiddenLayer(hidden_activation, 0.0, hidden_norm, hidden_bias)
        head = text_head(encoder, 2, hidden, dropout, "span")
        # === Functional model ===
        inputs = task_inputs(encoder)
        logits = head(encoder(inputs)[features.SEQUENCE_OUTPUT])
        outputs = {features.START: logits[..., 0], features.END: logits[..., 1]}
        options = {"dropout": dropout, **hidden.all_options()}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode questions, contexts and answers; see `FitsText.examples_of`.

        `answers_from` lists the forms of an answer. Of several answers to a question the first one
        is learned.
        """
        questions, contexts = self.two_columns(columns)
        all_answers = answers_from(y, contexts)
        examples = [
            Question(str(row), question, context, answers, is_impossible=not answers)
            for row, (question, context, answers) in enumerate(
                zip(questions, contexts, all_answers, strict=True)
            )
        ]
        return question_examples(self.required_tokenizer(), examples, **options)

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any
    ) -> list[dict[str, list[np.ndarray]]]:
        """Return the logits of each question.

        A long context is split into several rows of the model. The dictionary of a question,
        {"start": [...], "end": [...]}, has one float32 array [length] for each row.
        """
        questions, contexts = self.two_columns(columns)
        return row_logits(self._runner(batch_size, **reading), questions, contexts)

    def split_together(self, columns: Sequence[Any]) -> Sequence[str]:
        """Return the contexts, so that questions of one context stay in one part of a split."""
        return texts_of("context", columns[1])

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the mean of the cross-entropies of start and end, and their accuracies.

        Labels are {"start": int [batch], "end": int [batch]}, positions of tokens in the row.
        """
        names = (features.START, features.END)
        return {
            "loss": {
                name: keras.losses.SparseCategoricalCrossentropy(from_logits=True) for name in names
            },
            "loss_weights": dict.fromkeys(names, 0.5),
            "weighted_metrics": {
                name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] for name in names
            },
        }
