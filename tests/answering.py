"""Tiny models of every task that takes text, and texts for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.layers.pooling import POOLINGS
from bert_keras.models import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
)
from tests.contracts import TINY, as_trained

CHARACTERS = [
    *"abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`",
    "中",
    "文",
    "é",
]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS]
VOCABULARY += [f"##{character}" for character in CHARACTERS] + ["the", "##ing", "null", "test"]
LENGTH = 32
# One block suffices: these models test the way from text to inputs and from outputs to answers.
CONFIG = TINY.replace(vocab_size=len(VOCABULARY), max_positions=LENGTH, num_layers=1)
PAIRS = ("pairs", "cosines")  # tasks that take two texts
PROMPTS: dict[str, Any] = {"prompts": {"query": "the test "}, "default_prompt_name": "query"}


def new_tasks() -> dict[str, Any]:
    """Return a tiny model of every task, with weights as after a training, by name."""

    def new() -> BertEncoder:
        return BertEncoder(CONFIG)

    made = {
        "labels": SequenceClassifier(new(), 3, labels=["good", "bad", "中"]),
        "pairs": SequenceClassifier(new(), 2),
        "entities": TokenClassifier(new(), 3, labels=["O", "B-PER", "I-PER"]),
        "questions": QuestionAnswerer(new()),
        "choices": MultipleChoice(new()),
        # All poolings with a dense layer, and a prompt that pooling leaves out.
        "vectors": SentenceEncoder(
            new(),
            pooling=list(POOLINGS),
            include_prompt=False,
            dense=[{"units": 6, "activation": "tanh", "residual": True}],
            **PROMPTS,
        ),
        "fills": MaskedLM(new()),
        "numbers": SequenceClassifier(
            new(), 2, problem="regression", activation="sigmoid", **PROMPTS
        ),
        "several": SequenceClassifier(new(), 3, problem="multi_label"),
        "crf": TokenClassifier(new(), 3, labels=["O", "B-PER", "I-PER"], crf=True),
        "cosines": SentencePairs(new(), similarity="manhattan", **PROMPTS),
        "encoder": new(),
    }
    return {name: as_trained(task) for name, task in made.items()}


def texts_with(naughty: Sequence[str], count: int) -> list[str]:
    """Return `count` texts: first the naughty strings, if there are any, then random ones."""
    draw = np.random.default_rng(0)
    pool = [*CHARACTERS, " ", " ", " ", "the ", "test", "é", "e\u0301", "\u200d", "😀", "ａ", "½"]
    made = ["".join(draw.choice(pool, draw.integers(1, 90))) for _ in range(500)]
    return [*naughty, *made][:count]


def columns_of(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the inputs for a task of `new_tasks`, by name."""
    others = texts[::-1]
    return {
        "pairs": {"text": texts, "pair": others},
        "cosines": {"text": texts, "pair": others},
        "questions": {"question": others, "context": texts},
        "choices": {"prompt": texts, "options": [[a, "the test"] for a in others]},
        "fills": {"text": [f"[MASK] {text}" for text in texts]},
    }.get(name, {"text": texts})
