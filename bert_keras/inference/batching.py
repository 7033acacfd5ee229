"""Runs a model on batches of rows of similar length. On JAX, batches are padded to few shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any

import keras
import numpy as np

from bert_keras import features
from bert_keras.data.long_texts import (
    BOTH_LONG,
    LARGER,
    TRUNCATE,
    WINDOWS,
    CutTexts,
    check_long_texts,
    encode_long,
    mean_of_windows,
    warn,
)
from bert_keras.data.model_inputs import EncodedTexts, encode_apart
from bert_keras.errors import CoverageWarning
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.vocabulary_coverage import CHECK_TOKENIZER, NEGLIGIBLE

# Shortest padded length in tokens. JAX compiles for every shape; other backends need no padding.
_SHORTEST = 8 if keras.backend.backend() == "jax" else 1
# Number of padded lengths, and of all other sizes, above each power of two up to the next. Lengths
# are finer, because each token of padding takes as long as a token of text.
_LENGTHS, _SIZES = 4, 2
# Sizes up to this number are not rounded; on TensorFlow it is `kernels.query_blocks.LONG`.
_ANY_SIZE = {"jax": 0, "tensorflow": 2048}.get(keras.backend.backend(), math.inf)

# Outputs in these dtypes become float32. NumPy has no bfloat16 of its own.
_HALF = ("bfloat16", "float16")


class Runner:
    """A model with the tokenizer, batch size and maximum length with which it runs on texts.

    Args:
        model: task or encoder.
        tokenizer: tokenizer of the model.
        batch_size: number of examples in a batch.
        max_length: maximum number of tokens of a row.
        progress: function that is called after every batch with (examples done, examples in all).
        device: name of the device to compute on, for `keras.device`; None for the default one.
        long_texts: "truncate" to cut texts of more than `max_length` tokens, "windows" to read them
            in several rows; None to cut them, and to warn.
        stride: doc stride of the windows; see `data.long_texts.encode_long`.
        on_cut: function that is called instead of a warning, with a `CutTexts`.

    Raises:
        ValueError: if `batch_size` is not a whole number of at least 1, or `long_texts` or `stride`
            is not valid.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        max_length: int,
        progress: Callable[[int, int], None] | None = None,
        device: str | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
        on_cut: Callable[[CutTexts], None] | None = None,
    ):
        check_batch_size(batch_size)
        check_long_texts(long_texts, stride)
        self.model, self.tokenizer = model, tokenizer
        self.batch_size, self.max_length = batch_size, max_length
        self._progress, self._device = progress, device
        self._long_texts, self._stride, self._on_cut = long_texts, stride, on_cut

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        prefix: int = 0,
        advice: str = LARGER,
    ) -> EncodedTexts:
        """Encode texts or pairs of texts as one row each, or as windows if the runner reads them.

        Args:
            texts: texts, or the first texts of pairs.
            pairs: second texts; None for single texts.
            prefix: number of tokens at the start of each text that all its windows begin with.
            advice: sentence of the warning about cut texts, on how more is read.
        """
        if pairs is not None:
            check_pairs(texts, pairs)
        rows = encode_long(
            self.tokenizer,
            texts,
            pairs,
            max_length=self.max_length,
            long_texts=self._long_texts,
            stride=self._stride,
            prefix=prefix,
        )
        noun = "texts" if pairs is None else "pairs"
        advice = BOTH_LONG if self._long_texts == WINDOWS else advice
        self.tell_cut(rows.num_cut, len(texts), noun=noun, advice=advice)
        return rows

    def encode_apart(self, *columns: Sequence[str]) -> EncodedTexts:
        """Encode pairs of texts, or examples of more texts, as one row each of `max_length`.

        Raises:
            ValueError: if the runner reads windows, or the texts differ in number.
        """
        if len(columns) == 2:
            check_pairs(*columns)
        if self._long_texts == WINDOWS:
            check_reads_together(self.model)
        rows = encode_apart(self.tokenizer, *columns, max_length=self.max_length)
        self.tell_cut(rows.num_cut, len(rows))
        return rows

    def tell_cut(self, cut: int, count: int, limit: int | None = None, **words: str) -> None:
        """Warn if texts were cut, or call `on_cut`; not if the caller chose "truncate".

        Args:
            cut: number of texts that were cut.
            count: number of texts.
            limit: maximum number of tokens of a text; None for `max_length`.
            words: `noun` and `advice` of `CutTexts`.
        """
        texts = CutTexts(cut, count, limit or self.max_length, **words)
        if self._long_texts != TRUNCATE and self._on_cut is not None:
            self._on_cut(texts)
        elif self._long_texts != TRUNCATE and texts:
            warn(texts)

    def run(
        self,
        rows: EncodedTexts,
        *,
        group: int | None = None,
        positions: Sequence[np.ndarray] | None = None,
        prompt_length: int = 0,
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """Run the model on all examples, in batches of similar length.

        Args:
            rows: encoded texts.
            group: number of rows of an example; None for one row without a group axis.
            positions: positions of the masks in each row; None for models without an MLM head.
            prompt_length: number of prompt tokens in all rows, which the pooling leaves out.

        Yields:
            Indices of the examples of a batch, and the outputs by name, arrays [examples, ...].
            Floats are float32, whatever the model's dtype. Outputs for tokens are
            [examples, length, ...], as long as the batch is padded.

        Warns:
            CoverageWarning: if the tokenizer makes half of the tokens of some rows [UNK].
        """
        _warn_of_unknown(rows, self.tokenizer)
        wanted = [tensor.name for tensor in self.model.inputs]
        lengths = rows.lengths.reshape(-1, group or 1).max(axis=1)
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            longest = max(_SHORTEST, int(lengths[batch].max()))
            size = min(_rounded(len(batch), _SIZES), self.batch_size)
            # The batch is filled up with copies of its first example: no row may be empty.
            filled = np.concatenate([batch, np.repeat(batch[:1], size - len(batch))])
            numbers = filled[:, None] * group + np.arange(group) if group else filled
            inputs = rows.inputs(numbers, min(_rounded(longest, _LENGTHS), self.max_length))
            if positions is not None:
                slots = _rounded(max(len(positions[index]) for index in batch), _SIZES)
                inputs[features.MASK_POSITIONS] = np.zeros((size, slots), np.int32)
                for row, index in enumerate(batch):
                    masks = positions[index]
                    inputs[features.MASK_POSITIONS][row, : len(masks)] = masks
            if features.PROMPT_LENGTH in wanted:
                inputs[features.PROMPT_LENGTH] = np.full((size, 1), prompt_length, np.int32)
            outputs = self._outputs({name: inputs[name] for name in wanted})
            yield batch.tolist(), {name: array[: len(batch)] for name, array in outputs.items()}
            if self._progress is not None:
                self._progress(start + len(batch), len(order))

    def _outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for one batch of inputs, by name; floats are float32.

        The scope of a device is that of a thread, so each call enters it again.
        """
        with nullcontext() if self._device is None else keras.device(self._device):
            outputs = self.model.predict_on_batch(inputs)
        return {
            name: array.astype(np.float32) if array.dtype.name in _HALF else array
            for name, array in outputs.items()
        }

    def per_example(self, output: str, rows: EncodedTexts, **options: Any) -> np.ndarray:
        """Return one output for all examples, float32 [examples, ...].

        The output must have no axis of tokens. Of a text in several windows it is the mean.
        `options` are the arguments of `run`.
        """
        count = len(rows) // (options.get("group") or 1)
        results = None
        for batch, outputs in self.run(rows, **options):
            values = outputs[output].astype(np.float32)
            if results is None:
                results = np.zeros((count, *values.shape[1:]), np.float32)
            results[batch] = values
        if results is None:
            sizes = [size or 0 for size in self.model.output[output].shape[1:]]
            return np.zeros((0, *sizes), np.float32)
        return mean_of_windows(results, rows.sources)


def _warn_of_unknown(rows: EncodedTexts, tokenizer: Tokenizer) -> None:
    """Warn if half of the tokens of some rows, or more, are [UNK]: such rows have like answers.

    One such row in a hundred is no reason to warn.
    """
    is_unknown = rows.token_ids == tokenizer.unk_id
    if not is_unknown.any():
        return
    counts = np.diff(np.append(0, np.cumsum(is_unknown))[rows.bounds])
    # A row begins with [CLS] and ends with [SEP]. Prompts and second texts count as text.
    lost = int(np.count_nonzero(2 * counts >= np.maximum(rows.lengths - 2, 1)))
    if lost >= NEGLIGIBLE * len(rows.lengths):
        noun = "texts" if rows.sources is None else "parts of texts"
        warn(
            f"Of {lost:,} of {len(rows.lengths):,} {noun}, half of the tokens or more are [UNK], "
            f"which the model cannot tell apart. {CHECK_TOKENIZER}",
            CoverageWarning,
        )


def check_batch_size(batch_size: Any) -> None:
    """Raise `ValueError` unless the batch size is a whole number of at least 1."""
    is_whole = isinstance(batch_size, Integral) and not isinstance(batch_size, bool)
    if not is_whole or batch_size < 1:
        raise ValueError(
            f"`batch_size` must be an integer of at least 1. Received: batch_size={batch_size!r}"
        )


def check_reads_together(model: Any) -> None:
    """Raise `ValueError` for a model that compares two rows of a pair, and so takes no windows."""
    if model.reads_apart:
        raise ValueError(
            'long_texts="windows" is for models that read a text or a pair in one row. This model '
            f"compares two rows of a pair. Received: a {type(model).__name__}. Call `encode` or "
            '`similarity` with it, or cut the texts by long_texts="truncate".'
        )


def check_texts(**columns: Sequence[str]) -> None:
    """Raise `TypeError` for a column that is one string. A str is itself a sequence of strings."""
    for name, texts in columns.items():
        if isinstance(texts, str):
            raise TypeError(
                f"`{name}` must be a list of strings. Received: one string, {texts[:80]!r}"
            )


def check_pairs(firsts: Sequence[str], seconds: Sequence[str]) -> None:
    """Raise `ValueError` unless there are as many second texts as first texts."""
    check_texts(firsts=firsts, seconds=seconds)
    if len(firsts) != len(seconds):
        raise ValueError(
            "Every first text needs one second. Pass columns of the same length. "
            f"Received: {len(firsts)} firsts, {len(seconds)} seconds"
        )


def _rounded(number: int, parts: int) -> int:
    """Round a size up to one of few: `parts` sizes above each power of two up to the next.

    JAX compiles each size. TensorFlow compiles each length of long rows.
    """
    if number <= _ANY_SIZE:
        return number
    step = max(1, (1 << (number - 1).bit_length()) // (2 * parts))
    return -(-number // step) * step


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis, float32 of the same shape."""
    logits = logits.astype(np.float32)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return the logistic sigmoid of each logit, float32 of the same shape."""
    return np.exp(-np.logaddexp(np.float32(0.0), -logits.astype(np.float32)))


def activated(logits: np.ndarray, activation: str) -> np.ndarray:
    """Apply a Keras activation, by its name; float32 of the same shape."""
    values = keras.activations.get(activation)(keras.ops.convert_to_tensor(logits))
    return np.asarray(keras.ops.convert_to_numpy(values), np.float32)
