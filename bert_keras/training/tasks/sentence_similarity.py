"""Fine-tuning of sentence vectors: similarity scores, labels of pairs, and retrieval."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import metrics
from bert_keras.data import SupervisedExamples, Texts, group_examples, pair_examples, read_table
from bert_keras.errors import DataError
from bert_keras.features import SCORES
from bert_keras.models import BertEncoder, SentencePairs, Task
from bert_keras.predictor import Predictor, column_of
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.tasks.task import (
    BAD,
    GOOD,
    Evaluation,
    HardExample,
    TextTask,
    lengths_of,
    require_two_rows,
    scored_pairs,
    table_options,
    write_glue,
    write_rows,
)
from bert_keras.training.tasks.text_classification import TextClassificationTask

_NO_PAIRS = (
    "This task needs pairs of texts. Received: rows with one text. Name the column of the second "
    "text with pair=."
)


class SentenceSimilarityTask(TextTask):
    """Task of a `SentenceEncoder`: regression on the cosine of two vectors (SBERT, §3)."""

    problem = "regression"
    reads_apart = True

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """Check that there are two or more pairs, and that they have scores."""
        del labels
        if data.pairs is None or data.targets is None:
            raise DataError(
                "task=sentence_similarity needs pairs of texts with scores. Received: rows "
                "without a second text or score. Name their columns with pair= and label=."
            )
        require_two_rows(data)

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that reads two texts apart, with one encoder."""
        del labels
        loss = self.recipe.loss or "similarity"
        return SentencePairs(encoder, loss=loss, pooling=self.recipe.pooling)

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Return two rows for each pair, one for each text."""
        del labels
        recipe = self.recipe
        options["max_length"] = recipe.max_length
        if recipe.loss == "cosent":
            columns = (data.texts, data.pairs or ())
            return group_examples(tokenizer, columns, data.targets, SCORES, **options)
        options["max_score"] = recipe.max_score
        return pair_examples(tokenizer, data, "similarity", **options)

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        """Compute the correlations of the cosine with the scores."""
        cosines = predictor.similarity(data.texts, data.pairs or ())
        right = np.array(data.targets, np.float64)
        measured = {
            "spearman": metrics.spearman(right, cosines),
            "pearson": metrics.pearson(right, cosines),
        }
        scaled = cosines * self.recipe.max_score
        worst = [
            HardExample(float(abs(a - b)), f"{one} / {other}", f"{a:.2f}", f"{b:.2f}")
            for one, other, a, b in zip(data.texts, data.pairs or (), right, scaled, strict=True)
        ]
        return Evaluation(measured, [f"{score:.4f}" for score in scaled], worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """Return the cosine of each pair, scaled to the range of the scores."""
        if data.pairs is None:
            raise DataError(_NO_PAIRS)
        cosines = predictor.similarity(data.texts, data.pairs)
        return [f"{score:.4f}" for score in cosines * self.recipe.max_score]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write pairs of texts with numbers."""
        return scored_pairs(folder)

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """Write a table of index and prediction."""
        del data
        write_glue(path, predictions)


# === Labels of pairs ===


class PairClassificationTask(TextClassificationTask):
    """Task of a `SentencePairs`: softmax over the labels of two vectors (SBERT, §3).

    The metrics are those of text classification. The saved model has its head. Use
    `SentencePairs.sentence_encoder`, or `SentenceEncoder.from_preset(RUN, allow_unused=("label",))`
    to get the encoder without it.
    """

    problem = "single_label"  # pyright: ignore[reportAssignmentType]
    reads_apart = True
    answers_pairs = False  # pyright: ignore[reportAssignmentType]

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """Check that there are pairs, with labels that the model knows."""
        self._require_pairs(data)
        super().check(data, labels)

    def _require_pairs(self, data: Texts) -> None:
        """Refuse rows without a second text."""
        if data.pairs is None:
            raise DataError(_NO_PAIRS)

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that reads two texts apart, with one encoder."""
        names = labels or []
        return SentencePairs(
            encoder,
            loss="classification",
            pooling=self.recipe.pooling,
            num_classes=len(names),
            labels=names,
        )

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write pairs of texts with one of two labels."""
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
        """Return two rows for each pair, one for each text."""
        options |= {"labels": labels, "class_weights": self._class_weights(data)}
        options["max_length"] = self.recipe.max_length
        return pair_examples(tokenizer, data, "classification", **options)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """Return the best label of each pair."""
        self._require_pairs(data)
        return super().predict(predictor, data)


# === Retrieval ===


_TOGETHER = 1024  # number of first texts to compare with all second texts at once


