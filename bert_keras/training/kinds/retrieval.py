"""Vectors of texts, trained to find the text that belongs to a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras.data import SupervisedExamples, Texts, pair_examples
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, SentencePairs, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.kinds.kind import Evaluation, Worst
from bert_keras.training.kinds.texts import TextKind, write_glue

_TOGETHER = 1024  # first texts compared with all second ones


class Retrieval(TextKind):
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
            raise DataError("Retrieval is of pairs: name pair=.")

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
            Worst(float(best[i] - own[i]), data.texts[i], seconds[i], nearest[i])
            for i in np.flatnonzero(ranks > 1).tolist()
        ]
        return Evaluation(measured, nearest, worst)

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        """The nearest of all second texts."""
        self.check(data, None)
        return self._search(predictor, data)[0]

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
