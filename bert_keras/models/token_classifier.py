"""Tags of tokens: entities, parts of speech."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras import features
from bert_keras.models.classifier import text_head
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, class_names, task_inputs


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenClassifier(Task):
    """Tags every token (Devlin et al., 2019, §5.3).

    Inputs: the encoder's.
    Output: {"tags": float32 logits [batch, length, num_classes]}.

    Args:
        encoder: the encoder.
        num_classes: how many tags.
        labels: their names; None for "LABEL_0", "LABEL_1" and so on.
        dropout: share dropped before the head; None for the encoder's.
        name: of the Keras model.

    Raises:
        ValueError: labels of another number.
    """

    head_layers = (features.TAGS,)

    def __init__(
        self,
        encoder: BertEncoder,
        num_classes: int,
        *,
        labels: Sequence[str] | None = None,
        dropout: float | None = None,
        name: str = "token_classifier",
    ):
        labels = class_names(num_classes, labels)
        # === Layers ===
        head = text_head(encoder, num_classes, None, dropout, features.TAGS)
        # === Functional model ===
        inputs = task_inputs(encoder)
        outputs = {features.TAGS: head(encoder(inputs)[features.SEQUENCE_OUTPUT])}
        options = {"num_classes": num_classes, "labels": labels, "dropout": dropout}
        super().__init__(encoder, inputs, outputs, options=options, name=name)
        self.head = head

    def objective(self) -> dict[str, Any]:
        """Mean cross-entropy of the tokens whose sample weight is not 0.

        Labels {"tags": int [batch, length]}, and sample weights of that shape: 0 for padding,
        special tokens, and pieces that do not count.
        """
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        return {"loss": {features.TAGS: loss}, "weighted_metrics": {features.TAGS: [accuracy]}}
