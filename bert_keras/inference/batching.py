"""Rows of similar length run together, where shapes are compiled padded to a few sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any

import keras
import numpy as np

from bert_keras import features
from bert_keras.data.model_inputs import EncodedTexts, encode, encode_apart
from bert_keras.tokenizers import Tokenizer

# JAX compiles for every shape, the others need no padding.
_SHORTEST = 16 if keras.backend.backend() == "jax" else 1  # tokens


class Runner:
    """A model, and how texts are put to it.

    Args:
        model: a task or an encoder.
        tokenizer: its own.
        batch_size: examples together.
        max_length: tokens of a row at most.
        progress: told after every batch how many examples are done, and of how many.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        max_length: int,
        progress: Callable[[int, int], None] | None = None,
    ):
        check_batch_size(batch_size)
        self.model, self.tokenizer = model, tokenizer
        self.batch_size, self.max_length = batch_size, max_length
        self._progress = progress

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> EncodedTexts:
        """Rows of texts or pairs, cut to `max_length`."""
        if pairs is not None:
            check_pairs(texts, pairs)
        return encode(self.tokenizer, texts, pairs, max_length=self.max_length)

    def encode_apart(self, firsts: Sequence[str], seconds: Sequence[str]) -> EncodedTexts:
        """Two rows for each pair, each cut to `max_length`."""
        check_pairs(firsts, seconds)
        return encode_apart(self.tokenizer, firsts, seconds, max_length=self.max_length)

    def run(
        self,
        rows: EncodedTexts,
        *,
        group: int | None = None,
        positions: Sequence[np.ndarray] | None = None,
        prompt_length: int = 0,
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """Runs examples of similar length together, so that a backend compiles for few shapes.

        Args:
            rows: the texts.
            group: rows of an example; None for one, without an axis of its own.
            positions: of the masks of each row.
            prompt_length: of all rows, for models that do not pool a prompt.

        Yields:
            The examples' numbers, and the outputs for them, padded as their rows were.
        """
        wanted = [tensor.name for tensor in self.model.inputs]
        lengths = rows.lengths.reshape(-1, group or 1).max(axis=1)
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            longest = max(_SHORTEST, int(lengths[batch].max()))
            size = min(_bucket(len(batch)), self.batch_size)
            # What fills the batch up is its first example again: no row without a token.
            filled = np.concatenate([batch, np.repeat(batch[:1], size - len(batch))])
            numbers = filled[:, None] * group + np.arange(group) if group else filled
            inputs = rows.inputs(numbers, min(_bucket(longest), self.max_length))
            if positions is not None:
                slots = _bucket(max(len(positions[index]) for index in batch))
                inputs[features.MASK_POSITIONS] = np.zeros((size, slots), np.int32)
                for row, index in enumerate(batch):
                    found = positions[index]
                    inputs[features.MASK_POSITIONS][row, : len(found)] = found
            if features.PROMPT_LENGTH in wanted:
                inputs[features.PROMPT_LENGTH] = np.full((size, 1), prompt_length, np.int32)
            outputs = self.model.predict_on_batch({name: inputs[name] for name in wanted})
            yield batch.tolist(), {name: array[: len(batch)] for name, array in outputs.items()}
            if self._progress is not None:
                self._progress(start + len(batch), len(order))

    def per_example(self, output: str, rows: EncodedTexts, **options: Any) -> np.ndarray:
        """An output that does not depend on the padding, of all examples: float32."""
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
        return results


def check_batch_size(batch_size: Any) -> None:
    """Raise `ValueError` unless it is a whole number of at least 1."""
    is_whole = isinstance(batch_size, Integral) and not isinstance(batch_size, bool)
    if not is_whole or batch_size < 1:
        raise ValueError(
            f"`batch_size` must be an integer of at least 1. Received: batch_size={batch_size!r}"
        )


def check_texts(**columns: Sequence[str]) -> None:
    """Raises `TypeError` for a string, which is itself a sequence of strings."""
    for name, texts in columns.items():
        if isinstance(texts, str):
            raise TypeError(
                f"`{name}` must be a list of strings. Received: one string, {texts[:80]!r}"
            )


def check_pairs(firsts: Sequence[str], seconds: Sequence[str]) -> None:
    """Raises `ValueError` unless there are equally many."""
    check_texts(firsts=firsts, seconds=seconds)
    if len(firsts) != len(seconds):
        raise ValueError(
            "Every first text needs one second. "
            f"Received: {len(firsts)} firsts, {len(seconds)} seconds"
        )


def _bucket(number: int) -> int:
    """A size not below this, of few: powers of two and the middles between them."""
    if keras.backend.backend() != "jax":
        return number
    above = 1 << (number - 1).bit_length()
    return above * 3 // 4 if above >= _SHORTEST and number <= above * 3 // 4 else above


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float32."""
    logits = logits.astype(np.float32)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of labels, each on its own."""
    return np.exp(-np.logaddexp(np.float32(0.0), -logits.astype(np.float32)))
