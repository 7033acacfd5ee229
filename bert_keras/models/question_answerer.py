"""Answers as spans of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import Question, SupervisedExamples, question_examples
from bert_keras.data.columns import texts_of
from bert_keras.inference import AnswerMethods
from bert_keras.inference.question_answering import row_logits
from bert_keras.models.answer_targets import answers_from
from bert_keras.models.classifier import text_head
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class QuestionAnswerer(AnswerMethods, Task):
    """Finds where an answer starts and ends (Devlin et al., 2019, §4.2).

    Inputs: the encoder's; the question is the first segment, the text the second.
    Outputs: {"start", "end": float32 logits [batch, length]}.

    Args:
        encoder: the encoder.
        dropout: share dropped before the head.
        name: of the Keras model.
        tokenizer: of the encoder; None for a task that takes features alone.
    """

    head_layers = ("span",)
    answers_with = "predict_answers"
    text_inputs = ("question", "context")
    takes_sample_weight = False  # a question may have several rows

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        dropout: float = 0.0,
        name: str = "question_answerer",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        head = text_head(encoder, 2, None, dropout, "span")
        # === Functional model ===
        inputs = task_inputs(encoder)
        logits = head(encoder(inputs)[features.SEQUENCE_OUTPUT])
        outputs = {features.START: logits[..., 0], features.END: logits[..., 1]}
        super().__init__(
            encoder, inputs, outputs, options={"dropout": dropout}, name=name, tokenizer=tokenizer
        )
        self.head = head

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode questions, contexts and answers; see `FitsText.examples_of`.

        An answer is its text, a pair (text, first character), a `data.Answer`, the dictionary of
        Hugging Face's SQuAD, a list of these, of which the first counts, or "" for none.
        """
        questions, contexts = self.two_columns(columns)
        told = answers_from(y, contexts)
        asked = [
            Question(str(row), question, context, answers, is_impossible=not answers)
            for row, (question, context, answers) in enumerate(
                zip(questions, contexts, told, strict=True)
            )
        ]
        return question_examples(self.required_tokenizer(), asked, **options)

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None
    ) -> list[dict[str, list[np.ndarray]]]:
        """Return the logits of each question: {"start", "end": one array for each row it took}."""
        questions, contexts = self.two_columns(columns)
        return row_logits(self._runner(batch_size), questions, contexts)

    def split_together(self, columns: Sequence[Any]) -> Sequence[str]:
        """Return the contexts: questions of one context stay together."""
        return texts_of("context", columns[1])

    def loss_and_metrics(self) -> dict[str, Any]:
        """The mean of both cross-entropies; labels {"start", "end": int [batch]}."""
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
