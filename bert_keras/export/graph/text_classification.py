"""Predictions for whole texts in a TensorFlow graph: labels, choices, vectors, masked tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras import features
from bert_keras.data.long_texts import WINDOWS
from bert_keras.export.runtimes import formats
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

_TOGETHER = 64  # rows that run together: bounds the memory for a long text of many rows


def call_model(model: keras.Model, inputs: Mapping[str, tf.Tensor]) -> dict[str, Any]:
    """Return the outputs of a model, called with those of `inputs` that it takes.

    Rows [batch, length] of a model of groups of rows become groups of one row.
    """
    given = ((tensor.name, inputs[tensor.name], len(tensor.shape)) for tensor in model.inputs)
    grouped = {name: x if len(x.shape) == n else x[:, tf.newaxis] for name, x, n in given}
    return model(grouped, training=False)


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
        long_texts: "windows" to read a long text in windows, with the mean of their outputs.
        stride: doc stride of the windows; see `data.long_texts.encode_long`.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: InGraphTokenizer,
        *,
        max_length: int,
        prompt: str = "",
        prompt_length: int = 0,
        long_texts: str | None = None,
        stride: int | None = None,
    ):
        self.model, self.tokenizer, self.max_length = model, tokenizer, max_length
        self.prompt, self.prompt_length = prompt, prompt_length
        self._splits, self._stride = long_texts == WINDOWS, stride

    def encode(self, text: tf.Tensor, pair: tf.Tensor | None = None) -> _Outputs:
        """Encode strings [batch], or pairs of them, as inputs int32 [batch, length]."""
        prompted = tf.strings.join([self.prompt, text]) if self.prompt else text
        return self._with_prompt_length(self.tokenizer(prompted, pair, max_length=self.max_length))

    def _with_prompt_length(self, inputs: _Outputs) -> _Outputs:
        """Add the input `prompt_length`, int32 [batch, 1], if the model has it."""
        if any(tensor.name == features.PROMPT_LENGTH for tensor in self.model.inputs):
            rows = tf.shape(inputs[features.TOKEN_IDS])[0]
            inputs[features.PROMPT_LENGTH] = tf.fill([rows, 1], self.prompt_length)
        return inputs

    def _output(self, name: str, text: tf.Tensor, pair: tf.Tensor | None = None) -> tf.Tensor:
        """Return an output of the model for strings [batch]: [batch, size]."""
        shape = self.model.output[name].shape
        return self._of_texts(lambda part: call_model(self.model, part)[name], shape, text, pair)

    def _of_texts(
        self,
        function: Callable[[_Outputs], tf.Tensor],
        shape: Any,
        text: tf.Tensor,
        pair: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return a function of the inputs of texts [batch]; of windows, the mean of its values.

        Args:
            function: function from inputs of some rows to values [rows, ...].
            shape: shape of the values.
            text: strings [batch].
            pair: second strings [batch]; None for single texts.
        """
        if not self._splits:
            return function(self.encode(text, pair))
        prompted = tf.strings.join([self.prompt, text]) if self.prompt else text
        parts = [self.tokenizer.tokenize(x) for x in (prompted, pair) if x is not None]
        room = self.max_length - self.tokenizer.scheme.num_added(len(parts))
        prefix = max(0, self.prompt_length - 1)
        rows, sources = split_texts(parts, room, self._stride, prefix)
        inputs = self._with_prompt_length(self.tokenizer.add_special_tokens(*rows))
        (values,) = call_in_parts(
            lambda part: [tf.cast(function(part), tf.float32)],
            inputs,
            [tf.TensorSpec(shape, tf.float32)],
        )
        return tf.math.segment_mean(values, sources)

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
            logits = call_model(self.model, self.apart(text, pair))[features.LABEL]
        else:
            logits = self._output(features.LABEL, text, pair)
        problem = options.get("problem", "single_label")
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
        """Return `scores`, float32 [batch, numbers], of a regression or ranker for strings."""
        name = features.SCORE if features.SCORE in self.model.output else features.LABEL
        logits = self._output(name, text, pair)
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
        vectors = self._output(features.SENTENCE_VECTOR, text)
        options = self.model.options
        if self._splits and options.get("normalize") and "truncate_dim" not in options:
            vectors = tf.math.divide_no_nan(vectors, tf.norm(vectors, axis=1, keepdims=True))
        return {features.SENTENCE_VECTOR: vectors}

    def similarity(self, text: tf.Tensor, pair: tf.Tensor) -> _Outputs:
        """Return `similarity`, float32 [batch], by the similarity function of the model."""
        vectors = self.vectors(tf.concat([text, pair], axis=0))[features.SENTENCE_VECTOR]
        name = self.model.options.get("similarity", features.COSINE)
        return {features.SIMILARITY: SIMILARITIES[name](*tf.split(vectors, 2))}

    def outputs(self, text: tf.Tensor) -> _Outputs:
        """Return an encoder's outputs, its token ids and mask, and `sentence_vector`.

        `sentence_vector` is the mean of the token vectors, float32 [batch, hidden_size]. With
        windows, it is the mean over those of a text, and the other outputs are of the first tokens.
        """
        inputs = self.encode(text)
        outputs = flat(call_model(self.model, inputs))
        if self._splits:
            shape = self.model.output[features.SEQUENCE_OUTPUT].shape
            mean = self._of_texts(
                lambda part: _mean_vector(flat(call_model(self.model, part)), part),
                [None, shape[-1]],
                text,
            )
        else:
            mean = _mean_vector(outputs, inputs)
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


