"""Ranking of documents for a query, and scores of pairs of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.columns import texts_of
from bert_keras.inference.base import Ranked, one_or_many, prompt_of
from bert_keras.inference.batching import activated
from bert_keras.inference.sentence_similarity import SIMILARITIES, encode_prompted
from bert_keras.inference.vector_search import SearchMethods


class RankingMethods(SearchMethods):
    """Prediction methods of all models, because each compares texts by scores or by vectors."""

    def rank(
        self,
        query: str | Sequence[str],
        documents: Sequence[str],
        *,
        top_k: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> Any:
        """Return the documents in the order of their scores for a query, the best first.

        A cross-encoder reads the query with each document: a `TextRanker`, or a
        `SequenceClassifier` with one class. Its scores are those of `predict_pair_scores`. Every
        other model without labels compares vectors: those of `encode_queries` and
        `encode_documents`, by the model's `similarity`.

        Args:
            query: text to compare with all documents, or several.
            documents: texts.
            top_k: number of documents to return; None for all.
            prompt: prompt before the query, instead of the model's; see `encode`.
            prompt_name: name of the prompt; see `encode`.
            long_texts: "truncate" or "windows" for long texts; see `predict_scores`.
            stride: doc stride of the windows; see `predict_scores`.

        Returns:
            A list of `Ranked`; for several queries a list of such lists.

        Raises:
            DataError: a query is no text.
            ValueError: the model has several classes, or `top_k` is less than 1.
        """
        queries = [query] if isinstance(query, str) else texts_of("query", query)
        if top_k is not None and top_k < 1:
            raise ValueError(f"`top_k` must be at least 1. Received: top_k={top_k}")
        documents = texts_of("documents", documents)
        if not documents:
            return [] if isinstance(query, str) else [[] for _ in queries]
        before = {"prompt": prompt, "prompt_name": prompt_name}
        reading = {"long_texts": long_texts, "stride": stride}
        rankings: list[list[Ranked]] = []
        for scores in self._document_scores(queries, documents, before, reading):
            best = np.argsort(-scores, kind="stable")[:top_k].tolist()
            rankings.append([Ranked(n, documents[n], float(scores[n])) for n in best])
        return rankings[0] if isinstance(query, str) else rankings

    def _document_scores(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        before: dict[str, Any],
        reading: dict[str, Any],
    ) -> Iterator[np.ndarray]:
        """Yield the similarities of the vectors of each query and of all documents: [documents].

        Args:
            queries: texts.
            documents: texts.
            before: `prompt` and `prompt_name` of the query.
            reading: `long_texts` and `stride`.
        """
        firsts = self.encode_queries(queries, **before, **reading)
        vectors = self.encode_documents(documents, **reading)
        compare = SIMILARITIES[self._prediction_model().options.get("similarity", features.COSINE)]
        for first in firsts:
            yield compare(np.repeat(first[None], len(vectors), axis=0), vectors)


class PairScoreMethods(RankingMethods):
    """Prediction methods of models that read a query and a document in one row."""

    def _logits(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int | None = None,
        **reading: Any,
    ) -> np.ndarray:
        """Return the logits of texts or pairs with a prompt before each, float32 [texts, classes].

        `reading` are `long_texts` and `stride` of the runner.
        """
        before = prompt_of(self._prediction_model().options, prompt, prompt_name)
        runner = self._runner(batch_size, **reading)
        rows = encode_prompted(runner, texts, before, pairs)
        if features.SCORE in self._prediction_model().output:  # a query has one document here
            return runner.per_example(features.SCORE, rows, group=1)
        return runner.per_example(features.LABEL, rows)

    @one_or_many("firsts", "seconds")
    def predict_pair_scores(
        self,
        firsts: str | Sequence[str],
        seconds: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> np.ndarray:
        """Return the score of each pair, as a CrossEncoder of sentence-transformers predicts it.

        The model's `activation` is applied to the logits. Without one, it is a sigmoid for a single
        class, and none for several. For probabilities of labels call `predict_scores`.

        Args:
            firsts: first texts, such as questions, or one text.
            seconds: second texts, such as passages, as many, or one text.
            prompt: prompt before each first text; see `encode`.
            prompt_name: name of the prompt; see `encode`.
            long_texts: "truncate" or "windows" for long texts; see `predict_scores`.
            stride: doc stride of the windows; see `predict_scores`.

        Returns:
            float32 [pairs], or [pairs, classes] for several classes. For one pair, its entry alone.

        Raises:
            ValueError: if the model is no `TextRanker` or `SequenceClassifier`, or the texts differ
                in number.
        """
        model = self._prediction_model()
        if not _scores_pairs(model):
            raise ValueError(
                "`predict_pair_scores` needs a TextRanker or a SequenceClassifier. "
                f"Received: a {type(model).__name__}. For the similarity of vectors "
                "call `similarity`."
            )
        reading = self._reading(long_texts, stride)
        logits = self._logits(firsts, seconds, prompt, prompt_name, **reading)
        usual = "sigmoid" if logits.shape[1] == 1 else "linear"
        scores = activated(logits, model.options.get("activation", usual))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _document_scores(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        before: dict[str, Any],
        reading: dict[str, Any],
    ) -> Iterator[np.ndarray]:
        """Yield the scores of each query with all documents: [documents]. See `RankingMethods`.

        Raises:
            ValueError: the model has several classes.
        """
        model = self._prediction_model()
        if not _scores_pairs(model):
            yield from super()._document_scores(queries, documents, before, reading)
            return
        for query in queries:
            firsts = [query] * len(documents)
            scores = self.predict_pair_scores(firsts, documents, **before, **reading)
            if scores.ndim > 1:
                raise ValueError(
                    "`rank` needs a model with one score for a query and a document. Received: a "
                    f"{type(model).__name__} with {scores.shape[1]} classes. For its probabilities "
                    "call `predict_scores`."
                )
            yield scores


def _scores_pairs(model: Any) -> bool:
    """Return whether a model gives scores to pairs of texts that it reads in one row."""
    return features.SCORE in model.output or (
        features.LABEL in model.output and not model.reads_apart
    )
