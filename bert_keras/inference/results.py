"""Answers in words: labels, entities, spans, choices and fills.

Character positions are those of the text that was given.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fill:
    """A token for a masked place.

    Attributes:
        token: the vocabulary entry, with "##" where it continues a word.
        token_id: its id.
        score: its probability.
    """

    token: str
    token_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a text.

    Attributes:
        label: its name.
        score: its probability.
    """

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Entity:
    """A named piece of a text.

    Attributes:
        label: what it is, such as "PER".
        text: as it stands there: text[start:end].
        start: its first character;
        end: the one behind its last.
        score: mean probability of its words' tags.
    """

    label: str
    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question.

    Attributes:
        text: as it stands in the context: context[start:end]; "" where there is none.
        start: its first character;
        end: the one behind its last.
        score: its probability among the best spans, and no answer.
        null_score: by how much no answer is better than the best span: difference of logits;
            infinite where the context has no span.
    """

    text: str
    start: int
    end: int
    score: float
    null_score: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The best of several options.

    Attributes:
        index: its number.
        text: the option.
        score: its probability.
    """

    index: int
    text: str
    score: float
