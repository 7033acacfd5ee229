"""Pretraining of BERT (masked tokens and sentence pairs) and of ELECTRA."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, final

import keras
from keras import ops

from bert_keras import features
from bert_keras.earlier_names import renamed
from bert_keras.inference import MaskMethods, PairMethods
from bert_keras.layers import Generator, PairHead, TokenReplacement, to_be_filled
from bert_keras.layers.state import assign_copy
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.encoder_layers import transformer_blocks
from bert_keras.models.fill_mask import (
    MaskedLM,
    TokenAccuracy,
    TokenLoss,
    mask_positions,
    masked_lm_head,
)
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.text_classification import HiddenLayer, text_head
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class Pretrainer(MaskMethods, PairMethods, Task):
    """Predicts masked tokens and the relation of two segments, BERT's two pretraining tasks.

    Inputs: the encoder's, and `mask_positions` int32 [batch, predictions].
    Outputs: {"mlm": float32 logits [batch, predictions, vocab_size], and
    "nsp" or "sop": float32 logits [batch, 2]}.

    Args:
        encoder: the encoder, with a pooler; its token table is also the matrix of the output layer.
        loss: "nsp", next sentence prediction (Devlin et al., 2019, §3.1, task 2): 0 = the
            second segment follows the first, 1 = it is from elsewhere; or "sop", sentence order
            prediction (Lan et al., 2020, §3.1): 0 = in order, 1 = swapped.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: the encoder has no pooler or one segment only, or the loss is unknown.
    """

    head_layers = (features.MLM, features.NSP, features.SOP)
    fills_masks = True
    task_name = "pretraining"
    answers_with = "fill_mask"

    @renamed("Pretrainer", objective="loss")
    def __init__(
        self,
        encoder: BertEncoder,
        *,
        loss: str = "nsp",
        name: str = "pretrainer",
        tokenizer: Tokenizer | None = None,
    ):
        if loss not in (features.NSP, features.SOP):
            raise ValueError(
                f"`loss` must be 'nsp' or 'sop'. Received: loss={loss!r}. "
                "For masked tokens alone use MaskedLM."
            )
        if not encoder.config.pooler or encoder.config.num_segments < 2:
            raise ValueError(
                "Sentence pairs need a pooler and two segments: an encoder with pooler=True and "
                "num_segments=2. For masked tokens alone use MaskedLM. Received: "
                f"pooler={encoder.config.pooler}, num_segments={encoder.config.num_segments}"
            )
        # === Layers ===
        head = masked_lm_head(encoder)
        pair_head = PairHead(
            encoder.config.initializer_range, dtype=encoder.dtype_policy, name=loss
        )
        # === Functional model ===
        inputs = task_inputs(encoder)
        mask_positions(inputs)
        encoded = encoder.at_positions(pooled=True)(inputs)
        outputs = {
            features.MLM: head(encoded[features.SEQUENCE_OUTPUT]),
            loss: pair_head(encoded[features.POOLED_OUTPUT]),
        }
        super().__init__(
            encoder,
            inputs,
            outputs,
            options={"loss": loss},
            name=name,
            tokenizer=tokenizer,
        )
        self.mlm, self.pair = head, pair_head

    @property
    def reads_pooler(self) -> bool:
        """True: the sentence pair head reads the pooled output."""
        return True

    def packed_outputs(self, inputs: dict) -> dict:
        """Return the logits of packed rows; see `Task.packed_outputs`.

        Outputs: {"mlm": [rows, predictions, vocab_size], "nsp" or "sop": [rows, examples, 2]}.
        """
        return self.outputs_by(self.mlm, inputs, packed=True)

    def outputs_by(self, head: keras.layers.Layer, inputs: dict, *, packed: bool = False) -> dict:
        """Return the outputs with another layer in place of the MLM head; see `ChunkedTask`.

        Args:
            head: layer that is called with the vectors [batch, predictions, hidden_size].
            inputs: those of the encoder, to which `mask_positions` is added.
            packed: True for the inputs of packed rows.
        """
        mask_positions(inputs)
        encoded = self.encoder.at_positions(packed=packed, pooled=True)(inputs)
        return {
            features.MLM: head(encoded[features.SEQUENCE_OUTPUT]),
            self.options["loss"]: self.pair(encoded[features.POOLED_OUTPUT]),
        }

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the two cross-entropies, whose sum is the loss as in the paper, and accuracies.

        Labels are {"mlm": int32 [batch, predictions], "nsp" or "sop": int32 [batch]}.
        """
        pair = self.options["loss"]
        pair_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {
            "loss": {features.MLM: TokenLoss(), pair: pair_loss},
            "weighted_metrics": {name: [TokenAccuracy()] for name in (features.MLM, pair)},
        }


