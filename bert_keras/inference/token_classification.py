"""Tags of words, and the entities that tagged words make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from bert_keras import features, viterbi
from bert_keras.data.labels import OUTSIDE
from bert_keras.data.rows import Rows
from bert_keras.data.windows import WordWindow, word_windows
from bert_keras.inference.base import TextMethods
from bert_keras.inference.one_or_many import one_or_many
from bert_keras.inference.results import Entity, Label
from bert_keras.inference.runner import Runner, softmax
from bert_keras.inference.words import words_of
from bert_keras.metrics import entity_spans

# The letters of tags, in those of `entity_spans`.
_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S"}


def tags(
    runner: Runner, labels: Sequence[str], sentences: Sequence[Sequence[str]]
) -> list[list[Label]]:
    """See `TagMethods.predict_tags`."""
    if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
        raise TypeError("A sentence must be a list of words. Received: one string")
    found = [[Label(OUTSIDE, 0.0)] * len(words) for words in sentences]
    windows, rows, is_first = _windows(runner, sentences)
    width = is_first.shape[1]
    for batch, outputs in runner.run(rows):
        logits = outputs[features.TAGS][:, :width]
        counted = is_first[batch][:, : logits.shape[1]]
        best, scores = _best(logits[:, : counted.shape[1]], counted)
        for row, index in enumerate(batch):
            window = windows[index]
            for place in np.flatnonzero(counted[row]):
                label = Label(labels[int(best[row, place])], float(scores[row, place]))
                found[window.source][window.words[place]] = label
    return found


def _windows(
    runner: Runner, sentences: Sequence[Sequence[str]]
) -> tuple[list[WordWindow], Rows, np.ndarray]:
    """Return the rows of sentences, and where the first piece of a word stands: bool [rows, T]."""
    windows = [
        window
        for number, words in enumerate(sentences)
        for window in word_windows(runner.tokenizer, number, words, max_length=runner.max_length)
    ]
    ids = [window.ids for window in windows]
    rows = Rows.of(ids, [np.zeros(len(row), np.int32) for row in ids], runner.tokenizer.pad_id)
    width = int(rows.lengths.max(initial=0))
    flags = np.concatenate([np.zeros(0, np.bool_), *(window.is_first for window in windows)])
    return windows, rows, rows.gather(flags, np.arange(len(rows)), width)


def word_logits(runner: Runner, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """Return the logits of the words of each sentence: float32 [words, ...]; 0 without pieces."""
    windows, rows, is_first = _windows(runner, sentences)
    sizes = tuple(runner.model.output[features.TAGS].shape[2:])
    logits = [np.zeros((len(words), *sizes), np.float32) for words in sentences]
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            window = windows[index]
            for place in np.flatnonzero(is_first[index]):
                values = outputs[features.TAGS][row, place]
                logits[window.source][window.words[place]] = values
    return logits


def _best(logits: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best tags, and their probabilities: [batch, length] each."""
    if logits.ndim == 4:  # pairs of tags, of a conditional random field
        best, shares = viterbi.decode(logits, counted), viterbi.marginals(logits, counted)
    else:
        shares = softmax(logits)
        best = shares.argmax(axis=-1)
    places = np.maximum(best, 0)[..., None]
    return best, np.take_along_axis(shares, places, axis=-1)[..., 0]


def entity_tags(labels: Sequence[str]) -> dict[str, str]:
    """Translate a model's labels into the tags of `entity_spans`.

    "O" is any name that is no tag. A bare letter is one only where there is nothing else: it may be
    the name of anything.
    """
    are_bare = set(labels) <= {OUTSIDE, *_LETTERS}
    found = dict.fromkeys(labels, OUTSIDE)
    for label in labels:
        letter, dash, kind = label.partition("-")
        if letter in _LETTERS and (kind if dash else are_bare):
            found[label] = f"{_LETTERS[letter]}{dash}{kind}"
    return found


def entities_of(
    text: str,
    words: Sequence[tuple[int, int]],
    tags: Sequence[Label],
    known: Mapping[str, str],
) -> list[Entity]:
    """Joins tagged words to entities, as conlleval reads tags.

    Args:
        text: the text.
        words: where each begins and ends.
        tags: of the words.
        known: see `entity_tags`.
    """
    return [
        Entity(
            span.label,
            text[words[span.start][0] : words[span.end - 1][1]],
            words[span.start][0],
            words[span.end - 1][1],
            fmean(tag.score for tag in tags[span.start : span.end]),
        )
        for span in entity_spans([known.get(tag.label, OUTSIDE) for tag in tags])
    ]


class TagMethods(TextMethods):
    """Methods of models that tag words."""

    @property
    def label_names(self) -> list[str]:
        """The names of the tags, in the order of the outputs."""
        return list(self._answering().options["labels"])

    @one_or_many(words="sentences")
    def predict_tags(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> Any:
        """Return the tag of every word, as a `TokenClassifier` gives it to the word's first piece.

        Args:
            sentences: lists of words, or one list of words. Long sentences are read in parts. A
                word without pieces, as of control characters, is "O" with the score 0.

        Returns:
            A list of `Label` for each sentence; of one sentence its list alone.
        """
        self._require(features.TAGS, "predict_tags")
        return tags(self._runner(), self.label_names, sentences)

    @one_or_many("texts")
    def predict_entities(self, texts: str | Sequence[str]) -> Any:
        """Return the entities of each text, with their places in it: text[start:end].

        Returns:
            A list of `Entity` for each text; of one text its list alone.
        """
        self._require(features.TAGS, "predict_entities")
        known = entity_tags(self.label_names)
        places = [words_of(text) for text in texts]
        read = [[text[a:b] for a, b in found] for text, found in zip(texts, places, strict=True)]
        return [
            entities_of(text, found, tags, known)
            for text, found, tags in zip(texts, places, self.predict_tags(read), strict=True)
        ]
