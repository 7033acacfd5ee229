"""Training of sentence vectors on several texts at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import keras
from keras import ops

from bert_keras import features
from bert_keras.data import SupervisedExamples, Texts, pair_examples
from bert_keras.data.class_names import class_names
from bert_keras.data.columns import texts_of
from bert_keras.data.sentence_similarity import group_examples
from bert_keras.earlier_names import renamed
from bert_keras.inference import LabelMethods
from bert_keras.kernels.row_parts import computed_in_parts
from bert_keras.layers import MergeChoices, SplitTexts
from bert_keras.layers.core import draw_seeds, use_seeds
from bert_keras.losses import (
    BatchTripletLoss,
    ContrastiveLoss,
    CosentLoss,
    GuidedInBatchLoss,
    InBatchLoss,
    KLDivergenceLoss,
    MarginMSELoss,
    TripletLoss,
    VectorLoss,
    in_batch_accuracy,
)
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.sentence_similarity import SentenceEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.text_classification import HiddenLayer, text_head
from bert_keras.models.text_columns import TEXT_GROUP
from bert_keras.models.text_targets import targets_from
from bert_keras.tokenizers import Tokenizer

_SCALE = 20.0  # default of the losses with a scale
# Name of a loss of vectors -> its class, whose arguments have defaults.
NAMED: dict[str, Callable[..., VectorLoss]] = {
    "in_batch": InBatchLoss,
    "guided_in_batch": GuidedInBatchLoss,
    "cosent": CosentLoss,
    "contrastive": ContrastiveLoss,
    "triplet": TripletLoss,
    "batch_triplet": BatchTripletLoss,
    "margin_mse": MarginMSELoss,
    "kl_divergence": KLDivergenceLoss,
}


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SentencePairs(LabelMethods, Task):
    """Trains one encoder on several texts at a time (Reimers & Gurevych, 2019, §3).

    After the training save `sentence_encoder`, a `SentenceEncoder` with the same weights.

    Inputs: the encoder's, with an axis for the texts: int32 [batch, texts, length]. For losses of
    vectors also tuples of int32 [batch, 1, length], one for each text, whose lengths may differ.
    Output, by loss:

    - "similarity": {"similarity": the cosine of the two vectors, float32 [batch, 1]}.
    - "classification": {"label": float32 logits [batch, num_classes]} of `(u, v, |u - v|)`, where
      u and v are the two pooled vectors, not normalised.
    - others: {"match": float32 [batch, texts, size]}, the vectors of `sentence_encoder`.

    Args:
        encoder: the encoder.
        loss: "similarity" trains the cosine towards a score; "classification" trains labels of
            pairs. All others are losses of `bert_keras.losses`, by name or as an object:
            "in_batch" trains each first text to find its second text among all other texts of the
            batch (Henderson et al., 2017, §4.4), "guided_in_batch" with a guide; "cosent" and
            "contrastive" learn from scored pairs, "triplet" from triplets, "batch_triplet" from
            texts with a class, "margin_mse" and "kl_divergence" from scores of a cross-encoder.
        pooling: pooling of `sentence_encoder`.
        normalize: `normalize` of `sentence_encoder`.
        num_classes: number of labels, for "classification" only; None for that of `labels`.
        labels: names of the labels; None for "LABEL_0", "LABEL_1" and so on.
        scale: factor of the cosines of "in_batch", before the softmax over them. Other losses have
            it as an argument of their own.
        mini_batch_size: number of examples that training computes at a time; None for all. The loss
            is that of the whole batch, but the activations of so many examples are in memory, and
            each is computed twice (gradient caching; Gao et al., 2021).
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.
        vectors: more options of `sentence_encoder`, such as `dense`, whose layers are trained too,
            or `prompts`, which are saved with it. No prompt is put before the texts here.

    Attributes:
        vector_loss: the loss of the vectors; None for "similarity" and "classification".

    Raises:
        ValueError: an unknown loss or pooling, "classification" without a number of labels, labels
            or a scale for another loss, or a scale or a `mini_batch_size` that is not above 0.
    """

    head_layers = (features.LABEL,)
    task_name = "sentence_similarity"
    text_inputs = TEXT_GROUP
    takes_pairs = True
    reads_apart = True

    @renamed("SentencePairs", objective_name="loss")
    def __init__(
        self,
        encoder: BertEncoder,
        *,
        loss: str | VectorLoss | Mapping[str, Any] = "in_batch",
        tokenizer: Tokenizer | None = None,
        pooling: str = "mean",
        normalize: bool = True,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        scale: float = _SCALE,
        mini_batch_size: int | None = None,
        name: str = "sentence_pairs",
        **vectors: Any,
    ):
        vector_loss = _vector_loss(loss, scale)
        is_labelled = loss == "classification"
        if is_labelled != (num_classes is not None or labels is not None):
            raise ValueError(
                "loss='classification' needs `num_classes` or `labels`, and the other losses take "
                f"neither. Received: {loss=}, {num_classes=}, {labels=}"
            )
        if loss != "in_batch" and scale != _SCALE:
            raise ValueError(
                "`scale` is for loss='in_batch'. Pass a loss object with its own scale, such as "
                f"losses.CosentLoss(scale={scale}). Received: {loss=}, {scale=}"
            )
        if mini_batch_size is not None and mini_batch_size < 1:
            raise ValueError(
                "`mini_batch_size` must be None or a whole number of at least 1. "
                f"Received: {mini_batch_size=}"
            )
        sentence_encoder = SentenceEncoder(encoder, pooling=pooling, normalize=normalize, **vectors)
        saved: Any = keras.saving.serialize_keras_object(loss)  # a name stays as it is
        options: dict[str, Any] = {"loss": saved, "scale": scale}
        if mini_batch_size is not None:
            options["mini_batch_size"] = int(mini_batch_size)
        options |= sentence_encoder.options
        # === Layers ===
        head = None
        if is_labelled:
            labels = class_names(num_classes, labels)
            num_classes = len(labels)
            options |= {"num_classes": num_classes, "labels": labels}
            head = text_head(encoder, num_classes, HiddenLayer(), 0.0, features.LABEL)
        pool = sentence_encoder.head
        # === Functional model ===
        count = 2 if vector_loss is None else None
        inputs = {
            name: keras.Input((count, None), dtype="int32", name=name)
            for name in task_inputs(encoder)
        }
        texts = {name: MergeChoices(name=f"{name}_of_texts")(x) for name, x in inputs.items()}
        sequence = encoder(texts)[features.SEQUENCE_OUTPUT]
        normalized = vector_loss is not None
        pooled = pool(sequence, texts[features.PADDING_MASK], normalized=normalized)
        if vector_loss is not None:
            split = SplitTexts(name=f"{features.MATCH}_of_texts")
            outputs = {features.MATCH: split(pooled, inputs[features.TOKEN_IDS])}
        else:
            size = pool.size_for(encoder.config.hidden_size)
            pairs = ops.reshape(pooled, (-1, 2, size))
            u, v = pairs[:, 0], pairs[:, 1]
            if head is None:
                outputs = {features.SIMILARITY: _cosine_of_pairs(u, v)}
            else:
                joined = ops.concatenate([u, v, ops.absolute(u - v)], axis=-1)
                outputs = {features.LABEL: head(joined)}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.vector_loss = vector_loss
        self.takes_texts_apart = vector_loss is not None
        if self.takes_texts_apart:
            self.input_spec = None  # Keras would refuse tuples; `InputKeys` checks the shapes
        self.sentence_encoder = sentence_encoder
        self.attach_to_parts()
        self.head = head
        if head is not None:
            self.task_name = "pair_classification"

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any):
        """Keras: compute the outputs by name; in training for `mini_batch_size` examples at a time.

        Args:
            inputs: tensors by name, [batch, texts, length]; or tuples of tensors [batch, 1,
                length], one for each text, whose lengths may differ.
            training: whether dropout is active.
            mask: as in Keras.
            kwargs: as in Keras.
        """
        given: Any = inputs if self._input_keys is None else self._input_keys.select(inputs)
        size = self.options.get("mini_batch_size")
        if not training or size is None:
            return self._outputs_of(given, training, mask=mask, **kwargs)
        seeds = draw_seeds(self)

        def of_part(number: Any, *values: Any) -> list[Any]:
            """Return the outputs for some examples."""
            part = keras.tree.pack_sequence_as(given, values)
            with use_seeds(seeds, number):
                outputs = self._outputs_of(part, training)
            return [outputs[name] for name in self.output]

        outputs = computed_in_parts(of_part, keras.tree.flatten(given), size)
        return dict(zip(self.output, outputs, strict=True))

    def _outputs_of(self, inputs: dict[str, Any], training: bool | None, **options: Any) -> Any:
        """Return the outputs by name for all texts at once, or for one text after the other."""
        tokens = inputs[features.TOKEN_IDS]
        if not isinstance(tokens, tuple):
            return super().call(inputs, training, **options)
        columns = [{name: x[text] for name, x in inputs.items()} for text in range(len(tokens))]
        vectors = [super(SentencePairs, self).call(x, training)[features.MATCH] for x in columns]
        return {features.MATCH: ops.concatenate(vectors, axis=1)}

    @classmethod
    def head_layers_for(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return `head_layers` for loss="classification", and () for the losses without a head."""
        return cls.head_layers if options.get("loss") == "classification" else ()

    def attach_to_parts(self) -> None:
        """Give tokenizer and settings to the sentence encoder, which is saved for use."""
        if hasattr(self, "sentence_encoder"):  # the base class calls this before it exists
            self.sentence_encoder.take_attachments(self)

    def vector_model(self) -> SentenceEncoder:
        """Return the model that makes vectors: the sentence encoder that is trained."""
        return self.sentence_encoder

    def trained_model(self) -> Task:
        """Return the model to keep: the sentence encoder, or a classification with its head."""
        return self if self.head is not None else self.sentence_encoder

    def answer_method(self, is_paired: bool = False) -> str:
        """Return "predict_labels" for a classification, else "encode", or "similarity" of pairs."""
        if features.LABEL in self.output:
            return "predict_labels"
        return super().answer_method(is_paired)

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts, and their scores, labels or numbers; see `FitsText.examples_of`.

        Raises:
            ValueError: another number of columns than the loss reads, or targets for a loss that
                reads none.
        """
        texts = self._columns(columns)
        if self.vector_loss is not None:
            return group_examples(
                self.required_tokenizer(), texts, y, self.vector_loss.targets, **options
            )
        labels = self.options.get("labels")
        problem = "single_label" if labels else "regression"
        return pair_examples(
            self.required_tokenizer(),
            Texts(texts[0], texts[1], targets_from(y, labels or (), problem)),
            self.options["loss"],
            labels=labels,
            **options,
        )

    def _columns(self, columns: Sequence[Any]) -> list[list[str]]:
        """Return the columns of texts.

        Raises:
            ValueError: the loss reads another number of them.
        """
        loss = self.vector_loss
        least, most = (2, 2) if loss is None else (loss.least_texts, loss.most_texts)
        if not least <= len(columns) <= (most or len(columns)):
            name = self.options["loss"] if loss is None else type(loss).__name__
            wanted = f"{least} columns" if most == least else f"{least} columns or more"
            raise ValueError(
                f"The loss {name} reads {wanted} of texts, one for each text of an example. Pass a "
                f"tuple of them, such as (texts, pairs). Received: {len(columns)} columns"
            )
        return [texts_of(f"column {number}", column) for number, column in enumerate(columns)]

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any):
        """Return the outputs for pairs or other groups of texts, float32.

        By loss: similarities [pairs, 1], logits [pairs, num_classes], or vectors [groups, texts,
        size].
        """
        runner = self._runner(batch_size, **reading)
        rows = runner.encode_apart(*self._columns(columns))
        (output,) = self.output
        return runner.per_example(output, rows, group=len(columns))

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the loss and metric of the option `loss`.

        Labels are {"similarity": float [batch], in [-1, 1] or [0, 1]}, {"label": int [batch]}, or
        {"match": targets of the loss in `bert_keras.losses`}.
        """
        if self.vector_loss is not None:
            metrics = []
            if (
                self.vector_loss.targets == features.NO_TARGETS
                and self.vector_loss.most_texts is None
            ):
                metrics = [keras.metrics.MeanMetricWrapper(in_batch_accuracy, "accuracy")]
            return {
                "loss": {features.MATCH: self.vector_loss},
                "weighted_metrics": {features.MATCH: metrics},
            }
        if self.head is None:
            output, loss = features.SIMILARITY, keras.losses.MeanSquaredError()
            metric: Any = keras.metrics.MeanAbsoluteError(name="mean_absolute_error")
        else:
            output = features.LABEL
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        return {"loss": {output: loss}, "weighted_metrics": {output: [metric]}}


def _cosine_of_pairs(u, v):
    """Return the cosines of vectors [batch, size] each: [batch, 1]."""
    u, v = (ops.normalize(vectors, axis=-1) for vectors in (u, v))
    return ops.sum(u * v, axis=-1, keepdims=True)


def _vector_loss(loss: Any, scale: float) -> VectorLoss | None:
    """Return the loss of vectors; None for "similarity" and "classification", which have others.

    Args:
        loss: name of a loss, a loss, or its config.
        scale: factor of the cosines of "in_batch".

    Raises:
        ValueError: an unknown name, or a loss that is not of vectors.
    """
    if isinstance(loss, str) and loss in features.SENTENCE_PAIR_LOSSES:
        return None
    if isinstance(loss, Mapping):
        loss = keras.saving.deserialize_keras_object({**loss})
    if isinstance(loss, str) and loss in NAMED:
        return NAMED[loss](scale) if loss == "in_batch" else NAMED[loss]()
    if not isinstance(loss, VectorLoss):
        raise ValueError(
            f"`loss` must be one of {', '.join([*features.SENTENCE_PAIR_LOSSES, *NAMED])}, or a "
            f"loss of `bert_keras.losses`. Received: loss={loss!r}"
        )
    return loss
