"""Masked language modelling alone: continued pretraining, filling in masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from bert_keras import features, kernels
from bert_keras.data import MaskedTexts, SupervisedExamples, encode
from bert_keras.data.columns import texts_of
from bert_keras.inference import MaskMethods
from bert_keras.inference.fill_mask import mask_logits
from bert_keras.layers import MaskedLMHead
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenLoss(keras.losses.Loss):
    """Mean negative log-likelihood, in nats, of labels that are whole numbers, from logits.

    As `keras.losses.SparseCategoricalCrossentropy`, but that the mean is over the weights, so that
    what has weight 0 does not count, and in fewer passes over the logits.
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "token_loss"):
        # Whatever Keras's `floatx`: it casts labels too, and half precision has few whole numbers.
        super().__init__(name=name, reduction=reduction, dtype="float32")

    def label_classes(self, shape: tuple[int | None, ...]) -> int | None:
        """Return the number of classes of the labels, from the shape of the output."""
        return shape[-1]

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Labels [...] and logits [..., classes] -> losses [...]."""
        return kernels.token_losses(ops.cast(y_true, "int32"), y_pred)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"reduction": self.reduction, "name": self.name}


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of labels, whole numbers, whose logit is the highest."""

    def __init__(self, name: str = "accuracy", dtype: Any = None):
        super().__init__(_matches, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}


def _matches(labels: Any, logits: Any) -> Any:
    return kernels.is_highest(ops.cast(labels, "int32"), ops.convert_to_tensor(logits))


# === Masked language model ===


def masked_lm_head(
    encoder: BertEncoder, activation: str | None = None, layer_norm_epsilon: float | None = None
) -> MaskedLMHead:
    """The MLM head that fits this encoder, tied to its token table."""
    config = encoder.config
    return MaskedLMHead(
        encoder.embeddings.token,
        activation=activation or config.activation,
        layer_norm_epsilon=(
            config.layer_norm_epsilon if layer_norm_epsilon is None else layer_norm_epsilon
        ),
        initializer_range=config.initializer_range,
        dtype=encoder.dtype_policy,
        name=features.MLM,
    )


def mask_positions(inputs: dict) -> keras.KerasTensor:
    """A further input, added to these: which tokens are predicted, int32 [batch, predictions]."""
    positions = keras.Input((None,), dtype="int32", name=features.MASK_POSITIONS)
    inputs[features.MASK_POSITIONS] = positions
    return positions


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class MaskedLM(MaskMethods, Task):
    """Predicts the tokens at `mask_positions` (Devlin et al., 2019, §3.1, task 1).

    Inputs: the encoder's, and `mask_positions` int32 [batch, predictions].
    Output: {"mlm": float32 logits [batch, predictions, vocab_size]}.

    Args:
        encoder: the encoder; its token table is also the output layer's.
        activation: of the head; None for the encoder's (RoBERTa and ELECTRA: always "gelu").
        layer_norm_epsilon: of the head; None for the encoder's (KerasHub: always 1e-5).
        name: of the Keras model.
        tokenizer: of the encoder; None for a task that takes features alone.
    """

    head_layers = (features.MLM,)
    fills_masks = True
    task_name = "fill_mask"
    answers_with = "fill_mask"

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        activation: str | None = None,
        layer_norm_epsilon: float | None = None,
        name: str = "masked_lm",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        head = masked_lm_head(encoder, activation, layer_norm_epsilon)
        # === Functional model ===
        inputs = task_inputs(encoder)
        outputs = _outputs(encoder, inputs, head)
        options = {"activation": activation, "layer_norm_epsilon": layer_norm_epsilon}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.mlm = head

    def packed_outputs(self, inputs: dict) -> dict:
        """Those of the masked tokens of a row, whichever example they are of."""
        return self.outputs_by(self.mlm, inputs, packed=True)

    def outputs_by(self, head: keras.layers.Layer, inputs: dict, *, packed: bool = False) -> dict:
        """Those of another layer than the head; see `ChunkedTask`."""
        return _outputs(self.encoder, inputs, head, packed)

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts, whose tokens are masked anew in every epoch; see `FitsText.examples_of`."""
        if y is not None:
            raise ValueError(
                "A MaskedLM learns from texts alone: its labels are the tokens that it masks. "
                f"Leave `y` out. Received: y of {type(y).__name__}"
            )
        tokenizer = self.required_tokenizer()
        rows = encode(tokenizer, texts_of("text", columns[0]), max_length=options["max_length"])
        return MaskedTexts(tokenizer, rows, **options)

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None) -> list[np.ndarray]:
        """Return the logits of the [MASK] of each text: float32 [masks, vocab_size] each."""
        return mask_logits(self._runner(batch_size), texts_of("text", columns[0]))

    def loss_and_metrics(self) -> dict[str, Any]:
        """Cross-entropy of the masked tokens; labels {"mlm": int32 [batch, predictions]}."""
        return {
            "loss": {features.MLM: TokenLoss()},
            "weighted_metrics": {features.MLM: [TokenAccuracy(name="mlm_accuracy")]},
        }


def _outputs(encoder: BertEncoder, inputs: dict, head: Any, packed: bool = False) -> dict:
    mask_positions(inputs)
    # The clone of a task has the weights that its layers have: also those of an unused pooler.
    encoded = encoder.at_positions(packed=packed).include_unused()(inputs)
    return {features.MLM: head(encoded[features.SEQUENCE_OUTPUT])}
