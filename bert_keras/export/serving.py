"""The TensorFlow program inside a SavedModel: tokenizer, model and signatures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras import features
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.in_graph import InGraphTokenizer

_TEXT = tf.TensorSpec([None], tf.string, name="text")


def write(
    task: Task | BertEncoder, tokenizer: Tokenizer, folder: Path, *, max_length: int, top_k: int
) -> None:
    """Writes the SavedModel into an existing empty folder. TensorFlow backend only."""
    in_graph = InGraphTokenizer(tokenizer)
    if isinstance(task, BertEncoder):
        serve = _vectors(task, in_graph, max_length)
    else:
        serve = _fills(task, in_graph, max_length, top_k)
    root = tf.__internal__.tracking.AutoTrackable()
    # As attributes, not properties: only attributes are in a SavedModel, and a client trains them.
    root.variables = [variable.value for variable in task.variables]
    root.trainable_variables = [variable.value for variable in task.trainable_variables]
    root.tokenizer = in_graph
    signatures = {
        "serving_default": serve.get_concrete_function(_TEXT),
        "ids": _raw(task, training=False),
        "training": _raw(task, training=True),
    }
    tf.saved_model.save(root, str(folder), signatures=signatures)


def _raw(task: Task | BertEncoder, *, training: bool) -> Any:
    """The model as it is: its inputs by name, int32 of any batch and length -> its outputs."""

    @tf.function
    def run(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return _flat(task(inputs, training=training))

    names = [tensor.name for tensor in task.inputs]
    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in names}
    return run.get_concrete_function(**specs)


def _fills(
    task: Task, tokenizer: InGraphTokenizer, max_length: int, top_k: int
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Texts -> for every [MASK], the best tokens."""

    @tf.function
    def serve(text: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = tokenizer(text, max_length=max_length)
        is_mask = inputs[features.TOKEN_IDS] == tokenizer.mask_id
        columns = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        positions = tf.ragged.boolean_mask(columns, is_mask)
        count = tf.cast(positions.row_lengths(), tf.int32)
        inputs[features.MASK_POSITIONS] = positions.to_tensor()
        logits = _call(task, inputs)[features.MLM][:, :, : tokenizer.vocab_size]
        scores, token_ids = tf.math.top_k(tf.nn.softmax(logits), top_k)
        is_used = tf.sequence_mask(count, tf.shape(scores)[1])[:, :, tf.newaxis]
        return {
            "tokens": tf.where(is_used, tokenizer.id_to_token(token_ids), ""),
            "token_ids": tf.where(is_used, token_ids, tokenizer.pad_id),
            "scores": tf.where(is_used, scores, 0.0),
            "mask_count": count,
        }

    return serve


def _vectors(
    encoder: BertEncoder, tokenizer: InGraphTokenizer, max_length: int
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Texts -> the encoder's outputs, and the mean vector of each text."""

    @tf.function
    def serve(text: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = tokenizer(text, max_length=max_length)
        outputs = _flat(_call(encoder, inputs))
        mask = tf.cast(inputs[features.PADDING_MASK], tf.float32)
        vectors = outputs[features.SEQUENCE_OUTPUT] * mask[:, :, tf.newaxis]
        mean = tf.reduce_sum(vectors, axis=1) / tf.reduce_sum(mask, axis=1, keepdims=True)
        tokens = {name: inputs[name] for name in (features.TOKEN_IDS, features.PADDING_MASK)}
        return {"sentence_vector": mean, **outputs, **tokens}

    return serve


def _call(model: Task | BertEncoder, inputs: dict[str, tf.Tensor]) -> dict[str, Any]:
    return model({tensor.name: inputs[tensor.name] for tensor in model.inputs}, training=False)


def _flat(outputs: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Outputs as a signature returns them: tensors by name, of a type that any client reads."""
    flat: dict[str, tf.Tensor] = {}
    for name, value in outputs.items():
        if isinstance(value, tuple | list):
            flat |= {f"{name}_{index}": tensor for index, tensor in enumerate(value)}
        else:
            flat[name] = value
    return {name: tf.cast(tensor, tf.float32) for name, tensor in flat.items()}
