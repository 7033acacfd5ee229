"""Sentence embeddings, and their training on pairs of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from bert_keras import features
from bert_keras.data import EncodedTexts, SupervisedExamples, Texts, pair_examples
from bert_keras.data.class_names import class_names
from bert_keras.data.columns import texts_of
from bert_keras.data.long_texts import encode_long
from bert_keras.earlier_names import renamed
from bert_keras.inference import LabelMethods, prompt_of, prompt_options
from bert_keras.inference.sentence_similarity import normalized_again, prefix_length, prompted
from bert_keras.layers import MergeChoices, SentencePooling
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.text_classification import HiddenLayer, text_head
from bert_keras.models.text_columns import TEXT_PAIR
from bert_keras.models.text_targets import targets_from
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SentenceEncoder(Task):
    """Makes one vector of a text (Reimers & Gurevych, 2019, §3).

    Texts of similar meaning have similar vectors.

    Inputs: the encoder's; without `include_prompt` also `prompt_length`, int32 [batch, 1]: the
    number of tokens at the beginning that are not pooled, [CLS] included. `Predictor` sets it.
    Output: {"sentence_vector": float32 [batch, size]}. The size is the encoder's hidden_size times
    the number of poolings, or that of the last dense layer, cut to `truncate_dim`.

    Args:
        encoder: the encoder.
        pooling: one name, or a list of names whose vectors are joined: "mean" or "max" of the
            tokens' vectors, "cls", the first one, "lasttoken", "mean_sqrt_len_tokens", the sum
            divided by the square root of the number of tokens, and "weightedmean", in which
            later tokens count more.
        normalize: whether vectors have length 1, so that their product is the cosine.
        include_prompt: whether the tokens of a prompt are pooled with the others.
        dense: dense layers after the pooling, such as {"units": 512, "activation": "tanh"}; see
            `SentencePooling`.
        truncate_dim: number of a vector's first dimensions to keep, after the normalisation; None
            for all.
        similarity: measure between two vectors, a name of `features.SIMILARITIES`: "cosine",
            "dot", or the negative distance, "euclidean" or "manhattan".
        prompts: texts to put before the user's own, by name, such as {"query": "query: "}.
        default_prompt_name: name of the prompt to use where the user names none; None for none.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: an unknown pooling, activation or similarity, or another value that is out of
            range.
    """

    task_name = "sentence_similarity"
    takes_pairs = True
    takes_windows = True

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        pooling: str | Sequence[str] = "mean",
        normalize: bool = True,
        include_prompt: bool = True,
        dense: Sequence[Mapping[str, Any]] = (),
        truncate_dim: int | None = None,
        similarity: str = features.COSINE,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        name: str = "sentence_encoder",
        tokenizer: Tokenizer | None = None,
    ):
        if similarity not in features.SIMILARITIES:
            raise ValueError(
                f"`similarity` must be one of {', '.join(features.SIMILARITIES)}. "
                f"Received: similarity={similarity!r}"
            )
        # === Layers ===
        head = SentencePooling(
            pooling, normalize, dense, truncate_dim, name=features.SENTENCE_VECTOR
        )
        # === Functional model ===
        inputs = task_inputs(encoder)
        prompt_length = None
        if not include_prompt:
            prompt_length = keras.Input((1,), dtype="int32", name=features.PROMPT_LENGTH)
            inputs = {**inputs, features.PROMPT_LENGTH: prompt_length}
        tokens = {name: x for name, x in inputs.items() if name != features.PROMPT_LENGTH}
        sequence = encoder(tokens)[features.SEQUENCE_OUTPUT]
        vectors = head(sequence, inputs[features.PADDING_MASK], prompt_length)
        # === Config ===
        complete = head.options
        options: dict[str, Any] = {"pooling": complete["pooling"], "normalize": normalize}
        unusual = {
            "include_prompt": (include_prompt, True),
            "dense": (complete["dense"], []),
            "truncate_dim": (head.truncate_dim, None),
            "similarity": (similarity, features.COSINE),
        }
        # Options with default values are not written, so that earlier versions open the folder.
        options |= {name: value for name, (value, usual) in unusual.items() if value != usual}
        options |= prompt_options(prompts, default_prompt_name)
        outputs = {features.SENTENCE_VECTOR: vectors}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head

    def vector_model(self) -> SentenceEncoder:
        """Return the model that makes vectors: the sentence encoder itself."""
        return self

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts and their target vectors; see `FitsText.examples_of`.

        `y` has the vectors of a teacher, float [texts, size].
        """
        if features.PROMPT_LENGTH in {tensor.name for tensor in self.inputs}:
            raise ValueError(
                "A SentenceEncoder with include_prompt=False trains on features alone. Pass "
                "batches with the input `prompt_length`, or make it with include_prompt=True."
            )
        prompt, tokenizer = prompt_of(self.options), self.required_tokenizer()
        reading = {name: options.pop(name, None) for name in ("long_texts", "stride")}
        sizes = {"max_length": options["max_length"], "prefix": prefix_length(tokenizer, prompt)}
        texts = prompted(texts_of("text", columns[0]), prompt)
        rows = encode_long(tokenizer, texts, **sizes, **reading)
        vectors = {features.SENTENCE_VECTOR: np.asarray(y, np.float32)}
        return SupervisedExamples(rows, vectors, **options)

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any):
        """Return the vectors of texts: float32 [texts, size]."""
        return self._vectors(texts_of("text", columns[0]), batch_size=batch_size, **reading)

    def outputs_of(self, rows: EncodedTexts) -> dict[str, np.ndarray]:
        """Return the vectors of texts in windows, by the name of the output."""
        ((name, vectors),) = super().outputs_of(rows).items()
        return {name: normalized_again(vectors, rows, self.options)}

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the mean squared error to the vectors of a teacher (Reimers & Gurevych, 2020).

        Labels are {"sentence_vector": float [batch, size]}.
        """
        similarity = keras.metrics.CosineSimilarity(name="cosine_similarity")
        return {
            "loss": {features.SENTENCE_VECTOR: keras.losses.MeanSquaredError()},
            "weighted_metrics": {features.SENTENCE_VECTOR: [similarity]},
        }


# === Training on pairs ===


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SentencePairs(LabelMethods, Task):
    """Trains one encoder on two texts at a time (Reimers & Gurevych, 2019, §3).

    After the training save `sentence_encoder`, a `SentenceEncoder` with the same weights.

    Inputs: the encoder's, with an axis for the two texts: int32 [batch, 2, length].
    Output, by loss:

    - "similarity": {"similarity": the cosine of the two vectors, float32 [batch, 1]}.
    - "classification": {"label": float32 logits [batch, num_classes]} of `(u, v, |u - v|)`, where
      u and v are the two pooled vectors, not normalised.
    - "in_batch": {"match": float32 [batch, 2, size]}, the two vectors, normalised to length 1.

    Args:
        encoder: the encoder.
        loss: "similarity" trains the cosine towards a score; "classification" trains labels of
            pairs; "in_batch" trains each first text to find its second text among all second texts
            of the batch (Henderson et al., 2017, §4.4). A text that comes twice in a batch is then
            a wrong answer for its copy.
        pooling: pooling of `sentence_encoder`.
        normalize: `normalize` of `sentence_encoder`.
        num_classes: number of labels, for "classification" only; None for that of `labels`.
        labels: names of the labels; None for "LABEL_0", "LABEL_1" and so on.
        scale: factor of the cosines of "in_batch", before the softmax over them.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.
        vectors: more options of `sentence_encoder`, such as `dense`, whose layers are trained too,
            or `prompts`, which are saved with it. No prompt is put before the texts here.

    Raises:
        ValueError: an unknown loss or pooling, "classification" without a number of labels, labels
            for another loss, or a scale that is not above 0.
    """

    head_layers = (features.LABEL,)
    task_name = "sentence_similarity"
    text_inputs = TEXT_PAIR
    takes_pairs = True
    reads_apart = True

    @renamed("SentencePairs", objective_name="loss")
    def __init__(
        self,
        encoder: BertEncoder,
        *,
        loss: str = "in_batch",
        tokenizer: Tokenizer | None = None,
        pooling: str = "mean",
        normalize: bool = True,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        scale: float = 20.0,
        name: str = "sentence_pairs",
        **vectors: Any,
    ):
        if loss not in features.SENTENCE_PAIR_LOSSES:
            raise ValueError(
                f"`loss` must be one of {', '.join(features.SENTENCE_PAIR_LOSSES)}. "
                f"Received: loss={loss!r}"
            )
        is_labelled = loss == "classification"
        if is_labelled != (num_classes is not None or labels is not None):
            raise ValueError(
                "loss='classification' needs `num_classes` or `labels`, and the other losses take "
                f"neither. Received: {loss=}, {num_classes=}, {labels=}"
            )
        if not scale > 0:
            raise ValueError(f"`scale` must be above 0. Received: scale={scale}")
        sentence_encoder = SentenceEncoder(encoder, pooling=pooling, normalize=normalize, **vectors)
        options: dict[str, Any] = {"loss": loss, "scale": scale}
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
        inputs = {
            name: keras.Input((2, None), dtype="int32", name=name) for name in task_inputs(encoder)
        }
        texts = {name: MergeChoices(name=f"{name}_of_texts")(x) for name, x in inputs.items()}
        sequence = encoder(texts)[features.SEQUENCE_OUTPUT]
        pooled = pool(sequence, texts[features.PADDING_MASK], normalized=False)
        pairs = ops.reshape(pooled, (-1, 2, pool.size_for(encoder.config.hidden_size)))
        if head is not None:
            u, v = pairs[:, 0], pairs[:, 1]
            outputs = {features.LABEL: head(ops.concatenate([u, v, ops.absolute(u - v)], axis=-1))}
        else:
            pairs = ops.normalize(pairs, axis=-1)
            cosine = ops.sum(pairs[:, 0] * pairs[:, 1], axis=-1, keepdims=True)
            is_score = loss == features.SIMILARITY
            outputs = {features.SIMILARITY: cosine} if is_score else {features.MATCH: pairs}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.sentence_encoder = sentence_encoder
        self.attach_to_parts()
        self.head = head
        if head is not None:
            self.task_name = "pair_classification"

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
        """Encode pairs, and their scores or labels; see `FitsText.examples_of`.

        Raises:
            ValueError: targets for "in_batch", whose targets are the second texts.
        """
        if y is not None and features.MATCH in self.output:
            raise ValueError(
                "loss='in_batch' learns from pairs that belong together, and reads no targets. "
                "Make the task with loss='similarity' for scores, or with loss='classification' "
                f"and `labels`, or leave the targets out. Received: y of {type(y).__name__}"
            )
        firsts, seconds = self.two_columns(columns)
        labels = self.options.get("labels")
        problem = "single_label" if labels else "regression"
        return pair_examples(
            self.required_tokenizer(),
            Texts(firsts, seconds, targets_from(y, labels or (), problem)),
            self.options["loss"],
            labels=labels,
            **options,
        )

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any):
        """Return the outputs for pairs, float32.

        By loss: similarities [pairs, 1], logits [pairs, num_classes], or for "in_batch" vectors
        [pairs, 2, size].
        """
        runner = self._runner(batch_size, **reading)
        rows = runner.encode_apart(*self.two_columns(columns))
        (output,) = self.output
        return runner.per_example(output, rows, group=2)

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the loss and metric of the option `loss`.

        Labels are {"similarity": float [batch], in [-1, 1] or [0, 1]}, {"label": int [batch]}, or
        {"match": [batch]}, whose values are not read: the right answer is in the same row.
        """
        output, loss, metric = {
            "similarity": (
                features.SIMILARITY,
                keras.losses.MeanSquaredError(),
                keras.metrics.MeanAbsoluteError(name="mean_absolute_error"),
            ),
            "classification": (
                features.LABEL,
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            ),
            "in_batch": (
                features.MATCH,
                InBatchLoss(self.options["scale"]),
                keras.metrics.MeanMetricWrapper(in_batch_accuracy, "accuracy", "float32"),
            ),
        }[self.options["loss"]]
        return {"loss": {output: loss}, "weighted_metrics": {output: [metric]}}


