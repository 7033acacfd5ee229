"""Token classification: tags of words, entities, and Viterbi decoding of a CRF.

The potentials of `TokenClassifier(crf=True)` have the shape [batch, length, states, states]:
previous state, next state. The last state is "outside", before the first token and after the last.
Only counted tokens (the first pieces of words) get a tag; the chain skips the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.entity_spans import words_of
from bert_keras.data.examples import OUTSIDE
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.sliding_windows import WordWindow, word_windows
from bert_keras.inference.base import Entity, Label, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, softmax
from bert_keras.inference.entity_aggregation import (
    aggregate,
    check_aggregation,
    token_probabilities,
)
from bert_keras.metrics import entity_spans

_NOWHERE = -1  # the tag of a token that does not count


def decode(potentials: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the sequence of tags with the highest total score (Viterbi, 1967).

    Args:
        potentials: float [batch, length, states, states].
        counted: [batch, length], not 0 for tokens to tag.

    Returns:
        int32 [batch, length]; -1 for tokens that do not count.
    """
    potentials, counted, best, outside = _started(potentials, counted)
    rows = np.arange(len(potentials))
    stay = np.arange(outside + 1)
    came_from = np.zeros(potentials.shape[:3], np.intp)
    for place, is_one in enumerate(counted.T):
        scores = best[:, :, None] + potentials[:, place]
        came_from[:, place] = np.where(is_one[:, None], scores.argmax(axis=1), stay)
        best = np.where(is_one[:, None], _inside(scores.max(axis=1)), best)
    tags = np.full(counted.shape, _NOWHERE, np.int32)
    state = (best + potentials[:, 0, :, outside]).argmax(axis=1)
    for place in reversed(range(counted.shape[1])):
        tags[:, place] = np.where(counted[:, place], state, _NOWHERE)
        state = came_from[rows, place, state]
    return tags


