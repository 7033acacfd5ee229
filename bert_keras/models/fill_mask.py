"""Masked language modelling without sentence pairs: continued pretraining, filling in masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from bert_keras import features, kernels
from bert_keras.config_checks import MOST, is_whole
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
    """Mean negative log-likelihood, in nats, of class indices, from logits.

    It differs from `keras.losses.SparseCategoricalCrossentropy` in two ways. The sum of the losses
    is divided by the sum of the sample weights, so that unused predictions, of weight 0, do not
    count. And it takes fewer passes over the logits, the largest tensor of pretraining.
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "token_loss"):
        # Not Keras's `floatx`: Keras casts labels too, and half precision has few whole numbers.
        super().__init__(name=name, reduction=reduction, dtype="float32")

    def label_classes(self, shape: tuple[int | None, ...]) -> int | None:
        """Return the number of classes, from the shape of the output, [..., classes]."""
        return shape[-1]

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the losses, float32 [...], of labels [...] and logits [..., classes]."""
        return kernels.token_losses(ops.cast(y_true, "int32"), y_pred)

    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`."""
        return {"reduction": self.reduction, "name": self.name}


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of labels whose logit is the highest, for labels that are class indices.

    Labels are int [...], logits float [..., classes]; sample weights [...] weight the mean.
    """

    def __init__(self, name: str = "accuracy", dtype: Any = None):
        super().__init__(_matches, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`."""
        return {"name": self.name, "dtype": self.dtype}


def _matches(labels: Any, logits: Any) -> Any:
    """Return whether each label, int [...], has the highest of its logits, [..., classes]."""
    return kernels.is_highest(ops.cast(labels, "int32"), ops.convert_to_tensor(logits))


# === Masked language model ===

_MOST_DENSE = 2
# Options of the head that files leave out where they are BERT's.
_BERT_HEAD = {
    "hidden_bias": True,
    "hidden_sizes": None,
    "hidden_norm": True,
    "tied": True,
    "output_bias": True,
}


def masked_lm_head(
    encoder: BertEncoder,
    activation: str | None = None,
    layer_norm_epsilon: float | None = None,
    hidden_bias: bool = True,
    hidden_sizes: Sequence[int] | None = None,
    hidden_norm: bool = True,
    tied: bool = True,
    output_bias: bool = True,
) -> MaskedLMHead:
    """Make the MLM head for an encoder; see `MaskedLM` for what the arguments mean.

    Args:
        encoder: the encoder.
        activation: activation of the head's dense layer; None for the encoder's.
        layer_norm_epsilon: epsilon of the head's normalisation; None for the encoder's.
        hidden_bias: whether the head's dense layers have biases.
        hidden_sizes: widths of the dense layers.
        hidden_norm: whether a normalisation follows them.
        tied: whether the output matrix is the encoder's token table.
        output_bias: whether the scores have a bias.

    Raises:
        ValueError: if `hidden_sizes` are not up to two widths, or do not end in that of the table.
    """
    config = encoder.config
    width = config.table_size
    if hidden_sizes is not None:
        width = _last_width(hidden_sizes, config.hidden_size)
    if tied and width != config.table_size:
        raise ValueError(
            f"The vectors before a tied output matrix must have its width, {config.table_size}. "
            f"Received: hidden_sizes={hidden_sizes!r}, which end in {width}"
        )
    return MaskedLMHead(
        encoder.embeddings.token,
        activation=activation or config.activation,
        layer_norm_epsilon=(
            config.layer_norm_epsilon if layer_norm_epsilon is None else layer_norm_epsilon
        ),
        initializer_range=config.initializer_range,
        use_bias=hidden_bias,
        norm_bias=config.norm_bias or config.norm != "layer",
        hidden_sizes=hidden_sizes,
        norm=hidden_norm,
        output_width=None if tied else width,
        output_bias=output_bias,
        dtype=encoder.dtype_policy,
        name=features.MLM,
    )


def _last_width(sizes: Any, hidden_size: int) -> int:
    """Return the width of vectors of the encoder after dense layers of these widths.

    Raises:
        ValueError: if there are more than two, or one is out of range.
    """
    most = MOST["intermediate_size"]
    is_list = isinstance(sizes, list | tuple) and len(sizes) <= _MOST_DENSE
    if not is_list or not all(is_whole(size) and 0 < size <= most for size in sizes):
        raise ValueError(
            f"`hidden_sizes` must be a list of at most {_MOST_DENSE} widths from 1 to {most:,}. "
            f"Received: hidden_sizes={sizes!r:.100}"
        )
    return int(sizes[-1]) if sizes else hidden_size


