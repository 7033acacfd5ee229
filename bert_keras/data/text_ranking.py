"""Text ranking: queries with lists of documents, and their relevance, as batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from bert_keras.data.batches import Batch
from bert_keras.data.columns import texts_of, values_of, words_of_rows
from bert_keras.data.model_inputs import EncodedTexts, encode
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.supervised import SupervisedExamples, length_multiple, require_weights
from bert_keras.errors import DataError
from bert_keras.features import SCORE
from bert_keras.tokenizers import Tokenizer

_COMPILED = 32  # `length_multiple` from which batches have few numbers of documents


class RankingExamples(SupervisedExamples):
    """Queries with lists of documents. A batch is padded to the longest list in it.

    Padding has the weight 0. See `SupervisedExamples` for batches and their order.

    Args:
        rows: a row for each query with each document; the rows of a query follow each other.
        counts: number of documents of each query, at least 1.
        relevance: float, a number for each row.
        row_order: number of each row in the data of the caller, for `weigh`; None for the same.
        options: options of `SupervisedExamples`.

    Attributes:
        counts: int64 [queries].
        num_rows: number of documents of all queries.
    """

    def __init__(
        self,
        rows: EncodedTexts,
        counts: Sequence[int],
        relevance: Sequence[float],
        row_order: Sequence[int] | None = None,
        **options: Any,
    ):
        self.counts = np.array(counts, np.int64)
        self.num_rows = len(rows)
        self._row_order = None if row_order is None else np.array(row_order, np.int64)
        self._is_document = cast("Any", np.arange(self.counts.max()) < self.counts[:, None])
        # One empty row takes the place of all documents that a list lacks.
        numbers = np.full(self._is_document.shape, self.num_rows)
        numbers[self._is_document] = np.arange(self.num_rows)
        empty = EncodedTexts.of([rows[0][:1]], [np.zeros(1, np.int32)], rows.pad_id, num_cut=0)
        padded = rows if self._is_document.all() else rows.merged(empty, numbers.reshape(-1))
        labels = np.zeros(self._is_document.shape, np.float32)
        labels[self._is_document] = np.array(relevance, np.float32)
        weights = {SCORE: self._is_document.astype(np.float32)}
        group = self._is_document.shape[1]
        super().__init__(padded, {SCORE: labels}, weights=weights, group=group, **options)

    def weigh(self, weights: Any) -> None:
        """Multiply the weights of the queries, or of all documents, by `sample_weight`.

        Args:
            weights: one number for each query, or one for each row of a query and a document.

        Raises:
            ValueError: another number of weights.
            DataError: a weight that is missing, infinite or negative.
        """
        factors = np.asarray(weights, np.float32)
        if factors.shape not in ((self.num_rows,), (len(self.counts),)):
            raise ValueError(
                "sample_weight needs one number for each query, or one for each row. Received: "
                f"shape {factors.shape} for {len(self.counts)} queries with {self.num_rows} "
                "documents"
            )
        require_weights(factors)
        if len(factors) == self.num_rows:
            factors = factors if self._row_order is None else factors[self._row_order]
        else:
            factors = np.repeat(factors, self.counts)
        of_documents = np.zeros(self._is_document.shape, np.float32)
        of_documents[self._is_document] = factors
        self._weights[SCORE] = self._weights[SCORE] * of_documents

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of these queries; see `SupervisedExamples.batch_of`.

        The inputs are int32 [B, documents, T], labels and weights float32 [B, documents]. A backend
        that compiles every shape gets few numbers of documents.
        """
        count = int(self.counts[examples].max())
        if length_multiple() >= _COMPILED:
            count = min(1 << (count - 1).bit_length(), self._is_document.shape[1])
        parts = super().batch_of(epoch, examples)
        x, y, weights = ({name: v[:, :count] for name, v in part.items()} for part in parts)
        return x, y, weights


def grouped_by_query(
    queries: Sequence[str], documents: Sequence[str], relevance: Sequence[Any]
) -> tuple[list[str], list[list[str]], list[list[Any]], list[list[int]]]:
    """Group rows of a query, a document and its relevance by the query.

    Returns:
        The different queries in the order of their first rows; the documents and the relevances of
        each; and the numbers of its rows.
    """
    rows: dict[str, list[int]] = {}
    for number, query in enumerate(queries):
        rows.setdefault(query, []).append(number)
    groups = list(rows.values())
    lists = [[documents[number] for number in group] for group in groups]
    numbers = [[relevance[number] for number in group] for group in groups]
    return list(rows), lists, numbers, groups


