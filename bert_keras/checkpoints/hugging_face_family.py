"""Form of the tables of Hugging Face's names: a family, a task, and rows that families share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from bert_keras.config import BertConfig

EMBEDDINGS = {
    "embeddings/token": "embeddings.word_embeddings",
    "embeddings/segment": "embeddings.token_type_embeddings",
    "embeddings/position": "embeddings.position_embeddings",
    "embeddings/layer_norm": "embeddings.LayerNorm",
}
BLOCK = {
    "block_#/attention/query": "encoder.layer.#.attention.self.query",
    "block_#/attention/key": "encoder.layer.#.attention.self.key",
    "block_#/attention/value": "encoder.layer.#.attention.self.value",
    "block_#/attention/distance": "encoder.layer.#.attention.self.distance_embedding",
    "block_#/attention/output": "encoder.layer.#.attention.output.dense",
    "block_#/attention_layer_norm": "encoder.layer.#.attention.output.LayerNorm",
    "block_#/feedforward/intermediate": "encoder.layer.#.intermediate.dense",
    "block_#/feedforward/output": "encoder.layer.#.output.dense",
    "block_#/feedforward_layer_norm": "encoder.layer.#.output.LayerNorm",
}
CLASSIFIERS = {
    "label/output": "classifier",
    "tags/output": "classifier",
    "span/output": "qa_outputs",
    "choice/output": "classifier",
}
# MLM head of BERT and kin, and the tied weights that old files have a second time.
PREDICTIONS = {
    "mlm/dense": "cls.predictions.transform.dense",
    "mlm/layer_norm": "cls.predictions.transform.LayerNorm",
    "mlm": "cls.predictions",
}
SECOND_NAMES = (
    "embeddings.position_ids",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)
# RoBERTa and ELECTRA classify a text with a dense layer in the head, not with the pooler.
DEEP_LABEL = {"label/dense": "classifier.dense", "label/output": "classifier.out_proj"}

SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
CONSTANTS = {
    "num_segments": "type_vocab_size",
    "activation": "hidden_act",
    "layer_norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
    "position_embedding": "position_embedding_type",
}
# Values of these keys if a config does not state them.
DEFAULTS: dict[str, Any] = {
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "position_embedding_type": "absolute",
}


# Dropout rates of encoders that are trained without.
NO_DROPOUT = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
# Names of these keys in configs that follow GPT-2's.
GPT2_NAMES = {
    "hidden_size": ("n_embd",),
    "num_hidden_layers": ("n_layer",),
    "num_attention_heads": ("n_head",),
    "intermediate_size": ("n_inner",),
    "max_position_embeddings": ("n_positions",),
    "hidden_act": ("activation_function",),
    "layer_norm_eps": ("layer_norm_epsilon",),
    "hidden_dropout_prob": ("embd_pdrop", "resid_pdrop"),
    "attention_probs_dropout_prob": ("attn_pdrop",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFormat:
    """Facts about the files of one of our task classes.

    Attributes:
        ending: ending of Hugging Face's class name; "" if only some families have the class.
        is_mlm: the MLM head is its only head.
        is_text_classifier: config.json states `problem_type`. sentence-transformers opens it as a
            CrossEncoder.
        has_labels: config.json names the classes, as `id2label`.
        reads_text_vector: the head reads one vector for each text: that of the pooler, or of a
            hidden layer of its own. `Family.hidden_activation` states which.
        has_summary: ELECTRA's config.json states the head by `summary_type` and the like.
        has_pair_loss: the loss is "nsp" or "sop", which the family decides, and needs a pooler.
        has_generator: it trains ELECTRA's generator beside the encoder.
        stored_as: class that it is in files, with one class and the same head; "" for its own.
    """

    ending: str = ""
    is_mlm: bool = False
    is_text_classifier: bool = False
    has_labels: bool = False
    reads_text_vector: bool = False
    has_summary: bool = False
    has_pair_loss: bool = False
    has_generator: bool = False
    stored_as: str = ""


_TEXT_VECTOR = TaskFormat(reads_text_vector=True)
_CLASSIFIER = dataclasses.replace(
    _TEXT_VECTOR, ending="ForSequenceClassification", is_text_classifier=True
)
_TASK_FORMATS = {  # by class name, which is what files state
    "MaskedLM": TaskFormat(ending="ForMaskedLM", is_mlm=True),
    "SequenceClassifier": dataclasses.replace(_CLASSIFIER, has_labels=True),
    "TokenClassifier": TaskFormat(ending="ForTokenClassification", has_labels=True),
    "QuestionAnswerer": TaskFormat(ending="ForQuestionAnswering"),
    "MultipleChoice": dataclasses.replace(
        _TEXT_VECTOR, ending="ForMultipleChoice", has_summary=True
    ),
    "TextRanker": dataclasses.replace(_CLASSIFIER, stored_as="SequenceClassifier"),
    "Pretrainer": TaskFormat(has_pair_loss=True),
    "ElectraPretrainer": TaskFormat(has_generator=True),
}
CLASSIFYING = [n for n, task in _TASK_FORMATS.items() if task.has_labels or task.reads_text_vector]


def task_format(class_name: str) -> TaskFormat:
    """Return the facts about a class; those of a class without a row are all False."""
    return _TASK_FORMATS.get(class_name, TaskFormat())


def classes_of(name: str, **more: str) -> dict[str, str]:
    """Return our class -> Hugging Face's class, for a family called `name` in their class names."""
    endings = {"BertEncoder": "Model", "SentenceEncoder": "Model"}
    endings |= {ours: task.ending for ours, task in _TASK_FORMATS.items() if task.ending}
    return {ours: f"{name}{ending}" for ours, ending in {**endings, **more}.items()}