def mask_positions(inputs: dict) -> keras.KerasTensor:
    """Make the input `mask_positions`, int32 [batch, predictions], and add it to `inputs`.

    It has the positions of the masked tokens in their rows; unused entries are 0.
    """
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
        encoder: the encoder.
        activation: activation of the head; None for the encoder's (RoBERTa and ELECTRA always have
            "gelu").
        layer_norm_epsilon: epsilon of the head's normalisation; None for the encoder's (KerasHub
            always has 1e-5).
        hidden_bias: whether the head's dense layers have biases (ModernBERT: no).
        hidden_sizes: widths of the head's dense layers, two at most, each with the activation; None
            for one of the width of the token table (EuroBERT: none of them, UltraBERT: two).
        hidden_norm: whether a normalisation follows them.
        tied: whether the encoder's token table is also the matrix of the output layer. If not, the
            head has a matrix of its own.
        output_bias: whether the logits have a bias.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.
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
        hidden_bias: bool = True,
        hidden_sizes: Sequence[int] | None = None,
        hidden_norm: bool = True,
        tied: bool = True,
        output_bias: bool = True,
        name: str = "masked_lm",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        form: dict[str, Any] = {
            "hidden_bias": hidden_bias,
            "hidden_sizes": hidden_sizes,
            "hidden_norm": hidden_norm,
            "tied": tied,
            "output_bias": output_bias,
        }
        head = masked_lm_head(encoder, activation, layer_norm_epsilon, **form)
        # === Functional model ===
        inputs = task_inputs(encoder)
        outputs = _outputs(encoder, inputs, head)
        options: dict[str, Any] = {
            "activation": activation,
            "layer_norm_epsilon": layer_norm_epsilon,
        }
        if hidden_sizes is not None:
            form["hidden_sizes"] = [int(size) for size in hidden_sizes]
        options |= {name: value for name, value in form.items() if value != _BERT_HEAD[name]}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.mlm = head

    def packed_outputs(self, inputs: dict) -> dict:
        """Return the logits of the masked tokens of packed rows; see `Task.packed_outputs`.

        Output: {"mlm": [rows, predictions, vocab_size]}, of all examples of a row in one list.
        """
        return self.outputs_by(self.mlm, inputs, packed=True)

    def outputs_by(self, head: keras.layers.Layer, inputs: dict, *, packed: bool = False) -> dict:
        """Return the outputs with another layer in place of the head; see `ChunkedTask`.

        Args:
            head: layer that is called with the vectors [batch, predictions, hidden_size].
            inputs: those of the encoder, to which `mask_positions` is added.
            packed: True for the inputs of packed rows.
        """
        return _outputs(self.encoder, inputs, head, packed)

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts, with other masked tokens in every epoch; see `FitsText.examples_of`."""
        if y is not None:
            raise ValueError(
                "A MaskedLM learns from texts alone: its labels are the tokens that it masks. "
                f"Leave `y` out. Received: y of {type(y).__name__}"
            )
        tokenizer = self.required_tokenizer()
        rows = encode(tokenizer, texts_of("text", columns[0]), max_length=options["max_length"])
        return MaskedTexts(tokenizer, rows, **options)

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any
    ) -> list[np.ndarray]:
        """Return the logits of every [MASK] in each text: one float32 [masks, vocab_size] each."""
        return mask_logits(self._runner(batch_size, **reading), texts_of("text", columns[0]))

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the cross-entropy and the accuracy of the masked tokens.

        Labels are {"mlm": int32 [batch, predictions]}, the original ids; sample weights have the
        same shape, 0 for unused predictions.
        """
        return {
            "loss": {features.MLM: TokenLoss()},
            "weighted_metrics": {features.MLM: [TokenAccuracy(name="mlm_accuracy")]},
        }


def _outputs(encoder: BertEncoder, inputs: dict, head: Any, packed: bool = False) -> dict:
    """Return {"mlm": output of `head`}, and add `mask_positions` to the inputs."""
    mask_positions(inputs)
    # With an unused pooler too, because a clone of the task has the weights of its layers alone.
    encoded = encoder.at_positions(packed=packed).include_unused()(inputs)
    return {features.MLM: head(encoded[features.SEQUENCE_OUTPUT])}