# === Replaced token detection ===


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class ReplacedTokenDetector(Task):
    """Classifies every token as original or replaced: ELECTRA's discriminator (Clark et al., 2020).

    Inputs: the encoder's.
    Output: {"rtd": float32 logits [batch, length, 1]}, above 0 for a token that was replaced.

    Args:
        encoder: the encoder.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.
    """

    task_name = "replaced_token_detection"
    head_layers = (features.RTD,)
    answers_texts = False

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        name: str = "replaced_token_detector",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        head = text_head(encoder, 1, HiddenLayer(encoder.config.activation), 0.0, features.RTD)
        # === Functional model ===
        inputs = task_inputs(encoder)
        outputs = {features.RTD: head(encoder(inputs)[features.SEQUENCE_OUTPUT])}
        super().__init__(encoder, inputs, outputs, options={}, name=name, tokenizer=tokenizer)
        self.head = head

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the mean binary cross-entropy and the accuracy of the real tokens.

        Labels are {"rtd": [batch, length, 1]}, 1 for a token that was replaced; sample weights
        [batch, length], 0 for padding.
        """
        loss = keras.losses.BinaryCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        accuracy = keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
        return {"loss": {features.RTD: loss}, "weighted_metrics": {features.RTD: [accuracy]}}


# === ELECTRA ===


GENERATOR = "generator"


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class ElectraPretrainer(Task):
    """ELECTRA's pretraining: generator and discriminator train together (Clark et al., 2020).

    The generator is a smaller encoder over the same embeddings. It predicts the masked tokens, and
    tokens drawn from its predictions take the masked places. The discriminator, the encoder,
    classifies every token as original or replaced. The encoder is the model to keep:
    `BertEncoder.from_preset(folder)` opens it.

    Inputs: the encoder's, and `mask_positions` int32 [batch, predictions].
    Outputs:

    - "mlm": the generator's logits, float32 [batch, predictions, vocab_size];
    - "rtd": float32 [batch, length, 2]. Index 0 is the discriminator's logit, above 0 for a token
      that was replaced. Index 1 is the id that the discriminator read, as a float. The loss
      compares it with the original id, because the replaced tokens are drawn within the model.

    Args:
        encoder: the discriminator. A pooler is allowed, and is not trained.
        generator_size: width of the generator, as a share of the encoder's (§3.2: 1/4 to 1/2).
        rtd_weight: weight of the discriminator's loss in the sum (§3.1: 50).
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: `generator_size` or `rtd_weight` is out of range, or the encoder has shared
            blocks, pruned heads or relative positions, which the generator cannot have.
    """

    task_name = "electra_pretraining"
    head_layers = (features.MLM, features.RTD, GENERATOR)
    answers_texts = False

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        generator_size: float = 0.25,
        rtd_weight: float = 50.0,
        name: str = "electra_pretrainer",
        tokenizer: Tokenizer | None = None,
    ):
        config = encoder.config
        if not config.takes_generator:
            raise ValueError(
                "ELECTRA's generator needs an encoder without shared blocks, without pruned heads, "
                "with post-norm blocks, and with positions in a table alone. Make such an encoder, "
                f"or pretrain this one with MaskedLM. Received: {config}"
            )
        is_number = isinstance(rtd_weight, Real) and not isinstance(rtd_weight, bool)
        if not is_number or not 0 <= rtd_weight < math.inf:
            raise ValueError(
                "`rtd_weight` must be a finite number of at least 0. "
                f"Received: rtd_weight={rtd_weight!r:.100}"
            )
        # === Layers ===
        narrow = config.narrowed(generator_size)
        generator = Generator(
            encoder.embeddings,
            transformer_blocks(narrow, encoder.dtype_policy),
            narrow.hidden_size,
            config.initializer_range,
            dtype=encoder.dtype_policy,
            name=GENERATOR,
        )
        mlm = masked_lm_head(encoder)
        replacement = TokenReplacement(dtype=encoder.dtype_policy, name="replacement")
        head = text_head(encoder, 1, HiddenLayer(config.activation), 0.0, features.RTD)
        # === Functional model ===
        texts = task_inputs(encoder)
        inputs = dict(texts)
        generated = generator(
            inputs[features.TOKEN_IDS],
            inputs.get(features.SEGMENT_IDS),
            inputs[features.PADDING_MASK],
        )
        positions = mask_positions(inputs)
        logits = mlm(generated, positions)
        seen = replacement(inputs[features.TOKEN_IDS], logits, positions)
        encoded = encoder({**texts, features.TOKEN_IDS: seen})[features.SEQUENCE_OUTPUT]
        # Ids are exact in float32, up to 16 million.
        detected = ops.concatenate([head(encoded), ops.cast(seen, "float32")[:, :, None]], axis=-1)
        outputs = {features.MLM: logits, features.RTD: detected}
        rtd_weight = rtd_weight if isinstance(rtd_weight, int) else float(rtd_weight)
        options = {"generator_size": generator_size, "rtd_weight": rtd_weight}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.generator, self.mlm, self.head = generator, mlm, head

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the generator's loss plus `rtd_weight` times the discriminator's, and metrics.

        Both are mean cross-entropies in nats. Labels are {"mlm": int32 [batch, predictions], "rtd":
        int32 [batch, length]}, original ids in both. Sample weights have the same shapes, 0 for
        unused predictions and padding.
        """
        rtd = keras.metrics.MeanMetricWrapper(replaced_token_accuracy, "accuracy", "float32")
        share = keras.metrics.MeanMetricWrapper(replaced_token_share, "share", "float32")
        return {
            "loss": {features.MLM: TokenLoss(), features.RTD: ReplacedTokenLoss()},
            "loss_weights": {features.MLM: 1.0, features.RTD: self.options["rtd_weight"]},
            "weighted_metrics": {features.MLM: [TokenAccuracy()], features.RTD: [rtd, share]},
        }

    def to_discriminator(self) -> ReplacedTokenDetector:
        """Return the discriminator: the same encoder, and a copy of the head.

        The published ELECTRA discriminators have this form.
        """
        task = ReplacedTokenDetector(self.encoder)
        _copy(self, task)
        return task

    def to_generator(self) -> MaskedLM:
        """Return a copy of the generator with embeddings of its own.

        The published ELECTRA generators have this form.
        """
        config = self.encoder.config.narrowed(self.options["generator_size"])
        with to_be_filled():
            encoder = BertEncoder(config.replace(pooler=False), dtype=self.encoder.dtype_policy)
            task = MaskedLM(encoder)
        _copy(self, task, {"embeddings/projection": "projection", "block_": "block_"})
        return task