class Conversion(NamedTuple):
    """Translation of one value of a config in both directions.

    Attributes:
        read: from their value to ours. A value that it does not know is returned as it is, and
            `BertConfig` refuses it.
        write: from our value to theirs.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


class JointConversion(NamedTuple):
    """Translation of one of our values that several of their values state together.

    Attributes:
        keys: Hugging Face's keys.
        read: from their values, in the order of `keys`, to ours.
        write: from our value to their values by key; keys that say the same may be missing.
        supported: words on the values that can be read, for messages. `read` returns None for
            others.
    """

    keys: tuple[str, ...]
    read: Callable[..., Any]
    write: Callable[[Any], Mapping[str, Any]]
    supported: str


# Activation of a hidden layer that is the activation of the encoder.
OF_ENCODER = "encoder"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """Hugging Face's names for one model family.

    Attributes:
        model_types: values of `model_type` in config.json. The first is written.
        prefix: prefix of the encoder's tensors in a model with a head, such as "bert.".
        encoder: path of our layer -> Hugging Face's name; `#` stands for the block number.
        heads: path of our head layer -> Hugging Face's name, without the prefix.
        classes: our class -> Hugging Face's class.
        other_classes: our class -> a second class of Hugging Face, such as XLM-RoBERTa's.
        sizes: our config key -> Hugging Face's key. A config must state these.
        constants: our config key -> Hugging Face's key, for keys with a default.
        defaults: Hugging Face's key -> its value if a config does not state it.
        fixed: our config key -> its value in every model of the family.
        whole: path of our variable -> name of its tensor, if that does not follow from `encoder`.
        interleaved: names in `encoder` of several layers, whose tensor alternates them by head.
        computed: names of tensors that follow from the config -> their values. They are written
            for other libraries, and not read.
        unread: beginnings of the names of tensors of heads that this package lacks.
        zeros: key of config.json -> paths of our variables that are zero if the key is false and
            the file lacks their tensors.
        shown_by: name of a tensor -> config values that it shows where a config.json states none.
        selected_by: values of a config.json by which a family differs from another one of the same
            `model_types`. They are written.
        conversions: our config key -> translation of its value, where the two differ.
        joint: our config key -> translation of a value that several of their keys state.
        same_as: Hugging Face's key -> our attribute whose value it must have.
        aliases: Hugging Face's key -> its earlier names, which are read where it is missing. Parts
            of a nested key are separated by "/".
        required: Hugging Face's key -> values that compute what this package computes. Any other
            value is refused, also under an earlier name.
        advice: Hugging Face's key -> what to use where its value is refused.
        irrelevant: Hugging Face's keys that change no output of this family.
        earlier: translation of a whole config.json of earlier versions, for keys whose values are
            not those of the current ones; None where the names of `aliases` suffice.
        other_prefixes: further values of `prefix`, which are read.
        has_own_code: whether the family was first published as code in its folders. Their key
            `auto_map` names code that computes what transformers computes now.
        head_size: key of the width of a head, which must be `hidden_size` / `num_heads`.
        optional_segments: whether models without a segment table exist.
        position_offset: number of rows of the position table before the first position; None for
            pad_token_id + 1. `max_position_embeddings` counts them.
        needs_projection: whether tables of the encoder's width are refused, because there is a
            projection that would change no size.
        has_layer_types: whether the config lists for each layer whether its attention is local.
        first_global: number of the first of the layers that are global, every third, where the
            config has no such list.
        pad_token_id: value that is written.
        redundant: tensors without content of their own: buffers and second names of tied weights.
        hidden_activation: our class -> activation of the hidden layer in its head, or `OF_ENCODER`.
            A class that is not in it uses the pooler instead.
        hidden_dropout: dropout rate before that layer; None for the rate of the head.
        hidden_dropout_key: config key of that rate, whose default is `hidden_dropout`; None for no
            key.
        hidden_norm: whether that layer is followed by a normalisation, as the encoder has them.
        hidden_bias: whether that layer, and the dense layer of the MLM head, have biases.
        pooling: config key of the way in which a text classifier reads the tokens; None for [CLS].
        poolings: our option `pooling` -> their value of that key.
        mlm_activation: activation of the MLM head; None for the encoder's activation.
        mlm_head: options of `MaskedLM` in which the head differs from BERT's. A head may have an
            output matrix of its own if `heads` has a row for "mlm/output"; then the key
            `tie_word_embeddings` states whether it has.
        mlm_bias: name of the value of `BertConfig` that decides whether the logits have a bias;
            None where `mlm_head` does.
        mlm_sizes: config keys of the widths of the dense layers of the MLM head; () for one layer
            of the width of the token table.
        head_dropout: our class -> config key of the dropout rate of its head.
    """

    model_types: tuple[str, ...]
    prefix: str
    encoder: Mapping[str, str]
    heads: Mapping[str, str]
    classes: Mapping[str, str]
    other_classes: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    sizes: Mapping[str, str] = dataclasses.field(default_factory=lambda: dict(SIZES))
    constants: Mapping[str, str] = dataclasses.field(default_factory=lambda: dict(CONSTANTS))
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(DEFAULTS))
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    whole: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    interleaved: tuple[str, ...] = ()
    computed: Mapping[str, Callable[[BertConfig], np.ndarray]] = dataclasses.field(
        default_factory=dict[str, Callable[[BertConfig], np.ndarray]]
    )
    unread: tuple[str, ...] = ()
    zeros: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict[str, Any])
    shown_by: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    selected_by: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    conversions: Mapping[str, Conversion] = dataclasses.field(default_factory=dict[str, Conversion])
    joint: Mapping[str, JointConversion] = dataclasses.field(
        default_factory=dict[str, JointConversion]
    )
    same_as: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    aliases: Mapping[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict[str, tuple[str, ...]]
    )
    required: Mapping[str, tuple[Any, ...]] = dataclasses.field(
        default_factory=dict[str, tuple[Any, ...]]
    )
    advice: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    irrelevant: tuple[str, ...] = ()
    earlier: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    other_prefixes: tuple[str, ...] = ()
    has_own_code: bool = False
    head_size: str | None = None
    optional_segments: bool = False
    position_offset: int | None = 0
    needs_projection: bool = False
    has_layer_types: bool = False
    first_global: int = 0
    pad_token_id: int = 0
    redundant: tuple[str, ...] = ("embeddings.position_ids",)
    hidden_activation: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    hidden_dropout: float | None = None
    hidden_dropout_key: str | None = None
    hidden_norm: bool = False
    hidden_bias: bool = True
    pooling: str | None = None
    poolings: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"cls": "cls", "mean": "mean"}
    )
    mlm_activation: str | None = None
    mlm_head: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    mlm_bias: str | None = None
    mlm_sizes: tuple[str, ...] = ()
    head_dropout: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(CLASSIFYING, "classifier_dropout")
    )

    def class_names(self, ours: str) -> tuple[str, ...]:
        """Return all of Hugging Face's names for our class `ours`."""
        tables = (self.classes, self.other_classes)
        return tuple(table[ours] for table in tables if ours in table)

    def our_classes(self, theirs: Any) -> list[str]:
        """Return our classes that are equivalent to the class `theirs` of Hugging Face."""
        known = dict.fromkeys((*self.classes, *self.other_classes))
        return [ours for ours in known if theirs in self.class_names(ours)]

    @property
    def may_be_untied(self) -> bool:
        """True if an MLM head may have an output matrix of its own."""
        return "mlm/output" in self.heads

    @property
    def new_pooling(self) -> str:
        """Our option `pooling` of a text classifier whose config does not state it."""
        stated = self.defaults.get(self.pooling or "", "cls")
        return next(ours for ours, theirs in self.poolings.items() if theirs == stated)


