"""Entities from the tags of tokens, with the strategies of transformers' pipeline.

The numbers are those of `TokenClassificationPipeline(aggregation_strategy=...)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.examples import OUTSIDE
from bert_keras.data.model_inputs import EncodedTexts, add_special_tokens
from bert_keras.inference.base import Entity
from bert_keras.inference.batching import Runner, softmax
from bert_keras.tokenizers import Tokenizer

NONE, SIMPLE, FIRST, AVERAGE, MAX = "none", "simple", "first", "average", "max"
AGGREGATIONS = (NONE, SIMPLE, FIRST, AVERAGE, MAX)


def check_aggregation(aggregation: Any, model: Any) -> None:
    """Raise `ValueError` unless the value is None or a strategy that the model can have.

    Args:
        aggregation: value of the argument of `predict_entities`.
        model: the token classifier.
    """
    if aggregation is None:
        return
    if aggregation not in AGGREGATIONS:
        raise ValueError(
            f"`aggregation` must be None or one of {', '.join(AGGREGATIONS)}. "
            f"Received: aggregation={aggregation!r}"
        )
    if model.options.get("crf"):
        raise ValueError(
            "`aggregation` needs the scores of single tokens. A conditional random field scores "
            f"the tags of a text together. Received: aggregation={aggregation!r} and a "
            f"{type(model).__name__} with crf=True. Leave `aggregation` out."
        )


# === Tokens ===


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of a text, without special tokens.

    Attributes:
        ids: vocabulary id of each token: int32 [tokens].
        starts: index of the first character of each token: int64 [tokens].
        ends: index after its last character: int64 [tokens].
        continues: bool [tokens], True for a token that continues the word of the token before it.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    continues: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Tokens:
        """Tokenize a text. A text such as "[SEP]" in it is text, and no special token.

        WordPiece shows which tokens continue a word: they are longer than their characters, by
        "##". With other tokenizers only a space begins a word, as in transformers.
        """
        encoding = tokenizer.encode(text, add_special_tokens=False, special_tokens_in_text=False)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        if tokenizer.subword_prefix:
            lengths = np.array([*map(len, encoding.tokens)], np.int64)
            continues = lengths != offsets[:, 1] - offsets[:, 0]
        else:
            around = [text[max(start - 1, 0) : start + 1] for start, _ in encoding.offsets]
            continues = np.array([" " not in characters for characters in around], np.bool_)
            continues &= offsets[:, 0] > 0
        ids = np.array(encoding.ids, np.int32)
        continues &= ids != tokenizer.unk_id
        continues[:1] = False
        return cls(ids, offsets[:, 0], offsets[:, 1], continues)

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, room: int) -> Iterator[slice]:
        """Yield the parts of at most `room` tokens in which a model reads the text.

        A part ends before a word. Only a word of more than `room` tokens is split.
        """
        words = np.flatnonzero(~self.continues)
        begin = 0
        while begin < len(self):
            end = min(begin + room, len(self))
            if end < len(self):
                word = int(words[np.searchsorted(words, end, side="right") - 1])
                end = word if word > begin else end
            yield slice(begin, end)
            begin = end


def token_probabilities(
    runner: Runner, texts: Sequence[str], num_tags: int
) -> tuple[list[Tokens], list[np.ndarray]]:
    """Return the tokens of each text, and the probabilities of their tags.

    Returns:
        The tokens, and float32 [tokens, num_tags] for each text.

    Raises:
        ValueError: if `max_length` leaves no room for a token beside the special tokens.
    """
    tokenizer = runner.tokenizer
    room = runner.max_length - tokenizer.scheme.num_added(1)
    if room < 1:
        raise ValueError(
            f"max_length={runner.max_length} leaves no room for tokens. Pass max_length of at "
            f"least {runner.max_length - room + 1}: a token and the special tokens."
        )
    tokens = [Tokens.of(tokenizer, text) for text in texts]
    parts = [(number, part) for number, row in enumerate(tokens) for part in row.rows(room)]
    encoded = [add_special_tokens(tokenizer, tokens[i].ids[part].tolist()) for i, part in parts]
    rows = EncodedTexts.of(
        [ids for ids, _, _ in encoded],
        [segments for _, segments, _ in encoded],
        tokenizer.pad_id,
    )
    probabilities = [np.zeros((len(row), num_tags), np.float32) for row in tokens]
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            (number, part), offset = parts[index], encoded[index][2]
            stop = offset + part.stop - part.start
            probabilities[number][part] = softmax(outputs[features.TAGS][row, offset:stop])
    return tokens, probabilities


# === Entities ===


def aggregate(
    text: str,
    tokens: Tokens,
    probabilities: np.ndarray,
    labels: Sequence[str],
    aggregation: str,
) -> list[Entity]:
    """Return the entities of a text.

    Args:
        text: the text.
        tokens: its tokens.
        probabilities: probabilities of the tags of each token: float32 [tokens, tags].
        labels: names of the tags.
        aggregation: one of `AGGREGATIONS`; `TagMethods.predict_entities` describes them.
    """
    if not len(tokens):
        return []
    starts, ends = tokens.starts, tokens.ends
    if aggregation not in (NONE, SIMPLE):
        firsts = np.flatnonzero(~tokens.continues)
        probabilities = _of_words(probabilities, firsts, aggregation)
        starts, ends = starts[firsts], ends[np.append(firsts[1:], len(tokens)) - 1]
    best = probabilities.argmax(axis=-1)
    scores = np.take_along_axis(probabilities, best[:, None], axis=-1)[:, 0].tolist()
    indices: list[int] = best.tolist()
    names = [labels[index] for index in indices]
    bounds = np.arange(len(names)) if aggregation == NONE else _starts_of_groups(names)
    entities: list[Entity] = []
    for first, stop in zip(bounds, [*bounds[1:], len(names)], strict=True):
        name = names[first] if aggregation == NONE else names[first].split("-", 1)[-1]
        if name != OUTSIDE:
            start, end = int(starts[first]), int(ends[stop - 1])
            entities.append(Entity(name, text[start:end], start, end, fmean(scores[first:stop])))
    return entities


def _of_words(probabilities: np.ndarray, firsts: np.ndarray, aggregation: str) -> np.ndarray:
    """Return the probabilities of the tags of words, float32 [words, tags].

    Args:
        probabilities: those of tokens: float32 [tokens, tags].
        firsts: index of the first token of each word: int64 [words].
        aggregation: "first", "average" or "max".
    """
    if aggregation == FIRST:
        return probabilities[firsts]
    counts = np.diff(np.append(firsts, len(probabilities)))
    if aggregation == AVERAGE:
        return np.add.reduceat(probabilities, firsts, axis=0) / counts[:, None].astype(np.float32)
    peaks = probabilities.max(axis=-1)
    is_highest = peaks == np.repeat(np.maximum.reduceat(peaks, firsts), counts)
    highest = np.flatnonzero(is_highest)
    words = np.repeat(np.arange(len(firsts)), counts)[highest]
    return probabilities[highest[np.unique(words, return_index=True)[1]]]


def _starts_of_groups(names: Sequence[str]) -> list[int]:
    """Return the index of the first tag of each group: a "B-" tag, or one of another type."""
    types = [name[2:] if name.startswith(("B-", "I-")) else name for name in names]
    return [
        index
        for index, name in enumerate(names)
        if index == 0 or name.startswith("B-") or types[index] != types[index - 1]
    ]
