"""Labels of texts and pairs: probabilities, the best labels, scores of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from bert_keras import features
from bert_keras.inference.base import Label, TextMethods, one_or_many, prompt_of
from bert_keras.inference.batching import sigmoid, softmax
from bert_keras.inference.sentence_similarity import prompted

REGRESSION = "regression"


def probabilities(logits: np.ndarray, problem: str | None) -> np.ndarray:
    """Return the probabilities of a `SequenceClassifier`'s logits; of a regression the numbers."""
    if problem == REGRESSION:
        return logits
    return softmax(logits) if problem == "single_label" else sigmoid(logits)


def activated(logits: np.ndarray, activation: str) -> np.ndarray:
    """Return logits through an activation of Keras, by its name: float32."""
    found = keras.activations.get(activation)(keras.ops.convert_to_tensor(logits))
    return np.asarray(keras.ops.convert_to_numpy(found), np.float32)


def labels(
    scores: np.ndarray,
    names: Sequence[str],
    problem: str | None,
    *,
    top_k: int | None,
    threshold: float,
) -> list[Any]:
    """See `LabelMethods.predict_labels`."""
    if problem == REGRESSION or (top_k is not None and top_k < 1):
        raise ValueError(
            "`predict_labels` needs a model with labels (of a regression: `predict_scores`), and "
            f"of at least 1. Received: problem={problem!r}, top_k={top_k}"
        )
    found = [
        [
            Label(names[int(number)], float(row[number]))
            for number in np.argsort(-row, kind="stable")
        ]
        for row in scores
    ]
    if top_k is not None:
        return [row[:top_k] for row in found]
    if problem == "multi_label":
        return [[label for label in row if label.score >= threshold] for row in found]
    return [row[0] for row in found]


class LabelMethods(TextMethods):
    """Methods of models that label texts or pairs."""

    @property
    def label_names(self) -> list[str]:
        """The names of the task's labels, in the order of its outputs."""
        return list(self._answering().options["labels"])

    @one_or_many("texts", "pairs")
    def predict_scores(
        self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None
    ) -> np.ndarray:
        """Return what a `SequenceClassifier` gives each text, or pair: float32 [texts, classes].

        Probabilities of one label of several (each row sums to 1) or of each label on its own;
        of a regression the numbers, through the model's `activation` if it has one. A
        `SentencePairs` with labels gives them to pairs. For one text: float32 [classes].

        Raises:
            ValueError: pairs that the model needs are missing, or are not as many as the texts.
        """
        self._require(features.LABEL, "predict_scores")
        if self._answering().reads_apart:
            runner = self._runner()
            rows = runner.encode_apart(texts, pairs or ())
            logits = runner.per_example(features.LABEL, rows, group=2)
        else:
            logits = self._logits(texts, pairs)
        if self._problem == REGRESSION and "activation" in self._answering().options:
            return activated(logits, self._answering().options["activation"])
        return probabilities(logits, self._problem)

    def _logits(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int | None = None,
    ) -> np.ndarray:
        before = prompt_of(self._answering().options, prompt, prompt_name)
        runner = self._runner(batch_size)
        rows = runner.encode(prompted(texts, before), pairs)
        return runner.per_example(features.LABEL, rows)

    @one_or_many("texts", "pairs")
    def predict_labels(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        top_k: int | None = None,
        threshold: float = 0.5,
    ) -> Any:
        """Return the best label of each text, or pair; a list of labels where several count.

        Args:
            texts: the texts, or one text.
            pairs: second texts, or one.
            top_k: that many labels of each text, best first.
            threshold: of a multi-label model without `top_k`: labels at least so probable.

        Returns:
            A list of one `Label`, or list of them, for each text; without the list for one text.

        Raises:
            ValueError: the model gives numbers, or `top_k` is 0.
        """
        found, names = self.predict_scores(texts, pairs), self.label_names
        return labels(found, names, self._problem, top_k=top_k, threshold=threshold)

    @one_or_many("firsts", "seconds")
    def predict_pair_scores(
        self,
        firsts: str | Sequence[str],
        seconds: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        """Return the score of each pair, as a CrossEncoder of sentence-transformers predicts it.

        The logits of a `SequenceClassifier` through its `activation`; where it has none, through a
        sigmoid for one class, and as they are for more. `predict_scores` has probabilities of
        labels.

        Args:
            firsts: the first texts, such as questions.
            seconds: as many second ones, such as passages.
            prompt: before each first text, as for `encode`.
            prompt_name: likewise.

        Returns:
            float32 [pairs], or [pairs, classes] of several classes. Of one pair the score alone.

        Raises:
            ValueError: another kind of model, or not as many second texts.
        """
        if features.LABEL not in self._answering().output or self._answering().reads_apart:
            raise ValueError(
                "`predict_pair_scores` needs a SequenceClassifier. "
                f"Received: a {type(self._answering()).__name__}"
            )
        logits = self._logits(firsts, seconds, prompt, prompt_name)
        usual = "sigmoid" if logits.shape[1] == 1 else "linear"
        scores = activated(logits, self._answering().options.get("activation", usual))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @property
    def _problem(self) -> str:
        return self._answering().options.get("problem", "single_label")
