"""Token classification: entities, parts of speech, with or without a conditional random field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import keras
import numpy as np
from keras import ops

from bert_keras import features
from bert_keras.data import SupervisedExamples, TaggedWords, tag_examples, tag_words
from bert_keras.data.class_names import class_names
from bert_keras.data.columns import values_of, words_of_rows
from bert_keras.data.tag_schemes import detect_scheme, from_bio
from bert_keras.inference import TagMethods
from bert_keras.inference.token_classification import word_logits
from bert_keras.layers import ConditionalRandomField, log_likelihood
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import (
    LAST,
    MIX,
    Task,
    packed_vectors,
    task_inputs,
    token_vectors,
)
from bert_keras.models.text_classification import HiddenLayer, text_head
from bert_keras.models.text_targets import tags_of_rows
from bert_keras.tokenizers import Tokenizer

_CRF = "crf"


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class TokenClassifier(TagMethods, Task):
    """Tags every token (Devlin et al., 2019, §5.3).

    Inputs: the encoder's.
    Output: {"tags": float32 logits [batch, length, num_classes]}. With `crf` it has the potentials
    of pairs of tags, float32 [batch, length, num_classes + 1, num_classes + 1], as
    `layers.ConditionalRandomField` describes them. `predict_tags` finds the best tags.

    Args:
        encoder: the encoder.
        num_classes: number of tags; None for that of `labels`.
        labels: names of the tags; None for "LABEL_0", "LABEL_1" and so on.
        dropout: dropout rate before the head; None for the encoder's.
        hidden_activation: activation of a dense layer between the encoder and the logits
            (ModernBERT); None for no such layer.
        hidden_norm: as for `SequenceClassifier`.
        hidden_bias: as for `SequenceClassifier`.
        crf: True for a conditional random field, which chooses the tags of a text together, with
            learned scores of one tag after another (Lample et al., 2016). These scores start at
            zero, and the small learning rates of fine-tuning change them slowly.
        representation: layers of the encoder that the head reads: "last", "concat_last_4" or "mix";
            see `task.token_vectors`. An encoder with `trainable = False` is fixed.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: neither `num_classes` nor `labels`, another number of `labels` than
            `num_classes`, or a representation that this encoder does not have.
    """

    head_layers = (features.TAGS, _CRF, MIX)
    task_name = "token_classification"
    answers_with = "predict_entities"
    text_inputs = ("words",)
    takes_sample_weight = False  # a sentence may have several rows, whose tokens have weights

    def __init__(
        self,
        encoder: BertEncoder,
        num_classes: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        dropout: float | None = None,
        hidden_activation: str | None = None,
        hidden_norm: bool = False,
        hidden_bias: bool = True,
        crf: bool = False,
        representation: str = LAST,
        name: str = "token_classifier",
        tokenizer: Tokenizer | None = None,
    ):
        labels = class_names(num_classes, labels)
        num_classes = len(labels)
        # === Layers ===
        hidden = HiddenLayer(hidden_activation, 0.0, hidden_norm, hidden_bias)
        head = text_head(encoder, num_classes, hidden, dropout, features.TAGS)
        field = ConditionalRandomField(dtype=encoder.dtype_policy, name=_CRF) if crf else None
        # === Functional model ===
        inputs = task_inputs(encoder)
        scores = head(token_vectors(encoder, inputs, representation))
        outputs = {features.TAGS: scores if field is None else field(scores)}
        options: dict[str, Any] = {"num_classes": num_classes, "labels": labels, "dropout": dropout}
        options |= hidden.all_options()
        if crf:
            options["crf"] = True
        if representation != LAST:
            options["representation"] = representation
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head, self.crf = head, field

    @classmethod
    def answer_inputs(cls, is_paired: bool = False) -> tuple[str, ...]:
        """Return ("text",), because `predict_entities` takes texts and splits them into words."""
        del is_paired
        return ("text",)

    def packed_outputs(self, inputs: dict) -> dict:
        """Return the logits of packed rows, {"tags": [rows, length, num_classes]}.

        Raises:
            ValueError: with `crf`, whose chain would go from one example to the next.
        """
        if self.crf is not None:
            raise ValueError(
                "A conditional random field would chain the tags of all examples in a row, so "
                "sequence packing needs crf=False. Train this task without `packed()`. "
                "Received: crf=True"
            )
        return {features.TAGS: self.head(packed_vectors(self, inputs))}

    @property
    def not_logits(self) -> Sequence[str]:
        """Names of outputs that are no logits: the potentials of a conditional random field."""
        return (features.TAGS,) if self.options.get("crf") else ()

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode words and their tags; see `FitsText.examples_of`.

        Args:
            columns: one column, which has a list of words for each sentence, or texts.
            y: for each sentence the tags of its words, names or indices; for texts the entities of
                each as character spans, see `data.tag_words`; their tags have the scheme of the
                labels. None for no labels.
            options: arguments of `tag_examples`.
        """
        labels = self.options["labels"]
        if _are_texts(columns[0]):
            sentences = tag_words(columns[0], y)
            scheme = detect_scheme(labels)
            if sentences.tags is not None and scheme != "bio":
                tags = [from_bio(row, scheme) for row in sentences.tags]
                sentences = replace(sentences, tags=tags)
        else:
            words, tags = words_of_rows("words", columns[0]), None
            if y is not None:
                tags = [
                    [labels[tag] if isinstance(tag, int) else tag for tag in row]
                    for row in tags_of_rows(y, len(labels))
                ]
            sentences = TaggedWords(words, tags)
        return tag_examples(self.required_tokenizer(), sentences, labels=labels, **options)

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any
    ) -> list[np.ndarray]:
        """Return the logits of the words of each sentence: float32 [words, num_classes] each.

        Texts are split into words as `predict_entities` does it.
        """
        is_text = _are_texts(columns[0])
        words = tag_words(columns[0], None).words if is_text else words_of_rows("words", columns[0])
        return word_logits(self._runner(batch_size, **reading), words)

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return `TagLoss` and the accuracy; with `crf` `ConditionalRandomFieldLoss` alone.

        Labels are {"tags": int [batch, length]}. Sample weights have that shape: 0 for padding,
        special tokens, and pieces of words that have no tag.
        """
        if self.crf is not None:
            # An accuracy would need a Viterbi search for each batch, which slows training down.
            return {"loss": {features.TAGS: ConditionalRandomFieldLoss()}}
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        return {
            "loss": {features.TAGS: TagLoss()},
            "weighted_metrics": {features.TAGS: [accuracy]},
        }


def _are_texts(column: Any) -> bool:
    """Return whether a column has a text in its first row, and not a list of words."""
    return isinstance(next(iter(values_of("words", column)), None), str | bytes)


@keras.saving.register_keras_serializable(package="bert_keras")
class TagLoss(keras.losses.Loss):
    """Cross-entropy, in nats, of a text's tags: the sum over its tokens, the mean over the texts.

    Batches have texts of similar length. A mean over the tokens of a batch would give a token of a
    batch of short texts a larger weight than one of a batch of long texts. Here a token counts by
    its sample weight alone. `data.tag_examples` scales the weights so that the loss of an epoch is
    the mean over all its tokens.
    """

    def __init__(self, name: str = "tag_loss", **kwargs):
        super().__init__(name=name, **kwargs)

    def label_classes(self, shape: tuple[int | None, ...]) -> int | None:
        """Return the number of classes, from the shape of the output, [batch, length, classes]."""
        return shape[-1]

    def call(self, y_true, y_pred):
        """Return the losses, [batch, length], of tags [batch, length] and logits [..., classes]."""
        losses = ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return self.of_a_text(losses)

    def of_a_text(self, losses):
        """Return the losses of tokens, [batch, length], times the length.

        Keras divides their sum by batch * length. The result is then the mean over the texts of the
        sums over their tokens.
        """
        return losses * ops.cast(ops.shape(losses)[1], losses.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class ConditionalRandomFieldLoss(keras.losses.Loss):
    """Negative log-likelihood, in nats, of a text's tags (Lample et al., 2016, §2.2).

    The chain has the tokens whose sample weight is not 0; the size of a weight does not matter. The
    loss is the mean over the texts that have such a token.
    """

    def __init__(self, name: str = "conditional_random_field_loss", **kwargs):
        # float32, because half precision cannot hold all tag indices exactly.
        super().__init__(name=name, reduction="mean_with_sample_weight", dtype="float32", **kwargs)

    def label_classes(self, shape: tuple[int | None, ...]) -> int | None:
        """Return the number of tags: the potentials have one more, for the start of the chain."""
        return None if shape[-1] is None else shape[-1] - 1

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Return the loss of a batch, a scalar.

        Args:
            y_true: tag indices, int [batch, length].
            y_pred: potentials, float [batch, length, num_classes + 1, num_classes + 1].
            sample_weight: [batch, length], 0 for tokens that are not in the chain; None for 1 each.
        """
        tags = ops.convert_to_tensor(y_true)
        weights = ops.ones_like(tags) if sample_weight is None else sample_weight
        counted = ops.convert_to_tensor(weights) != 0
        if len(counted.shape) != 2 or len(tags.shape) != 2:
            raise ValueError(
                "Tags and sample weights must have the shape [batch, length]. "
                f"Received: {tuple(tags.shape)} and {tuple(counted.shape)}"
            )
        losses = -log_likelihood(y_pred, tags, counted)
        return super().__call__(losses, losses, ops.any(counted, axis=1))

    def call(self, y_true, y_pred):
        """Return the losses of the texts, [batch], as they are; the base class takes their mean."""
        del y_true
        return y_pred

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the loss from."""
        return {"name": self.name}
