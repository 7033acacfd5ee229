"""Zero-shot classification by a model of natural language inference (Yin et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras.inference.base import Label, one_or_many
from bert_keras.inference.batching import softmax
from bert_keras.inference.text_classification import LabelMethods

HYPOTHESIS = "This example is {}."


class ZeroShotMethods(LabelMethods):
    """Prediction methods of classifiers that know entailment from contradiction."""

    @one_or_many("texts")
    def zero_shot(
        self,
        texts: str | Sequence[str],
        labels: Sequence[str],
        *,
        hypothesis: str = HYPOTHESIS,
        multi_label: bool = False,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> list[list[Label]]:
        """Return the probability of each of the given labels for each text.

        Each label makes a hypothesis, and the model tells whether the text entails it. The numbers
        are those of the pipeline `zero-shot-classification` of transformers. The model is a
        `SequenceClassifier` with a label that begins with "entail", such as those that were
        trained on MNLI.

        Args:
            texts: texts, or one text.
            labels: names of the labels, as words that complete the hypothesis.
            hypothesis: sentence about a text, with {} in place of the label.
            multi_label: False if one label is right: the probabilities sum to 1. True if several
                may be right, or none: each is the probability of entailment beside contradiction.
            long_texts: "truncate" or "windows" for long texts; see `predict_scores`.
            stride: doc stride of the windows; see `predict_scores`.

        Returns:
            For each text a list of `Label`, the most probable first; one list for one text.

        Raises:
            ValueError: the model has no label of entailment, there are no labels, or the hypothesis
                has no place for the label.
        """
        names = [labels] if isinstance(labels, str) else [*labels]
        if not names:
            raise ValueError("`labels` must have at least one label. Received: labels=[]")
        if hypothesis.format("") == hypothesis:
            raise ValueError(
                "`hypothesis` needs {} in place of the label, such as 'This text is about {}.'. "
                f"Received: hypothesis={hypothesis!r}"
            )
        model = self._prediction_model()
        known = [str(name) for name in model.options.get("labels", ())]
        classes = None if model.reads_apart else entailment_classes(known)
        if classes is None:
            raise ValueError(
                "`zero_shot` needs a SequenceClassifier of pairs with a label that begins with "
                f"'entail'. Received: a {type(model).__name__} with the labels "
                f"{', '.join(known) or 'of no head'}. Open a model that was trained on MNLI or "
                "another set of natural language inference."
            )
        entailment, contradiction = classes
        firsts = [text for text in texts for _ in names]
        seconds = [hypothesis.format(name) for name in names] * len(texts)
        reading = self._reading(long_texts, stride)
        logits = self._logits(firsts, seconds, **reading).reshape(len(texts), len(names), -1)
        if multi_label or len(names) == 1:
            scores = softmax(logits[:, :, [contradiction, entailment]])[:, :, 1]
        else:
            scores = softmax(logits[:, :, entailment])
        return [
            [Label(names[index], float(row[index])) for index in np.argsort(-row, kind="stable")]
            for row in scores
        ]


def entailment_classes(labels: Sequence[str]) -> tuple[int, int] | None:
    """Return the numbers of the classes of entailment and contradiction; None without them.

    Without a label that begins with "contradict", it is the first class, or the last one where the
    first is entailment, as in transformers.
    """
    names = [label.lower() for label in labels]
    found = [number for number, name in enumerate(names) if name.startswith("entail")]
    if not found or len(names) < 2:
        return None
    opposite = [number for number, name in enumerate(names) if name.startswith("contradict")]
    return found[0], opposite[0] if opposite else (len(names) - 1 if found[0] == 0 else 0)