def ranking_columns(queries: Any, documents: Any) -> tuple[list[str], list[list[str]], bool]:
    """Return the queries, the documents of each, and whether the column has lists.

    Args:
        queries: column of texts.
        documents: column of lists of texts, or of texts, one for each query.

    Raises:
        DataError: a row is no text, a list is empty, or the columns differ in length.
    """
    queries, values = texts_of("queries", queries), values_of("documents", documents)
    has_lists = bool(values) and not isinstance(values[0], str)
    if has_lists:
        lists = words_of_rows("documents", values)
    else:
        lists = [[text] for text in texts_of("documents", values)]
    if len(queries) != len(lists):
        raise DataError(
            "Every query needs a document, or a list of documents. "
            f"Received: {len(queries)} queries, {len(lists)} rows of documents"
        )
    if (empty := next((n for n, row in enumerate(lists) if not row), None)) is not None:
        raise DataError(
            f"documents: row {empty} is an empty list. Add a document, or remove the row."
        )
    return queries, lists, has_lists


def ranking_examples(
    tokenizer: Tokenizer,
    queries: Any,
    documents: Any,
    relevance: Any,
    *,
    least_documents: int = 1,
    highest: float | None = None,
    prompt: str = "",
    max_length: int = 128,
    **options: Any,
) -> RankingExamples:
    """Encode queries with documents as batches for a `TextRanker`.

    The inputs of a batch are int32 [B, documents, T], the targets {"score": float32 [B,
    documents]}.

    Args:
        tokenizer: the tokenizer of the model.
        queries: one text for each row.
        documents: a list of texts for each row. Or one text for each row; then the rows with the
            same query make one list.
        relevance: a number for each document, in the form of `documents`.
        least_documents: smallest number of documents of a query.
        highest: highest relevance; the lowest is 0. None for any numbers.
        prompt: text to put before each query.
        max_length: maximum number of tokens in a row of query and document.
        options: options of `SupervisedExamples`.

    Raises:
        DataError: bad rows, relevances that are missing or out of range, or a query with too few
            documents. The message names the row.
    """
    queries, lists, has_lists = ranking_columns(queries, documents)
    if relevance is None:
        raise DataError(
            "The documents have no relevance to train on. Pass `y`, a number for each document."
        )
    rows = values_of("y", relevance)
    targets: list[Any] = [values_of("y", row) if has_lists else [row] for row in rows]
    if list(map(len, targets)) != list(map(len, lists)):
        pairs = enumerate(zip(targets, lists, strict=False))
        wrong = next((n for n, (one, other) in pairs if len(one) != len(other)), None)
        where = "" if wrong is None else f", also in row {wrong}"
        raise DataError(
            "`y` needs a number for each document: a list for each list of documents"
            f"{where}. Received: {len(targets)} rows for {len(lists)} queries"
        )
    numbers = _numbers(targets, highest)
    if not has_lists:
        flat = [row[0] for row in lists], [row[0] for row in numbers]
        queries, lists, numbers, groups = grouped_by_query(queries, *flat)
        options["row_order"] = [number for group in groups for number in group]
    short = [n for n, row in enumerate(lists) if len(row) < least_documents]
    if short:
        raise DataError(
            f"The loss compares documents of a query, and needs {least_documents} or more of each. "
            f"Received: {len(short)} of {len(lists)} queries with fewer, such as "
            f"{queries[short[0]]!r:.100}. Remove them, or train with loss='binary'."
        )
    firsts = [prompt + query for query, row in zip(queries, lists, strict=True) for _ in row]
    seconds = [text for row in lists for text in row]
    encoded = encode(tokenizer, firsts, seconds, max_length=max_length)
    flat_numbers = [number for row in numbers for number in row]
    options["max_length"] = max_length
    return RankingExamples(encoded, [len(row) for row in lists], flat_numbers, **options)


def _numbers(targets: Sequence[Sequence[Any]], highest: float | None) -> list[list[float]]:
    """Return relevances as numbers.

    Raises:
        DataError: a relevance that is no number, not finite, or out of range.
    """
    errors = ErrorCollector()
    numbers: list[list[float]] = []
    for number, row in enumerate(targets):
        try:
            values = np.asarray(row, np.float32)
        except (TypeError, ValueError):
            values = np.full(len(row), np.nan, np.float32)
        is_bad = ~np.isfinite(values)
        if highest is not None:
            is_bad |= (values < 0) | (values > highest)
        if is_bad.any():
            limits = "finite" if highest is None else f"from 0 to {highest:g}"
            wrong = row[int(np.flatnonzero(is_bad)[0])]
            message = f"y: row {number}: a relevance must be {limits}. Received: {wrong!r:.100}"
            errors.add(DataError(message))
        numbers.append(values.tolist())
    errors.check()
    return numbers
