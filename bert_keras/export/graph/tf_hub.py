"""Preprocessor and encoder as SavedModels with TensorFlow Hub's text API.

The API is described at https://www.tensorflow.org/hub/common_saved_model_apis/text, "Transformer
encoders". A SavedModel stores attributes, but no properties. So `variables`, `trainable_variables`
and `regularization_losses`, which training needs, are attributes here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras import features
from bert_keras.checkpoints import tf_hub_export
from bert_keras.export.graph.input_checks import with_shapes, with_valid_ids
from bert_keras.export.graph.signatures import save_program
from bert_keras.export.graph.text_classification import flat
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer, cut
from bert_keras.tokenizers.vocabulary import vocabulary_text

_STRINGS = tf.TensorSpec([None], tf.string)
_LENGTH = tf.TensorSpec([], tf.int32)
_Trackable = tf.__internal__.tracking.AutoTrackable
POSITIONS = "masked_lm_positions"
# Name of an input in this package -> name in the API.
_NAMES = {
    **{
        name: features.TF_HUB[name]
        for name in (features.TOKEN_IDS, features.PADDING_MASK, features.SEGMENT_IDS)
    },
    features.MASK_POSITIONS: POSITIONS,
}


def _traced(module: Any, *inputs: Any, **options: Any) -> Any:
    """Trace `__call__` of a module, so that its SavedModel has it for these inputs.

    Args:
        module: its `__call__` is a `tf.function`, which type checkers take for a plain method.
        inputs: a `tf.TensorSpec`, or a structure of them, for each argument.
        options: keyword arguments that are Python values.
    """
    return module.__call__.get_concrete_function(*inputs, **options)


def write_preprocessor(
    tokenizer: Tokenizer, folder: Path, *, max_length: int, portable: bool
) -> None:
    """Write the preprocessor, from texts to an encoder's inputs, into an existing empty folder."""
    in_graph = InGraphTokenizer(tokenizer, special_tokens_in_text=False, portable=portable)
    root = _Preprocessor(in_graph, max_length)
    serve = _traced(root, _STRINGS)
    save_program(root, folder, {"serving_default": serve})


