"""Vectors of texts, trained on scores of pairs, on labels of pairs, or to find a text's partner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import metrics
from bert_keras.data import SupervisedExamples, Texts, pair_examples
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, SentencePairs, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.tasks.task import (
    BAD,
    GOOD,
    Evaluation,
    HardExample,
    TextTask,
    require_two,
    scored_pairs,
    write_glue,
    write_rows,
)
from bert_keras.training.tasks.text_classification import TextClassificationTask

_NO_PAIRS = (
    "This task needs pairs of texts. Received: rows with one text. Name the column of the second "
    "text with pair=."
)


class SentenceSimilarityTask(TextTask):
    """A `SentenceEncoder`, by regression on the cosine of two vectors (SBERT, §3)."""

    problem = "regression"

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """There are pairs with scores, two or more."""
        del labels
        if data.pairs is None or data.targets is None:
            raise DataError(
                "task=sentence_similarity needs pairs of texts with scores. Received: rows "
                "without a second text or score. Name their columns with pair= and label=."
            )
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
            HardExample(float(abs(a - b)), f"{one} / {other}", f"{a:.2f}", f"{b:.2f}")
            for one, other, a, b in zip(data.texts, data.pairs or (), right, scaled, strict=True)
        ]
        return Evaluation(measured, [f"{score:.4f}" for score in scaled], worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """The cosine, as a score."""
        if data.pairs is None:
            raise DataError(_NO_PAIRS)
        found = predictor.similarity(data.texts, data.pairs)
        return [f"{score:.4f}" for score in found * self.recipe.max_score]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Pairs of texts with numbers."""
        return scored_pairs(folder)

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """A table: index, prediction."""
        del data
        write_glue(path, predictions)


# === Labels of pairs ===


class PairClassificationTask(TextClassificationTask):
    """A `SentencePairs`, by softmax over the labels of two vectors (SBERT, §3).

    Measured as other labels are. The model keeps its head; `SentencePairs.sentence_encoder`, or
    `SentenceEncoder.from_preset(RUN, allow_unused=("label",))`, is without it.
    """

    problem = "single_label"  # pyright: ignore[reportAssignmentType]
    answers_pairs = False  # pyright: ignore[reportAssignmentType]

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """There are pairs, with labels that the model knows."""
        self._require_pairs(data)
        super().check(data, labels)

    def _require_pairs(self, data: Texts) -> None:
        """Refuse rows without a second text."""
        if data.pairs is None:
            raise DataError(_NO_PAIRS)

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

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Pairs of texts with one of two labels."""
        rows = [
            {
                "text": f"the film was {a}",
                "pair": f"the film is {b}",
                "label": "same" if (a in GOOD) == (b in GOOD) else "other",
            }
            for a in (*GOOD, *BAD)
            for b in (*GOOD, *BAD)
        ]
        columns = {"text": "text", "pair": "pair", "label": "label"}
        return {"train": write_rows(folder, rows), **columns}

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


# === Retrieval ===


_TOGETHER = 1024  # first texts compared with all second ones


class RetrievalTask(TextTask):
    """A `SentenceEncoder`, by in-batch negatives: each first text is to find its second one.

    Measured among all second texts of dev: how often the right one is nearest ("accuracy"), and the
    mean reciprocal rank ("mrr"; Voorhees, 1999).
    """

    packages: ClassVar[tuple[str, ...]] = ()

    def read(self, path: str, *, labelled: bool = True) -> Texts:
        """A table of pairs, which need no label."""
        del labelled
        return super().read(path, labelled=False)

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """There are pairs."""
        del labels
        if data.pairs is None:
            raise DataError(_NO_PAIRS)

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Two texts at a time."""
        del labels
        return SentencePairs(encoder, loss="in_batch", pooling=self.recipe.pooling)

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Two rows for each pair."""
        del labels
        options["max_length"] = self.recipe.max_length
        return pair_examples(tokenizer, data, "in_batch", **options)

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        """Measure the rank of the right text among all."""
        nearest, best, own, ranks = self._search(predictor, data)
        measured = {"accuracy": float((ranks == 1).mean()), "mrr": float((1 / ranks).mean())}
        seconds = data.pairs or ()
        worst = [
            HardExample(float(best[i] - own[i]), data.texts[i], seconds[i], nearest[i])
            for i in np.flatnonzero(ranks > 1).tolist()
        ]
        return Evaluation(measured, nearest, worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """The nearest of all second texts."""
        self.check(data, None)
        return self._search(predictor, data)[0]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Pairs of texts with numbers."""
        return scored_pairs(folder)

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """A table: index, the text that was found."""
        del data
        write_glue(path, predictions)

    def _search(
        self, predictor: Predictor, data: Texts
    ) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
        """The nearest text of each, its cosine, that of the right one, and the rank of this."""
        candidates = list(dict.fromkeys(data.pairs or ()))
        number = {text: index for index, text in enumerate(candidates)}
        right = np.array([number[text] for text in data.pairs or ()])
        firsts = predictor.encode(data.texts)
        seconds = predictor.encode(candidates)
        nearest, best, own, ranks = [], [], [], []
        for start in range(0, len(firsts), _TOGETHER):
            cosines = firsts[start : start + _TOGETHER] @ seconds.T
            places = np.arange(len(cosines))
            found = cosines.argmax(axis=1)
            wanted = cosines[places, right[start : start + _TOGETHER]]
            nearest += [candidates[index] for index in found]
            best.append(cosines[places, found])
            own.append(wanted)
            ranks.append(1 + (cosines > wanted[:, None]).sum(axis=1))
        return nearest, np.concatenate(best), np.concatenate(own), np.concatenate(ranks)
