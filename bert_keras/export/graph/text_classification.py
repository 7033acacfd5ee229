"""Predictions for whole texts in a TensorFlow graph: labels, choices, vectors, masked tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras import features
from bert_keras.export.runtimes import formats
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

_TOGETHER = 64  # rows that run together: bounds the memory for a long text of many rows


def call_model(model: keras.Model, inputs: Mapping[str, tf.Tensor]) -> dict[str, Any]:
    """Return the outputs of a model, called with those of `inputs` that it takes."""
    return model({tensor.name: inputs[tensor.name] for tensor in model.inputs}, training=False)


def call_in_parts(
    function: Callable[[dict[str, tf.Tensor]], Sequence[tf.Tensor]],
    inputs: Mapping[str, tf.Tensor],
    specs: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """Call a function on a few rows at a time, and return its outputs for all rows.

    Args:
        function: function from inputs of some rows to a list of outputs.
        inputs: name -> tensor [rows, ...].
        specs: shape and dtype of each output, [rows, ...].

    Returns:
        Outputs of all rows, tensors [rows, ...].
    """
    rows = tf.shape(next(iter(inputs.values())))[0]
    count = tf.maximum(1, -(-rows // _TOGETHER))  # one call even without rows, for the shapes

    def step(number: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
        """Call the function on part `number` and store its outputs."""
        begin = number * _TOGETHER
        part = {name: value[begin : begin + _TOGETHER] for name, value in inputs.items()}
        outputs = function(part)
        return number + 1, *(a.write(number, v) for a, v in zip(arrays, outputs, strict=True))

    arrays = [
        tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)
        for spec in specs
    ]
    state = tf.while_loop(
        lambda number, *_: number < count, step, [tf.constant(0), *arrays], parallel_iterations=1
    )
    return [array.concat() for array in state[1:]]


# === Answers ===


_Outputs = dict[str, tf.Tensor]
_TINY = float(np.finfo(np.float32).tiny)


class GraphTexts:
    """A model with its tokenizer, length and prompt, and its predictions for texts in a graph.

    Args:
        model: task or encoder.
        tokenizer: tokenizer of the model, in the graph.
        max_length: maximum number of tokens of a text or pair; longer ones are truncated.
        prompt: text that is put before each (first) text; "" for none.
        prompt_length: number of its tokens with [CLS].
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
        """Encode strings [batch], or pairs of them, as inputs int32 [batch, length]."""
        prompted = tf.strings.join([self.prompt, text]) if self.prompt else text
        inputs = self.tokenizer(prompted, pair, max_length=self.max_length)
        if any(tensor.name == features.PROMPT_LENGTH for tensor in self.model.inputs):
            inputs[features.PROMPT_LENGTH] = tf.fill([tf.size(text), 1], self.prompt_length)
        return inputs

    def apart(self, text: tf.Tensor, pair: tf.Tensor) -> _Outputs:
        """Encode pairs of strings [batch] in separate rows: inputs int32 [batch, 2, length]."""
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
        """Return the labels of strings [batch], or of pairs of them.

        Args:
            text: first texts.
            pair: second texts; None for single texts.
            top_k: number of labels to return; None for all.
            threshold: lowest probability that `count` counts.

        Returns:
            `labels`: strings [batch, classes], best first; `scores`: float32, their probabilities.
            A single-label model also returns `label` and `score` [batch], the best one. A
            multi-label model returns `count`, int32 [batch], the number of labels with a
            probability of at least `threshold`.
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
        """Return `scores`, float32 [batch, numbers], of a regression for strings [batch]."""
        logits = call_model(self.model, self.encode(text, pair))[features.LABEL]
        activation = self.model.options.get("activation", "linear")
        return {"scores": keras.activations.get(activation)(logits)}

    def choices(self, prompt: tf.Tensor, options: tf.Tensor) -> _Outputs:
        """Return the best option for each prompt.

        Args:
            prompt: strings [batch]. For "" the options are read as single texts.
            options: strings [batch, choices].

        Returns:
            `index`: int32 [batch]; `choice`: strings [batch]; `score`: float32 [batch], its
            probability; `scores`: float32 [batch, choices].
        """
        count = tf.shape(options)[1]
        prompts, flat_options = tf.repeat(prompt, count), tf.reshape(options, [-1])
        paired, alone = self.encode(prompts, flat_options), self.encode(flat_options)
        is_alone = (prompts == "")[:, tf.newaxis]
        # A single text has fewer special tokens than a pair with "", so it is never longer.
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
        """Return `score`, float32 [batch], the probability that `pair` follows `text`."""
        inputs = self.encode(text, pair)
        inputs[features.MASK_POSITIONS] = tf.zeros([tf.size(text), 1], tf.int32)
        return {"score": tf.nn.softmax(call_model(self.model, inputs)[features.NSP])[:, 0]}

    # === Vectors ===

    def vectors(self, text: tf.Tensor) -> _Outputs:
        """Return `sentence_vector`, float32 [batch, size], of a `SentenceEncoder`."""
        return {name: call_model(self.model, self.encode(text))[name] for name in self.model.output}

    def similarity(self, text: tf.Tensor, pair: tf.Tensor) -> _Outputs:
        """Return `similarity`, float32 [batch], by the similarity function of the model."""
        vectors = self.vectors(tf.concat([text, pair], axis=0))[features.SENTENCE_VECTOR]
        name = self.model.options.get("similarity", features.COSINE)
        return {features.SIMILARITY: SIMILARITIES[name](*tf.split(vectors, 2))}

    def outputs(self, text: tf.Tensor) -> _Outputs:
        """Return an encoder's outputs, its token ids and mask, and `sentence_vector`.

        `sentence_vector` is the mean of the token vectors, float32 [batch, hidden_size].
        """
        inputs = self.encode(text)
        outputs = flat(call_model(self.model, inputs))
        mask = tf.cast(inputs[features.PADDING_MASK], tf.float32)
        vectors = outputs[features.SEQUENCE_OUTPUT] * mask[:, :, tf.newaxis]
        mean = tf.reduce_sum(vectors, axis=1) / tf.reduce_sum(mask, axis=1, keepdims=True)
        tokens = {name: inputs[name] for name in (features.TOKEN_IDS, features.PADDING_MASK)}
        return {features.SENTENCE_VECTOR: mean, **outputs, **tokens}

    # === Masks ===

    def fills(self, text: tf.Tensor, *, top_k: int = 5) -> _Outputs:
        """Return the `top_k` best tokens for every [MASK] of strings [batch].

        Returns:
            `tokens`: strings [batch, masks, top_k]; `token_ids`: int32; `scores`: float32, their
            probabilities; `mask_count`: int32 [batch]. Rows are padded with "", the padding id
            and 0.
        """
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
    """Return the cosine of each pair of rows: [rows, size] -> [rows]; 0 for a row of zeros."""
    lengths = tf.norm(first, axis=1) * tf.norm(second, axis=1)
    return _dots(first, second) / tf.maximum(lengths, _TINY)


def _dots(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the dot product of each pair of rows: [rows, size] -> [rows]."""
    return tf.reduce_sum(first * second, axis=1)


def _euclidean(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the negative Euclidean distance of each pair of rows: [rows, size] -> [rows]."""
    return -tf.norm(first - second, axis=1)


def _manhattan(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the negative Manhattan distance of each pair of rows: [rows, size] -> [rows]."""
    return -tf.reduce_sum(tf.abs(first - second), axis=1)


# Name in `features.SIMILARITIES` -> function.
SIMILARITIES = {
    features.COSINE: _cosines,
    "dot": _dots,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}


def flat(outputs: dict[str, Any]) -> _Outputs:
    """Return outputs for a signature: name -> float32 tensor. Tuples become several outputs."""
    return {name: tf.cast(tensor, tf.float32) for name, tensor in formats.flat(outputs).items()}


def _grouped(rows: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """Reshape rows: [examples * size, length] -> [examples, size, length]."""
    return tf.reshape(rows, [-1, size, tf.shape(rows)[1]])
