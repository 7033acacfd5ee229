"""Long texts in windows: `fit`, `evaluate`, `predict` and the prediction methods of every task."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Predictor,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    Tokenizer,
    load_checkpoint,
    models,
)
from bert_keras.data import encode_long
from bert_keras.models import Task
from tests.contracts import TINY
from tests.data.test_long_texts import VOCABULARY, text

CONFIG = TINY.replace(
    vocab_size=len(VOCABULARY), num_layers=1, dropout=0.0, attention_dropout=0.0, max_positions=16
)
LENGTHS = (3, 30, 9, 5, 50, 14, 1, 22)
TEXTS = [text(length, 3 * number) for number, length in enumerate(LENGTHS)]
LABELS = ["good", "bad"] * 4
QUIET: dict[str, Any] = {"verbose": 0}
WINDOWS: dict[str, Any] = {"long_texts": "windows", "stride": 5}


def encoder() -> BertEncoder:
    keras.utils.set_random_seed(1)
    return BertEncoder(CONFIG.replace(initializer_range=0.5))


def classifier(**options: Any) -> SequenceClassifier:
    values: dict[str, Any] = {"num_classes": 2, "dropout": 0.0, **options}
    return SequenceClassifier(encoder(), tokenizer=Tokenizer(VOCABULARY), **values)


def windows_of(texts: list[str], pairs: list[str] | None = None) -> Any:
    return encode_long(Tokenizer(VOCABULARY), texts, pairs, max_length=16, **WINDOWS)


def means(task: Task, rows: Any, output: str = "label") -> np.ndarray:
    """Return the mean output of the windows of each text, from one batch of all windows."""
    inputs = rows.inputs(np.arange(len(rows)), 16)
    values = task.predict_on_batch({name: inputs[name] for name in task.input})[output]
    return np.stack([values[rows.sources == number].mean(axis=0) for number in range(len(TEXTS))])


@pytest.mark.parametrize("pairs", [None, [text(2)] * len(TEXTS)], ids=["texts", "pairs"])
def test_logits_are_means_over_windows(pairs) -> None:
    task = classifier()
    expected = means(task, windows_of(TEXTS, pairs))
    x = TEXTS if pairs is None else (TEXTS, pairs)
    np.testing.assert_allclose(task.predict(x, **WINDOWS), expected, atol=1e-5)
    shares = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(task.predict_scores(TEXTS, pairs, **WINDOWS), shares, atol=1e-5)
    best = task.predict_labels(TEXTS, pairs, **WINDOWS)
    assert [label.label for label in best] == [f"LABEL_{i}" for i in expected.argmax(axis=1)]
    assert task.predict_labels(TEXTS[1], pairs and pairs[1], **WINDOWS).label == best[1].label
    scores = classifier(num_classes=1).predict_pair_scores(TEXTS, TEXTS[:1] * 8, **WINDOWS)
    assert scores.shape == (len(TEXTS),)


def test_short_texts_are_read_as_before() -> None:
    task = classifier()
    short = [one for one, length in zip(TEXTS, LENGTHS, strict=True) if length <= 14]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        whole = task.predict_scores(short)
        np.testing.assert_array_equal(task.predict_scores(short, **WINDOWS), whole)
        cut = task.predict_scores(TEXTS, long_texts="truncate")
    assert np.abs(task.predict_scores(TEXTS, **WINDOWS) - cut).max() > 1e-3


@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_are_means_over_windows(normalize: bool) -> None:
    task = SentenceEncoder(encoder(), normalize=normalize, tokenizer=Tokenizer(VOCABULARY))
    expected = means(task, windows_of(TEXTS), "sentence_vector")
    if normalize:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = task.encode(TEXTS, **WINDOWS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    similarity = task.similarity(TEXTS, TEXTS[::-1], **WINDOWS)
    lengths = np.linalg.norm(expected, axis=1)
    cosines = (expected * expected[::-1]).sum(axis=1) / lengths / lengths[::-1]
    np.testing.assert_allclose(similarity, cosines, atol=1e-5)
    pairs = SentencePairs(task.encoder, normalize=normalize, tokenizer=task.tokenizer)
    np.testing.assert_allclose(pairs.encode(TEXTS, **WINDOWS), vectors, atol=1e-5)
    plain = classifier().encode(TEXTS, **WINDOWS)
    assert plain.shape == (len(TEXTS), CONFIG.hidden_size)


# === Training ===


def test_fit_measures_texts_and_remembers(tmp_path: Path) -> None:
    task = classifier(labels=["bad", "good"], num_classes=None)
    options = {**QUIET, **WINDOWS, "learning_rate": 1e-3, "batch_size": 4}
    history = task.fit(TEXTS, LABELS, validation_data=(TEXTS, LABELS), **options).history
    assert task.predictor_config.options == WINDOWS
    logits = task.predict(TEXTS)  # reads windows, as in training
    np.testing.assert_array_equal(logits, task.predict(TEXTS, **WINDOWS))
    targets = np.array([label == "good" for label in LABELS], int)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(8), targets]
    accuracy = (logits.argmax(axis=1) == targets).mean()
    measured = task.evaluate(TEXTS, LABELS, return_dict=True, **QUIET)
    for values in (
        measured,
        {k.removeprefix("val_"): v[-1] for k, v in history.items() if k.startswith("val_")},
    ):
        assert values["loss"] == pytest.approx(losses.mean(), abs=1e-5)
        assert values["accuracy"] == pytest.approx(accuracy)
    assert task.evaluate(TEXTS, LABELS, **QUIET) == [measured["loss"], measured["accuracy"]]
    weights = [1.0, 0.0] * 4
    weighted = task.evaluate(TEXTS, LABELS, sample_weight=weights, return_dict=True, **QUIET)
    assert weighted["accuracy"] == pytest.approx((logits.argmax(axis=1) == targets)[::2].mean())
    # The folder, the predictor and a copy read windows too.
    task.save_to_preset(tmp_path)
    scores = task.predict_scores(TEXTS)
    for opened in (Predictor.from_preset(tmp_path), load_checkpoint(tmp_path)):
        np.testing.assert_allclose(opened.predict_scores(TEXTS), scores, atol=1e-6)
    assert [label.label for label in Predictor.from_preset(tmp_path)(TEXTS)] == [
        ["bad", "good"][index] for index in scores.argmax(axis=1)
    ]
    task.fit(TEXTS, LABELS, long_texts="truncate", **QUIET)
    assert task.predictor_config.options == {}


def test_windows_of_a_text_weigh_as_much_as_a_short_text() -> None:
    task = classifier()
    examples = task.examples_of([TEXTS], [0, 1] * 4, max_length=16, **WINDOWS)
    examples.weigh([1.0, 2.0] * 4)
    sources = examples.rows.sources
    assert sources is not None
    counts = np.bincount(sources)
    assert counts.max() > 1
    assert examples.num_texts == len(TEXTS)
    assert len(examples) == len(sources)
    _, y, weights = examples.batch_of(0, np.arange(len(sources)))
    assert y["label"].tolist() == [int(number) % 2 for number in sources]
    sums = np.bincount(sources, weights["label"])
    np.testing.assert_allclose(sums, np.array([1.0, 2.0] * 4) * len(sources) / len(TEXTS))
    labels, of_texts = examples.of_texts()
    assert labels["label"].tolist() == [0, 1] * 4
    np.testing.assert_allclose(of_texts["label"], [1.0, 2.0] * 4, rtol=1e-6)
    with pytest.raises(ValueError, match="shape"):
        examples.weigh(np.ones(len(sources)))


def test_vectors_of_a_teacher_are_learned_in_windows() -> None:
    task = SentenceEncoder(encoder(), tokenizer=Tokenizer(VOCABULARY))
    vectors = np.eye(len(TEXTS), CONFIG.hidden_size)
    task.fit(TEXTS, vectors, **QUIET, **WINDOWS)
    loss = task.evaluate(TEXTS, vectors, return_dict=True, **QUIET)["loss"]
    assert loss == pytest.approx(((task.encode(TEXTS) - vectors) ** 2).mean(), abs=1e-5)


# === Warnings ===


CALLS = {
    "predict_scores": lambda: classifier().predict_scores(TEXTS),
    "predict_labels": lambda: classifier().predict_labels(TEXTS),
    "predict": lambda: classifier().predict(TEXTS),
    "evaluate": lambda: classifier().evaluate(TEXTS, [0, 1] * 4, **QUIET),
    "fit": lambda: classifier().fit(
        TEXTS[:5], [0, 1, 0, 1, 0], validation_data=(TEXTS[5:], [1, 0, 1]), max_length=16, **QUIET
    ),
    "encode": lambda: classifier().encode(TEXTS),
    "encode, vectors": lambda: SentenceEncoder(encoder(), tokenizer=Tokenizer(VOCABULARY)).encode(
        TEXTS
    ),
    "fit, masks": lambda: MaskedLM(encoder(), tokenizer=Tokenizer(VOCABULARY)).fit(TEXTS, **QUIET),
    "similarity": lambda: classifier().similarity(TEXTS[:4], TEXTS[4:]),
    "fill_mask": lambda: MaskedLM(encoder(), tokenizer=Tokenizer(VOCABULARY)).fill_mask(
        [f"[MASK] {one}" for one in TEXTS]
    ),
    "choices": lambda: MultipleChoice(encoder(), tokenizer=Tokenizer(VOCABULARY)).predict_choices(
        [""] * 4, [list(pair) for pair in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    ),
    "fit, choices": lambda: MultipleChoice(encoder(), tokenizer=Tokenizer(VOCABULARY)).fit(
        ([""] * 4, [list(pair) for pair in zip(TEXTS[::2], TEXTS[1::2], strict=True)]),
        [0] * 4,
        **QUIET,
    ),
    "fit, apart": lambda: SentencePairs(
        encoder(), loss="similarity", tokenizer=Tokenizer(VOCABULARY)
    ).fit((TEXTS[:4], TEXTS[4:]), [1.0] * 4, **QUIET),
}


def warned(call: Any) -> Any:
    """Return the one warning of a call; those of a backend do not count."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (warning,) = [one for one in caught if one.category is UserWarning]
    return warning


