"""ELECTRA's discriminator."""

from __future__ import annotations

from typing import Any, final

import keras

from bert_keras import features
from bert_keras.models.classifier import text_head
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class ReplacedTokenDetector(Task):
    """Tells for every token whether it was replaced (Clark et al., 2020, §2).

    Inputs: the encoder's.
    Output: {"rtd": float32 logits [batch, length, 1]}, above 0 for a token that was replaced.

    Args:
        encoder: the encoder.
        name: of the Keras model.
        tokenizer: of the encoder; None for a task that takes features alone.
    """

    head_layers = (features.RTD,)

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        name: str = "replaced_token_detector",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        head = text_head(encoder, 1, encoder.config.activation, 0.0, features.RTD)
        # === Functional model ===
        inputs = task_inputs(encoder)
        outputs = {features.RTD: head(encoder(inputs)[features.SEQUENCE_OUTPUT])}
        super().__init__(encoder, inputs, outputs, options={}, name=name, tokenizer=tokenizer)
        self.head = head

    def loss_and_metrics(self) -> dict[str, Any]:
        """Mean cross-entropy of the real tokens.

        Labels {"rtd": [batch, length, 1]}: 1 for a token that was replaced; sample weights
        [batch, length]: 0 for padding.
        """
        loss = keras.losses.BinaryCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        accuracy = keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
        return {"loss": {features.RTD: loss}, "weighted_metrics": {features.RTD: [accuracy]}}