@dataclasses.dataclass(frozen=True)
class TextsWithNegatives(Texts):
    """Pairs of texts, each with hard negatives of the first text.

    Attributes:
        negatives: the negatives of every row, of the same number.
    """

    negatives: Sequence[Sequence[str]] = ()


class RetrievalTask(TextTask):
    """Task of a `SentenceEncoder` that finds the second text of a first one.

    It is trained with in-batch negatives, and with those of the columns `negatives`. Each first
    validation text is compared with all second validation texts. The metrics are the share whose
    right text is nearest ("accuracy") and the mean reciprocal rank ("mrr"; Voorhees, 1999).
    """

    packages: ClassVar[tuple[str, ...]] = ()
    reads_apart = True

    def read(self, path: str, *, labelled: bool = True) -> Texts:
        """Read a table of pairs, which need no label; that of `train` has hard negatives."""
        del labelled
        data, recipe = super().read(path, labelled=False), self.recipe
        names = [name.strip() for name in recipe.negatives.split(",") if name.strip()]
        if not names or Path(recipe.train) not in (Path(path), Path(path).parent):
            return data
        columns = [
            read_table(path, text=column_of(name), **table_options(recipe)).texts for name in names
        ]
        rows = list(zip(*columns, strict=True))
        return TextsWithNegatives(data.texts, data.pairs, None, data.places, rows)

    def row_lengths(self, tokenizer: Tokenizer, data: Texts) -> np.ndarray:
        """Return the number of tokens of each text, negatives included."""
        return lengths_of(tokenizer, [text for column in _columns(data) for text in column])

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """Check that the rows are pairs of texts."""
        del labels
        if data.pairs is None:
            raise DataError(_NO_PAIRS)

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that reads two texts apart, with one encoder."""
        del labels
        loss = self.recipe.loss or "in_batch"
        return SentencePairs(encoder, loss=loss, pooling=self.recipe.pooling)

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Return a row for each text of a pair and each of its negatives."""
        del labels
        options["max_length"] = self.recipe.max_length
        return group_examples(tokenizer, _columns(data), **options)

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        """Compute accuracy and mean reciprocal rank of the right texts among all second texts."""
        nearest, best, right, ranks = self._search(predictor, data)
        measured = {"accuracy": float((ranks == 1).mean()), "mrr": float((1 / ranks).mean())}
        seconds = data.pairs or ()
        worst = [
            HardExample(float(best[i] - right[i]), data.texts[i], seconds[i], nearest[i])
            for i in np.flatnonzero(ranks > 1).tolist()
        ]
        return Evaluation(measured, nearest, worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """Return the nearest of all second texts for each first text."""
        self.check(data, None)
        return self._search(predictor, data)[0]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write pairs of texts, with as many columns of negatives as the recipe has."""
        count = self.recipe.negatives.count(",") + 1 if self.recipe.negatives else 0
        names = [f"negative_{number}" for number in range(count)]
        rows = [
            {"text": f"the film was {a}", "pair": f"the film is {b}", **dict.fromkeys(names, c)}
            for a, c in zip((*GOOD, *BAD), (*BAD, *GOOD), strict=True)
            for b in (a, f"so {a}")
        ]
        columns = {"text": "text", "pair": "pair", "negatives": ",".join(names)}
        return {"train": write_rows(folder, rows), **columns}

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """Write a table of index and nearest text."""
        del data
        write_glue(path, predictions)

    def _search(
        self, predictor: Predictor, data: Texts
    ) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
        """Return nearest text, its cosine, and cosine and rank of the right text, by first text."""
        candidates = list(dict.fromkeys(data.pairs or ()))
        number = {text: index for index, text in enumerate(candidates)}
        right_numbers = np.array([number[text] for text in data.pairs or ()])
        firsts = predictor.encode(data.texts)
        seconds = predictor.encode(candidates)
        nearest, best, right, ranks = [], [], [], []
        for start in range(0, len(firsts), _TOGETHER):
            cosines = firsts[start : start + _TOGETHER] @ seconds.T
            places = np.arange(len(cosines))
            best_numbers = cosines.argmax(axis=1)
            right_cosines = cosines[places, right_numbers[start : start + _TOGETHER]]
            nearest += [candidates[index] for index in best_numbers]
            best.append(cosines[places, best_numbers])
            right.append(right_cosines)
            ranks.append(1 + (cosines > right_cosines[:, None]).sum(axis=1))
        return nearest, np.concatenate(best), np.concatenate(right), np.concatenate(ranks)


def _columns(data: Texts) -> list[Sequence[str]]:
    """Return the columns of texts: first texts, second texts and each column of negatives."""
    negatives = data.negatives if isinstance(data, TextsWithNegatives) else ()
    return [
        data.texts,
        data.pairs or (),
        *(list(column) for column in zip(*negatives, strict=True)),
    ]
