"""Hard negatives of texts: encoding, scores of a cross-encoder, and the choice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bert_keras.retrieval.nearest import COSINE
from bert_keras.retrieval.negatives import (
    HardNegatives,
    NegativeLimits,
    PairScores,
    choose_negatives,
)
from bert_keras.retrieval.quantization import FLOAT32, quantize
from bert_keras.retrieval.vector_files import digest_of, stored_rows

# Called with (done, in all, name of the work).
Progress = Callable[[int, int, str], None]


class _Encoder(Protocol):
    """Model that makes vectors of texts, such as a `SentenceEncoder` or a `Predictor`."""

    def encode_queries(self, queries: Any, /, **options: Any) -> Any: ...

    def encode_documents(self, documents: Any, /, **options: Any) -> Any: ...


class _CrossEncoder(Protocol):
    """Model that scores pairs of texts, such as a `SequenceClassifier` with one class."""

    def predict_pair_scores(self, firsts: Any, seconds: Any, /, **options: Any) -> Any: ...


@dataclass(frozen=True)
class MinedNegatives:
    """Pairs of a query and its right answer with hard negatives.

    Attributes:
        queries: query of each pair; a pair that comes twice is there once.
        answers: its right answer.
        negatives: its negatives, the best score first; at most `num_negatives`.
        scores: score of the right answer, and of each negative.
        left_out: number of candidates that were left out, by reason; see `HardNegatives`.
    """

    queries: list[str]
    answers: list[str]
    negatives: list[list[str]]
    scores: list[list[float]]
    left_out: dict[str, int]

    def columns(self, num_negatives: int) -> tuple[list[str], ...]:
        """Return columns of queries, answers and negatives, of the pairs with enough negatives.

        `SentencePairs.fit` takes them with loss="in_batch".

        Args:
            num_negatives: number of columns of negatives.
        """
        rows = [
            (query, answer, *negatives[:num_negatives])
            for query, answer, negatives in zip(
                self.queries, self.answers, self.negatives, strict=True
            )
            if len(negatives) >= num_negatives
        ]
        return tuple([row[column] for row in rows] for column in range(2 + num_negatives))


def mine_hard_negatives(
    model: _Encoder,
    queries: Sequence[str],
    answers: Sequence[str],
    *,
    corpus: Sequence[str] | None = None,
    limits: NegativeLimits | None = None,
    cross_encoder: _CrossEncoder | None = None,
    similarity: str = COSINE,
    precision: str = FLOAT32,
    folder: str | os.PathLike[str] | None = None,
    key: str = "",
    cross_encoder_key: str = "",
    progress: Progress | None = None,
) -> MinedNegatives:
    """Find hard negatives for pairs of queries and right answers.

    Equal queries share their right answers. A text that equals the query or a right answer of it,
    but for case and white space, is no negative.

    Args:
        model: encoder of queries and documents.
        queries: queries.
        answers: a right answer of each query.
        corpus: texts to choose negatives from; the answers are added. None for the answers alone.
        limits: limits of the choice; None for the default ones.
        cross_encoder: model that scores pairs of a query and a text, to leave candidates out by the
            limits of scores. It replaces the scores of the vectors.
        similarity: "cosine" or "dot".
        precision: number format of the corpus's vectors, such as "float16"; see `quantize`.
        folder: folder for the vectors and scores, which are then not in memory. A later call with
            the same models and texts uses them again, and goes on where a process was killed.
        key: name of the model and its options, by which its files in the folder are found.
        cross_encoder_key: the same of the cross-encoder.
        progress: called after each block of texts, pairs or queries.

    Raises:
        ValueError: the columns differ in length or are empty, or see `choose_negatives`.
    """
    if len(queries) != len(answers) or not len(queries):
        raise ValueError(
            "`queries` and `answers` must have one length, of at least 1. Received: "
            f"{len(queries)} queries, {len(answers)} answers"
        )
    pairs = list(dict.fromkeys(zip(queries, answers, strict=True)))
    texts = list(dict.fromkeys([*(() if corpus is None else corpus), *answers]))
    asked = list(dict.fromkeys(query for query, _ in pairs))
    positives, excluded = _right_rows(pairs, asked, texts)
    store = _Store(None if folder is None else Path(folder), progress)
    vectors = store.rows(
        ("queries", key, asked),
        len(asked),
        lambda start, end: model.encode_queries(asked[start:end]),
    )
    documents = store.rows(
        ("corpus", key, precision, texts),
        len(texts),
        lambda start, end: quantize(model.encode_documents(texts[start:end]), precision),
    )
    scorer = (
        None
        if cross_encoder is None
        else _scorer(cross_encoder, cross_encoder_key, asked, texts, store)
    )
    found = choose_negatives(
        vectors,
        documents,
        positives,
        limits,
        excluded=excluded,
        similarity=similarity,
        pair_scores=scorer,
        progress=store.reporter("search"),
    )
    return _mined(pairs, asked, texts, positives, found)


def _right_rows(
    pairs: Sequence[tuple[str, str]], asked: Sequence[str], texts: Sequence[str]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the rows of `texts` that answer each query, and those that are no negatives of it.

    Args:
        pairs: different pairs of a query and a right answer.
        asked: the different queries.
        texts: the different texts of the corpus.
    """
    same: dict[str, list[int]] = {_plain(text): [] for pair in pairs for text in pair}
    for row, text in enumerate(texts):
        if (rows := same.get(_plain(text))) is not None:
            rows.append(row)
    right: dict[str, list[int]] = {query: [] for query in asked}
    others = {query: [*same[_plain(query)]] for query in asked}
    for query, answer in pairs:
        rows = same[_plain(answer)]
        right[query].append(next(row for row in rows if texts[row] == answer))
        others[query] += rows
    return list(right.values()), list(others.values())