def _copy(source: Task, target: Task, generated: Mapping[str, str] | None = None) -> None:
    """Assign the weights of a task to those of another one, by path.

    Args:
        source: the task whose weights are read.
        target: the task whose weights are assigned; weights that both share are left alone.
        generated: beginnings of paths in the target, with the beginnings of the same weights
            within the source's generator.
    """
    sources = {weight.path: weight for weight in source.weights}
    for weight in target.weights:
        path = weight.path
        for start, source_start in (generated or {}).items():
            if path.startswith(start):
                path = f"{GENERATOR}/{source_start}{path.removeprefix(start)}"
        if weight is not sources[path]:
            assign_copy(weight, sources[path])


@keras.saving.register_keras_serializable(package="bert_keras")
class ReplacedTokenLoss(keras.losses.Loss):
    """Binary cross-entropy, in nats, of replaced tokens (Clark et al., 2020, §2).

    A masked token that the generator predicted rightly counts as original.
    """

    def __init__(self, name: str = "replaced_token_loss", **kwargs):
        # Ids are not exact in fewer bits.
        options = {"reduction": "mean_with_sample_weight", "dtype": "float32"}
        super().__init__(name=name, **options, **kwargs)

    def call(self, y_true, y_pred):
        """Return the losses, float32 [batch, length].

        Args:
            y_true: original ids, [batch, length].
            y_pred: the output "rtd" of `ElectraPretrainer`, float32 [batch, length, 2].
        """
        logits, replaced = y_pred[:, :, 0], _replaced(y_true, y_pred)
        return ops.binary_crossentropy(replaced, logits, from_logits=True)

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the loss from."""
        return {"name": self.name}


@keras.saving.register_keras_serializable(package="bert_keras")
def replaced_token_accuracy(y_true, y_pred):
    """Return 1 for each token that was classified rightly: float32 [batch, length].

    Arguments are those of `ReplacedTokenLoss.call`.
    """
    return ops.cast((y_pred[:, :, 0] > 0) == (_replaced(y_true, y_pred) > 0), "float32")


@keras.saving.register_keras_serializable(package="bert_keras")
def replaced_token_share(y_true, y_pred):
    """Return 1 for each token that was replaced: float32 [batch, length].

    One minus the mean is the accuracy of a model that calls every token original.
    """
    return _replaced(y_true, y_pred)


def _replaced(y_true, y_pred):
    """Return 1 where the id that the discriminator read is not the original: [batch, length]."""
    return ops.cast(ops.cast(y_true, "float32") != y_pred[:, :, 1], "float32")