# === Values of a config.json ===

ABSENT: Any = object()  # a value that is not stated and has no default; it equals nothing else


def stated_value(values: Mapping[str, Any], key: str, family: Family) -> Any:
    """Return the value of a key, of its earlier names, or its default; `ABSENT` without them."""
    for name in (key, *family.aliases.get(key, ())):
        if (found := nested(values, name)) is not None:
            return found
    return family.defaults.get(key, ABSENT)


def nested(values: Any, key: str) -> Any:
    """Return the value of a key such as "rope_parameters/rope_theta"; None without it."""
    first, _, rest = key.partition("/")
    if not isinstance(values, Mapping):
        return None
    value = cast("Mapping[str, Any]", values).get(first)
    return nested(value, rest) if rest else value


def set_nested(values: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a key such as "rope_parameters/rope_theta"."""
    *parts, last = key.split("/")
    for part in parts:
        values = values.setdefault(part, {})
    values[last] = value


# === Rows that families share ===


def block(start: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the rows of the layers of a block, whose names begin with `start`."""
    return {f"block_#/{ours}": f"{start}.{theirs}" for ours, theirs in names.items()}


def fused(name: str, *parts: str) -> dict[str, str]:
    """Return the rows of layers that one tensor stores, in their order in it."""
    return dict.fromkeys(parts, name)


def _read_sinusoidal(is_fixed: Any) -> Any:
    """Return our kind of position table for DistilBERT's flag; anything else as it is."""
    if not isinstance(is_fixed, bool):
        return is_fixed
    return "sinusoidal" if is_fixed else "absolute"


def _write_sinusoidal(kind: str) -> bool:
    """Return DistilBERT's flag for our kind of position table."""
    return kind == "sinusoidal"


# DistilBERT states whether its position table is fixed.
SINUSOIDAL = Conversion(_read_sinusoidal, _write_sinusoidal)