def _mean_vector(outputs: _Outputs, inputs: _Outputs) -> tf.Tensor:
    """Return the mean of the token vectors of each row, float32 [rows, hidden_size]."""
    mask = tf.cast(inputs[features.PADDING_MASK], tf.float32)
    vectors = outputs[features.SEQUENCE_OUTPUT] * mask[:, :, tf.newaxis]
    return tf.reduce_sum(vectors, axis=1) / tf.reduce_sum(mask, axis=1, keepdims=True)


def split_texts(
    parts: Sequence[tf.RaggedTensor], room: int, stride: int | None, prefix: int
) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
    """Split long texts into windows, as `data.long_texts.encode_long` does.

    Args:
        parts: ids of the texts, or of both texts of pairs, int32 [batch, (tokens)] each.
        room: maximum number of ids in a row.
        stride: doc stride; None for three quarters of a window.
        prefix: number of ids at the start of the first text that each of its windows begins with.

    Returns:
        Ids of the texts in each row, int32 [rows, (tokens)] each, and the index of the text of each
        row, int64 [rows].

    Raises:
        ValueError: if no token of a long text may have room beside the others.
    """
    most_kept = room // 2 if len(parts) == 2 else 0
    if room - most_kept - prefix < 1:
        raise ValueError(f"max_length leaves room for {room} tokens, too few for windows.")
    lengths = [part.row_lengths() for part in parts]
    longest, fits = tf.reduce_max(lengths, axis=0), tf.add_n(lengths) <= room
    is_first = lengths[0] > lengths[-1] if len(parts) == 2 else tf.ones_like(fits)
    kept = tf.minimum(tf.reduce_min(lengths, axis=0), most_kept)
    head = tf.where(is_first, tf.minimum(longest, prefix), 0)
    space = room - kept - head
    step = space * 3 // 4 if stride is None else tf.fill(tf.shape(space), tf.cast(stride, tf.int64))
    step = tf.maximum(tf.minimum(step, space), 1)
    more = -(-(longest - head - space) // step)
    counts = tf.where(fits, tf.ones_like(more), 1 + more)
    # === Rows ===
    sources = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    window = tf.range(tf.size(sources, tf.int64)) - tf.gather(
        tf.cumsum(counts, exclusive=True), sources
    )
    fits, is_first, kept, head, space, step, longest = (
        tf.gather(values, sources) for values in (fits, is_first, kept, head, space, step, longest)
    )
    begin = head + window * step
    end = tf.where(fits, longest, tf.minimum(begin + space, longest))
    rows: list[tf.RaggedTensor] = []
    for number, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        is_split = is_first if number == 0 else tf.logical_not(is_first)
        start = tf.gather(part.row_starts(), sources)
        whole = tf.where(fits, tf.gather(length, sources), kept)
        first = tf.ragged.range(start, start + tf.where(is_split, head, whole))
        rest = tf.ragged.range(
            start + tf.where(is_split, begin, 0), start + tf.where(is_split, end, 0)
        )
        places = tf.concat([first, rest], axis=1)
        rows.append(places.with_flat_values(tf.gather(part.flat_values, places.flat_values)))
    return rows, sources


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
