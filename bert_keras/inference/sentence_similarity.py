"""Sentence embeddings and their similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.long_texts import READS_ALL, mean_of_windows
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.inference.base import TextMethods, one_or_many, prompt_of
from bert_keras.inference.batching import Runner, check_pairs
from bert_keras.retrieval.quantization import FLOAT32, quantize, truncated, unit_length
from bert_keras.tokenizers import Tokenizer

# Names of prompts before queries and before documents, as sentence-transformers looks for them.
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


def own(runner: Runner, texts: Sequence[str], prompt: str) -> np.ndarray:
    """Return the vectors of a model with a sentence vector output: float32 [texts, size].

    Args:
        runner: runner of the model.
        texts: texts.
        prompt: text that is put before each of them; "" for none.
    """
    rows = encode_prompted(runner, texts, prompt)
    length = prompt_length(runner, prompt)
    vectors = runner.per_example(features.SENTENCE_VECTOR, rows, prompt_length=length)
    return normalized_again(vectors, rows, runner.model.options)


def encode_prompted(
    runner: Runner, texts: Sequence[str], prompt: str, pairs: Sequence[str] | None = None
) -> EncodedTexts:
    """Encode texts, or pairs, with a prompt before each (first) text, and before its windows."""
    prefix = prefix_length(runner.tokenizer, prompt)
    return runner.encode(prompted(texts, prompt), pairs, prefix=prefix, advice=READS_ALL)


def prefix_length(tokenizer: Tokenizer, prompt: str) -> int:
    """Return the number of tokens of a prompt, without special tokens."""
    return len(tokenizer.encode(prompt, add_special_tokens=False)) if prompt else 0


def normalized_again(
    vectors: np.ndarray, rows: EncodedTexts, options: Mapping[str, Any]
) -> np.ndarray:
    """Return vectors [texts, size]; those of several windows have the length 1 if others have it.

    A mean of vectors of length 1 is shorter.

    Args:
        vectors: vector of each text.
        rows: rows of the texts.
        options: options of the `SentenceEncoder`.
    """
    if rows.sources is None or not options.get("normalize") or "truncate_dim" in options:
        return vectors
    has_several = np.bincount(rows.sources, minlength=len(vectors)) > 1
    return np.where(has_several[:, None], unit_length(vectors), vectors)


def prompted(texts: Sequence[str], prompt: str) -> Sequence[str]:
    """Return the texts with a prompt before each."""
    return [prompt + text for text in texts] if prompt else texts


def prompt_length(runner: Runner, prompt: str) -> int:
    """Return the number of tokens of a prompt with [CLS]; 0 for no prompt.

    Models whose pooling leaves out the prompt skip that many tokens at the beginning of a row.
    """
    if not prompt:
        return 0
    return len(runner.tokenizer.encode(prompt, max_length=runner.max_length)) - 1  # without [SEP]


def means(runner: Runner, texts: Sequence[str], prompt: str) -> np.ndarray:
    """Return the mean of an encoder's token vectors, float32 [texts, hidden_size].

    [CLS] and [SEP] are included, padding is not.
    """
    rows = encode_prompted(runner, texts, prompt)
    results = np.zeros((len(rows), runner.model.config.hidden_size), np.float32)
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            vectors = outputs[features.SEQUENCE_OUTPUT][row, : rows.lengths[index]]
            results[index] = vectors.astype(np.float32).mean(axis=0)
    return mean_of_windows(results, rows.sources)


def cosines(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of rows: [rows, size] -> [rows]; 0 for a row of zeros."""
    lengths = np.linalg.norm(firsts, axis=1) * np.linalg.norm(seconds, axis=1)
    return dots(firsts, seconds) / np.maximum(lengths, np.finfo(np.float32).tiny)


