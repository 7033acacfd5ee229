"""BERT's pretraining: masked tokens and sentence pairs together."""

from __future__ import annotations

from typing import Any, final

import keras

from bert_keras import features
from bert_keras.earlier_names import renamed
from bert_keras.inference import MaskMethods, PairMethods
from bert_keras.layers import PairHead
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.masked_lm import mask_positions, masked_lm_head
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.token_loss import TokenAccuracy, TokenLoss
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class Pretrainer(MaskMethods, PairMethods, Task):
    """Predicts masked tokens and how two segments belong together.

    Inputs: the encoder's, and `mask_positions` int32 [batch, predictions].
    Outputs: {"mlm": float32 logits [batch, predictions, vocab_size], and
    "nsp" or "sop": float32 logits [batch, 2]}.

    Args:
        encoder: the encoder, with a pooler; its token table is also the output layer's.
        loss: "nsp", next sentence prediction (Devlin et al., 2019, §3.1, task 2): 0 = the
            second segment follows the first, 1 = it is from elsewhere; or "sop", sentence order
            prediction (Lan et al., 2020, §3.1): 0 = in order, 1 = swapped.
        name: of the Keras model.
        tokenizer: of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: the encoder has no pooler or one segment only, or the loss is unknown.
    """

    head_layers = (features.MLM, features.NSP, features.SOP)
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
                "Sentence pairs need a pooler and two segments. Received: "
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
        """Always."""
        return True

    def packed_outputs(self, inputs: dict) -> dict:
        """Of the masked tokens of a row, and of each of its pairs: [rows, examples, 2]."""
        return self.outputs_by(self.mlm, inputs, packed=True)

    def outputs_by(self, head: keras.layers.Layer, inputs: dict, *, packed: bool = False) -> dict:
        """Those of another layer than the head; see `ChunkedTask`."""
        mask_positions(inputs)
        encoded = self.encoder.at_positions(packed=packed, pooled=True)(inputs)
        return {
            features.MLM: head(encoded[features.SEQUENCE_OUTPUT]),
            self.options["loss"]: self.pair(encoded[features.POOLED_OUTPUT]),
        }

    def loss_and_metrics(self) -> dict[str, Any]:
        """The sum of both mean cross-entropies, as in the paper; labels by output name."""
        pair = self.options["loss"]
        pair_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {
            "loss": {features.MLM: TokenLoss(), pair: pair_loss},
            "weighted_metrics": {name: [TokenAccuracy()] for name in (features.MLM, pair)},
        }
