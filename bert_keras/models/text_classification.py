"""Text classification: labels or numbers of texts and of pairs of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import keras
import numpy as np
from keras import ops

from bert_keras import features
from bert_keras.data import SupervisedExamples, Texts, text_examples
from bert_keras.data.class_names import class_names
from bert_keras.inference import ZeroShotMethods, prompt_of, prompt_options
from bert_keras.inference.sentence_similarity import prefix_length, prompted
from bert_keras.inference.text_classification import REGRESSION
from bert_keras.layers import ClassificationHead, ExamplePooling, SentencePooling, TokensAt
from bert_keras.layers.pooling import ACTIVATIONS
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import (
    LAST,
    MIX,
    Task,
    packed_vectors,
    task_inputs,
    token_vectors,
)
from bert_keras.models.text_columns import TEXT_PAIR, text_pair
from bert_keras.models.text_targets import targets_from
from bert_keras.tokenizers import Tokenizer

_TASK_NAMES = {
    "single_label": "text_classification",
    "multi_label": "multi_label_classification",
    REGRESSION: "text_regression",
}
PROBLEMS = tuple(_TASK_NAMES)
CLS, FIRST_TOKEN = "cls", "first_token"
POOLINGS = (CLS, FIRST_TOKEN, "mean", "late")
_LEAST_SQUARE = 1e-20  # squared length below which a vector is not scaled to length 1
NORMALIZED = ("mean", FIRST_TOKEN)  # poolings whose vectors may be scaled to length 1


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SequenceClassifier(ZeroShotMethods, Task):
    """Labels a text, or a pair, by its [CLS] token (Devlin et al., 2019, §3.2 and §4.1).

    Inputs: the encoder's.
    Output: {"label": float32 logits [batch, num_classes]}.

    Args:
        encoder: the encoder.
        num_classes: number of labels; 1 for a number (regression); None for that of `labels`.
        labels: names of the labels; None for "LABEL_0", "LABEL_1" and so on.
        problem: "single_label", one label of several; "multi_label", any number of them;
            "regression", numbers. None: regression for one class, else a single label.
        hidden_activation: activation of a dense layer of the head, between [CLS] and the logits.
            None for a head over the encoder's pooled output, whose pooler is such a layer. Families
            without a pooler need it: RoBERTa "tanh", DistilBERT "relu", ELECTRA "gelu".
        dropout: dropout rate before each layer of the head; None for the encoder's.
        hidden_dropout: dropout rate before the dense layer; None for `dropout` (DistilBERT: 0).
        hidden_norm: whether the dense layer is followed by a normalisation as the encoder's
            (ModernBERT).
        hidden_bias: whether the dense layer has a bias.
        pooling: vectors that the head reads: "cls" for [CLS], or for the pooled output if the head
            has no dense layer; "first_token" always for [CLS] (UltraBERT); "mean" for the mean over
            the tokens; "late" for the mean of the logits of all tokens (EuroBERT).
        normalize: whether that vector is scaled to length 1, as in most sentence encoders; for the
            poolings "mean" and "first_token". `fit_few_shot` makes such classifiers.
        representation: layers of the encoder that the head reads at [CLS]: "last", or with a
            `hidden_activation` "concat_last_4" or "mix"; see `task.token_vectors`. An encoder with
            `trainable = False` is fixed.
        activation: activation that `Predictor.predict_pair_scores` applies to the logits, a name of
            `layers.pooling.ACTIVATIONS`, as in a CrossEncoder of sentence-transformers.
            `Predictor.predict_scores` applies it to those of a regression. None: it is not saved,
            and `predict_pair_scores` applies "sigmoid" for one class and "linear" for more.
        prompts: texts to put before the user's own, by name.
        default_prompt_name: name of the prompt to use where the user names none; None for none.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: an unknown problem or activation, neither `num_classes` nor `labels`, another
            number of `labels` than `num_classes`, neither a pooler nor a `hidden_activation`, a
            pooling that is not normalised, or a representation that this encoder does not have.
    """

    head_layers = (features.LABEL, MIX)
    task_name = "text_classification"
    text_inputs = TEXT_PAIR
    takes_pairs = True
    takes_windows = True

    def __init__(
        self,
        encoder: BertEncoder,
        num_classes: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        problem: str | None = None,
        hidden_activation: str | None = None,
        dropout: float | None = None,
        hidden_dropout: float | None = None,
        hidden_norm: bool = False,
        hidden_bias: bool = True,
        pooling: str = CLS,
        normalize: bool = False,
        representation: str = LAST,
        activation: str | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        name: str = "sequence_classifier",
        tokenizer: Tokenizer | None = None,
    ):
        labels = class_names(num_classes, labels)
        num_classes = len(labels)
        problem = problem or (REGRESSION if num_classes == 1 else "single_label")
        if problem not in PROBLEMS:
            raise ValueError(
                f"`problem` must be one of {', '.join(PROBLEMS)}. Received: problem={problem!r}"
            )
        if activation is not None and activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` must be None or one of {', '.join(ACTIVATIONS)}. "
                f"Received: activation={activation!r}"
            )
        # === Layers ===
        hidden = HiddenLayer(hidden_activation, hidden_dropout, hidden_norm, hidden_bias)
        head = text_head(encoder, num_classes, hidden, dropout, features.LABEL)
        # === Functional model ===
        inputs = task_inputs(encoder)
        reading = {"representation": representation, "normalize": normalize}
        outputs = {features.LABEL: text_logits(encoder, inputs, head, hidden, pooling, **reading)}
        options: dict[str, Any] = {
            "num_classes": num_classes,
            "labels": labels,
            "problem": problem,
            "hidden_activation": hidden_activation,
            "dropout": dropout,
            "hidden_dropout": hidden_dropout,
        }
        options |= hidden.more_options()
        if pooling != CLS:
            options["pooling"] = pooling
        if normalize:
            options["normalize"] = True
        if representation != LAST:
            options["representation"] = representation
        if activation is not None:
            options["activation"] = activation
        options |= prompt_options(prompts, default_prompt_name)
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head
        self.task_name = _TASK_NAMES[problem]

    @property
    def reads_pooler(self) -> bool:
        """True unless the head has a dense layer of its own over [CLS], or reads other vectors."""
        return takes_pooled_output(self.options)

    def packed_outputs(self, inputs: dict) -> dict:
        """Return the logits of packed rows, {"label": [rows, examples, num_classes]}."""
        if self.reads_pooler:
            vectors = self.encoder.packed()(inputs)[features.POOLED_OUTPUT]
            return {features.LABEL: self.head(vectors)}
        vectors, firsts = packed_vectors(self, inputs), inputs[features.FIRST_POSITIONS]
        pooling = self.options.get("pooling", CLS)
        mean, examples = ExamplePooling(name="means_of_tokens"), inputs[features.EXAMPLE_IDS]
        if pooling == "late":
            return {features.LABEL: mean(self.head(vectors), examples, firsts)}
        if pooling == "mean":
            pooled = mean(vectors, examples, firsts)
        else:
            pooled = TokensAt(dtype=self.dtype_policy, name="first_tokens")(vectors, firsts)
        is_scaled = self.options.get("normalize", False)
        return {features.LABEL: self.head(unit_length(pooled) if is_scaled else pooled)}

    @property
    def not_logits(self) -> Sequence[str]:
        """Names of outputs that are no logits: that of a regression, which is a number."""
        return (features.LABEL,) if self.options["problem"] == REGRESSION else ()

    def answer_method(self, is_paired: bool = False) -> str:
        """Return "predict_labels", or "predict_scores" for a regression."""
        del is_paired
        return "predict_scores" if self.options["problem"] == REGRESSION else "predict_labels"

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts, or pairs, and labels or numbers; see `FitsText.examples_of`.

        For "multi_label" the labels of a text are a tuple of names, or a row of 0 and 1 with one
        entry for each label.
        """
        texts, pairs = text_pair(columns)
        problem, labels = self.options["problem"], self.options["labels"]
        prompt = prompt_of(self.options)
        return text_examples(
            self.required_tokenizer(),
            Texts(
                prompted(texts, prompt),
                pairs,
                targets_from(y, labels, problem),
            ),
            labels=None if problem == REGRESSION else labels,
            problem=problem,
            prefix=prefix_length(self.required_tokenizer(), prompt),
            **options,
        )

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any
    ) -> np.ndarray:
        """Return the logits of texts or pairs: float32 [texts, num_classes]."""
        return self._logits(*text_pair(columns), batch_size=batch_size, **reading)

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the loss and metric of the option `problem`.

        Labels are {"label": int [batch]} for "single_label", else
        {"label": float [batch, num_classes]}: 0 and 1 for "multi_label", numbers for "regression".
        """
        loss, metric = {
            "single_label": (
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            ),
            "multi_label": (
                keras.losses.BinaryCrossentropy(from_logits=True),
                keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0),
            ),
            "regression": (
                keras.losses.MeanSquaredError(),
                keras.metrics.MeanAbsoluteError(name="mean_absolute_error"),
            ),
        }[self.options["problem"]]
        return {"loss": {features.LABEL: loss}, "weighted_metrics": {features.LABEL: [metric]}}


class HiddenLayer(NamedTuple):
    """Options of a dense layer between the encoder and the logits; see `SequenceClassifier`."""

    activation: str | None = None
    dropout: float | None = None
    norm: bool = False
    bias: bool = True

    def more_options(self) -> dict[str, Any]:
        """Return the options of a task for values that only few families have."""
        options = {"hidden_norm": self.norm, "hidden_bias": self.bias}
        return {name: value for name, value in options.items() if value != (name == "hidden_bias")}

    def all_options(self) -> dict[str, Any]:
        """Return the options of a task that has such a layer in few families alone."""
        if self.activation is None:
            return {}
        return {"hidden_activation": self.activation, **self.more_options()}


def takes_pooled_output(options: Mapping[str, Any]) -> bool:
    """Return whether a task with these options reads the encoder's pooled output."""
    return options.get("pooling", CLS) == CLS and options["hidden_activation"] is None


