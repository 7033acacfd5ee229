"""Fine-tuning of text classification and regression, for texts or pairs of texts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import metrics
from bert_keras.data import (
    CutTexts,
    Draws,
    Stream,
    SupervisedExamples,
    Texts,
    few_shot_examples,
    label_names,
    targets_of,
    text_examples,
)
from bert_keras.errors import DataError, UsageError
from bert_keras.models import BertEncoder, FewShot, SequenceClassifier, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe, usual_values
from bert_keras.training.tasks.task import (
    BAD,
    GOOD,
    Evaluation,
    HardExample,
    TextTask,
    require_two_rows,
    scored_pairs,
    shown,
    text_head,
    write_glue,
    write_rows,
)

_SHOWN = 20
PROBLEMS = {
    "text_classification": "single_label",
    "multi_label_classification": "multi_label",
    "text_regression": "regression",
}


# Values without a meaning for few-shot training, which trains on pairs of single texts.
_NOT_FEW_SHOT = (
    *("pair", "dropout", "freeze", "representation", "long_texts", "class_weights", "packing"),
    *("teacher", "hidden", "alpha", "temperature"),
)


class TextClassificationTask(TextTask):
    """Task of a `SequenceClassifier`."""

    def __init__(self, recipe: FinetuneRecipe, measured: Mapping[str, Any] | None = None):
        super().__init__(recipe, measured)
        usual = usual_values()
        if recipe.examples_per_label:
            if recipe.pooling not in FewShot.poolings:
                known = " or ".join(FewShot.poolings)
                raise UsageError(
                    f"examples_per_label={recipe.examples_per_label} needs pooling={known}, which "
                    f"a classifier can have. Received: pooling={recipe.pooling}"
                )
            for name in _NOT_FEW_SHOT:
                if (value := getattr(recipe, name)) != usual[name]:
                    raise UsageError(
                        "Few-shot training trains vectors of single texts, and then the head. "
                        f"Leave {name}= or examples_per_label= out. Received: {name}={value}"
                    )
        elif not self.reads_apart and recipe.pooling != usual["pooling"]:
            raise UsageError(
                "pooling is for vectors of texts: in few-shot training it says which vectors the "
                "head reads. Leave it out, or give examples_per_label=8. "
                f"Received: pooling={recipe.pooling}"
            )

    @property
    def has_confusion(self) -> bool:
        """True if each text has one label."""
        return self.problem == "single_label"

    @property
    def answers_pairs(self) -> bool:
        """True if the recipe names a column of second texts."""
        return bool(self.recipe.pair)

    @property
    def problem(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Problem of the recipe's task, as `SequenceClassifier` names it."""
        return PROBLEMS[self.recipe.task]

    @property
    def options(self) -> dict[str, Any]:
        """Options of `predict_scores` and of `text_examples`: how long texts are read."""
        if self.recipe.long_texts != "windows":
            return {}
        stride = self.recipe.stride
        return {"long_texts": "windows", **({"stride": stride} if stride else {})}

    def cut_texts(self, examples: SupervisedExamples, data: Texts) -> CutTexts:
        """Return how many texts or pairs are cut."""
        cut = super().cut_texts(examples, data)
        noun = "texts" if data.pairs is None or self.reads_apart else "pairs"
        if self.reads_apart or self.recipe.long_texts:
            return dataclasses.replace(cut, noun=noun)
        return dataclasses.replace(cut, noun=noun, advice="long_texts=windows reads all.")

    def labels(self, data: Texts) -> list[str] | None:
        """Return the labels of the recipe, or else those of the rows; None for a regression.

        Raises:
            UsageError: values of the recipe that do not fit the labels.
            DataError: fewer than two labels.
        """
        if self.problem == "regression":
            return None
        recipe = self.recipe
        names = [name.strip() for name in recipe.labels.split(",") if name.strip()]
        if len(set(names)) < len(names):
            raise UsageError(
                f"labels= names a label twice. Received: labels={recipe.labels!r}. Give each "
                "name once."
            )
        names = names or label_names(data)
        if self.problem == "single_label" and len(names) < 2:
            raise DataError(
                f"At least two labels are needed. Received: {names[0]!r} alone. "
                "Check the column that label= names, or give all names with labels=."
            )
        self._check_positive(names)
        return names

    def _check_positive(self, names: Sequence[str]) -> None:
        """Refuse a `positive` label that is not one of exactly two labels."""
        positive = self.recipe.positive
        if positive and (positive not in names or len(names) != 2):
            raise UsageError(
                f"positive must be one of two labels. Received: positive={positive!r}, and "
                f"the labels {', '.join(names[:_SHOWN])}. "
                "Leave positive= out for other than two labels."
            )

    def check(self, data: Texts, labels: list[str] | None) -> None:
        """Check that every row has labels that the model knows, or a number."""
        targets_of(data, labels, self.problem)
        if self.problem == "regression":
            require_two_rows(data)
        else:
            self._check_positive(labels or [])

    def trainable_examples(self, data: Texts) -> Texts:
        """Return drawn examples for few-shot training, `examples_per_label` of each; else all."""
        count = self.recipe.examples_per_label
        if not count:
            return data
        targets = targets_of(data, names := label_names(data), self.problem)
        keys = Draws(self.recipe.data_seed, epoch=0).keys(Stream.PLAN, len(data))
        order = np.argsort(keys, kind="stable")
        if self.problem == "single_label":
            targets = targets[:, None] == np.arange(len(names))
        drawn = [order[np.flatnonzero(column[order])[:count]] for column in targets.T]
        return self.take(data, np.unique(np.concatenate(drawn)).tolist())

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model with a head over [CLS], like the heads of the encoder's family.

        The head of few-shot training reads vectors of length 1, as sentence encoders make them.
        """
        representation = self.recipe.representation
        if self.recipe.examples_per_label:
            pooling = FewShot.poolings[self.recipe.pooling]
            options: dict[str, Any] = {"pooling": pooling, "normalize": True}
            return SequenceClassifier(encoder, labels=labels, problem=self.problem, **options)
        return SequenceClassifier(
            encoder,
            len(labels) if labels else 1,
            labels=labels,
            problem=self.problem,
            dropout=self.recipe.dropout,
            representation=representation,
            **text_head(SequenceClassifier, encoder, representation),
        )

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: list[str] | None, **options: Any
    ) -> SupervisedExamples:
        """Return a row for each text or pair; for few-shot training pairs of the texts."""
        if self.recipe.examples_per_label:
            options["max_length"] = self.recipe.max_length
            return few_shot_examples(tokenizer, data, labels or [], self.problem, **options)
        return text_examples(
            tokenizer,
            data,
            labels=labels,
            problem=self.problem,
            class_weights=self._class_weights(data),
            max_length=self.recipe.max_length,
            **self.options,
            **options,
        )

    def _class_weights(self, data: Texts) -> dict[str, float] | None:
        """Return weights by which all labels count alike in total; None if all weigh the same."""
        if self.recipe.class_weights == "none":
            return None
        counts: Counter[Any] = Counter(data.targets)
        return {name: len(data) / (len(counts) * count) for name, count in counts.items()}

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        """Compute accuracy, F1 and Matthews correlation, or the correlations of a regression."""
        scores = predictor.predict_scores(data.texts, data.pairs)
        if self.problem == "regression":
            return self._of_numbers(data, scores[:, 0])
        names = predictor.label_names
        if self.problem == "multi_label":
            return self._of_several(data, scores, names)
        right: list[Any] = list(data.targets or ())
        answered = _answered(scores, names, self.problem)
        measured = {
            "accuracy": metrics.accuracy(right, answered),
            "f1_macro": metrics.f1(right, answered, "macro"),
            "matthews": metrics.matthews(right, answered),
        }
        if len(names) == 2:
            positive = self.recipe.positive or names[1]
            measured["f1"] = metrics.f1(right, answered, "binary", positive=positive)
        number = {name: index for index, name in enumerate(names)}
        worst = [
            HardExample(float(row.max() - row[number[label]]), shown(data, index), label, guess)
            for index, (row, label, guess) in enumerate(zip(scores, right, answered, strict=True))
            if label != guess
        ]
        return Evaluation(
            measured,
            answered,
            worst,
            (names, metrics.confusion_matrix(right, answered, names)),
            (scores.max(axis=-1), np.array(right) == np.array(answered)),
        )

    def _of_several(self, data: Texts, scores: np.ndarray, names: list[str]) -> Evaluation:
        """Return the evaluation of multi-label answers: F1, exact matches, worst answers."""
        right: list[Any] = list(data.targets or ())
        answered = _answered(scores, names, self.problem)
        measured = {
            "f1_micro": metrics.multi_label_f1(right, answered, "micro", names),
            "f1_macro": metrics.multi_label_f1(right, answered, "macro", names),
            "exact": float(
                np.mean([set(a) == set(b) for a, b in zip(right, answered, strict=True)])
            ),
        }
        worst = [
            HardExample(float(error.max()), shown(data, index), ", ".join(wanted), ", ".join(got))
            for index, (error, wanted, got) in enumerate(
                zip(_score_errors(scores, right, names), right, answered, strict=True)
            )
            if set(wanted) != set(got)
        ]
        return Evaluation(measured, self._written(answered), worst)

    def _of_numbers(self, data: Texts, scores: np.ndarray) -> Evaluation:
        """Return the evaluation of a regression: correlations, squared error, worst answers."""
        right = np.array(data.targets, np.float64)
        measured = {
            "spearman": metrics.spearman(right, scores),
            "pearson": metrics.pearson(right, scores),
            "mean_squared_error": float(np.mean((right - scores) ** 2)),
        }
        worst = [
            HardExample(float(abs(a - b)), shown(data, index), f"{a:.2f}", f"{b:.2f}")
            for index, (a, b) in enumerate(zip(right, scores, strict=True))
        ]
        return Evaluation(measured, self._written(scores), worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """Return for each row its best label, its labels from 0.5 on, or its number, as text."""
        scores = predictor.predict_scores(data.texts, data.pairs)
        if self.problem == "regression":
            return self._written(scores[:, 0])
        return self._written(_answered(scores, predictor.label_names, self.problem))

    def _written(self, answers: Iterable[Any]) -> list[str]:
        """Return the answers as texts for a file of predictions."""

        def one(answer: Any) -> str:
            """Return one answer as text: labels with the recipe's separator, or a number."""
            if isinstance(answer, tuple):
                return self.recipe.label_separator.join(answer)
            return answer if isinstance(answer, str) else f"{answer:.4f}"

        return [one(answer) for answer in answers]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write texts with one label or several, or pairs with numbers."""
        if self.problem == "regression":
            return scored_pairs(folder)
        if self.problem == "multi_label":
            rows = [{"text": f"{a} {b}", "label": [a, b]} for a in GOOD for b in BAD]
        else:
            rows = [{"text": f"the film was {word}", "label": "good"} for word in GOOD]
            rows += [{"text": f"the film is {word}", "label": "bad"} for word in BAD]
        return {"train": write_rows(folder, rows), "text": "text", "label": "label"}

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        """Write a table of index and prediction, the format of GLUE."""
        write_glue(path, predictions)
        del data


def _answered(scores: np.ndarray, names: Sequence[str], problem: str) -> list[Any]:
    """Return the best label of each row, or for several labels a tuple of those from 0.5 on."""
    if problem == "single_label":
        return [names[number] for number in scores.argmax(axis=-1)]
    return [
        tuple(name for name, score in zip(names, row, strict=True) if score >= 0.5)
        for row in scores
    ]


def _score_errors(
    scores: np.ndarray, true_labels: Sequence[Any], names: Sequence[str]
) -> np.ndarray:
    """Return the absolute error of each score of texts with several labels.

    Args:
        scores: probability of each label, [rows, labels].
        true_labels: names of the labels of each row. Their targets are 1, those of others 0.
        names: name of the label of each column.

    Returns:
        float64 [rows, labels].
    """
    targets = np.array([[name in row for name in names] for row in true_labels], np.float64)
    return np.abs(targets - scores)