def _plain(text: str) -> str:
    """Return a text without differences of case and white space."""
    return " ".join(text.split()).casefold()


def _texts_at(texts: Sequence[str], rows: np.ndarray) -> list[str]:
    """Return the texts of some rows."""
    numbers: list[int] = rows.tolist()
    return [texts[number] for number in numbers]


def _scorer(
    cross_encoder: _CrossEncoder,
    key: str,
    asked: Sequence[str],
    texts: Sequence[str],
    store: _Store,
) -> PairScores:
    """Return the function that scores pairs of a query and a row of the corpus."""

    def scores(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the score of each pair."""
        firsts = _texts_at(asked, numbers)
        seconds = _texts_at(texts, rows)

        def compute(start: int, end: int) -> np.ndarray:
            """Return the scores of some pairs, float32 [pairs, 1]."""
            part = firsts[start:end], seconds[start:end]
            values = np.asarray(cross_encoder.predict_pair_scores(*part), np.float32)
            if values.ndim != 1:
                raise ValueError(
                    "A cross-encoder needs one score for a pair. Received: a model with "
                    f"{values.shape[1]} classes"
                )
            return values[:, None]

        return store.rows(("pairs", key, firsts, seconds), len(firsts), compute)[:, 0]

    return scores


class _Store:
    """Rows of numbers in memory, or in files that later calls use again.

    Args:
        folder: folder of the files; None for memory.
        progress: called after each block, or None.
    """

    def __init__(self, folder: Path | None, progress: Progress | None):
        self._folder, self._progress = folder, progress

    def reporter(self, name: str) -> Callable[[int, int], None] | None:
        """Return the function to call with the progress of a piece of work."""
        report = self._progress
        return None if report is None else lambda done, total: report(done, total, name)

    def rows(
        self,
        parts: tuple[str | Sequence[str], ...],
        count: int,
        compute: Callable[[int, int], np.ndarray],
        block: int = 1024,
    ) -> np.ndarray:
        """Return `count` rows, computed block by block.

        Args:
            parts: name of the rows, and all that they depend on.
            count: number of rows.
            compute: function of (start, end) that returns rows.
            block: number of rows that are computed together.
        """
        name, report = str(parts[0]), self.reporter(str(parts[0]))
        if self._folder is not None:
            path = self._folder / f"{name}-{digest_of(*parts)}.npy"
            return stored_rows(path, count, compute, block=block, progress=report)
        computed: list[np.ndarray] = []
        for start in range(0, count, block):
            end = min(start + block, count)
            computed.append(compute(start, end))
            if report is not None:
                report(end, count)
        return np.concatenate(computed)


def _mined(
    pairs: Sequence[tuple[str, str]],
    asked: Sequence[str],
    texts: Sequence[str],
    positives: Sequence[Sequence[int]],
    found: HardNegatives,
) -> MinedNegatives:
    """Return the negatives of each pair as texts."""
    number = {query: index for index, query in enumerate(asked)}
    owners = [index for index, rows in enumerate(positives) for _ in rows]
    rows = [row for rows in positives for row in rows]
    right = {
        (owner, row): float(score)
        for owner, row, score in zip(owners, rows, found.positive_scores, strict=True)
    }
    row_of = {texts[row]: row for row in rows}
    mined = MinedNegatives([], [], [], [], found.left_out)
    for query, answer in pairs:
        index = number[query]
        chosen = found.indices[index][found.indices[index] >= 0]
        mined.queries.append(query)
        mined.answers.append(answer)
        mined.negatives.append(_texts_at(texts, chosen))
        scores = found.scores[index, : len(chosen)].tolist()
        mined.scores.append([right[index, row_of[answer]], *scores])
    return mined