@pytest.mark.parametrize("name", CALLS)
def test_one_warning_counts_the_texts_that_are_cut(name: str) -> None:
    """Texts with more than 14 tokens are cut, for there are two special tokens."""
    cut = sum(length > (13 if name == "fill_mask" else 14) for length in LENGTHS)
    warning = warned(CALLS[name])
    noun = "rows of a prompt with an option" if "choices" in name else "texts"
    assert str(warning.message).startswith(f"{cut} of 8 {noun} are longer than 16 tokens; the rest")
    has_windows = (
        name.split(",")[0]
        in (*("predict_scores", "predict_labels", "predict", "evaluate", "encode", "similarity"),)
        or name == "fit"
    )
    assert ('long_texts="windows" reads all' in str(warning.message)) == has_windows
    assert warning.filename == __file__


def test_long_questions_are_counted() -> None:
    task = QuestionAnswerer(encoder(), tokenizer=Tokenizer(VOCABULARY))
    columns = [text(3), text(4)], [TEXTS[1]] * 2
    message = str(warned(lambda: task.predict_answers(*columns, max_question=3)).message)
    assert message.startswith("1 of 2 questions is longer than 3 tokens")
    assert "max_question" in message


def test_a_predictor_calls_a_function_instead_of_a_warning() -> None:
    predictor, seen = Predictor(classifier()), []
    predictor.on_cut = seen.append
    predictor.predict_scores(TEXTS)
    predictor.predict_scores(TEXTS[:1])
    predictor.predict_scores(TEXTS, long_texts="truncate")
    assert [(cut.cut, cut.count, cut.limit) for cut in seen] == [(3, 8, 16), (0, 1, 16)]


