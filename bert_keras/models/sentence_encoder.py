"""Texts as vectors."""

from __future__ import annotations

from typing import Any, final

import keras

from bert_keras import features
from bert_keras.layers import SentencePooling
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SentenceEncoder(Task):
    """Makes a vector of a text; texts that mean the same have similar ones.

    Reimers & Gurevych, 2019, §3. Inputs: the encoder's.
    Output: {"sentence_vector": float32 [batch, hidden_size]}.

    Args:
        encoder: the encoder.
        pooling: "mean" or "max" of the tokens' vectors, or "cls", the first one.
        normalize: whether vectors have length 1, so that their product is the cosine.
        name: of the Keras model.

    Raises:
        ValueError: an unknown pooling.
    """

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        pooling: str = "mean",
        normalize: bool = True,
        name: str = "sentence_encoder",
    ):
        # === Layers ===
        head = SentencePooling(pooling, normalize, name=features.SENTENCE_VECTOR)
        # === Functional model ===
        inputs = task_inputs(encoder)
        vectors = head(encoder(inputs)[features.SEQUENCE_OUTPUT], inputs[features.PADDING_MASK])
        options = {"pooling": pooling, "normalize": normalize}
        outputs = {features.SENTENCE_VECTOR: vectors}
        super().__init__(encoder, inputs, outputs, options=options, name=name)

    def objective(self) -> dict[str, Any]:
        """Mean squared error to the vectors of a teacher (Reimers & Gurevych, 2020).

        Labels {"sentence_vector": float [batch, hidden_size]}.
        """
        similarity = keras.metrics.CosineSimilarity(name="cosine_similarity")
        return {
            "loss": {features.SENTENCE_VECTOR: keras.losses.MeanSquaredError()},
            "weighted_metrics": {features.SENTENCE_VECTOR: [similarity]},
        }
