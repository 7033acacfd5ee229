"""The best of several endings or answers."""

from __future__ import annotations

from typing import Any, final

import keras

from bert_keras import features
from bert_keras.layers import MergeChoices, SplitChoices
from bert_keras.models.classifier import text_head, text_vector
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class MultipleChoice(Task):
    """Chooses among texts: each is scored on its own (Devlin et al., 2019, §4.4).

    Inputs: the encoder's, with an axis for the choices: int32 [batch, choices, length].
    Output: {"choice": float32 logits [batch, choices]}.

    Args:
        encoder: the encoder.
        hidden_activation: as for `SequenceClassifier`.
        dropout: share dropped before each layer of the head; None for the encoder's.
        hidden_dropout: as for `SequenceClassifier`.
        name: of the Keras model.

    Raises:
        ValueError: the encoder has no pooler, and no activation is given.
    """

    head_layers = (features.CHOICE,)

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        hidden_activation: str | None = None,
        dropout: float | None = None,
        hidden_dropout: float | None = None,
        name: str = "multiple_choice",
    ):
        # === Layers ===
        head = text_head(encoder, 1, hidden_activation, dropout, features.CHOICE, hidden_dropout)
        # === Functional model ===
        inputs = {
            name: keras.Input((None, None), dtype="int32", name=name)
            for name in task_inputs(encoder)
        }
        texts = {name: MergeChoices(name=f"{name}_of_texts")(x) for name, x in inputs.items()}
        scores = head(text_vector(encoder, texts, hidden_activation))
        split = SplitChoices(name="choices")
        outputs = {features.CHOICE: split(scores, inputs[features.TOKEN_IDS])}
        options = {
            "hidden_activation": hidden_activation,
            "dropout": dropout,
            "hidden_dropout": hidden_dropout,
        }
        super().__init__(encoder, inputs, outputs, options=options, name=name)
        self.head = head

    @property
    def reads_pooler(self) -> bool:
        """Unless the head has a layer of its own."""
        return self.options["hidden_activation"] is None

    def objective(self) -> dict[str, Any]:
        """Cross-entropy of the right choice; labels {"choice": int [batch]}."""
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        return {
            "loss": {features.CHOICE: keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
            "weighted_metrics": {features.CHOICE: [accuracy]},
        }