# === Refusals ===


TASKS = [
    value
    for value in vars(models).values()
    if isinstance(value, type) and issubclass(value, Task) and value is not Task
]


@pytest.mark.parametrize("task_class", TASKS, ids=lambda value: value.__name__)
def test_a_task_takes_windows_or_says_why_not(task_class: Any) -> None:
    from bert_keras.models.text_windows import reading_of

    task = object.__new__(task_class)
    if task_class.takes_windows:
        task._predictor_config = models.Task._predictor_config
        assert reading_of(task, "windows", 4).options == {"long_texts": "windows", "stride": 4}
        return
    with pytest.raises(ValueError, match=f"A {task_class.__name__} .*reads .*Received: long_texts"):
        reading_of(task, "windows", None)
    assert reading_of(task, "truncate", None).of_runner == {"long_texts": "truncate"}


def test_windows_are_refused_where_they_cannot_be() -> None:
    task, features = classifier(), {"token_ids": np.ones((1, 4)), "padding_mask": np.ones((1, 4))}
    for call in (task.fit, task.evaluate):
        with pytest.raises(ValueError, match="`long_texts` is for text"):
            call(features, [0], long_texts="windows")
    with pytest.raises(ValueError, match="`stride` is for text"):
        task.predict(features, stride=4)
    with pytest.raises(ValueError, match="`stride` is for long_texts"):
        task.predict_scores(TEXTS, stride=4)
    pairs = SentencePairs(
        task.encoder, loss="classification", num_classes=2, tokenizer=task.tokenizer
    )
    with pytest.raises(ValueError, match="compares two rows of a pair"):
        pairs.predict_scores(TEXTS, TEXTS, long_texts="windows")
    with pytest.raises(ValueError, match="compares two rows of a pair"):
        Predictor(pairs, options={"long_texts": "windows"})
    with pytest.raises(ValueError, match="must be None or one of"):
        Predictor(task, options={"long_texts": "window"})


# === Beside transformers ===


@pytest.mark.slow
def test_logits_are_those_of_transformers_in_a_loop(tmp_path: Path) -> None:
    """Transformers has no windows for classification: a loop over its windows takes the mean."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    task = classifier()
    task.save_to_preset(tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    stride = 5
    expected = []
    for one in TEXTS:
        encoded = tokenizer(
            one,
            max_length=16,
            truncation=True,
            stride=14 - stride,  # their stride is the overlap
            return_overflowing_tokens=True,
            padding=True,
            return_tensors="pt",
        )
        encoded.pop("overflow_to_sample_mapping")
        with torch.no_grad():
            expected.append(model(**encoded).logits.mean(axis=0).numpy())
    found = task.predict(TEXTS, long_texts="windows", stride=stride)
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-5)