def marginals(potentials: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the marginal probability of each tag of each token (forward-backward algorithm).

    Args:
        potentials: float [batch, length, states, states].
        counted: [batch, length], not 0 for tokens to tag.

    Returns:
        float32 [batch, length, states - 1]; zeros for tokens that do not count.
    """
    potentials, counted, alpha, outside = _started(potentials, counted)
    forward = np.zeros(potentials.shape[:3])
    for place, is_one in enumerate(counted.T):
        reached = _inside(_log_sum(alpha[:, :, None] + potentials[:, place], axis=1))
        alpha = forward[:, place] = np.where(is_one[:, None], reached, alpha)
    beta = potentials[:, 0, :, outside]
    total = _log_sum(alpha + beta, axis=1)
    result = np.zeros(potentials.shape[:3], np.float32)
    for place in reversed(range(counted.shape[1])):
        is_one = counted[:, place, None]
        result[:, place] = np.where(is_one, np.exp(forward[:, place] + beta - total[:, None]), 0.0)
        ahead = potentials[:, place] + _inside(beta.copy())[:, None, :]
        beta = np.where(is_one, _log_sum(ahead, axis=2), beta)
    return result[:, :, :outside]


def _started(
    potentials: np.ndarray, counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Check the inputs and prepare the first step.

    Returns:
        Potentials in float64, `counted` as bool, the scores of the states before the first token
        [batch, states] (0 for the outside, else minus infinity), and the index of the outside.

    Raises:
        ValueError: if the shapes do not fit.
    """
    potentials = np.asarray(potentials, np.float64)
    outside = potentials.shape[-1] - 1
    if potentials.ndim != 4 or potentials.shape[:2] != np.shape(counted):
        raise ValueError(
            "Expected potentials [batch, length, states, states] and one value for each token. "
            f"Received: shapes {potentials.shape} and {np.shape(counted)}"
        )
    scores = np.full((len(potentials), outside + 1), -np.inf)
    scores[:, outside] = 0.0
    return potentials, np.asarray(counted) != 0, scores, outside


def _inside(scores: np.ndarray) -> np.ndarray:
    """Exclude the outside: set its scores in [batch, states] to minus infinity, in place."""
    scores[:, -1] = -np.inf
    return scores


def _log_sum(scores: np.ndarray, axis: int) -> np.ndarray:
    """Return the logarithm of the sum of exponentials over an axis; scores may be -inf."""
    highest = scores.max(axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(scores - highest).sum(axis=axis, keepdims=True))
    return np.squeeze(highest + total, axis=axis)


# === Tags and entities ===


# Prefix of a tag in any scheme -> the prefix that `entity_spans` reads.
_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S"}


def tags(
    runner: Runner, labels: Sequence[str], sentences: Sequence[Sequence[str]]
) -> list[list[Label]]:
    """Return the tag of every word; see `TagMethods.predict_tags`."""
    if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
        raise TypeError(
            "A sentence must be a list of words. Received: one string. Split it into words, or "
            "call `predict_entities`."
        )
    results = [[Label(OUTSIDE, 0.0)] * len(words) for words in sentences]
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
                results[window.source][window.words[place]] = label
    return results


def _windows(
    runner: Runner, sentences: Sequence[Sequence[str]]
) -> tuple[list[WordWindow], EncodedTexts, np.ndarray]:
    """Encode sentences as rows. A long sentence becomes several windows.

    Returns:
        The window of each row, the rows, and bool [rows, length]: True for the first piece of a
        word that gets its tag in this row.
    """
    windows = [
        window
        for number, words in enumerate(sentences)
        for window in word_windows(runner.tokenizer, number, words, max_length=runner.max_length)
    ]
    ids = [window.ids for window in windows]
    rows = EncodedTexts.of(
        ids, [np.zeros(len(row), np.int32) for row in ids], runner.tokenizer.pad_id
    )
    width = int(rows.lengths.max(initial=0))
    flags = np.concatenate([np.zeros(0, np.bool_), *(window.is_first for window in windows)])
    return windows, rows, rows.gather(flags, np.arange(len(rows)), width)


def word_logits(runner: Runner, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """Return the logits of each word, from its first piece.

    Returns:
        For each sentence float32 [words, tags]; [words, states, states] with a CRF. A word without
        pieces has zeros.
    """
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
    """Return the best tags and their probabilities, [batch, length] each.

    `logits` are [batch, length, tags], or the potentials of a CRF.
    """
    if logits.ndim == 4:
        best, probabilities = decode(logits, counted), marginals(logits, counted)
    else:
        probabilities = softmax(logits)
        best = probabilities.argmax(axis=-1)
    places = np.maximum(best, 0)[..., None]
    return best, np.take_along_axis(probabilities, places, axis=-1)[..., 0]


def entity_tags(labels: Sequence[str]) -> dict[str, str]:
    """Translate the labels of a model into tags that `entity_spans` reads.

    A label that is no tag becomes "O". A single letter such as "B" is a tag only if all labels are
    single letters, because otherwise it may be the name of anything.

    Returns:
        Label -> tag.
    """
    are_bare = set(labels) <= {OUTSIDE, *_LETTERS}
    result = dict.fromkeys(labels, OUTSIDE)
    for label in labels:
        letter, dash, kind = label.partition("-")
        if letter in _LETTERS and (kind if dash else are_bare):
            result[label] = f"{_LETTERS[letter]}{dash}{kind}"
    return result


def entities_of(
    text: str,
    words: Sequence[tuple[int, int]],
    tags: Sequence[Label],
    known: Mapping[str, str],
) -> list[Entity]:
    """Join tagged words to entities, with conlleval's reading of tags.

    Args:
        text: the text.
        words: (start, end) of each word in the text.
        tags: label of each word.
        known: label -> tag, from `entity_tags`.
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
    """Prediction methods of token classification models."""

    @property
    def label_names(self) -> list[str]:
        """Names of the tags, in the order of the task's outputs."""
        return list(self._prediction_model().options["labels"])

    @one_or_many(words="sentences")
    def predict_tags(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> Any:
        """Return the tag of every word, which is the tag of its first piece.

        Args:
            sentences: lists of words, or one list of words. Long sentences are read in parts. A
                word without pieces (of control characters alone) gets "O" with score 0.

        Returns:
            A list of `Label` for each sentence; one list for one sentence.

        Raises:
            TypeError: if a sentence is a string instead of a list of words.
            ValueError: if the model has no tags.
        """
        self._require(features.TAGS, "predict_tags")
        return tags(self._runner(), self.label_names, sentences)

    @one_or_many("texts")
    def predict_entities(
        self, texts: str | Sequence[str], *, aggregation: str | None = None
    ) -> Any:
        """Return the entities of each text with their character positions.

        By default `words_of` splits texts into words, the tag of a word is that of its first token,
        and tags of any scheme (BIO, BIOES and others) are read as conlleval does it.

        With `aggregation`, the entities are those of transformers' pipeline with the same
        `aggregation_strategy`. It reads B- and I- tags alone, and joins equal labels in other
        schemes. Its words are runs of "##" pieces, so punctuation is a word of its own. Tokenizers
        without such pieces (RoBERTa, XLM-R and others) split words at spaces, and a comma belongs
        to the word before it.

        - None is best for models of this package, and for tags of other schemes than BIO.
        - "first" gives the same answers as the pipeline for models that learned the first token of
          each word, as most do.
        - "average" and "max" are for models that learned the tags of all tokens
          (`all_pieces=true`): the mean of the tokens' probabilities, or the surest token, decides.
        - "simple" joins tokens, and may split a word. It is for text without spaces.
        - "none" returns each token alone, with its whole tag as the label, to look into a model.

        Long texts are read in rows that do not overlap and that end before a word. A word that is
        longer than a row is split with `aggregation`, and cut without. The tags of all rows are
        joined, so an entity may continue in the next row. Tokens near the end of a row have less
        context.

        Args:
            texts: texts, or one text. "[SEP]" and the like in them are ordinary text.
            aggregation: "none", "simple", "first", "average" or "max"; None for our own words.

        Returns:
            A list of `Entity` for each text; one list for one text. Its `text` is the part of the
            text, while the `word` of transformers is decoded from tokens, and may be lower-cased.

        Raises:
            ValueError: if the model has no tags, `aggregation` is unknown, or the model has a
                conditional random field, which tags words alone.
        """
        self._require(features.TAGS, "predict_entities")
        check_aggregation(aggregation, self._prediction_model())
        if aggregation is not None:
            labels = self.label_names
            found = token_probabilities(self._runner(), texts, len(labels))
            return [aggregate(*row, labels, aggregation) for row in zip(texts, *found, strict=True)]
        known = entity_tags(self.label_names)
        places = [words_of(text) for text in texts]
        sentences = [
            [text[start:end] for start, end in spans]
            for text, spans in zip(texts, places, strict=True)
        ]
        return [
            entities_of(text, spans, tags, known)
            for text, spans, tags in zip(texts, places, self.predict_tags(sentences), strict=True)
        ]
