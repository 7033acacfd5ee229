"""Every task learns 16 labelled examples by heart, from the data to the predictions."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertConfig,
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Predictor,
    QuestionAnswerer,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
    features,
)
from bert_keras.data.batch_datasets import dataset
from bert_keras.data.examples import Answer, Choices, Question, TaggedWords, Texts
from bert_keras.data.multiple_choice import choice_examples
from bert_keras.data.question_answering import question_examples
from bert_keras.data.sentence_similarity import pair_examples
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.text_classification import text_examples
from bert_keras.data.token_classification import tag_examples
from bert_keras.inference.token_classification import words_of
from bert_keras.models import Task

# NumPy 2 warns that `__array__` of the Keras backends has no argument `copy`.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

NAMES = [f"w{number}" for number in range(32)]
# Words with an accent, in Chinese, in full width, and an emoji. PIECES has their pieces.
STRANGE = ("Café", "東京", "Ｆｕｌｌ", "😀")
PIECES = ("cafe", "東", "京", "ｆｕｌｌ", "😀")
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *NAMES, "##s", *PIECES])
OPTIONS: dict[str, Any] = {"batch_size": 8, "multiple_of": 16, "seed": 1, "max_length": 16}
COUNT = 16


def encoder(pooler: bool = True) -> BertEncoder:
    """Return a tiny encoder without dropout, the same at each call."""
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
    """Return `count` different sentences of a few words."""
    rng = np.random.default_rng(seed)
    return [[*rng.choice(NAMES, rng.integers(3, 6), replace=False), "w0s"] for _ in range(count)]


TEXTS = [" ".join(words) for words in sentences()]
PAIRS = [" ".join(words) for words in sentences(seed=1)]


def learned(task: Task, source: SupervisedExamples, steps: int = 80) -> Predictor:
    """Train the task as a user does, check that its loss falls, and return its predictor."""
    task.compile(keras.optimizers.Adam(0.006, global_clipnorm=1.0), **task.loss_and_metrics())
    batches = dataset(source)
    before = task.evaluate(batches, verbose=0, return_dict=True)["loss"]
    task.fit(batches, epochs=steps // len(batches), verbose=0)
    after = task.evaluate(batches, verbose=0, return_dict=True)["loss"]
    assert after < before / 5
    return Predictor(task, TOKENIZER, max_length=16)


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["texts", "pairs"])
def test_labels(pairs: list[str] | None) -> None:
    """A classifier of texts or of pairs learns its labels.

    Each first text of a pair occurs twice with two labels, so that the second text decides.
    """
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


@pytest.mark.parametrize("loss", ["similarity", "classification", "in_batch"])
def test_pairs_apart(loss: str) -> None:
    """A sentence encoder learns pairs by each loss.

    With "in_batch" each first text must find its second text among all.
    """
    rng = np.random.default_rng(8)
    targets: Any = {
        "similarity": rng.choice([-0.5, 0.0, 0.5], COUNT).tolist(),
        "classification": rng.choice(["no", "yes"], COUNT).tolist(),
        "in_batch": None,
    }[loss]
    labels: dict[str, Any] = {"labels": ["no", "yes"]} if loss == "classification" else {}
    texts = Texts(TEXTS, PAIRS, targets)
    source = pair_examples(TOKENIZER, texts, loss, **labels, **OPTIONS)
    if labels:
        labels["num_classes"] = 2
    task = SentencePairs(encoder(pooler=False), loss=loss, **labels)
    predictor = learned(task, source)
    if loss == "classification":
        assert [label.label for label in predictor(TEXTS, PAIRS)] == targets
        return
    vectors = Predictor(task.sentence_encoder, TOKENIZER, max_length=16)
    if loss == "similarity":
        np.testing.assert_allclose(vectors.similarity(TEXTS, PAIRS), targets, atol=0.25)
        return
    cosines = vectors.encode(TEXTS) @ vectors.encode(PAIRS).T
    assert cosines.argmax(axis=1).tolist() == list(range(COUNT))


@pytest.mark.parametrize(
    ("all_pieces", "crf"), [(False, False), (True, False), (False, True)], ids=str
)
def test_tags(all_pieces: bool, crf: bool) -> None:
    names = ["O", "B-X", "I-X"]
    words = sentences()
    rng = np.random.default_rng(5)
    tags = [rng.choice(names, len(row)).tolist() for row in words]
    source = tag_examples(
        TOKENIZER, TaggedWords(words, tags), labels=names, all_pieces=all_pieces, **OPTIONS
    )
    task = TokenClassifier(encoder(pooler=False), 3, labels=names, crf=crf)
    found = learned(task, source).predict_tags(words)
    assert [[tag.label for tag in row] for row in found] == tags


def test_entities_of_any_script() -> None:
    """Entities are cut from the original text, with its white space."""
    names = ["O", "B-X", "I-X"]
    pairs = [(plain, strange) for plain in NAMES[:4] for strange in STRANGE]
    texts = [f"{plain}  {strange} {NAMES[9]}" for plain, strange in pairs]
    places = [words_of(text) for text in texts]
    words = [[text[a:b] for a, b in found] for text, found in zip(texts, places, strict=True)]
    # A strange word after a plain word with an even number is an entity.
    tags = [
        ["O", *("BI"[n > 0] + "-X" if row % 8 < 4 else "O" for n in range(len(found) - 2)), "O"]
        for row, found in enumerate(words)
    ]
    source = tag_examples(TOKENIZER, TaggedWords(words, tags), labels=names, **OPTIONS)
    predictor = learned(TokenClassifier(encoder(pooler=False), 3, labels=names), source)
    found = predictor.predict_entities(texts)
    for row, (text, (_, strange)) in enumerate(zip(texts, pairs, strict=True)):
        expected = [(strange, text.index(strange))] if row % 8 < 4 else []
        assert [(entity.text, entity.start) for entity in found[row]] == expected


def test_answers() -> None:
    """An answer is found for half of the questions, and none for the others."""
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
    found = predictor.predict_answers(asked, contexts, null_threshold=0.0)
    expected = [
        (q.answers[0].text, q.answers[0].start) if q.answers else ("", 0) for q in questions
    ]
    assert [(answer.text, answer.start) for answer in found] == expected


def test_answers_of_any_script() -> None:
    """Answers are cut from the original text in any script."""
    questions = []
    for number in range(COUNT):
        text = STRANGE[number % 4]
        context = f"{NAMES[number]} {text}\u3000{NAMES[number + 1]}"
        answer = Answer(text, context.index(text))
        questions.append(Question(str(number), "what ?", context, (answer,)))
    source = question_examples(TOKENIZER, questions, **OPTIONS)
    predictor = learned(QuestionAnswerer(encoder(pooler=False)), source)
    found = predictor.predict_answers(
        [q.question for q in questions], [q.context for q in questions]
    )
    assert [(a.text, a.start) for a in found] == [
        (q.answers[0].text, q.answers[0].start) for q in questions
    ]


def test_masks() -> None:
    """A masked language model learns the missing word of each of 16 texts."""
    words = sentences()
    missing = [number % len(row) for number, row in enumerate(words)]
    texts = [
        " ".join("[MASK]" if place == gap else word for place, word in enumerate(row))
        for row, gap in zip(words, missing, strict=True)
    ]
    wanted = [row[gap].removesuffix("s") for row, gap in zip(words, missing, strict=True)]
    ids = [TOKENIZER.encode(text).ids for text in texts]
    task = MaskedLM(encoder(pooler=False))
    x = {tensor.name: np.zeros((COUNT, 16), "int32") for tensor in task.inputs}
    for row, tokens in enumerate(ids):
        x[features.TOKEN_IDS][row, : len(tokens)] = tokens
        x[features.PADDING_MASK][row, : len(tokens)] = 1
    at = [[tokens.index(TOKENIZER.mask_id)] for tokens in ids]
    x[features.MASK_POSITIONS] = np.array(at, "int32")
    y = {features.MLM: np.array([[TOKENIZER.token_to_id(word)] for word in wanted])}
    task.compile(keras.optimizers.Adam(0.006, global_clipnorm=1.0), **task.loss_and_metrics())
    task.fit(x, y, batch_size=8, epochs=40, verbose=0)
    found = Predictor(task, TOKENIZER, max_length=16).fill_mask(texts, top_k=1)
    assert [fills[0][0].token for fills in found] == wanted


def test_choices() -> None:
    answers = np.random.default_rng(7).integers(0, 2, COUNT).tolist()
    options = [list(row) for row in zip(TEXTS, PAIRS, strict=True)]
    prompts = [NAMES[number] for number in range(COUNT)]
    source = choice_examples(TOKENIZER, Choices(prompts, options, answers), **OPTIONS)
    predictor = learned(MultipleChoice(encoder()), source)
    assert [choice.index for choice in predictor(prompts, options)] == answers
