"""Vectors of texts, and how alike they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras import features
from bert_keras.inference.base import TextMethods, one_or_many, prompt_of
from bert_keras.inference.batching import Runner, check_pairs


def own(runner: Runner, texts: Sequence[str], prompt: str) -> np.ndarray:
    """Return the vectors that a `SentenceEncoder` makes: float32 [texts, size].

    Args:
        runner: of the model.
        texts: the texts.
        prompt: what stands before each of them.
    """
    rows = runner.encode(prompted(texts, prompt))
    length = prompt_length(runner, prompt)
    return runner.per_example(features.SENTENCE_VECTOR, rows, prompt_length=length)


def prompted(texts: Sequence[str], prompt: str) -> Sequence[str]:
    """Return the texts behind a prompt."""
    return [prompt + text for text in texts] if prompt else texts


def prompt_length(runner: Runner, prompt: str) -> int:
    """Return how many of a row's first tokens are of a prompt, with [CLS]; 0 for no prompt."""
    if not prompt:
        return 0
    return len(runner.tokenizer.encode(prompt, max_length=runner.max_length)) - 1  # without [SEP]


def means(runner: Runner, texts: Sequence[str], prompt: str) -> np.ndarray:
    """Return the means of what an encoder makes of the tokens, [CLS] and [SEP] included."""
    rows = runner.encode(prompted(texts, prompt))
    results = np.zeros((len(rows), runner.model.config.hidden_size), np.float32)
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            vectors = outputs[features.SEQUENCE_OUTPUT][row, : rows.lengths[index]]
            results[index] = vectors.astype(np.float32).mean(axis=0)
    return results


def cosines(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the cosine of each first and second row: float32 [rows]; 0 for a row of zeros."""
    lengths = np.linalg.norm(firsts, axis=1) * np.linalg.norm(seconds, axis=1)
    return dots(firsts, seconds) / np.maximum(lengths, np.finfo(np.float32).tiny)


def dots(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the product of each first and second row: float32 [rows]."""
    return (firsts * seconds).sum(axis=1)


def _euclidean(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    return -np.linalg.norm(firsts - seconds, axis=1)


def _manhattan(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    return -np.abs(firsts - seconds).sum(axis=1)


# By the names of `features.SIMILARITIES`.
SIMILARITIES = {
    features.COSINE: cosines,
    "dot": dots,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}


class VectorMethods(TextMethods):
    """Methods of all models: each has an encoder, and so vectors."""

    @one_or_many("texts")
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        """Return the vector of each text: float32 [texts, size]; of one text float32 [size].

        Those of a `SentenceEncoder`, or of what a `SentencePairs` trains; of any other model the
        mean of what its encoder makes of the tokens, [CLS] and [SEP] included.

        Args:
            texts: the texts, or one text.
            prompt: what is read before each text, as it stands there, such as "query: "; "" for
                nothing.
            prompt_name: the same by its name among the model's `prompts`. Without either it is the
                one that the model has as its default.

        Raises:
            ValueError: both are given, or the model has no prompt of that name.
        """
        return self._vectors(texts, prompt, prompt_name)

    def _vectors(
        self,
        texts: Sequence[str],
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int | None = None,
    ) -> np.ndarray:
        before = prompt_of(self._answering().options, prompt, prompt_name)
        model = self._answering().vector_model()
        make = own if features.SENTENCE_VECTOR in model.output else means
        return make(self._runner_of(model, batch_size), texts, before)

    @one_or_many("firsts", "seconds")
    def similarity(
        self,
        firsts: str | Sequence[str],
        seconds: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        """Return how alike the vectors of each first and second text are: float32 [pairs].

        The cosine, or what the model names as its `similarity`; of distances the negative. Texts
        that have different prompts are compared by `encode` and a product of the vectors.

        Args:
            firsts: the first texts, or one text. Of one pair the similarity alone is returned.
            seconds: as many second ones.
            prompt: of all texts, as for `encode`.
            prompt_name: likewise.
        """
        check_pairs(firsts, seconds)
        name = self._answering().options.get("similarity", features.COSINE)
        left, right = (
            self.encode(texts, prompt=prompt, prompt_name=prompt_name)
            for texts in (firsts, seconds)
        )
        return SIMILARITIES[name](left, right)
