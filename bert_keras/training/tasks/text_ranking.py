"""Fine-tuning of text ranking: the relevance of documents for a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import metrics
from bert_keras.data import (
    CutTexts,
    SupervisedExamples,
    Texts,
    grouped_by_query,
    ranking_examples,
)
from bert_keras.errors import DataError
from bert_keras.losses import RankingLoss
from bert_keras.models import BertEncoder, Task, TextRanker
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.tasks.task import (
    BAD,
    GOOD,
    Evaluation,
    HardExample,
    TextTask,
    text_head,
    write_glue,
    write_rows,
)

_FIRST = 10  # documents that the metrics look at


class TextRankingTask(TextTask):
    """Task of a `TextRanker`.

    A row is a query, a document and its relevance. The rows of a query make one list. The metrics
    are nDCG and the mean reciprocal rank of the first ten documents of each list.
    """

    problem = "regression"
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def answers_pairs(self) -> bool:
        """True: the model reads a query and a document in one row."""
        return True

    def cut_texts(self, examples: SupervisedExamples, data: Texts) -> CutTexts:
        """Return how many rows of a query and a document are cut."""
        return CutTexts(examples.rows.num_cut, len(data), self.recipe.max_length, "pairs")

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """Check that there are documents with their relevance."""
        del labels
        self._require_documents(data)
        if data.targets is None:
            raise DataError(
                "task=text_ranking needs the relevance of each document. Received: rows without a "
                "number. Name its column with label=."
            )

    def _require_documents(self, data: Texts) -> None:
        """Refuse rows without a document."""
        if data.pairs is None:
            raise DataError(
                "task=text_ranking needs a query and a document in each row. Received: rows with "
                "one text. Name the column of the documents with pair=."
            )

    @property
    def _loss(self) -> str:
        """Name of the loss."""
        return self.recipe.loss or "binary"

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that scores documents."""
        del labels
        head = text_head(TextRanker, encoder)
        return TextRanker(encoder, loss=self._loss, dropout=self.recipe.dropout, **head)

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Return an example for each query, with all of its documents."""
        del labels
        loss = RankingLoss.of(self._loss)
        options |= {"least_documents": loss.least_documents, "highest": loss.highest}
        options["max_length"] = self.recipe.max_length
        return ranking_examples(tokenizer, data.texts, data.pairs, data.targets, **options)

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        """Compute nDCG and mean reciprocal rank of the documents of each query."""
        scores = predictor.predict_pair_scores(data.texts, data.pairs or ())
        targets: list[float] = np.array(data.targets or (), np.float64).tolist()
        queries, documents, relevance, rows = grouped_by_query(
            data.texts, data.pairs or (), targets
        )
        orders = [np.argsort(-scores[numbers], kind="stable").tolist() for numbers in rows]
        gains = [dict(enumerate(numbers)) for numbers in relevance]
        measured = {
            f"ndcg_at_{_FIRST}": metrics.ndcg(orders, gains, _FIRST),
            f"mrr_at_{_FIRST}": metrics.mean_reciprocal_rank(orders, gains, _FIRST),
        }
        worst: list[HardExample] = []
        for query, texts, numbers, group, order in zip(
            queries, documents, relevance, rows, orders, strict=True
        ):
            right = int(np.argmax(numbers))
            if numbers[order[0]] < numbers[right]:
                distance = float(scores[group[order[0]]] - scores[group[right]])
                worst.append(HardExample(distance, query, texts[right], texts[order[0]]))
        return Evaluation(measured, self._written(scores), worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """Return the score of each row."""
        self._require_documents(data)
        return self._written(predictor.predict_pair_scores(data.texts, data.pairs or ()))

    def _written(self, scores: np.ndarray) -> list[str]:
        """Return scores as texts."""
        return [f"{score:.6f}" for score in scores]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write queries with documents, of which one half is relevant."""
        rows = [
            {
                "text": f"the film was {query}",
                "pair": f"the film is {word}",
                "label": float(is_good),
            }
            for words, others in ((GOOD, BAD), (BAD, GOOD))
            for query in words
            for is_good, answers in ((True, words), (False, others))
            for word in answers
        ]
        columns = {"text": "text", "pair": "pair", "label": "label"}
        return {"train": write_rows(folder, rows), **columns}

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """Write a table of index and score."""
        del data
        write_glue(path, predictions)
