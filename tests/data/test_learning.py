"""From labelled data to right answers: every task learns 16 examples by heart."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertConfig,
    BertEncoder,
    MultipleChoice,
    Predictor,
    QuestionAnswerer,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
)
from bert_keras.data.examples import Answer, Choices, Question, TaggedWords, Texts
from bert_keras.data.feeding import py_dataset
from bert_keras.data.question_targets import choice_examples, question_examples
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.targets import tag_examples, text_examples
from bert_keras.models import Task

# Keras's backends answer NumPy 2's question for a view with a deprecation warning.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

NAMES = [f"w{number}" for number in range(32)]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *NAMES, "##s"])
OPTIONS: dict[str, Any] = {"batch_size": 8, "multiple_of": 16, "seed": 1, "max_length": 16}
COUNT = 16


def encoder(pooler: bool = True) -> BertEncoder:
    keras.utils.set_random_seed(0)
    return BertEncoder(
        BertConfig(
            vocab_size=TOKENIZER.vocab_size,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            intermediate_size=64,
            max_positions=16,
            dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.2,
            pooler=pooler,
        )
    )


def sentences(count: int = COUNT, seed: int = 0) -> list[list[str]]:
    """No two are equal."""
    rng = np.random.default_rng(seed)
    return [[*rng.choice(NAMES, rng.integers(3, 6), replace=False), "w0s"] for _ in range(count)]


TEXTS = [" ".join(words) for words in sentences()]
PAIRS = [" ".join(words) for words in sentences(seed=1)]


def learned(task: Task, source: SupervisedExamples, steps: int = 80) -> Predictor:
    """As a user trains: compile, fit over batches, ask."""
    task.compile(keras.optimizers.Adam(0.006, global_clipnorm=1.0), **task.objective())
    dataset = py_dataset(source)
    before = task.evaluate(py_dataset(source, steps=2), verbose=0, return_dict=True)["loss"]
    task.fit(dataset, steps_per_epoch=steps, shuffle=False, verbose=0)
    after = task.evaluate(py_dataset(source, steps=2), verbose=0, return_dict=True)["loss"]
    assert after < before / 5
    return Predictor(task, TOKENIZER, max_length=16)


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["texts", "pairs"])
def test_labels(pairs: list[str] | None) -> None:
    """Of pairs the second text decides: every first one is there twice, with two labels."""
    names = ["bad", "good", "so"]
    numbers = np.random.default_rng(2).integers(0, 3, COUNT // 2)
    targets = [names[number % 3] for number in [*numbers, *(numbers + 1)]]
    texts = TEXTS[: COUNT // 2] * 2 if pairs else TEXTS
    source = text_examples(TOKENIZER, Texts(texts, pairs, targets), labels=names, **OPTIONS)
    predictor = learned(SequenceClassifier(encoder(), 3, labels=names), source)
    assert [label.label for label in predictor(texts, pairs)] == targets


def test_several_labels() -> None:
    names = ["art", "law", "war"]
    rng = np.random.default_rng(3)
    targets = [tuple(name for name in names if rng.random() < 0.5) for _ in TEXTS]
    source = text_examples(
        TOKENIZER, Texts(TEXTS, None, targets), labels=names, problem="multi_label", **OPTIONS
    )
    task = SequenceClassifier(encoder(), 3, labels=names, problem="multi_label")
    found = learned(task, source)(TEXTS)
    assert [{label.label for label in row} for row in found] == [set(row) for row in targets]


def test_numbers() -> None:
    targets = np.random.default_rng(4).uniform(-1, 1, COUNT)
    source = text_examples(
        TOKENIZER, Texts(TEXTS, None, targets.tolist()), problem="regression", **OPTIONS
    )
    found = learned(SequenceClassifier(encoder(), 1), source)(TEXTS)
    np.testing.assert_allclose(found[:, 0], targets, atol=0.25)


@pytest.mark.parametrize("all_pieces", [False, True])
def test_tags(all_pieces: bool) -> None:
    names = ["O", "B-X", "I-X"]
    words = sentences()
    rng = np.random.default_rng(5)
    tags = [rng.choice(names, len(row)).tolist() for row in words]
    source = tag_examples(
        TOKENIZER, TaggedWords(words, tags), labels=names, all_pieces=all_pieces, **OPTIONS
    )
    predictor = learned(TokenClassifier(encoder(pooler=False), 3, labels=names), source)
    found = predictor.tags(words)
    assert [[tag.label for tag in row] for row in found] == tags


def test_answers() -> None:
    """Half of the questions have none."""
    rng = np.random.default_rng(6)
    questions = []
    for number, context in enumerate(TEXTS):
        words = context.split()
        first = int(rng.integers(0, len(words) - 1))
        text = " ".join(words[first : first + 2])
        start = len(" ".join(words[:first])) + (first > 0)
        answers = (Answer(text, start),) if number % 2 else ()
        question = Question(str(number), NAMES[number], context, answers, not answers)
        questions.append(question)
    source = question_examples(TOKENIZER, questions, **OPTIONS)
    assert len(source) == COUNT
    predictor = learned(QuestionAnswerer(encoder(pooler=False)), source)
    asked, contexts = [q.question for q in questions], [q.context for q in questions]
    found = predictor.answers(asked, contexts, null_threshold=0.0)
    expected = [
        (q.answers[0].text, q.answers[0].start) if q.answers else ("", 0) for q in questions
    ]
    assert [(answer.text, answer.start) for answer in found] == expected


def test_choices() -> None:
    answers = np.random.default_rng(7).integers(0, 2, COUNT).tolist()
    options = [list(row) for row in zip(TEXTS, PAIRS, strict=True)]
    prompts = [NAMES[number] for number in range(COUNT)]
    source = choice_examples(TOKENIZER, Choices(prompts, options, answers), **OPTIONS)
    predictor = learned(MultipleChoice(encoder()), source)
    assert [choice.index for choice in predictor(prompts, options)] == answers
