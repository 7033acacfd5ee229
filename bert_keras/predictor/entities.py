"""Words of a text, and entities of tagged words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np

from bert_keras import features, viterbi
from bert_keras.data.rows import Rows
from bert_keras.data.targets import OUTSIDE
from bert_keras.data.windows import word_windows
from bert_keras.metrics import entity_spans
from bert_keras.predictor.answers import Entity, Label
from bert_keras.predictor.running import Runner, softmax

# The letters of tags, in those of `entity_spans`.
_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S"}
# Of a word: a possessive at its end, and marks between letters or beside one.
_PARTING = re.compile(
    r"(?<=\w)['\u2019][sS]\Z|(?<=[^\W\d])[,;\u2013\u2014](?=\w)|(?<=\w)[,;\u2013\u2014](?=[^\W\d])"
)
# Chinese characters, as BERT's tokenizer splits them (google-research/bert, tokenization.py).
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def tags(
    runner: Runner, labels: Sequence[str], sentences: Sequence[Sequence[str]]
) -> list[list[Label]]:
    """See `Predictor.tags`."""
    if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
        raise TypeError("A sentence must be a list of words. Received: one string")
    found = [[Label(OUTSIDE, 0.0)] * len(words) for words in sentences]
    windows = [
        window
        for number, words in enumerate(sentences)
        for window in word_windows(runner.tokenizer, number, words, max_length=runner.max_length)
    ]
    ids = [window.ids for window in windows]
    rows = Rows.of(ids, [np.zeros(len(row), np.int32) for row in ids], runner.tokenizer.pad_id)
    width = int(rows.lengths.max(initial=0))
    flags = np.concatenate([np.zeros(0, np.bool_), *(window.is_first for window in windows)])
    is_first = rows.gather(flags, np.arange(len(rows)), width)
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


def _best(logits: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best tags, and their probabilities: [batch, length] each."""
    if logits.ndim == 4:  # pairs of tags, of a conditional random field
        best, shares = viterbi.decode(logits, counted), viterbi.marginals(logits, counted)
    else:
        shares = softmax(logits)
        best = shares.argmax(axis=-1)
    places = np.maximum(best, 0)[..., None]
    return best, np.take_along_axis(shares, places, axis=-1)[..., 0]


def words_of(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end, as in corpora of tagged words.

    White space parts words; punctuation around a word is a word for each mark; every Chinese
    character is a word. What stands within a word ("U.S.-based", "don't", "1,000") stays, but for a
    possessive 's and for marks that part words ("Rome,Paris"), which are words too.
    """
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        if _is_alone(text[start]):
            found.append((start, start + 1))
            start += 1
            continue
        end = start
        while end < len(text) and not text[end].isspace() and not _is_chinese(text[end]):
            end += 1
        stop = end
        while stop > start + 1 and _is_alone(text[stop - 1]):
            stop -= 1
        bounds = {at for part in _PARTING.finditer(text, start, stop) for at in part.span()}
        found += pairwise(sorted({start, *bounds, stop}))
        found += [(mark, mark + 1) for mark in range(stop, end)]
        start = end
    return found


def _is_chinese(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _CHINESE)


def _is_alone(character: str) -> bool:
    return _is_chinese(character) or unicodedata.category(character)[0] in "PS"


def entity_tags(labels: Sequence[str]) -> dict[str, str]:
    """What each of a model's labels says of entities, in the tags of `entity_spans`.

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
