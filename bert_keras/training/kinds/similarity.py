"""Vectors of texts, trained on how alike two texts are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import metrics
from bert_keras.data import SupervisedExamples, Texts, pair_examples
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, SentencePairs, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.kinds.kind import Evaluation, Worst
from bert_keras.training.kinds.texts import TextKind, require_two, write_glue


class Similarity(TextKind):
    """A `SentenceEncoder`, by regression on the cosine of two vectors (SBERT, §3)."""

    problem = "regression"

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """There are pairs with scores, two or more."""
        del labels
        if data.pairs is None or data.targets is None:
            raise DataError("Similarity is of pairs with scores: name pair= and label=.")
        require_two(data)

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Two texts at a time."""
        del labels
        return SentencePairs(encoder, loss="similarity", pooling=self.recipe.pooling)

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Two rows for each pair."""
        del labels
        recipe = self.recipe
        options |= {"max_score": recipe.max_score, "max_length": recipe.max_length}
        return pair_examples(tokenizer, data, "similarity", **options)

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        """The correlation of the cosine with the scores."""
        found = predictor.similarity(data.texts, data.pairs or ())
        right = np.array(data.targets, np.float64)
        measured = {
            "spearman": metrics.spearman(right, found),
            "pearson": metrics.pearson(right, found),
        }
        scaled = found * self.recipe.max_score
        worst = [
            Worst(float(abs(a - b)), f"{one} / {other}", f"{a:.2f}", f"{b:.2f}")
            for one, other, a, b in zip(data.texts, data.pairs or (), right, scaled, strict=True)
        ]
        return Evaluation(measured, [f"{score:.4f}" for score in scaled], worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """The cosine, as a score."""
        if data.pairs is None:
            raise DataError("Similarity is of pairs: name pair=.")
        found = predictor.similarity(data.texts, data.pairs)
        return [f"{score:.4f}" for score in found * self.recipe.max_score]

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """A table: index, prediction."""
        del data
        write_glue(path, predictions)