def write_encoder(task: Task | BertEncoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Write an encoder, and the MLM head of a task that has one, into an existing empty folder."""
    with tempfile.TemporaryDirectory(prefix="bert_keras_") as scratch:
        vocabulary = Path(scratch, "vocab.txt")
        content = vocabulary_text(tokenizer.vocabulary)
        vocabulary.write_bytes(content)
        variables = _variables(task)
        root = _Encoder(task, variables, str(vocabulary), is_lowercase=bool(tokenizer.lowercase))
        serve = tf.function(
            lambda **inputs: flat(root(inputs)), autograph=False
        ).get_concrete_function(**root.specs)
        save_program(root, folder, {"serving_default": serve})
    tf_hub_export.write(task, tokenizer, content, variables, folder)


def _variables(task: Task | BertEncoder) -> dict[str, list[Any]]:
    """Return the variable lists of the SavedModel: "variables" and perhaps "mlm_variables"."""
    encoder = task if isinstance(task, BertEncoder) else task.encoder
    lists = {"variables": list(encoder.variables)}
    # An ElectraPretrainer fills no masks: its MLM head belongs to the generator.
    if task.fills_masks:
        both = [*encoder.variables, *task.mlm.variables]  # the token table is in both
        lists["mlm_variables"] = list({id(variable): variable for variable in both}.values())
    return lists


class _Module(_Trackable):
    """Base class of exported objects, with the attributes that `hub.KerasLayer` reads."""

    def __init__(self, variables: Sequence[Any] = ()):
        super().__init__()
        self.variables = [variable.value for variable in variables]
        self.trainable_variables = [v.value for v in variables if v.trainable]
        self.regularization_losses: list[Any] = []


class _Tokenize(_Module):
    """The API's `tokenize(texts)`: strings [batch] -> ids int32 [batch, (words), (pieces)].

    Special tokens in the texts are ordinary text.
    """

    def __init__(self, tokenizer: InGraphTokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def __call__(self, inputs: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenizer.pieces_of_words(inputs, special_tokens_in_text=False)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return the special ids by their names in TensorFlow Models' `bert_pack_inputs`."""
        tokenizer = self._tokenizer
        ids = {
            "vocab_size": tokenizer.vocab_size,
            "start_of_sequence_id": tokenizer.cls_id,
            "end_of_segment_id": tokenizer.sep_id,
            "padding_id": tokenizer.pad_id,
            "mask_id": tokenizer.mask_id,
        }
        return {name: tf.constant(value, tf.int32) for name, value in ids.items()}


class _PackInputs(_Module):
    """The API's `bert_pack_inputs(segments, seq_length=…)`: ids of one or two texts -> inputs."""

    def __init__(self, tokenizer: InGraphTokenizer):
        super().__init__()
        self._tokenizer = tokenizer
        for segments in (1, 2):
            for rank in (2, 3):
                spec = tf.RaggedTensorSpec([None] * rank, tf.int32, ragged_rank=rank - 1)
                _traced(self, [spec] * segments, _LENGTH)

    @tf.function(autograph=False)
    def __call__(
        self, inputs: list[tf.RaggedTensor], seq_length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self.packed(inputs, seq_length)

    def packed(
        self, inputs: list[tf.RaggedTensor], length: int | tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Add special tokens, truncate and pad.

        Args:
            inputs: ids of one or two texts, [batch, (tokens)] or [batch, (words), (tokens)].
            length: length of all rows.

        Returns:
            `input_word_ids`, `input_mask` and `input_type_ids`, int32 [batch, length].
        """
        rows = [part if part.ragged_rank == 1 else part.merge_dims(1, 2) for part in inputs]
        model_inputs = self._tokenizer.add_special_tokens(*_trimmed(rows, length - len(rows) - 1))
        fills = {features.TOKEN_IDS: self._tokenizer.pad_id}
        missing = length - tf.shape(model_inputs[features.TOKEN_IDS])[1]
        padded = {
            name: tf.pad(
                values, tf.stack([[0, 0], [0, missing]]), constant_values=fills.get(name, 0)
            )
            for name, values in model_inputs.items()
        }
        return features.rename(padded, features.TF_HUB)


def _trimmed(parts: list[tf.RaggedTensor], room: int | tf.Tensor) -> list[tf.RaggedTensor]:
    """Truncate one or two texts [batch, (tokens)] to `room` tokens in all, as the API does.

    The API takes tokens of both texts in turn, so that the first may have one more.
    """
    room = tf.cast(room, tf.int64)
    if len(parts) == 1:
        return [cut(parts[0], room)]
    first, second = (part.row_lengths() for part in parts)
    kept = tf.minimum(first, tf.maximum(room - second, (room + 1) // 2))
    return [cut(parts[0], kept), cut(parts[1], room - kept)]


class _Preprocessor(_Module):
    """The API's `preprocessor(texts)`: strings [batch] -> inputs int32 [batch, max_length]."""

    def __init__(self, tokenizer: InGraphTokenizer, max_length: int):
        super().__init__()
        self._max_length = max_length
        self.tokenize = _Tokenize(tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer)

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def __call__(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        texts = with_shapes({"inputs": inputs}, {"inputs": ("batch",)})["inputs"]
        return self.bert_pack_inputs.packed([self.tokenize(texts)], self._max_length)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return the special ids; see `_Tokenize.get_special_tokens_dict`."""
        return self.tokenize.get_special_tokens_dict()


class _Encoder(_Module):
    """The API's `encoder(inputs, training=False)`, with its vocabulary file and its casing."""

    def __init__(
        self,
        task: Task | BertEncoder,
        variables: Mapping[str, Sequence[Any]],
        vocabulary: str,
        *,
        is_lowercase: bool,
    ):
        encoder = task if isinstance(task, BertEncoder) else task.encoder
        super().__init__(variables["variables"])
        self.vocab_file = tf.saved_model.Asset(vocabulary)
        self.do_lower_case = tf.Variable(tf.constant(is_lowercase), trainable=False)
        self._run = _Run(encoder)
        self.specs = self._run.specs
        if task.fills_masks:
            self.mlm = _MaskedLM(variables["mlm_variables"], _Run(encoder, task.mlm))
        for training in (False, True):
            _traced(self, self._run.specs, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        return self._run(self._run.checked(inputs), training)


class _MaskedLM(_Module):
    """The API's `encoder.mlm(inputs, training=False)`.

    It takes `masked_lm_positions` too and returns `mlm_logits` [batch, masks, vocab_size] too.
    """

    def __init__(self, variables: Sequence[Any], run: _Run):
        super().__init__(variables)
        self._run = run
        specs = {**run.specs, POSITIONS: tf.TensorSpec([None, None], tf.int32)}
        for training in (False, True):
            _traced(self, specs, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        checked = self._run.checked(inputs)
        outputs = self._run(checked, training)
        positions = checked[features.MASK_POSITIONS]
        logits = self._run.head(outputs[features.SEQUENCE_OUTPUT], positions)
        return {**outputs, "mlm_logits": tf.cast(logits, tf.float32)}


class _Run:
    """An encoder with the input and output names of the API.

    This class is not trackable, so TensorFlow does not store the variables of its layers again.
    """

    def __init__(self, encoder: BertEncoder, head: Any = None):
        self.head = head
        self._model = encoder.with_outputs(hidden_states=True)
        # The API has all three inputs, even if the model has no segments.
        names = (features.TOKEN_IDS, features.PADDING_MASK, features.SEGMENT_IDS)
        self.specs = {
            features.TF_HUB[name]: tf.TensorSpec([None, None], tf.int32, features.TF_HUB[name])
            for name in names
        }

    def checked(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the inputs by this package's names, with checks of shapes, ids and lengths."""
        axes = {**dict.fromkeys(self.specs, ("batch", "length")), POSITIONS: ("batch", "masks")}
        inputs = with_shapes(inputs, axes)
        named = {ours: inputs[theirs] for ours, theirs in _NAMES.items() if theirs in inputs}
        return with_valid_ids(self._model, named, _NAMES)

    def __call__(self, inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
        """Return the outputs of the API for inputs of `checked`."""
        taken = {tensor.name: inputs[tensor.name] for tensor in self._model.inputs}
        outputs = self._model(taken, training=training)
        sequence = tf.cast(outputs[features.SEQUENCE_OUTPUT], tf.float32)
        # Without a pooler, the vector of the first token stands for the text.
        pooled = tf.cast(outputs.get(features.POOLED_OUTPUT, sequence[:, 0]), tf.float32)
        layers = [tf.cast(layer, tf.float32) for layer in outputs[features.HIDDEN_STATES][1:]]
        return {
            features.POOLED_OUTPUT: pooled,
            features.SEQUENCE_OUTPUT: sequence,
            "encoder_outputs": layers,
            "default": pooled,
        }