@keras.saving.register_keras_serializable(package="bert_keras")
class InBatchLoss(keras.losses.Loss):
    """Cross-entropy, in nats, of finding a text's own answer in the batch (Henderson et al., 2017).

    A row of sample weight 0 has no loss, but its second text is a wrong answer for other rows.

    Args:
        scale: factor of the cosines before the softmax over them.
        name: name of the loss.
    """

    def __init__(self, scale: float = 20.0, name: str = "in_batch_loss", **kwargs):
        options = {"reduction": "mean_with_sample_weight", "dtype": "float32"}
        super().__init__(name=name, **options, **kwargs)
        self.scale = scale

    def call(self, y_true, y_pred):
        """Return the losses, [batch], of vectors of length 1, [batch, 2, size]."""
        del y_true
        cosines = ops.sum(y_pred[:, 0] * y_pred[:, 1], axis=-1)
        return ops.logsumexp(self.logits(y_pred), axis=-1) - self.scale * cosines

    def logits(self, y_pred):
        """Return the scaled cosines [batch, batch]: first texts in rows, second in columns."""
        return self.scale * _cosines(y_pred)

    def get_config(self) -> dict[str, Any]:
        """Return the config that `from_config` rebuilds the loss from."""
        return {"scale": self.scale, "name": self.name}


@keras.saving.register_keras_serializable(package="bert_keras")
def in_batch_accuracy(y_true, y_pred):
    """Return 1 for each first text that is nearest to its own second text: float32 [batch].

    `y_pred` has vectors of length 1, [batch, 2, size]; `y_true` is not read.
    """
    del y_true
    cosines = _cosines(y_pred)
    rows = ops.arange(ops.shape(cosines)[0], dtype="int32")
    return ops.cast(ops.cast(ops.argmax(cosines, axis=-1), "int32") == rows, "float32")


def _cosines(pairs):
    """Return the cosines [batch, batch] of pairs [batch, 2, size] of vectors of length 1.

    Rows are first texts, columns second texts.
    """
    return ops.matmul(pairs[:, 0], ops.transpose(pairs[:, 1]))