def text_head(
    encoder: BertEncoder, num_classes: int, hidden: HiddenLayer, dropout: float | None, name: str
) -> ClassificationHead:
    """Make a head over vectors of the encoder, of any task: its last layer gives the logits.

    Args:
        encoder: the encoder, whose sizes, initializer, norms and dtype policy the head gets.
        num_classes: number of logits.
        hidden: options of a dense layer before the logits.
        dropout: dropout rate before each layer; None for the encoder's.
        name: name of the layer.
    """
    config = encoder.config
    return ClassificationHead(
        num_classes,
        config.hidden_size,
        hidden_activation=hidden.activation,
        dropout=config.dropout if dropout is None else dropout,
        initializer_range=config.initializer_range,
        hidden_dropout=hidden.dropout,
        hidden_bias=hidden.bias,
        hidden_norm=config.norm if hidden.norm else None,
        norm_bias=config.norm_bias,
        layer_norm_epsilon=config.layer_norm_epsilon,
        dtype=encoder.dtype_policy,
        name=name,
    )


def text_logits(
    encoder: BertEncoder,
    inputs: dict,
    head: ClassificationHead,
    hidden: HiddenLayer,
    pooling: str = CLS,
    representation: str = LAST,
    normalize: bool = False,
) -> Any:
    """Return the logits of each text, [batch, num_classes].

    Args:
        encoder: the encoder.
        inputs: symbolic inputs of the encoder, by name.
        head: the head.
        hidden: options of the head's dense layer.
        pooling: see `SequenceClassifier`.
        representation: see `task.token_vectors`.
        normalize: see `SequenceClassifier`.

    Raises:
        ValueError: an unknown pooling, or one that is not normalised; or see `text_vector`.
    """
    if pooling not in POOLINGS:
        raise ValueError(
            f"`pooling` must be one of {', '.join(POOLINGS)}. Received: pooling={pooling!r}"
        )
    if normalize and pooling not in NORMALIZED:
        raise ValueError(
            f"normalize=True is for the poolings {' and '.join(NORMALIZED)}. "
            f"Received: pooling={pooling!r}"
        )
    if pooling == CLS:
        return head(text_vector(encoder, inputs, hidden.activation, representation))
    if pooling == FIRST_TOKEN:
        first = first_vector(encoder, inputs, representation)
        return head(unit_length(first) if normalize else first)
    vectors = token_vectors(encoder, inputs, representation)
    mean = SentencePooling("mean", normalize, dtype="float32", name="mean_of_tokens")
    if pooling == "mean":
        return head(mean(vectors, inputs[features.PADDING_MASK]))
    return mean(head(vectors), inputs[features.PADDING_MASK])


