"""Answers as spans of a text."""

from __future__ import annotations

from typing import Any, final

import keras

from bert_keras import features
from bert_keras.models.classifier import text_head
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class QuestionAnswerer(Task):
    """Finds where an answer starts and ends (Devlin et al., 2019, §4.2).

    Inputs: the encoder's; the question is the first segment, the text the second.
    Outputs: {"start", "end": float32 logits [batch, length]}.

    Args:
        encoder: the encoder.
        dropout: share dropped before the head.
        name: of the Keras model.
    """

    head_layers = ("span",)

    def __init__(
        self, encoder: BertEncoder, *, dropout: float = 0.0, name: str = "question_answerer"
    ):
        # === Layers ===
        head = text_head(encoder, 2, None, dropout, "span")
        # === Functional model ===
        inputs = task_inputs(encoder)
        logits = head(encoder(inputs)[features.SEQUENCE_OUTPUT])
        outputs = {features.START: logits[..., 0], features.END: logits[..., 1]}
        super().__init__(encoder, inputs, outputs, options={"dropout": dropout}, name=name)
        self.head = head

    def objective(self) -> dict[str, Any]:
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
