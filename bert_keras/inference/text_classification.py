"""Classification of texts and pairs of texts: probabilities and best labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.inference.base import Label, one_or_many
from bert_keras.inference.batching import activated, sigmoid, softmax
from bert_keras.inference.text_ranking import PairScoreMethods

REGRESSION = "regression"


def probabilities(logits: np.ndarray, problem: str | None) -> np.ndarray:
    """Return probabilities for logits [rows, classes]; a regression's numbers stay as they are.

    The softmax is for `problem` "single_label", the sigmoid of each logit for others.
    """
    if problem == REGRESSION:
        return logits
    return softmax(logits) if problem == "single_label" else sigmoid(logits)


def labels(
    scores: np.ndarray,
    names: Sequence[str],
    problem: str | None,
    *,
    top_k: int | None,
    threshold: float,
) -> list[Any]:
    """Return the best labels of each row of scores; see `LabelMethods.predict_labels`.

    Args:
        scores: probabilities [rows, classes].
        names: names of the classes.
        problem: "single_label" or "multi_label".
        top_k: number of labels of each row; None for one, or for those above the threshold.
        threshold: lowest probability of a label of a "multi_label" row.

    Raises:
        ValueError: for a regression, or if `top_k` is less than 1.
    """
    if problem == REGRESSION:
        raise ValueError(
            "`predict_labels` needs a model with labels. For the numbers of a regression: "
            f"`predict_scores`. Received: problem={problem!r}"
        )
    if top_k is not None and top_k < 1:
        raise ValueError(f"`top_k` must be at least 1. Received: top_k={top_k}")
    sorted_labels = [
        [Label(names[int(index)], float(row[index])) for index in np.argsort(-row, kind="stable")]
        for row in scores
    ]
    if top_k is not None:
        return [row[:top_k] for row in sorted_labels]
    if problem == "multi_label":
        return [[label for label in row if label.score >= threshold] for row in sorted_labels]
    return [row[0] for row in sorted_labels]


class LabelMethods(PairScoreMethods):
    """Prediction methods of models that classify texts or pairs of texts."""

    @property
    def label_names(self) -> list[str]:
        """Names of the task's labels, in the order of its outputs."""
        return list(self._prediction_model().options["labels"])

    @one_or_many("texts", "pairs")
    def predict_scores(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> np.ndarray:
        """Return the probabilities of the labels of each text or pair of texts.

        For a single-label model each row sums to 1. For a multi-label model each probability is
        independent. A regression returns its numbers, after the model's `activation` if it has one.

        Args:
            texts: texts, or one text.
            pairs: second texts, as many, or one text; None for single texts. A `SentencePairs` with
                labels needs them.
            long_texts: how a text of more tokens than the model reads is read. "truncate" reads
                its beginning. "windows" reads windows of tokens that overlap, and answers by the
                mean of their logits; of a pair, the longer text has the windows. None: as in
                training, else "truncate" with a warning.
            stride: doc stride: number of tokens from the start of one window to the start of the
                next; None for three quarters of a window. In Hugging Face it is the overlap.

        Returns:
            float32 [texts, classes]; float32 [classes] for one text. A regression of one number has
            one class.

        Raises:
            ValueError: if the model has no labels or needs pairs, the texts differ in number, or
                long_texts="windows" is passed for a `SentencePairs`.
        """
        self._require(features.LABEL, "predict_scores")
        reading = self._reading(long_texts, stride)
        if self._prediction_model().reads_apart:  # each text of a pair is a row
            runner = self._runner(**reading)
            rows = runner.encode_apart(texts, pairs or ())
            logits = runner.per_example(features.LABEL, rows, group=2)
        else:
            logits = self._logits(texts, pairs, **reading)
        if self._problem == REGRESSION and "activation" in self._prediction_model().options:
            return activated(logits, self._prediction_model().options["activation"])
        return probabilities(logits, self._problem)

    @one_or_many("texts", "pairs")
    def predict_labels(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        top_k: int | None = None,
        threshold: float = 0.5,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> Any:
        """Return the best label of each text or pair, or a list of labels.

        Args:
            texts: texts, or one text.
            pairs: second texts, as many, or one text; None for single texts.
            top_k: number of labels of each text, best first. None returns the best label of a
                single-label model.
            threshold: lowest probability of the labels of a multi-label model, without `top_k`.
            long_texts: "truncate" or "windows" for long texts; see `predict_scores`.
            stride: doc stride of the windows; see `predict_scores`.

        Returns:
            A `Label` for each text; a list of `Label` for each text with `top_k` or a multi-label
            model. For one text, its entry alone.

        Raises:
            ValueError: if the model is a regression, or `top_k` is less than 1.
        """
        reading: Any = {"long_texts": long_texts, "stride": stride}
        scores, names = self.predict_scores(texts, pairs, **reading), self.label_names
        return labels(scores, names, self._problem, top_k=top_k, threshold=threshold)

    @property
    def _problem(self) -> str:
        """Kind of the task: "single_label", "multi_label" or "regression"."""
        return self._prediction_model().options.get("problem", "single_label")
