"""Answers for whole texts in a TensorFlow graph: labels, choices, vectors, fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras import features
from bert_keras.export.runtimes import formats
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

_TOGETHER = 64  # rows: what a long text costs in memory does not grow with its length


def call_model(model: keras.Model, inputs: Mapping[str, tf.Tensor]) -> dict[str, Any]:
    """The outputs of a model, of the inputs that it has."""
    return model({tensor.name: inputs[tensor.name] for tensor in model.inputs}, training=False)


def call_in_parts(
    function: Callable[[dict[str, tf.Tensor]], Sequence[tf.Tensor]],
    inputs: Mapping[str, tf.Tensor],
    specs: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """Call a function on a few rows at a time, and return its outputs for all of them.

    Args:
        function: of some of the rows.
        inputs: what it takes, tensors [rows, ...].
        specs: of what it gives, [rows, ...].
    """
    rows = tf.shape(next(iter(inputs.values())))[0]
    count = tf.maximum(1, -(-rows // _TOGETHER))  # once without rows, for the shapes

    def step(number: tf.Tensor, *found: tf.TensorArray) -> tuple[Any, ...]:
        begin = number * _TOGETHER
        part = {name: value[begin : begin + _TOGETHER] for name, value in inputs.items()}
        given = function(part)
        return number + 1, *(a.write(number, v) for a, v in zip(found, given, strict=True))

    arrays = [
        tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)
        for spec in specs
    ]
    found = tf.while_loop(
        lambda number, *_: number < count, step, [tf.constant(0), *arrays], parallel_iterations=1
    )
    return [array.concat() for array in found[1:]]


# === Answers ===


_Outputs = dict[str, tf.Tensor]
_TINY = float(np.finfo(np.float32).tiny)


class Texts:
    """A model with its tokenizer, length and prompt, and its answers to texts.

    Args:
        model: a task, or an encoder.
        tokenizer: its own.
        max_length: tokens of a text or a pair; longer ones are cut.
        prompt: what is read before each text, or each first one; "" for nothing.
        prompt_length: how many tokens that is, with [CLS].
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: InGraphTokenizer,
        *,
        max_length: int,
        prompt: str = "",
        prompt_length: int = 0,
    ):
        self.model, self.tokenizer, self.max_length = model, tokenizer, max_length
        self.prompt, self.prompt_length = prompt, prompt_length

    def encode(self, text: tf.Tensor, pair: tf.Tensor | None = None) -> _Outputs:
        """Strings [batch] as the model reads them: int32 [batch, length]."""
        behind = tf.strings.join([self.prompt, text]) if self.prompt else text
        inputs = self.tokenizer(behind, pair, max_length=self.max_length)
        if any(tensor.name == features.PROMPT_LENGTH for tensor in self.model.inputs):
            inputs[features.PROMPT_LENGTH] = tf.fill([tf.size(text), 1], self.prompt_length)
        return inputs

    def apart(self, text: tf.Tensor, pair: tf.Tensor) -> _Outputs:
        """Two texts, each read for itself: int32 [batch, 2, length]."""
        both = self.encode(tf.reshape(tf.stack([text, pair], axis=1), [-1]))
        return {name: _grouped(rows, 2) for name, rows in both.items()}

    # === Labels and numbers ===

    def labels(
        self,
        text: tf.Tensor,
        pair: tf.Tensor | None = None,
        *,
        top_k: int | None = None,
        threshold: float = 0.5,
    ) -> _Outputs:
        """`labels`: string [batch, classes], best first; `scores`: float32, their probabilities.

        Of one label of several also `label` and `score`, [batch], the first of them; of several
        labels `count`, int32 [batch], how many have a score of `threshold` or more.
        """
        options: dict[str, Any] = self.model.options
        if pair is not None and self.model.reads_apart:
            inputs = self.apart(text, pair)
        else:
            inputs = self.encode(text, pair)
        problem = options.get("problem", "single_label")
        logits = call_model(self.model, inputs)[features.LABEL]
        is_single = problem == "single_label"
        shares = tf.nn.softmax(logits) if is_single else tf.math.sigmoid(logits)
        order = tf.argsort(-shares, stable=True)
        names = tf.gather(tf.constant(list(options["labels"])), order[:, :top_k])
        scores = tf.gather(shares, order[:, :top_k], batch_dims=1)
        if is_single:
            best = {"label": names[:, 0], "score": scores[:, 0]}
        else:
            best = {"count": tf.reduce_sum(tf.cast(scores >= threshold, tf.int32), axis=1)}
        return {**best, "labels": names, "scores": scores}

    def numbers(self, text: tf.Tensor, pair: tf.Tensor | None = None) -> _Outputs:
        """`scores`: float32 [batch, numbers], of a regression."""
        logits = call_model(self.model, self.encode(text, pair))[features.LABEL]
        activation = self.model.options.get("activation", "linear")
        return {"scores": keras.activations.get(activation)(logits)}

    def choices(self, prompt: tf.Tensor, options: tf.Tensor) -> _Outputs:
        """`index`: int32 [batch], `choice`: string, `score`: float32; `scores` of all options.

        Args:
            prompt: string [batch]; behind "" the options stand alone.
            options: string [batch, choices].
        """
        count = tf.shape(options)[1]
        prompts, each = tf.repeat(prompt, count), tf.reshape(options, [-1])
        paired, alone = self.encode(prompts, each), self.encode(each)
        is_alone = (prompts == "")[:, tf.newaxis]
        # An option alone is never longer than behind "".
        widths = [tf.shape(rows[features.TOKEN_IDS])[1] for rows in (paired, alone)]
        more = [[0, 0], [0, tf.maximum(widths[0] - widths[1], 0)]]
        inputs = {}
        for name, rows in paired.items():
            fill = self.tokenizer.pad_id if name == features.TOKEN_IDS else 0
            other = tf.pad(alone[name], more, constant_values=fill)[:, : widths[0]]
            inputs[name] = _grouped(tf.where(is_alone, other, rows), count)
        shares = tf.nn.softmax(call_model(self.model, inputs)[features.CHOICE])
        best = tf.argmax(shares, axis=1, output_type=tf.int32)
        return {
            "index": best,
            "choice": tf.gather(options, best, batch_dims=1),
            "score": tf.reduce_max(shares, axis=1),
            "scores": shares,
        }

    def follows(self, text: tf.Tensor, pair: tf.Tensor) -> _Outputs:
        """`score`: float32 [batch], the probability that the second text follows the first."""
        inputs = self.encode(text, pair)
        inputs[features.MASK_POSITIONS] = tf.zeros([tf.size(text), 1], tf.int32)
        return {"score": tf.nn.softmax(call_model(self.model, inputs)[features.NSP])[:, 0]}

    # === Vectors ===

    def vectors(self, text: tf.Tensor) -> _Outputs:
        """`sentence_vector`: float32 [batch, size], of a `SentenceEncoder`."""
        return {name: call_model(self.model, self.encode(text))[name] for name in self.model.output}

    def similarity(self, text: tf.Tensor, pair: tf.Tensor) -> _Outputs:
        """`similarity`: float32 [batch], of two texts' vectors, as the model compares them."""
        vectors = self.vectors(tf.concat([text, pair], axis=0))[features.SENTENCE_VECTOR]
        name = self.model.options.get("similarity", features.COSINE)
        return {features.SIMILARITY: SIMILARITIES[name](*tf.split(vectors, 2))}

    def outputs(self, text: tf.Tensor) -> _Outputs:
        """Return an encoder's outputs, token ids and mask, and the mean of its token vectors."""
        inputs = self.encode(text)
        outputs = flat(call_model(self.model, inputs))
        mask = tf.cast(inputs[features.PADDING_MASK], tf.float32)
        vectors = outputs[features.SEQUENCE_OUTPUT] * mask[:, :, tf.newaxis]
        mean = tf.reduce_sum(vectors, axis=1) / tf.reduce_sum(mask, axis=1, keepdims=True)
        tokens = {name: inputs[name] for name in (features.TOKEN_IDS, features.PADDING_MASK)}
        return {features.SENTENCE_VECTOR: mean, **outputs, **tokens}

    # === Masks ===

    def fills(self, text: tf.Tensor, *, top_k: int = 5) -> _Outputs:
        """For every [MASK] the best tokens, as `saved_models/README.md` says."""
        inputs, tokenizer = self.encode(text), self.tokenizer
        is_mask = inputs[features.TOKEN_IDS] == tokenizer.mask_id
        columns = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        positions = tf.ragged.boolean_mask(columns, is_mask)
        count = tf.cast(positions.row_lengths(), tf.int32)
        inputs[features.MASK_POSITIONS] = positions.to_tensor()
        logits = call_model(self.model, inputs)[features.MLM][:, :, : tokenizer.vocab_size]
        scores, token_ids = tf.math.top_k(tf.nn.softmax(logits), top_k)
        is_used = tf.sequence_mask(count, tf.shape(scores)[1])[:, :, tf.newaxis]
        return {
            "tokens": tf.where(is_used, tokenizer.id_to_token(token_ids), ""),
            "token_ids": tf.where(is_used, token_ids, tokenizer.pad_id),
            "scores": tf.where(is_used, scores, 0.0),
            "mask_count": count,
        }


def _cosines(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    lengths = tf.norm(first, axis=1) * tf.norm(second, axis=1)
    return _dots(first, second) / tf.maximum(lengths, _TINY)


def _dots(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(first * second, axis=1)


def _euclidean(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    return -tf.norm(first - second, axis=1)


def _manhattan(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    return -tf.reduce_sum(tf.abs(first - second), axis=1)


# By the names of `features.SIMILARITIES`.
SIMILARITIES = {
    features.COSINE: _cosines,
    "dot": _dots,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}


def flat(outputs: dict[str, Any]) -> _Outputs:
    """Outputs as a signature returns them: tensors by name, of a type that any client reads."""
    return {name: tf.cast(tensor, tf.float32) for name, tensor in formats.flat(outputs).items()}


def _grouped(rows: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """[examples * size, length] -> [examples, size, length]."""
    return tf.reshape(rows, [-1, size, tf.shape(rows)[1]])
