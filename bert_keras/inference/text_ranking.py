"""Ranking of documents for a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.columns import texts_of
from bert_keras.inference.base import Ranked
from bert_keras.inference.sentence_similarity import SIMILARITIES, VectorMethods


class RankingMethods(VectorMethods):
    """Prediction methods of all models, because each compares texts by scores or by vectors."""

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_k: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> list[Ranked]:
        """Return the documents in the order of their scores for a query, the best first.

        A `SequenceClassifier` with one class reads the query with each document (a cross-encoder),
        and its scores are those of `predict_pair_scores`. Every other model without labels compares
        vectors: those of `encode_queries` and `encode_documents`, by the model's `similarity`.

        Args:
            query: text to compare with all documents.
            documents: texts.
            top_k: number of documents to return; None for all.
            prompt: prompt before the query, instead of the model's; see `encode`.
            prompt_name: name of the prompt; see `encode`.
            long_texts: "truncate" or "windows" for long texts; see `predict_scores`.
            stride: doc stride of the windows; see `predict_scores`.

        Raises:
            TypeError: the query is not one text.
            ValueError: the model has several classes, or `top_k` is less than 1.
        """
        if not isinstance(query, str):
            raise TypeError(
                "`query` must be one text, and `documents` a list of them. Call `rank` for each "
                f"query. Received: a {type(query).__name__}"
            )
        if top_k is not None and top_k < 1:
            raise ValueError(f"`top_k` must be at least 1. Received: top_k={top_k}")
        documents = texts_of("documents", documents)
        if not documents:
            return []
        before = {"prompt": prompt, "prompt_name": prompt_name}
        reading = {"long_texts": long_texts, "stride": stride}
        scores = self._document_scores(query, documents, before, reading)
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [Ranked(index, documents[index], float(scores[index])) for index in best.tolist()]

    def _document_scores(
        self,
        query: str,
        documents: Sequence[str],
        before: dict[str, Any],
        reading: dict[str, Any],
    ) -> np.ndarray:
        """Return the similarity of the vectors of a query and of each document: [documents].

        Args:
            query: a text.
            documents: texts.
            before: `prompt` and `prompt_name` of the query.
            reading: `long_texts` and `stride`.
        """
        first = self.encode_queries([query], **before, **reading)
        vectors = self.encode_documents(documents, **reading)
        compare = SIMILARITIES[self._prediction_model().options.get("similarity", features.COSINE)]
        return compare(np.repeat(first, len(vectors), axis=0), vectors)
