"""Vectors of texts, trained on the labels of pairs."""

from __future__ import annotations

from typing import Any

from bert_keras.data import SupervisedExamples, Texts, pair_examples
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, SentencePairs, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.kinds.labels import Labels


class PairLabels(Labels):
    """A `SentencePairs`, by softmax over the labels of two vectors (SBERT, §3).

    Measured as other labels are. The model keeps its head; `SentencePairs.sentence_encoder`, or
    `SentenceEncoder.from_preset(RUN, allow_unused=("label",))`, is without it.
    """

    problem = "single_label"  # pyright: ignore[reportAssignmentType]

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """There are pairs, with labels that the model knows."""
        self._require_pairs(data)
        super().check(data, labels)

    def _require_pairs(self, data: Texts) -> None:
        if data.pairs is None:
            raise DataError("Labels of pairs need pairs: name pair=.")

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Two texts at a time."""
        names = labels or []
        return SentencePairs(
            encoder,
            loss="classification",
            pooling=self.recipe.pooling,
            num_classes=len(names),
            labels=names,
        )

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: list[str] | None, **options: Any
    ) -> SupervisedExamples:
        """Two rows for each pair."""
        options |= {"labels": labels, "class_weights": self._class_weights(data)}
        options["max_length"] = self.recipe.max_length
        return pair_examples(tokenizer, data, "classification", **options)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """The best label of each pair."""
        self._require_pairs(data)
        return super().predict(predictor, data)