def text_vector(
    encoder: BertEncoder, inputs: dict, hidden_activation: str | None, representation: str = LAST
) -> Any:
    """Return the vector of each text that a head reads, [batch, width].

    This is the vector of [CLS] for a head with a dense layer of its own, else the pooled output.

    Args:
        encoder: the encoder.
        inputs: symbolic inputs of the encoder, by name.
        hidden_activation: activation of the head's dense layer; None for a head without it.
        representation: see `task.token_vectors`.

    Raises:
        ValueError: the head needs a pooler that the encoder lacks, or a dense layer of its own.
    """
    if hidden_activation is None and not encoder.config.pooler:
        raise ValueError(
            "The encoder has no pooler: give the head a layer of its own, such as "
            "hidden_activation='tanh'. Received: hidden_activation=None"
        )
    if hidden_activation is not None:
        return first_vector(encoder, inputs, representation)
    if representation != LAST:
        raise ValueError(
            "The pooled output is made of the last layer: for another representation give the head "
            "a layer of its own, such as hidden_activation='tanh'. "
            f"Received: representation={representation!r}"
        )
    return encoder.first_token()(inputs)[features.POOLED_OUTPUT]


def first_vector(encoder: BertEncoder, inputs: dict, representation: str = LAST) -> Any:
    """Return the vector of [CLS], [batch, width]; see `text_vector` for the arguments."""
    if representation == LAST:
        return encoder.first_token()(inputs)[features.SEQUENCE_OUTPUT][:, 0]
    return token_vectors(encoder, inputs, representation)[:, 0]


def unit_length(vectors: Any) -> Any:
    """Return vectors [..., width] with the length 1, float32, as `SentencePooling` does."""
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    # The gradient of zeros, in unused slots of packed rows, is 0; that of `ops.normalize` is NaN.
    return vectors * ops.rsqrt(ops.maximum(squares, _LEAST_SQUARE))
