"""From texts to answers with a trained model, on any backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_keras import features
from bert_keras.checks import check_top_k, checked_length, encoder_of
from bert_keras.models import BertEncoder, SentenceEncoder, Task
from bert_keras.tokenizers import Tokenizer

_SHORTEST = 16  # tokens: the smallest padded length
_TEXTS_AT_ONCE = 4096  # tokenised together, which bounds the padded matrix


@dataclass(frozen=True, slots=True)
class Fill:
    """A token for a masked place.

    Attributes:
        token: the vocabulary entry, with "##" where it continues a word.
        token_id: its id.
        score: its probability.
    """

    token: str
    token_id: int
    score: float


class Predictor:
    """Answers for texts, in the order they are given.

    Texts of similar length run together, padded to a few fixed sizes, so that a backend that
    compiles for every shape compiles seldom. A text longer than `max_length` is cut.

    Args:
        task: a `MaskedLM`, a `Pretrainer`, a `SentenceEncoder` or a `BertEncoder`.
        tokenizer: the one the model was trained with.
        batch_size: how many texts run together.
        max_length: most tokens of a text or pair, [CLS] and [SEP] counted; None for as many as the
            model has positions. A model has learned no more than the length it was trained with.

    Raises:
        ValueError: the tokenizer has ids that the model has not, or a value is out of range.
    """

    def __init__(
        self,
        task: Task | BertEncoder,
        tokenizer: Tokenizer,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
    ):
        self.encoder = encoder_of(task, tokenizer)
        self.max_length = checked_length(max_length, self.encoder)
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: batch_size={batch_size}")
        self.task, self.tokenizer, self.batch_size = task, tokenizer, batch_size

    def __call__(self, texts: Sequence[str], **options: Any) -> Any:
        """What the model is for: `fill_mask`, or `sentence_vectors` of either kind of encoder."""
        is_encoder = isinstance(self.task, BertEncoder | SentenceEncoder)
        return (self.sentence_vectors if is_encoder else self.fill_mask)(texts, **options)

    def fill_mask(self, texts: Sequence[str], *, top_k: int = 5) -> list[list[list[Fill]]]:
        """The most probable tokens for every [MASK].

        Args:
            texts: each with one [MASK] or more; every place is filled on its own.
            top_k: how many fills for each.

        Returns:
            For each text, for each of its masks, the fills, best first.

        Raises:
            ValueError: a text has no [MASK], or has one where the text is cut.
        """
        self._require(features.MLM, "fill_mask")
        check_top_k(top_k, self.tokenizer)
        rows = self._encode(texts)
        positions = [np.flatnonzero(ids == self.tokenizer.mask_id) for ids, _ in rows]
        for index, (text, found) in enumerate(zip(texts, positions, strict=True)):
            self._check_masks(index, text, len(found))
        results: list[list[list[Fill]]] = [[] for _ in rows]
        for batch, outputs in self._run(self.task, rows, positions):
            for row, index in enumerate(batch):
                logits = outputs[features.MLM][row, : len(positions[index])]
                results[index] = self._fills(logits[:, : self.tokenizer.vocab_size], top_k)
        return results

    def next_sentence(self, firsts: Sequence[str], seconds: Sequence[str]) -> np.ndarray:
        """The probability that the second text follows the first: float32 [pairs].

        Raises:
            ValueError: the model was not trained for it.
        """
        self._require(features.NSP, "next_sentence")
        if len(firsts) != len(seconds):
            raise ValueError(
                "Every first text needs one second. "
                f"Received: {len(firsts)} firsts, {len(seconds)} seconds"
            )
        rows = self._encode(firsts, seconds)
        results = np.zeros(len(rows), np.float32)
        for batch, outputs in self._run(self.task, rows, [np.zeros(1, np.int32)] * len(rows)):
            results[batch] = _softmax(outputs[features.NSP][: len(batch)])[:, 0]
        return results

    def sentence_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """The vector of each text: float32 [texts, hidden_size].

        A `SentenceEncoder`'s own; of any other model the mean of what its encoder makes of the
        tokens, [CLS] and [SEP] included.
        """
        rows = self._encode(texts)
        results = np.zeros((len(rows), self.encoder.config.hidden_size), np.float32)
        if isinstance(self.task, SentenceEncoder):
            for batch, outputs in self._run(self.task, rows):
                results[batch] = outputs[features.SENTENCE_VECTOR][: len(batch)]
            return results
        for batch, outputs in self._run(self.encoder, rows):
            for row, index in enumerate(batch):
                vectors = outputs[features.SEQUENCE_OUTPUT][row, : len(rows[index][0])]
                results[index] = vectors.astype(np.float32).mean(axis=0)
        return results

    def _require(self, output: str, method: str) -> None:
        if output not in self.task.output_names:
            raise ValueError(
                f"`{method}` needs a model with an output {output!r}. Received: a "
                f"{type(self.task).__name__} with {', '.join(map(repr, self.task.output_names))}"
            )

    def _check_masks(self, index: int, text: str, found: int) -> None:
        mask = self.tokenizer.id_to_token(self.tokenizer.mask_id)
        if not found and mask not in text:
            raise ValueError(f"Text {index} has no {mask} to fill. Received: {text[:80]!r}")
        if found < text.count(mask):
            raise ValueError(
                f"Text {index} has {text.count(mask)} {mask}, but {text.count(mask) - found} of "
                f"them beyond the {self.max_length} tokens that are read. "
                f"Shorten the text. Received: {text[:80]!r}"
            )

    def _encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[_Row]:
        rows: list[_Row] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = slice(start, start + _TEXTS_AT_ONCE)
            encoded = self.tokenizer(
                texts[part],
                None if pairs is None else pairs[part],
                max_length=self.max_length,
            )
            lengths = encoded[features.PADDING_MASK].sum(axis=1)
            token_ids = encoded[features.TOKEN_IDS]
            columns = (
                token_ids,
                encoded.get(features.SEGMENT_IDS, np.zeros_like(token_ids)),
                lengths,
            )
            rows += [_Row(ids[:n], segments[:n]) for ids, segments, n in zip(*columns, strict=True)]
        return rows

    def _run(
        self, model: keras.Model, rows: list[_Row], positions: list[np.ndarray] | None = None
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """Runs rows of similar length together; yields their numbers and the padded outputs."""
        order = sorted(range(len(rows)), key=lambda index: len(rows[index].token_ids))
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            longest = max(_SHORTEST, *(len(rows[index].token_ids) for index in batch))
            length = min(_bucket(longest), self.max_length)
            shape = min(_bucket(len(batch)), self.batch_size), length
            inputs = {
                features.TOKEN_IDS: np.full(shape, self.tokenizer.pad_id, np.int32),
                features.SEGMENT_IDS: np.zeros(shape, np.int32),
                features.PADDING_MASK: np.zeros(shape, np.int32),
            }
            if positions is not None:
                slots = _bucket(max(len(positions[index]) for index in batch))
                inputs[features.MASK_POSITIONS] = np.zeros((shape[0], slots), np.int32)
            for row, index in enumerate(batch):
                used = len(rows[index].token_ids)
                inputs[features.TOKEN_IDS][row, :used] = rows[index].token_ids
                inputs[features.SEGMENT_IDS][row, :used] = rows[index].segment_ids
                inputs[features.PADDING_MASK][row, :used] = 1
                if positions is not None:
                    found = positions[index]
                    inputs[features.MASK_POSITIONS][row, : len(found)] = found
            wanted = [tensor.name for tensor in model.inputs]
            yield batch, model.predict_on_batch({name: inputs[name] for name in wanted})

    def _fills(self, logits: np.ndarray, top_k: int) -> list[list[Fill]]:
        """Logits [masks, vocab_size] -> for each mask, the best fills."""
        scores = _softmax(logits)
        best = np.argpartition(-scores, top_k - 1, axis=-1)[:, :top_k]
        return [
            [
                Fill(self.tokenizer.id_to_token(token_id), token_id, float(row[token_id]))
                for token_id in sorted(ids.tolist(), key=lambda i: (-row[i], i))
            ]
            for row, ids in zip(scores, best, strict=True)
        ]


class _Row(NamedTuple):
    """A text or a pair without padding: int32 [length] each."""

    token_ids: np.ndarray
    segment_ids: np.ndarray


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float32."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _bucket(number: int) -> int:
    """The next power of two."""
    return 1 << (number - 1).bit_length()