def dots(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the dot product of each pair of rows: [rows, size] -> [rows]."""
    return (firsts * seconds).sum(axis=1)


def _euclidean(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the negative Euclidean distance of each pair of rows: [rows, size] -> [rows]."""
    return -np.linalg.norm(firsts - seconds, axis=1)


def _manhattan(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the negative Manhattan distance of each pair of rows: [rows, size] -> [rows]."""
    return -np.abs(firsts - seconds).sum(axis=1)


# Name in `features.SIMILARITIES` -> function.
SIMILARITIES = {
    features.COSINE: cosines,
    "dot": dots,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}


class VectorMethods(TextMethods):
    """Prediction methods of all models, because every encoder gives vectors of texts."""

    @one_or_many("texts")
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
        normalize: bool | None = None,
        precision: str = FLOAT32,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> np.ndarray:
        """Return the sentence embedding of each text.

        A `SentenceEncoder` gives its own vectors, a `SentencePairs` those of the encoder that it
        trains. For any other model the vector is the mean of the encoder's token vectors, including
        [CLS] and [SEP].

        Args:
            texts: texts, or one text.
            prompt: text that is put before each text, such as "query: "; "" for none.
            prompt_name: name of the prompt in the model's option `prompts`. Without `prompt` and
                `prompt_name`, the model's default prompt applies.
            truncate_dim: number of first dimensions to keep; None for all. Vectors that had the
                length 1 have it again. Models that were trained with `losses.MatryoshkaLoss` lose
                little by it.
            normalize: True to scale vectors to the length 1; None for what the model does.
            precision: number format of the vectors: "float32", "float16", "int8" or "ubinary"; see
                `retrieval.quantize`.
            long_texts: how a text of more tokens than the model reads is read. "truncate" reads
                its beginning. "windows" reads windows of tokens that overlap, and returns the mean
                of their vectors, with the length 1 if all vectors of the model have it. Each
                window has the prompt. None: as in training, else "truncate" with a warning.
            stride: doc stride: number of tokens from the start of one window to the start of the
                next; None for three quarters of a window. In Hugging Face it is the overlap.

        Returns:
            float32 [texts, size], or of another precision; [size] for one text.

        Raises:
            ValueError: if both prompts are passed, the model has no prompt of that name, or
                `truncate_dim`, `precision`, `long_texts` or `stride` is not valid.
        """
        reading = self._reading(long_texts, stride)
        vectors = self._vectors(texts, prompt, prompt_name, **reading)
        return quantize(self._cut(vectors, truncate_dim, normalize), precision)

    def _cut(
        self, vectors: np.ndarray, truncate_dim: int | None, normalize: bool | None
    ) -> np.ndarray:
        """Return vectors with `truncate_dim` and `normalize` of `encode`."""
        if truncate_dim is not None:
            had_unit_length = self._prediction_model().vector_model().options.get("normalize")
            vectors = truncated(vectors, truncate_dim)
            normalize = bool(had_unit_length) if normalize is None else normalize
        return unit_length(vectors) if normalize else vectors

    def encode_queries(self, queries: str | Sequence[str], **options: Any) -> np.ndarray:
        """Return the vectors of queries: `encode` with the model's prompt "query", if it has one.

        Args:
            queries: queries, or one query.
            options: options of `encode`.
        """
        return self.encode(queries, **self._with_prompt(QUERY_PROMPTS, options))

    def encode_documents(self, documents: str | Sequence[str], **options: Any) -> np.ndarray:
        """Return the vectors of documents: `encode` with the model's prompt for them.

        It is the first of the prompts "document", "passage" and "corpus" that the model has.

        Args:
            documents: documents, or one document.
            options: options of `encode`.
        """
        return self.encode(documents, **self._with_prompt(DOCUMENT_PROMPTS, options))

    def _with_prompt(self, names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
        """Return options of `encode` with the first of these prompts, unless they have one."""
        if options.get("prompt") is not None or options.get("prompt_name") is not None:
            return options
        prompts = self._prediction_model().options.get("prompts", {})
        name = next((name for name in names if name in prompts), None)
        return options if name is None else {**options, "prompt_name": name}

    def _vectors(
        self,
        texts: Sequence[str],
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int | None = None,
        **reading: Any,
    ) -> np.ndarray:
        """Return the sentence embeddings of texts; see `encode`."""
        before = prompt_of(self._prediction_model().options, prompt, prompt_name)
        model = self._prediction_model().vector_model()
        make = own if features.SENTENCE_VECTOR in model.output else means
        return make(self._runner_of(model, batch_size, **reading), texts, before)

    @one_or_many("firsts", "seconds")
    def similarity(
        self,
        firsts: str | Sequence[str],
        seconds: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> np.ndarray:
        """Return the similarity of the embeddings of each pair of texts.

        It is the cosine, or the model's option `similarity`; a distance is negated. For different
        prompts of the first and second texts, call `encode` twice and compare the vectors.

        Args:
            firsts: first texts, or one text.
            seconds: second texts, as many, or one text.
            prompt: prompt of all texts; see `encode`.
            prompt_name: name of the prompt; see `encode`.
            long_texts: "truncate" or "windows" for long texts; see `encode`.
            stride: doc stride of the windows; see `encode`.

        Returns:
            float32 [pairs]; one number for a single pair.

        Raises:
            ValueError: if the texts differ in number, or the model has no prompt of that name.
        """
        check_pairs(firsts, seconds)
        name = self._prediction_model().options.get("similarity", features.COSINE)
        both = self.encode(
            [*firsts, *seconds],
            prompt=prompt,
            prompt_name=prompt_name,
            long_texts=long_texts,
            stride=stride,
        )
        return SIMILARITIES[name](both[: len(firsts)], both[len(firsts) :])
